"""Pictures of views: every kind of panel in every kind of file, sizes, titles and notes, refusals, frames."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from glassformer.config.errors import Misuse, RunError
from glassformer.rendering import panels
from glassformer.rendering.drawing.picture import DRAWERS, draw, save
from glassformer.rendering.drawing.sheet import Block, beside, rows_of, stack
from glassformer.rendering.panels import Frames, Gallery, Grid, Lines, Panel, Points, Table, Tokens, Words
from glassformer.rendering.view import View
from helpers.drawn import drawn, every_kind, find, heads, numbers_of, outside, overlapping, pixels_of, said_in, texts_of

KINDS = every_kind()


def test_no_kind_is_forgotten() -> None:
    kinds = {one.kind for one in vars(panels).values() if isinstance(one, type) and hasattr(one, "kind")}
    assert kinds == {*DRAWERS, "frames"} == {panel.kind for panel in KINDS.values()}


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(kind: str) -> None:
    figure = drawn(KINDS[kind], title="the view's title", note="the view's note")
    assert {"the view's title", "the view's note", "the panel's title", "the panel's note"} <= set(said_in(figure))
    assert not outside(figure)
    assert not overlapping(figure)
    assert min(text.get_fontsize() for text in texts_of(figure)) >= 9
    assert figure.get_size_inches()[0] <= 14
    tops = [find(figure, f"the {what}").get_window_extent().y0 for what in (
        "view's title", "view's note", "panel's title", "panel's note"
    )]  # fmt: skip
    assert tops == sorted(tops, reverse=True)
    assert len(figure.texts) + len(figure.axes) > 4  # more than the titles and notes


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_kind_in_every_file(kind: str, ending: str, tmp_path: Path) -> None:
    view, files = View("a title", [KINDS[kind]], "a note"), [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in files:
        view.save(path)
    assert files[0].read_bytes() == files[1].read_bytes()  # the same each time
    if ending == "png":
        pixels = imread(files[0])
        wide, high = view.figure().get_size_inches()
        assert abs(pixels.shape[1] - 150 * wide) <= 1
        assert abs(pixels.shape[0] - 150 * high) <= 1
        assert (pixels[0, 0, :3] == 1).all()
        assert (pixels[..., 3:] == 1).all()  # nothing shines through
        assert pixels[..., :3].std() > 0.02
    elif ending == "svg":
        root = ElementTree.parse(files[0]).getroot()
        letters = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"a title", "a note", "the panel's title"} <= {one.strip() for one in letters}
    else:
        assert files[0].read_bytes()[:5] == b"%PDF-"
    assert sorted(tmp_path.iterdir()) == files


def test_a_persons_own_settings_change_nothing(tmp_path: Path) -> None:
    view = View("a title", [KINDS["lines"], KINDS["heat"]])
    view.save(tmp_path / "a.svg")
    with matplotlib.rc_context(
        {"axes.facecolor": "black", "font.size": 30, "savefig.transparent": True, "lines.marker": "x"}
    ):
        view.save(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["我们去年", "كتاب جديد", "ספר חדש", "हिन्दी", "😀", "$x^2$ \\alpha %", "ไทย 한국어"])
def test_every_script(words: str, tmp_path: Path) -> None:
    tokens = [*words.split(), "<end>"]
    count = len(tokens)
    view = View(words, [
        Words(text=words * 30),
        Table(columns=[words], rows=[[words]]),
        Tokens(tokens=tokens, values=numbers_of(1, count)),
        Grid(values=numbers_of(count, count), rows=tokens, columns=tokens, row_name=words, formula=words),
        Points(points=numbers_of(count, 2), labels=tokens, groups=tokens, x_name=words),
        Lines(series=[], x_name=words),
        Gallery(images=[pixels_of(4, 4, 1)], captions=[words]),
    ])  # fmt: skip
    for ending in ("png", "svg", "pdf"):
        view.save(tmp_path / f"picture.{ending}")
    svg = "".join(ElementTree.parse(tmp_path / "picture.svg").getroot().itertext())
    assert words in svg


@pytest.mark.parametrize("panel", [
    Words(text=""),
    Table(columns=["a", "b"], rows=[]),
    Grid(values=np.zeros((3, 2)), rows=["a", "b", "c"], columns=["x", "y"]),
    Grid(values=np.full((2, 2), np.nan), rows=["a", "b"], columns=["x", "y"], numbers=True, signed=True),
    Grid(values=numbers_of(2, 3), rows=[], columns=[]),
    Tokens(tokens=[], values=np.zeros((1, 0))),
    Points(points=np.zeros((0, 2)), labels=[]),
    Points(points=np.ones((3, 2)), labels=["a", "b", "c"]),
    Lines(series=[], log_x=True, log_y=True),
    Gallery(images=[], captions=[]),
    Frames(name="", labels=[], frames=[]),
], ids=str)  # fmt: skip
def test_hardly_anything_to_draw(panel: Panel, tmp_path: Path) -> None:
    View("a title", [panel]).save(tmp_path / "picture.png")


@pytest.mark.slow
def test_panels_stand_beneath_one_another() -> None:
    small, large = (
        Grid(title="small", values=numbers_of(2, 2), rows=["a", "b"], columns=["x", "y"]),
        heads(title="large"),
    )
    one, other, both = drawn(small), drawn(large), drawn(small, large)
    (wide, high), (wider, higher) = one.get_size_inches(), other.get_size_inches()
    assert both.get_size_inches()[0] == max(wide, wider)
    assert high + higher - 1 < both.get_size_inches()[1] < high + higher
    assert find(both, "small").get_window_extent().y0 > find(both, "large").get_window_extent().y1


def test_long_titles_and_notes_are_wrapped() -> None:
    long = "what a long sentence this is " * 12
    figure = drawn(
        Grid(title=long, note=long, values=numbers_of(2, 2), rows=["a", "b"], columns=["x", "y"]), title=long
    )
    assert not outside(figure)
    assert not overlapping(figure)
    lines = [said for said in said_in(figure) if "long" in said]
    assert len(lines) > 6
    assert " ".join(" ".join(lines).split()) == " ".join((long * 3).split())  # not a word is lost
    assert figure.get_size_inches()[0] < 7


def test_too_high_for_a_picture() -> None:
    with pytest.raises(Misuse, match=r"'many rows' would be a picture 2\d\d inches high \(200 at most\): write .html"):
        draw([Table(columns=["a"], rows=[[place] for place in range(800)])], title="many rows")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write") as caught:
        save(drawn(KINDS["words"]), tmp_path / "nowhere" / "picture.png")
    assert "\n" not in str(caught.value)


# --- frames ---


@pytest.mark.parametrize(("count", "chosen"), [(3, [0, 1, 2]), (6, [0, 1, 2, 3, 4, 5]), (9, [0, 2, 3, 5, 6, 8])])
def test_at_most_six_frames(count: int, chosen: list[int]) -> None:
    frames = [
        [Grid(values=np.full((2, 3), place + 1.0), rows=["a", "b"], columns=list("xyz"), high=10)]
        for place in range(count)
    ]
    figure = drawn(Frames(name="update", labels=[f"n{place}" for place in range(count)], frames=frames))
    assert [said for said in said_in(figure) if said.startswith("update")] == [f"update n{place}" for place in chosen]
    values = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert [np.unique(value).tolist() for value in values] == [[place + 1.0] for place in chosen]
    assert (f"6 of {count} moments" in said_in(figure)) == (count > 6)
    # beside one another, then in a new row
    tops = [find(figure, f"update n{place}").get_window_extent().y0 for place in chosen]
    assert tops[0] == tops[1] == tops[2]
    assert not outside(figure)
    assert not overlapping(figure)


def test_frames_hold_several_panels_and_wide_ones() -> None:
    frames = [[heads(title=f"wide {place}"), KINDS["lines"], KINDS["points"]] for place in range(3)]
    figure = drawn(Frames(name="", labels=["a", "b", "c"], frames=frames))
    assert figure.get_size_inches()[0] <= 14
    assert not outside(figure)
    assert {"a", "b", "c", "wide 0", "wide 1", "wide 2"} <= set(said_in(figure))


# --- blocks ---


def test_blocks_add_up() -> None:
    places: list[tuple[str, float, float]] = []

    def block(name: str, width: float, height: float) -> Block:
        return Block(width, height, lambda sheet, x, y: places.append((name, x, y)))

    whole = stack([block("a", 2, 1), block("none", 9, 0), beside([block("b", 1, 3), block("c", 2, 2)], 0.5)], 0.25)
    assert (whole.width, whole.height) == (3.5, 4.25)
    whole.draw(None, 10, 20)  # type: ignore[arg-type]
    assert places == [("a", 10, 20), ("b", 10, 21.25), ("c", 11.5, 21.25)]
    places.clear()
    rows = rows_of([block(name, 2, 1) for name in "abcde"], 4.5, 0.5)
    assert (rows.width, rows.height) == (4.5, 4.0)
    rows.draw(None, 0, 0)  # type: ignore[arg-type]
    assert places == [("a", 0, 0), ("b", 2.5, 0), ("c", 0, 1.5), ("d", 2.5, 1.5), ("e", 0, 3)]
