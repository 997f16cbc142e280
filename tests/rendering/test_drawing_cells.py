"""Cells: names around them, numbers in them, shades that follow values; matrices, guesses, attention."""

import itertools
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import numbers
from glassformer.rendering.drawing.sheet import BLUE, BOTH_WAYS, ORANGE, SEVERAL, UP, ink_on, scale_of, series_colour
from glassformer.rendering.panels import Grid, Heads
from helpers.drawn import (
    SENTENCE,
    T,
    drawn,
    find,
    guesses,
    heads,
    numbers_of,
    outside,
    overlapping,
    said_in,
    texts_of,
    weights_of,
)

NAMES = [token.strip() for token in SENTENCE]


def names_of(axes: Axes) -> tuple[list[str], list[str]]:
    return [one.get_text() for one in axes.get_yticklabels()], [one.get_text() for one in axes.get_xticklabels()]


def pixels_of(figure: Figure) -> np.ndarray:
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255  # type: ignore[attr-defined]


def colour_at(figure: Figure, axes: Axes, column: float, row: float) -> np.ndarray:
    """Near a cell's corner, where nothing is written."""
    pixels = pixels_of(figure)
    x, y = axes.transData.transform((column - 0.35, row - 0.35))
    return pixels[round(pixels.shape[0] - y), round(x)]


# --- matrices ---


def test_a_matrix_and_its_names() -> None:
    values = numbers_of(T, 5)
    figure = drawn(Grid(values=values, rows=SENTENCE, columns=list("vwxyz"), row_name="token", column_name="unit",
                        formula="y = x · W"))  # fmt: skip
    axes, scale = figure.axes
    assert names_of(axes) == (NAMES, list("vwxyz"))
    np.testing.assert_array_equal(axes.images[0].get_array(), values)
    assert {"token →", "unit →"} <= set(said_in(figure))
    assert scale.get_ylim() == pytest.approx((0, values.max()))
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top
    sizes = abs(np.diff(axes.transData.transform([[0, 0], [1, 1]]), axis=0))
    np.testing.assert_allclose(sizes / 150, 0.3, atol=1e-6)
    assert "Mono" in find(figure, "y = x · W").get_fontfamily()[0]
    assert find(figure, "y = x · W").get_window_extent().y0 > axes.get_window_extent().y1


def test_shades_follow_values() -> None:
    figure = drawn(Grid(values=np.array([[0.0, 0.5], [1.0, 2.0]]), rows=["a", "b"], columns=["x", "y"]))
    axes = figure.axes[0]
    for row, column, share in ((0, 0, 0.0), (0, 1, 0.25), (1, 0, 0.5), (1, 1, 1.0)):
        np.testing.assert_allclose(colour_at(figure, axes, column, row), UP(share)[:3], atol=0.02)
    values = np.array([[-4.0, 0.0, 2.0, 4.0, np.nan]])
    figure = drawn(Grid(values=values, rows=["a"], columns=list("vwxyz"), signed=True))
    axes = figure.axes[0]
    found = [colour_at(figure, axes, column, 0) for column in range(5)]
    np.testing.assert_allclose(found[:4], [BOTH_WAYS(share)[:3] for share in (0.0, 0.5, 0.75, 1.0)], atol=0.02)
    assert found[0][0] > found[0][2]  # orange below 0
    assert found[3][2] > found[3][0]  # blue above
    np.testing.assert_allclose(found[1], 1, atol=0.02)
    assert 0.9 < found[4].mean() < 0.97  # neither: no number


@pytest.mark.parametrize(("how", "ends"), [
    ({}, (0, 3)),
    ({"low": 1}, (1, 3)),
    ({"high": 8}, (0, 8)),
    ({"low": -1, "high": 1}, (-1, 1)),
    ({"signed": True}, (-5, 5)),
    ({"signed": True, "high": 2}, (-2, 2)),
    ({"signed": True, "low": -1, "high": 4}, (-1, 4)),
    ({"signed": True, "low": -1}, (-1, 5)),
], ids=str)  # fmt: skip
def test_the_scales_ends(how: dict[str, Any], ends: tuple[float, float]) -> None:
    values = np.array([[-5.0, 3.0, -np.inf]])
    figure = drawn(Grid(values=values, rows=["a"], columns=["x", "y", "z"], **how))
    assert figure.axes[0].images[0].get_clim() == ends
    assert figure.axes[1].get_ylim() == ends
    scale = scale_of(values, **{"signed": False, **how})
    assert (scale(ends[0]), scale(ends[1])) == (0, 1)
    if how.get("signed"):
        assert scale(0.0) == 0.5


