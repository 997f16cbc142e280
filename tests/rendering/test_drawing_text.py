"""Words in pictures: measured, wrapped, shortened; tables, shaded texts, images with their captions."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import overlay
from glassformer.rendering.drawing.sheet import (
    BOTH_WAYS,
    ORANGE,
    PALE,
    UP,
    Font,
    number,
    shorten,
    token_label,
    width_of,
    wrap,
)
from glassformer.rendering.panels import Gallery, Patches, Table, Tokens, Words
from helpers.drawn import boxes_of, drawn, find, outside, overlapping, pixels_of, said_in

LONG = "the quick brown fox jumps over the lazy dog again and again until it is tired of it"


def box_of(text: Text) -> np.ndarray:
    return np.array(text.get_window_extent().extents)


# --- lettering ---


@pytest.mark.parametrize(("size", "bold", "code"), [(10, False, False), (15, True, False), (9, False, True)])
def test_widths_are_those_that_are_drawn(size: float, bold: bool, code: bool) -> None:
    figure = Figure(dpi=150)
    family = "DejaVu Sans Mono" if code else "DejaVu Sans"
    text = figure.text(0, 0, LONG, fontsize=size, fontweight="bold" if bold else "normal", fontfamily=family)
    measured = width_of(LONG, Font(size, bold, code))
    assert measured == pytest.approx(text.get_window_extent().width / 150, abs=0.03)


@pytest.mark.parametrize("most", [0.5, 1.0, 2.3, 50.0])
def test_wrapped_lines_are_not_too_long_and_lose_nothing(most: float) -> None:
    words = f"{LONG}\n\n{'x' * 60} {LONG}"
    lines = wrap(words, most)
    assert all(width_of(line) <= most for line in lines)
    assert "".join("".join(lines).split()) == "".join(words.split())
    assert "" in lines  # the empty line between paragraphs
    if most > 10:
        assert lines == words.split("\n")
    short = wrap(LONG, 1.5, lines=2)
    assert len(short) == 2
    assert short[1].endswith("…")
    assert width_of(short[1]) <= 1.5


def test_shortened() -> None:
    assert shorten(LONG, 50) == LONG
    short = shorten(LONG, 2.0)
    assert short.endswith("…")
    assert LONG.startswith(short[:-1])
    assert 1.7 < width_of(short) <= 2.0


def test_tokens_and_numbers_as_they_are_shown() -> None:
    assert [token_label(one) for one in (" le", "\n", " ", "", "a\tb", "x" * 30)] == [
        "le",
        "⏎",
        "␣",
        "␣",
        "a⇥b",
        "x" * 23 + "…",
    ]
    found = [number(one) for one in (0.0, 0.12345, -2.0, 1e6, np.inf, -np.inf, np.nan)]
    assert found == ["0", "0.123", "−2", "1e+06", "∞", "−∞", "–"]


# --- words ---


def test_words_are_wrapped_and_code_stands_on_a_box() -> None:
    figure = drawn(Words(text=f"{LONG} {LONG} {LONG}\n\nlast"))
    lines = [said for said in said_in(figure) if said != "a title"]
    assert lines[-1] == "last"
    assert " ".join(lines[:-1]) == f"{LONG} {LONG} {LONG}"
    assert figure.get_size_inches()[0] < 9.2
    figure = drawn(Words(text="glassformer train\n  --data a", code=True))
    text, (box,) = find(figure, "glassformer train"), boxes_of(figure)
    assert "Mono" in text.get_fontfamily()[0]
    assert box.get_window_extent().contains(*box_of(text)[:2])
    assert box.get_window_extent().contains(*box_of(find(figure, "  --data a"))[2:])


# --- tables ---


def test_a_table() -> None:
    rows = [["a", 0.5, 12, 1500.25], ["b", None, -7, 3.0], ["c", 0.25, 123456, 20.0]]
    figure = drawn(Table(columns=["name", "share", "count", "size"], rows=rows, bars=["share"]))
    assert said_in(figure)[1:] == [
        "name", "share", "count", "size",
        "a", "0.500", "12", "1,500",
        "b", "–", "−7", "3",
        "c", "0.250", "123,456", "20",
    ]  # fmt: skip
    assert find(figure, "name").get_fontweight() == "bold"
    assert find(figure, "a").get_fontweight() == "normal"
    left = [box_of(find(figure, one))[0] for one in ("name", "a", "b", "c")]
    assert max(left) - min(left) < 4
    right = [box_of(find(figure, one))[2] for one in ("count", "12", "−7", "123,456")]
    assert max(right) - min(right) < 4
    tops = [box_of(find(figure, one))[3] for one in ("name", "a", "b", "c")]
    assert tops == sorted(tops, reverse=True)
    pale = [
        one
        for one in boxes_of(figure)
        if one.get_facecolor()[:3] == tuple(int(PALE[i : i + 2], 16) / 255 for i in (1, 3, 5))
    ]
    full = [one for one in boxes_of(figure) if np.allclose(one.get_facecolor(), UP(0.45))]
    assert len(pale) == 2
    shares = [one.get_window_extent().width / pale[0].get_window_extent().width for one in full]
    assert shares == pytest.approx([0.5, 0.25])


def test_bars_of_all_columns_are_of_one_length() -> None:
    columns = ["share", "a column with a much longer name"]
    figure = drawn(Table(columns=columns, rows=[[0.5, 0.5], [0.125, 1.0]], bars=columns))
    full = [one.get_window_extent().width for one in boxes_of(figure) if np.allclose(one.get_facecolor(), UP(0.45))]
    assert np.divide(full, full[0]) == pytest.approx([1, 1, 0.25, 2])
    assert not overlapping(figure)


def test_long_words_in_tables_are_wrapped() -> None:
    figure = drawn(
        Table(columns=["what", "more", "n"], rows=[[f"{LONG} {LONG}", f"{LONG} {LONG} {LONG}", 17], ["b", "c", 18]])
    )
    assert figure.get_size_inches()[0] <= 14
    assert not outside(figure)
    assert not overlapping(figure)
    assert box_of(find(figure, "18"))[3] < box_of(find(figure, "17"))[1] - 20  # beneath all lines of the row above
    with pytest.raises(Misuse, match=r"a table of 60 columns is too wide for a picture: write \.html"):
        drawn(Table(columns=[f"column {place}" for place in range(60)], rows=[[1.5] * 60]))


# --- shaded texts ---


def test_tokens_on_boxes_of_their_shade() -> None:
    values = np.array([[-2.0, 0.0, 1.0], [0.0, 4.0, np.nan]])
    figure = drawn(Tokens(tokens=[" no", " way", "\n"], values=values, names=["first", "second"], signed=True))
    assert [said for said in said_in(figure) if said != "a title"] == [
        "first", "no", "way", "⏎", "second", "no", "way", "⏎", "−4", "4"
    ]  # fmt: skip
    boxes = boxes_of(figure)[:6]
    expected = [BOTH_WAYS(0.5 + value / 8) for value in values.ravel()[:5]]
    np.testing.assert_allclose([box.get_facecolor() for box in boxes[:5]], expected, atol=0.01)
    words = [text for text in figure.texts if text.get_text() in ("no", "way", "⏎")]
    for box, text in zip(boxes, words, strict=True):
        assert box.get_window_extent().contains(*box_of(text)[:2])
        assert box.get_window_extent().contains(*box_of(text)[2:])
    assert figure.texts[1].get_fontweight() == "bold"


def test_tokens_are_wrapped_like_a_text() -> None:
    tokens = [*LONG.split(), *LONG.replace("over", "over\n").split(" ")] * 2
    values = np.linspace(0, 1, len(tokens))[None]
    figure = drawn(Tokens(tokens=tokens, values=values))
    boxes = boxes_of(figure)[: len(tokens)]
    tops = [round(box.get_window_extent().y1) for box in boxes]
    assert tops == sorted(tops, reverse=True)
    ends = [place for place, token in enumerate(tokens) if token.endswith("\n")]
    assert all(tops[place + 1] < tops[place] for place in ends)
    assert len(set(tops)) > len(ends) + 1  # lines that are too long end too
    assert not outside(figure)
    assert not overlapping(figure)
    np.testing.assert_allclose([box.get_facecolor() for box in boxes], [UP(value) for value in values[0]], atol=0.01)


# --- images ---


def test_patches_that_are_looked_at_are_orange() -> None:
    pixels = pixels_of(8, 12, 3)
    weights = np.zeros((2, 3, 6, 6))
    weights[..., 0] = 1  # all look at the first patch
    weights[1, 2] = np.eye(6)[[4] * 6]  # but one head at the fifth
    figure = drawn(Patches(pixels=pixels, weights=weights, grid=(2, 3), layer=1, head=2))
    looked, scale, image = figure.axes
    np.testing.assert_array_equal(image.images[0].get_array(), pixels)
    found = looked.images[0].get_array()
    assert found is not None
    orange = np.array([int(ORANGE[i : i + 2], 16) for i in (1, 3, 5)])
    near = np.abs(found.astype(float) - orange).max(-1) < 50
    expected = np.zeros((8, 12), bool)
    expected[4:, 4:8] = True
    np.testing.assert_array_equal(near, expected)
    assert np.ptp(found[0, 0]) == 0  # grey
    assert scale.get_ylim() == (0, 1)
    assert {"layer 1, head 2", "the image", "where all patches look, in the mean"} <= set(said_in(figure))
    mean = drawn(Patches(pixels=pixels, weights=weights, grid=(2, 3)))
    assert mean.axes[1].get_ylim() == pytest.approx((0, 5 / 6))
    assert "mean over 2 layers and 3 heads" in said_in(mean)
    size = image.get_window_extent()
    assert size.width / size.height == pytest.approx(12 / 8)


def test_an_overlay_of_uneven_patches() -> None:
    mixed = overlay(np.full((5, 7, 1), 255, np.uint8), np.array([[0.0, 1.0]]))
    assert mixed.shape == (5, 7, 3)
    assert (mixed[:, :4] == 255).all()
    assert (mixed[:, 4:, 2] < 60).all()


def test_a_gallery() -> None:
    images = [pixels_of(6, 9, 1, seed=seed) if seed % 2 else pixels_of(9, 6, 3, seed=seed) for seed in range(13)]
    figure = drawn(Gallery(images=images, captions=[f"image {place}" for place in range(13)]))
    assert len(figure.axes) == 13
    for place, (axes, pixels) in enumerate(zip(figure.axes, images, strict=True)):
        found = axes.images[0].get_array()
        assert found is not None
        np.testing.assert_array_equal(found[..., :1], pixels[..., :1])
        caption, size = find(figure, f"image {place}").get_window_extent(), axes.get_window_extent()
        assert caption.y1 <= size.y0
        assert abs(caption.x0 - size.x0) < 5
        assert max(size.width, size.height) == pytest.approx(1.5 * 150, abs=1)
        assert size.width / size.height == pytest.approx(pixels.shape[1] / pixels.shape[0], rel=0.01)
    assert len({round(axes.get_window_extent().y1) for axes in figure.axes}) > 1
    assert not overlapping(figure)
