"""In a real browser: heat maps of matrices and of attention."""

from typing import Any

import numpy as np
import pytest

from glassformer.rendering.panels import Grid, Heads
from helpers.browser import Open, as_table, choose, colour, darkness, find, pixels, reading
from helpers.every_panel import COLUMNS, PANELS, ROWS, WEIGHTS


@pytest.mark.slow
def test_a_grid_reads_what_is_under_the_mouse(show: Open) -> None:
    with show(PANELS["grid"]) as there:
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        formula = there.locator(".formula")
        assert formula.get_attribute("title") == "scores = Q Kᵀ / √d"
        over, under = formula.locator("mfrac > *").all()
        assert (over.text_content(), under.locator("xpath=self::*[local-name()='msqrt']").count()) == ("QKT", 1)
        low = colour(canvas, *edge(find(canvas, line, "uno, one: −2")))
        high = colour(canvas, *edge(find(canvas, line, "tres, two: 2")))
        hidden = colour(canvas, *edge(find(canvas, line, "dos, two: −∞")))
        nothing = colour(canvas, *edge(find(canvas, line, "dos, one: 0")))
        assert low[0] > low[2] + 60  # orange
        assert high[2] > high[0] + 60  # blue
        assert max(hidden) - min(hidden) < 12
        assert darkness(nothing) < min(darkness(low), darkness(high), darkness(hidden))
        there.mouse.move(2, 2)
        assert line.inner_text() == ""
        as_table(there)
        assert there.locator("details td.number").all_inner_texts() == ["−2", "1", "0", "−∞", "0.5", "2"]
        assert there.locator("details th").all_inner_texts() == ["one", "two", *ROWS]


def edge(place: tuple[float, float]) -> tuple[float, float]:
    """Near where the cell was found, past the cursor's frame and before the cell's number."""
    return place[0] + 4, place[1] + 5


@pytest.mark.slow
def test_attention_as_a_heat_map(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        there.get_by_text("Layer 1, head 1: looks one ahead").wait_for()
        place = find(canvas, line, "uno → five: 1.00")
        dark = colour(canvas, place[0] + 9, place[1] + 9)
        other = find(canvas, line, "uno → one: 0.00")
        assert darkness(dark) > darkness(colour(canvas, other[0] + 9, other[1] + 9)) + 300
        choose(there, "layer", "0")
        canvas.hover(position={"x": place[0], "y": place[1] + 1})
        assert line.inner_text() == f"uno → five: {WEIGHTS[0, 1, 0, 4]:.2f}"
        assert darkness(colour(canvas, place[0] + 9, place[1] + 9)) < darkness(dark)
        choose(there, "head", "")
        canvas.hover(position={"x": place[0], "y": place[1]})
        assert abs(float(line.inner_text()[-4:]) - WEIGHTS[0, :, 0, 4].mean()) < 0.0075
        choose(there, "layer", "")
        canvas.hover(position={"x": place[0], "y": place[1] + 1})
        assert abs(float(line.inner_text()[-4:]) - WEIGHTS[:, :, 0, 4].mean()) < 0.0075
        assert there.get_by_text("The mean over 2 layers and 3 heads").is_visible()
        as_table(there)
        assert there.locator("details td.number").count() == 15


@pytest.mark.slow
def test_a_row_is_pinned_by_its_name(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        away, place = find(canvas, line, "tres → one: 1.00"), find(canvas, line, "dos → three: 1.00")
        before = colour(canvas, away[0] + 9, away[1] + 9)
        canvas.click(position={"x": 10, "y": place[1] + 6})
        there.mouse.move(2, 2)
        assert line.inner_text() == "dos looks at three 1.00"
        assert darkness(colour(canvas, away[0] + 9, away[1] + 9)) < darkness(before) - 200
        choose(there, "layer", "0")
        assert line.inner_text().startswith("dos looks at ")
        assert "three 1.00" not in line.inner_text()
        canvas.click(position={"x": 10, "y": place[1] + 6})
        there.mouse.move(2, 2)
        assert line.inner_text() == ""


def test_arrow_keys_move_over_a_heat_map(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        canvas = there.locator(".stage canvas")
        canvas.focus()
        still = pixels(canvas)
        said = []
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End", "ArrowUp", "ArrowLeft", "Home"):
            there.keyboard.press(key)
            said.append(reading(there).split(":")[0])
        assert said == [
            f"{ROWS[r]} → {COLUMNS[c]}" for r, c in [(0, 0), (0, 1), (1, 1), (1, 4), (0, 4), (0, 3), (0, 0)]
        ]
        assert (pixels(canvas) != still).any()
        there.keyboard.press("Enter")
        there.keyboard.press("ArrowDown")
        there.mouse.move(2, 2)
        there.keyboard.press("Escape")
        assert reading(there) == ""
        assert there.locator(".reading").get_attribute("aria-live") == "polite"


def test_only_cells_without_numbers_need_to_be_pointed_at(show: Open) -> None:
    bare = Grid(values=np.eye(3), rows=ROWS, columns=COLUMNS[:3])
    with show(PANELS["grid"], bare) as there:
        hints = there.locator(".reading").evaluate_all(
            "all => all.map(one => getComputedStyle(one, '::before').content.replaceAll('\"', ''))"
        )
        assert hints == ["", "Point at a cell to read its value."]
        above, below = there.locator(".reading").all()
        tops: list[Any] = [one.bounding_box() for one in (above, below, *there.locator(".stage").all())]
        assert tops[0]["y"] > tops[2]["y"]  # beneath the numbers, where it leaves no gap
        assert tops[1]["y"] < tops[3]["y"]


def test_what_is_masked_is_hatched_and_said(show: Open) -> None:
    weights = np.tril(np.ones((1, 1, 3, 3)))
    panel = Heads(weights=weights / weights.sum(-1, keepdims=True), rows=ROWS, columns=ROWS, causal=True)
    with show(panel) as there:
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        x, y = find(canvas, line, "uno → dos: masked")
        there.mouse.move(2, 2)
        dots = {colour(canvas, x + step, y + 6) for step in range(12)}
        assert len(dots) > 1  # lines, not one colour
        assert there.locator(".masked").inner_text() == "masked: may not be looked at"
        as_table(there)
        assert there.locator("details td.number").all_inner_texts()[:3] == ["1.00", "–", "–"]


@pytest.mark.slow
def test_formulas_are_mathematics_and_words_stay_words(show: Open) -> None:
    """What stands in a formula, as MathML: its elements by name, and the words beside it."""
    shape = "one => { const w = e => e.children.length ? `${e.localName}(${[...e.children].map(w)})` : e.textContent;"
    shape += " return w(one.firstElementChild); }"
    expected = {
        "q = W^Q n": ("mrow(q,=,mrow(msup(W,Q),n))", ""),
        "α = e^score / Σ e^score, over the row": (
            "mrow(α,=,mfrac(msup(e,score),mrow(Σ,msup(e,score))))",
            ", over the row",
        ),
        "score = q · k / √d_k": ("mrow(score,=,mfrac(mrow(q,·,k),msqrt(msub(d,k))))", ""),
    }
    for formula, (made, words) in expected.items():
        with show(Grid(values=np.eye(2), rows=["a", "b"], columns=["a", "b"], formula=formula)) as there:
            assert there.locator(".formula math").evaluate(shape) == made
            assert (there.locator(".formula").text_content() or "").endswith(words)
    with show(Grid(values=np.eye(2), rows=["a", "b"], columns=["a", "b"], formula="row w of a table")) as there:
        assert there.locator(".formula").inner_text() == "row w of a table"
        assert there.locator("math").count() == 0