def test_numbers_in_cells() -> None:
    values = np.array([[0.125, -1.5, -np.inf], [3.0, np.nan, -0.001]])
    figure = drawn(Grid(values=values, rows=["a", "b"], columns=["x", "y", "z"], signed=True, numbers=True))
    axes = figure.axes[0]
    assert [one.get_text() for one in axes.texts] == ["0.12", "−1.50", "−∞", "3.00", "", "0.00"]
    assert [one.get_position() for one in axes.texts] == [(x, y) for y in range(2) for x in range(3)]
    for one, value in zip(axes.texts, values.ravel(), strict=True):
        if np.isfinite(value):
            assert one.get_color() == ink_on(BOTH_WAYS(axes.images[0].norm(value)))
    wide = axes.transData.transform([[0, 0], [1, 0]])
    widest = max(one.get_window_extent().width for one in axes.texts)
    assert wide[1, 0] - wide[0, 0] > widest


@pytest.mark.parametrize(("values", "said"), [
    ([1, 20, -3000], ["1", "20", "−3,000"]),
    ([0.5, 99.994], ["0.50", "99.99"]),
    ([123.456, 0.25], ["123.5", "0.2"]),
    ([0.0123, -0.0004], ["0.012", "−0.0004"]),
    ([0.0], ["0"]),
])  # fmt: skip
def test_numbers_as_they_are_written(values: list[float], said: list[str]) -> None:
    assert numbers(np.array([values], float)) == [said]


def test_ink_can_be_read_on_every_shade() -> None:
    def light(colour: Any) -> float:
        parts = np.array(to_rgb(colour))
        return float(
            np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    for shades, share in itertools.product((UP, BOTH_WAYS), np.linspace(0, 1, 101)):
        shade = shades(share)
        dark, bright = sorted([light(shade[:3]), light(ink_on(shade))])
        assert (bright + 0.05) / (dark + 0.05) >= 4.5
    assert (ink_on((1, 1, 1)), ink_on((0, 0, 0))) == ("black", "white")


def test_colours_are_those_of_the_page() -> None:
    css = (files("glassformer.rendering") / "viewer" / "page.css").read_text(encoding="utf-8")
    light = css[: css.index("@media")]
    assert re.findall(r"--c\d+: (#\w+);", light) == list(SEVERAL)


def test_long_names_of_rows_are_read_whole() -> None:
    name = "1.1 continues what was seen before"
    figure = drawn(Grid(values=np.ones((1, 2)), rows=[name], columns=["a" * 34, "b"]))
    assert names_of(figure.axes[0]) == ([name], ["a" * 23 + "…", "b"])


def test_colours_are_all_different() -> None:
    assert (series_colour(0), series_colour(1)) == (BLUE, ORANGE)
    assert len({series_colour(place) for place in range(2 * len(SEVERAL))}) == 2 * len(SEVERAL)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("rows", "columns", "down", "across"), [(40, 40, 1, 1), (70, 70, 1, 1), (97, 101, 1, 2), (300, 7, 3, 1)]
)
def test_many_names(rows: int, columns: int, down: int, across: int) -> None:
    """Cells become smaller; when names have no room any more, some are left out."""
    names = (NAMES * 40)[:rows], (NAMES * 40)[:columns]
    figure = drawn(
        Grid(values=numbers_of(rows, columns), rows=names[0], columns=names[1], row_name="r", column_name="c")
    )
    assert names_of(figure.axes[0]) == (names[0][::down], names[1][::across])
    assert [round(one) for one in figure.axes[0].get_yticks()] == list(range(0, rows, down))
    assert figure.get_size_inches()[0] <= 14
    assert not outside(figure)
    assert not overlapping(figure)
    turned = [one for one in figure.axes[0].get_xticklabels() if one.get_rotation() % 90]
    places = figure.axes[0].transData.transform([[0, 0], [across, 0]])[:, 0]
    for one in turned:
        assert np.diff(places)[0] * np.sin(np.radians(one.get_rotation())) > one.get_fontsize() * 150 / 72


def test_too_many_cells() -> None:
    with pytest.raises(Misuse, match=r"^3 × 513 cells are too many for a picture \(512 a side at most\): write .html$"):
        drawn(Grid(values=numbers_of(3, 513), rows=[""] * 3, columns=[""] * 513))
    figure = drawn(Grid(values=numbers_of(3, 60), rows=list("abc"), columns=["x"] * 60, numbers=True))
    assert "too many cells to write into them" in said_in(figure)
    assert not figure.axes[0].texts


def test_names_that_fit_are_not_turned() -> None:
    for columns, turn in ((["a", "bb", "<end>"], [0, 0, 50]), (["a", "long", "<end>"], [50, 50, 50])):
        figure = drawn(Grid(values=numbers_of(2, 3), rows=["a", "b"], columns=columns))
        assert [one.get_rotation() for one in figure.axes[0].get_xticklabels()] == turn


# --- guesses ---


@pytest.mark.slow
def test_guesses() -> None:
    panel = guesses(answers=["cat"] * (T - 1) + [""])
    figure = drawn(panel)
    axes = figure.axes[0]
    assert names_of(axes) == (["input", "layer 0", "layer 1"], NAMES)
    best = [panel.guesses[layer][place][0] for layer in range(3) for place in range(T)]
    assert [one.get_text() for one in axes.texts] == best
    np.testing.assert_array_equal(axes.images[0].get_array(), panel.probabilities[..., 0])
    assert axes.images[0].get_clim() == (0, 1)
    frames = {
        (round(one.get_x() + 0.5), round(one.get_y() + 0.5)) for one in axes.patches if isinstance(one, Rectangle)
    }
    expected = {(place, layer) for layer in range(3) for place in range(T - 1) if (layer + place) % 2}
    assert frames == expected
    assert "framed: what did follow" in said_in(figure)
    assert not drawn(guesses()).axes[0].patches
    assert "framed: what did follow" not in said_in(drawn(guesses()))
    there = said_in(drawn(guesses(answers=["cat"] * (T - 1) + [""], at=True)))
    assert "framed: what stands there" in there
    assert ("at →" in there, "after →" in there) == (True, False)


def test_guesses_of_many_tokens_stand_in_bands() -> None:
    count = 50
    words = [[[f"guess{place}"] for place in range(count)] for _ in range(2)]
    tokens = [f"token{place}" for place in range(count)]
    many = type(guesses())(tokens=tokens, layers=["a", "b"], guesses=words, probabilities=numbers_of(2, count, 1) ** 2)
    figure = drawn(many)
    bands = [axes for axes in figure.axes if axes.texts]
    assert len(bands) > 2
    assert [name for axes in bands for name in names_of(axes)[1]] == tokens
    assert [one.get_text() for axes in bands for one in axes.texts[: len(axes.texts) // 2]] == [
        f"guess{n}" for n in range(count)
    ]
    assert not outside(figure)
    assert not overlapping(figure)
    tops = [axes.get_window_extent().y1 for axes in bands]
    assert tops == sorted(tops, reverse=True)
    with pytest.raises(Misuse, match=r"150 tokens are too many for a picture of guesses \(120 at most\): write .html"):
        drawn(type(many)(tokens=tokens * 3, layers=["a"], guesses=[words[0] * 3], probabilities=np.ones((1, 150, 1))))


# --- attention ---


@pytest.mark.parametrize(("layers", "each", "chosen", "said"), [
    (3, 5, {}, "mean over 3 layers and 5 heads"),
    (3, 5, {"layer": 1}, "layer 1, mean over 5 heads"),
    (3, 5, {"head": 4}, "head 4, mean over 3 layers"),
    (3, 5, {"layer": 2, "head": 0}, "layer 2, head 0: does 2.0"),
    (3, 5, {"layer": 2, "head": 0, "mode": "lines"}, "layer 2, head 0: does 2.0"),
    (3, 5, {"layer": 2, "head": 0, "mode": "all"}, "layer 2, head 0: does 2.0"),
    (1, 5, {}, "mean over 5 heads"),
    (3, 1, {"layer": 0}, "layer 0"),
    (1, 1, {"mode": "all"}, "does 0.0"),
], ids=str)  # fmt: skip
def test_a_heat_map_says_what_it_is_of(layers: int, each: int, chosen: dict[str, Any], said: str) -> None:
    names = [[f"does {layer}.{head}" for head in range(each)] for layer in range(layers)]
    panel = heads(layers, each, names=names, **chosen)
    figure = drawn(panel)
    assert said in said_in(figure)
    weights = panel.weights
    weights = weights[[panel.layer]] if panel.layer is not None else weights
    weights = weights[:, [panel.head]] if panel.head is not None else weights
    (image,) = figure.axes[0].images
    np.testing.assert_allclose(image.get_array(), weights.mean((0, 1)))
    assert names_of(figure.axes[0]) == (NAMES, NAMES)
    assert image.get_clim() == (0, max(0.5, weights.mean((0, 1)).max()))


def hatched(figure: Figure) -> list[Polygon]:
    return [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Polygon) and patch.get_hatch()]


@pytest.mark.slow
def test_what_is_masked_is_hatched() -> None:
    causal = heads(layer=1, head=2, causal=True)
    figure = drawn(causal)
    (masked,) = hatched(figure)
    inside = masked.get_path().contains_points
    cells = [(column, row) for row in range(T) for column in range(T)]
    assert inside(cells).tolist() == [column > row for column, row in cells]
    assert "hatched: masked, may not be looked at" in said_in(figure)
    assert not outside(figure)
    assert not hatched(drawn(heads(layer=1, head=2)))
    assert len(hatched(drawn(heads(2, 3, mode="all", causal=True)))) == 6


@pytest.mark.slow
def test_all_heads_at_once() -> None:
    names = [[f"does {layer}.{head}" for head in range(5)] for layer in range(3)]
    panel = heads(mode="all", names=names)
    figure = drawn(panel)
    for (layer, head), axes in zip(np.ndindex(3, 5), figure.axes, strict=False):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), panel.weights[layer, head])
        assert image.get_clim() == (0, max(0.5, panel.weights.max()))
        place = axes.get_window_extent()
        under = find(figure, f"{layer}.{head} {names[layer][head]}").get_window_extent()
        assert abs(under.x0 - place.x0) < 5
        assert 0 < place.y0 - under.y1 < 30
    many = drawn(heads(4, 16, mode="all", names=[["rests on the first token of all (0.93)"] * 16] * 4))
    assert many.get_size_inches()[0] <= 14
    assert not outside(many)
    assert not overlapping(many)
    assert min(one.get_fontsize() for one in texts_of(many)) >= 9


@pytest.mark.parametrize("mode", ["heat", "lines"])
def test_too_many_tokens(mode: str) -> None:
    for rows, columns in ((121, 3), (3, 121)):
        panel = Heads(weights=weights_of(1, 2, rows, columns), rows=["a"] * rows, columns=["b"] * columns, mode=mode)
        said = rf"^{rows} × {columns} tokens are too many for a picture \(120 a side at most\): write .html$"
        with pytest.raises(Misuse, match=said):
            drawn(panel)
    figure = drawn(Heads(weights=weights_of(1, 2, 120, 120), rows=["a"] * 120, columns=["b"] * 120, mode=mode))
    assert figure.get_size_inches()[0] <= 14


def test_too_many_heads_and_heads_that_are_not_there() -> None:
    many = Heads(weights=weights_of(1, 40, 3, 3), rows=["a"] * 3, columns=["b"] * 3, mode="all")
    with pytest.raises(
        Misuse, match=r"40 heads a layer are too many for one picture: choose a layer and a head, or write \.html"
    ):
        drawn(many)
    with pytest.raises(Misuse, match="there is no layer 3: they are counted from 0, and the last is 2"):
        drawn(heads(layer=3))
    with pytest.raises(Misuse, match="there is no head 5: they are counted from 0, and the last is 4"):
        drawn(heads(layer=0, head=5, mode="all"))
