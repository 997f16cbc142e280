"""The page in a real browser: every panel draws, answers the mouse and the keyboard, in light, in dark and on paper."""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page

from browser import PATIENCE, colour, contrasts, find, opened, pixels, settle, started
from glassformer.inside.page import page
from glassformer.inside.panels import (
    Frames,
    Gallery,
    Grid,
    Guesses,
    Heads,
    Line,
    Lines,
    Panel,
    Patches,
    Points,
    Table,
    Tokens,
    Words,
)
from glassformer.inside.view import View

QUICK = 3000
"""Milliseconds in which a page of 512 tokens and 12 × 12 heads answers, also on a busy machine."""

ROWS, COLUMNS = ["uno", "dos", "tres"], ["one", "two", "three", "four", "five"]
L, H = 2, 3


def rows_of_one(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


def weights() -> Any:
    """Head 1 of layer 1 looks at one token only; the others here and there."""
    out = rows_of_one(L, H, 3, 5)
    out[1, 1] = 0
    out[1, 1, [0, 1, 2], [4, 2, 0]] = 1
    return out


WEIGHTS = weights()
NAMES = [["a", "b", "c"], ["d", "looks one ahead", "f"]]
GREY = np.arange(64, dtype=np.uint8).reshape(8, 8, 1) * 4
RED = np.broadcast_to(np.array([200, 30, 10], np.uint8), (8, 8, 3))
PANELS: dict[str, Panel] = {
    "words": Words(text="First.\n\nSecond.", title="Said", note="beneath"),
    "table": Table(
        columns=["name", "share", "count"], rows=[["b", 0.25, 30], ["a", 0.75, 4], ["c", None, 12]], bars=["share"]
    ),
    "grid": Grid(
        values=np.array([[-2.0, 1.0], [0.0, -np.inf], [0.5, 2.0]]),
        rows=ROWS,
        columns=COLUMNS[:2],
        signed=True,
        numbers=True,
        formula="scores = Q Kᵀ / √d",
    ),
    "heads": Heads(weights=WEIGHTS, rows=ROWS, columns=COLUMNS, names=NAMES, layer=1, head=1),
    "patches": Patches(pixels=GREY, weights=rows_of_one(2, 2, 16, 16), grid=(4, 4)),
    "tokens": Tokens(
        tokens=["good", " and", " bad"],
        values=np.array([[1.0, 0.02, -0.8], [0.5, 0.3, -0.4]]),
        names=["first", "second"],
        signed=True,
    ),
    "guesses": Guesses(
        tokens=["the", "cat"],
        layers=["layer 0", "layer 1"],
        guesses=[[["dog", "cat"], ["sat", "is"]], [["cat", "dog"], ["is", "sat"]]],
        probabilities=np.array([[[0.6, 0.2], [0.9, 0.05]], [[0.5, 0.4], [0.31, 0.3]]]),
        answers=["cat", "sat"],
    ),
    "points": Points(
        points=np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]]), labels=["pear", "Rome", "plum"], groups=["f", "c", "f"]
    ),
    "lines": Lines(
        series=[
            Line(name="train", x=[1, 10, 100, 1000], y=[8, 4, 2, 1], dots=True),
            Line(name="valid", x=[1, 10, 100], y=[9, float("nan"), 3], low=[8, 4, 2], high=[10, 6, 4], faint=True),
        ],
        x_name="updates",
        log_x=True,
        log_y=True,
    ),
    "gallery": Gallery(images=[GREY, RED], captions=["seven", "red"]),
    "frames": Frames(
        name="updates",
        labels=["0", "100", "200"],
        frames=[[Heads(weights=rows_of_one(L, H, 3, 5, seed=s), rows=ROWS, columns=COLUMNS)] for s in (1, 2, 3)],
    ),
}


class Open(Protocol):
    def __call__(self, *panels: Panel, **size: int) -> AbstractContextManager[Page]: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as one:
        yield one


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Open:
    """One view of these panels, opened."""
    return lambda *panels, **size: opened(browser, page([View("A view", panels)], title="A view"), tmp_path, **size)


def choose(there: Page, label: str, value: str) -> None:
    there.get_by_label(label, exact=True).select_option(value)
    settle(there)


def as_table(there: Page) -> None:
    there.get_by_text("as a table").first.click()
    there.locator("details table").first.wait_for()


def reading(there: Page) -> str:
    return there.locator(".reading").first.inner_text()


def darkness(one: tuple[int, int, int]) -> int:
    return 3 * 255 - sum(one)


def share_of(canvas: Locator, wanted: tuple[int, int, int], near: int = 40) -> float:
    """The part of a canvas that has about this colour."""
    return float((np.abs(pixels(canvas)[:, :3] - np.array(wanted)).max(1) < near).mean())


# --- all kinds ---


def test_every_kind_draws(show: Open) -> None:
    with show(*PANELS.values()) as there:
        for kind, panel in PANELS.items():
            box = there.locator(f".of-{kind}").first.bounding_box()
            assert box is not None
            assert box["height"] > 40, kind
            assert there.locator(f".of-{kind} > :not(h3):not(.note)").first.inner_text() or kind == "gallery"
            assert panel.kind == kind
        assert there.locator("h1").inner_text() == "A view"
        assert there.locator("h2").count() == 0  # one view, named like the page, is not named twice
        for canvas in there.locator(".panel canvas:not([aria-hidden])").all():
            assert canvas.get_attribute("aria-label"), "a canvas without words"
            dots = pixels(canvas)
            assert dots[:, 3].any()
            assert len(np.unique(dots, axis=0)) > 5 or dots[0, 0] == RED[0, 0, 0]


def test_words_and_the_copy_button(show: Open) -> None:
    with show(PANELS["words"], Words(text="glassformer look run", code=True)) as there:
        assert there.locator(".words p").all_inner_texts() == ["First.", "Second."]
        assert there.locator("h3").inner_text() == "Said"
        assert there.locator(".note").inner_text() == "beneath"
        assert there.locator("pre").inner_text() == "glassformer look run"
        there.get_by_role("button", name="copy").click()
        there.get_by_text(re.compile("copied|Ctrl")).wait_for()
        there.evaluate(
            "() => { const box = document.createElement('textarea'); document.body.append(box); box.focus() }"
        )
        there.keyboard.press("Control+v")
        assert there.locator("textarea").input_value() == "glassformer look run"


def test_a_table_sorts_by_what_is_clicked(show: Open) -> None:
    with show(PANELS["table"]) as there:
        first = there.locator("tbody td:first-child")
        heads = there.locator("th")
        assert first.all_inner_texts() == ["b", "a", "c"]
        orders = []
        for _ in range(3):
            there.get_by_role("button", name="share").click()
            orders.append((heads.nth(1).get_attribute("aria-sort"), "".join(first.all_inner_texts())))
        assert orders == [("descending", "abc"), ("ascending", "bac"), ("none", "bac")]
        there.get_by_role("button", name="name").click()
        assert first.all_inner_texts() == ["a", "b", "c"]
        there.get_by_role("button", name="count").click()
        assert there.locator("tbody td:last-child").all_inner_texts() == ["30", "12", "4"]
        bars = there.locator(".bar").evaluate_all("all => all.map(one => one.style.getPropertyValue('--share'))")
        assert sorted(bars) == ["0.25", "0.75"]
        assert heads.nth(0).evaluate("one => getComputedStyle(one).textAlign") == "left"
        assert heads.nth(2).evaluate("one => getComputedStyle(one).textAlign") == "right"


# --- heat maps ---


def test_a_grid_reads_what_is_under_the_mouse(show: Open) -> None:
    with show(PANELS["grid"]) as there:
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        assert there.locator(".formula").inner_text() == "scores = Q Kᵀ / √d"
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


# --- lines between tokens, and all heads ---


def test_lines_between_tokens(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        there.get_by_role("button", name="lines").click()
        settle(there)
        canvas, line = there.locator(".stage canvas"), there.locator(".reading")
        orange, green = (213, 94, 0), (0, 158, 115)
        swatches = there.locator(".swatches button")
        assert swatches.evaluate_all("all => all.map(one => one.ariaPressed)") == ["false", "true", "false"]
        full = share_of(canvas, orange)
        assert full > 0.002
        assert share_of(canvas, green) == 0
        place = find(canvas, line, "dos looks at three 1.00")
        assert 0 < share_of(canvas, orange) < full * 0.6
        canvas.click(position={"x": place[0], "y": place[1]})
        there.mouse.move(2, 2)
        assert line.inner_text() == "dos looks at three 1.00"
        find(canvas, line, "five is looked at by uno 1.00")
        there.mouse.move(2, 2)
        assert line.inner_text() == "dos looks at three 1.00"
        swatches.nth(2).click()
        assert "mean of 2 heads" in line.inner_text()
        assert there.get_by_text("Layer 1, 2 of 3 heads").is_visible()
        assert share_of(canvas, green) > 0
        swatches.nth(1).click()
        assert share_of(canvas, orange) == 0
        assert there.get_by_label("head", exact=True).input_value() == "2"


def test_arrow_keys_move_over_lines(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        there.get_by_role("button", name="lines").click()
        settle(there)
        there.locator(".stage canvas").focus()
        said = []
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter", "Enter", "Escape"):
            there.keyboard.press(key)
            said.append(reading(there))
        assert said[:3] == ["uno looks at five 1.00", "dos looks at three 1.00", "two is looked at by nothing"]
        assert said[-1] == ""


def test_all_heads_at_once(show: Open) -> None:
    with show(Heads(weights=WEIGHTS, rows=ROWS, columns=COLUMNS, names=NAMES, mode="all")) as there:
        small = there.locator(".thumbs button")
        assert small.count() == L * H
        assert small.nth(4).get_attribute("title") == "Layer 1, head 1: looks one ahead"
        dots = pixels(small.nth(4).locator("canvas")).reshape(3, 5, 4).sum(-1)
        assert dots.argmin(1).tolist() == [4, 2, 0]
        assert there.get_by_label("layer", exact=True).is_hidden()
        small.nth(4).click()
        settle(there)
        assert there.get_by_label("layer", exact=True).input_value() == "1"
        assert there.get_by_label("head", exact=True).input_value() == "1"
        assert there.get_by_role("button", name="heat").get_attribute("aria-pressed") == "true"
        find(there.locator(".stage canvas"), there.locator(".reading"), "dos → three: 1.00")


def test_one_head_alone_needs_no_choosers(show: Open) -> None:
    with show(Heads(weights=WEIGHTS[:1, :1], rows=ROWS, columns=COLUMNS, mode="all")) as there:
        assert there.locator(".several button").all_inner_texts() == ["heat", "lines"]
        assert there.locator("select").count() == 0
        assert there.locator(".stage canvas").is_visible()


def test_512_tokens_and_144_heads_are_quick(show: Open) -> None:
    many = [f"t{i}" for i in range(512)]
    place = np.random.default_rng(0).integers(0, 512, (12, 12, 512, 20))
    heavy = np.full((12, 12, 512, 512), 1e-4, np.float32)
    np.put_along_axis(heavy, place, np.float32(0.04), -1)
    heavy[3, 5, 7] = 0
    heavy[3, 5, 7, 11] = 1
    with show(Heads(weights=heavy, rows=many, columns=many)) as there:
        assert there.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd") < QUICK
        assert there.get_by_text("the 16 largest of each row").is_visible()
        timed = """async ([what, value]) => {
          const start = performance.now(), one = document.querySelector(what);
          if (value === null) one.click();
          else { one.value = value; one.dispatchEvent(new Event('change')); }
          for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
          return performance.now() - start;
        }"""
        steps: Sequence[tuple[str, str | None]] = [
            ("label:nth-child(1) select", "3"),
            ("label:nth-child(2) select", "5"),
            (".several button:nth-child(2)", None),
            (".swatches button:nth-child(1)", None),
            (".several button:nth-child(3)", None),
            (".thumbs button", None),
        ]
        for step in steps:
            assert there.evaluate(timed, list(step)) < QUICK, step
        there.locator("select").nth(0).select_option("3")
        there.locator("select").nth(1).select_option("5")
        canvas = there.locator(".stage canvas")
        canvas.focus()
        for _ in range(8):
            there.keyboard.press("ArrowDown")
        for _ in range(11):
            there.keyboard.press("ArrowRight")
        assert reading(there) == "t7 → t11: 1.00"
        there.keyboard.press("ArrowRight")
        assert reading(there) == "t7 → t12: not among the 16 largest"
        there.keyboard.press("End")
        assert reading(there).startswith("t7 → t511:")
        settle(there)
        assert there.locator(".stage").evaluate("one => one.scrollLeft") > 3000
        assert canvas.evaluate("one => one.width") < 1300  # what is out of sight is not drawn
        there.get_by_role("button", name="whole").click()
        settle(there)
        assert there.locator(".stage").evaluate("one => one.scrollWidth - one.clientWidth") <= 1


# --- shaded text ---


def test_tokens_are_shaded_by_their_values(show: Open) -> None:
    with show(PANELS["tokens"]) as there:
        spans = there.locator(".shaded span")
        assert spans.all_text_contents() == ["good", " and", " bad"] * 2
        backs = spans.evaluate_all(
            "all => all.map(one => getComputedStyle(one).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number))"
        )
        good, pale, bad, less = backs[:4]
        assert good[2] > good[0] + 60
        assert bad[0] > bad[2] + 60
        assert darkness(tuple(pale)) < darkness(tuple(less)) < darkness(tuple(good))
        spans.nth(2).hover()
        assert reading(there) == "bad, first: −0.8"
        spans.nth(0).focus()
        there.keyboard.press("ArrowRight")
        assert reading(there) == "and, first: 0.02"
        assert there.locator("h4").all_inner_texts() == ["first", "second"]


def test_guesses_say_what_is_likeliest(show: Open) -> None:
    with show(PANELS["guesses"]) as there:
        cells = there.locator(".guesses td[tabindex]")
        assert cells.all_inner_texts() == ["dog", "sat", "cat", "is"]
        right = cells.evaluate_all("all => all.map(one => one.classList.contains('right'))")
        assert right == [False, True, True, False]
        backs = cells.evaluate_all(
            "all => all.map(one => getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number))"
        )
        dog, sat, cat, other = (darkness(tuple(back)) for back in backs)
        assert sat > dog > cat > other  # the likelier the darker
        cells.nth(0).hover()
        listed = there.locator(".likeliest")
        assert re.sub(r"\s+", " ", listed.inner_text()).endswith("what followed: cat dog 0.60 cat ✓ 0.20")
        bars = listed.locator("i").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
        assert abs(bars[0] / bars[1] - 3) < 0.1
        cells.nth(0).focus()
        there.keyboard.press("ArrowDown")
        assert listed.inner_text().startswith("After the, layer 1")
        there.keyboard.press("ArrowRight")
        assert listed.inner_text().startswith("After cat, layer 1")
        there.keyboard.press("ArrowUp")
        assert listed.inner_text().startswith("After cat, layer 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shaded_words_can_be_read(show: Open, scheme: Any) -> None:
    values = np.linspace(-1, 1, 41)[None]
    shaded = Tokens(tokens=[f"w{i}" for i in range(41)], values=values, signed=True)
    with show(shaded, PANELS["guesses"]) as there:
        there.emulate_media(color_scheme=scheme)
        settle(there)
        assert min(contrasts(there.locator(".shaded span, .guesses td[tabindex]"))) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_the_page_can_be_read(show: Open, scheme: Any) -> None:
    with show(*PANELS.values()) as there:
        there.emulate_media(color_scheme=scheme)
        there.add_style_tag(content=".panel, .panel * { background-color: var(--card) !important }")
        quiet = there.locator(".note, .small, summary, figcaption, h3, thead th button, .reading")
        assert quiet.count() > 10
        assert min(contrasts(quiet)) >= 4.5


# --- charts ---


def test_a_chart_draws_reads_and_hides_its_lines(show: Open) -> None:
    with show(PANELS["lines"]) as there:
        paths, picture = there.locator("path.series"), there.locator("svg")
        assert paths.count() == 2
        assert there.locator("circle.dot").count() == 4
        assert there.locator("polygon.band").count() == 1
        assert str(paths.nth(1).get_attribute("d")).count("M") == 2  # a gap where a number is missing
        dots = there.locator("circle.dot").evaluate_all(
            "all => all.map(one => [+one.getAttribute('cx'), +one.getAttribute('cy')])"
        )
        across, down = np.diff(np.array(dots), axis=0).T
        assert np.allclose(across, across[0], atol=0.2)  # ten times as far is one step on
        assert np.allclose(down, down[0], atol=0.2)
        assert across[0] > 100 < down[0] * 5
        texts = there.locator("svg text").all_text_contents()
        assert {"1", "10", "100", "1,000", "updates"} <= set(texts)
        box: Any = picture.bounding_box()
        picture.hover(position={"x": dots[2][0] + 3, "y": box["height"] / 2})
        assert reading(there) == "updates 100: train 2, valid 3 (2 to 4)"
        picture.hover(position={"x": dots[3][0], "y": box["height"] / 2})
        assert reading(there) == "updates 1,000: train 1"
        there.get_by_role("button", name="train").click()
        assert paths.count() == 1
        there.locator("svg").focus()
        there.keyboard.press("ArrowRight")
        assert reading(there) == "updates 1: valid 9 (8 to 10)"
        widths = float(paths.get_attribute("stroke-width") or 0)
        there.get_by_role("button", name="train").click()
        assert widths < float(paths.first.get_attribute("stroke-width") or 0)  # the faint one is thin


def test_a_straight_axis_has_round_numbers(show: Open) -> None:
    with show(Lines(series=[Line(name="", x=[0, 730], y=[-0.31, 1.27])])) as there:
        texts = there.locator("svg text").all_text_contents()
        assert {"0", "200", "400", "600", "0.5", "1"} <= set(texts)
        box: Any = there.locator("svg").bounding_box()
        for text in there.locator("svg text").all():
            one: Any = text.bounding_box()
            assert box["x"] - 1 <= one["x"]
            assert one["x"] + one["width"] <= box["x"] + box["width"] + 1


def test_a_map_names_its_points(show: Open) -> None:
    crowd = Points(points=np.zeros((9, 2)), labels=[f"same place {i}" for i in range(9)])
    with show(PANELS["points"], crowd) as there:
        first = there.locator(".of-points").first
        assert first.locator("text.name").all_text_contents() == ["pear", "Rome", "plum"]
        fills = first.locator("circle.dot").evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
        assert fills[0] == fills[2] != fills[1]
        assert first.locator(".legend").inner_text().split() == ["f", "c"]
        first.locator("circle.dot").nth(1).hover()
        assert reading(there) == "Rome, c: 1, 1"
        first.locator("svg").focus()
        there.keyboard.press("ArrowRight")
        assert reading(there).startswith("plum, f")
        names = there.locator(".of-points").nth(1).locator("text.name")
        boxes: list[Any] = [name.bounding_box() for name in names.all()]
        assert 0 < len(boxes) < 9  # those that would cover each other are left out
        spans = sorted((box["y"], box["x"], box["height"], box["width"]) for box in boxes)
        for one, next_ in itertools.pairwise(spans):
            beside = one[1] + one[3] <= next_[1] + 2 or next_[1] + next_[3] <= one[1] + 2
            assert one[0] + one[2] - 6 <= next_[0] or beside


# --- images ---


def test_patches_show_where_one_looks(show: Open) -> None:
    sharp = np.full((2, 2, 16, 16), 0.0, np.float32)
    sharp[..., 0] = 1  # everyone looks at the first patch
    sharp[0, 0] = np.roll(np.eye(16), 1, 1)  # but here at the next one
    with show(Patches(pixels=GREY, weights=sharp, grid=(4, 4), layer=1, head=1)) as there:
        canvas = there.locator("canvas[tabindex]")
        corner, second, last = (40, 40), (160, 40), (380, 380)
        assert reading(there).startswith("All patches together look most at row 0, column 0 (1.00)")
        orange = colour(canvas, *corner)
        assert orange[0] > orange[2] + 80
        grey = colour(canvas, *last)
        assert max(grey) - min(grey) < 6
        choose(there, "layer", "0")
        choose(there, "head", "0")
        canvas.focus()
        there.keyboard.press("ArrowRight")
        assert reading(there).startswith("The patch in row 0, column 0 looks most at row 0, column 1 (1.00)")
        moved = colour(canvas, *second)
        assert moved[0] > moved[2] + 80
        there.keyboard.press("ArrowDown")
        assert reading(there).startswith("The patch in row 1, column 0 looks most at row 1, column 1")
        canvas.click(position={"x": 380, "y": 380})
        assert reading(there).startswith("The patch in row 3, column 3 looks most at row 0, column 0")
        there.get_by_role("button", name="all patches").click()
        assert reading(there).startswith("All patches together")
        plain = there.locator(".patches canvas").first
        assert [colour(plain, x, 20)[0] for x in (20, 80, 130)] == [0, 4, 8]  # enlarged, and not blurred
        assert there.get_by_text("as a table").is_visible()


def test_a_gallery_shows_its_pixels(show: Open) -> None:
    with show(PANELS["gallery"]) as there:
        first, second = there.locator(".gallery canvas").all()
        assert pixels(first)[:3].tolist() == [[0, 0, 0, 255], [4, 4, 4, 255], [8, 8, 8, 255]]
        assert colour(second, 3, 3) == (200, 30, 10)
        assert there.locator("figcaption").all_inner_texts() == ["seven", "red"]
        assert first.evaluate("one => getComputedStyle(one).imageRendering") == "pixelated"


# --- frames ---


def test_frames_keep_what_was_chosen(show: Open) -> None:
    with show(PANELS["frames"]) as there:
        said = there.locator("output")
        assert said.inner_text() == "updates 0"
        choose(there, "layer", "1")
        choose(there, "head", "2")
        canvas = there.locator(".stage canvas")
        canvas.focus()
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            there.keyboard.press(key)
        before = pixels(canvas)
        slider = there.get_by_role("slider")
        slider.focus()
        there.keyboard.press("ArrowRight")
        settle(there)
        assert said.inner_text() == "updates 100"
        assert slider.get_attribute("aria-valuetext") == "100"
        assert there.get_by_label("layer", exact=True).input_value() == "1"
        assert there.get_by_label("head", exact=True).input_value() == "2"
        assert reading(there).startswith("dos looks at")
        assert (pixels(canvas) != before).any()
        there.get_by_role("button", name="lines").click()
        slider.focus()
        there.keyboard.press("ArrowRight")
        settle(there)
        assert there.get_by_role("button", name="lines").get_attribute("aria-pressed") == "true"
        assert there.locator(".swatches button").nth(2).get_attribute("aria-pressed") == "true"
        there.get_by_role("button", name="play").click()
        there.get_by_role("button", name="pause").wait_for()
        there.wait_for_function(
            "() => document.querySelector('output').textContent === 'updates 200'", timeout=PATIENCE
        )
        there.get_by_role("button", name="play").wait_for()  # it stops at the end


# --- light, dark, paper, phone ---


def test_the_dark_is_drawn_anew(show: Open) -> None:
    with show(PANELS["heads"], PANELS["tokens"]) as there:
        canvas = there.locator(".stage canvas")
        place = find(canvas, there.locator(".reading").first, "uno → one: 0.00")
        there.mouse.move(2, 2)
        spot = (place[0] + 9, place[1] + 9)
        light, paper = colour(canvas, *spot), there.evaluate("() => getComputedStyle(document.body).backgroundColor")
        span = there.locator(".shaded span").nth(1)
        shade = span.evaluate("one => one.style.background")
        there.emulate_media(color_scheme="dark")
        settle(there)
        assert darkness(colour(canvas, *spot)) > darkness(light) + 300
        assert there.evaluate("() => getComputedStyle(document.body).backgroundColor") != paper
        assert span.evaluate("one => one.style.background") != shade
        there.emulate_media(color_scheme="light")
        settle(there)
        assert colour(canvas, *spot) == light


def test_paper_is_light_whole_and_without_controls(browser: Browser, tmp_path: Path) -> None:
    wide = Guesses(
        tokens=COLUMNS * 8,
        layers=["layer 0"],
        guesses=[[["something"]] * 40],
        probabilities=np.full((1, 40, 1), 0.5),
    )
    many = [f"t{i}" for i in range(90)]
    large = Heads(weights=rows_of_one(1, 2, 90, 90), rows=many, columns=many)
    views = [View("One", [*PANELS.values()]), View("Two", [wide, large])]
    with opened(browser, page(views, title="Both"), tmp_path, width=680) as there:
        there.emulate_media(color_scheme="dark")
        settle(there)
        assert there.locator(".view").nth(1).is_hidden()
        place = there.locator(".stage canvas").first
        dark = darkness(colour(place, 1, 1))
        there.emulate_media(media="print", color_scheme="dark")
        settle(there)
        assert there.locator(".view").nth(1).is_visible()
        for hidden in ("nav", "select", ".several", ".moments button", ".moments input"):
            assert all(one.is_hidden() for one in there.locator(hidden).all()), hidden
        assert there.locator("output").is_visible()
        inks = pixels(there.locator(".view").nth(1).locator(".stage canvas"))
        assert inks[inks[:, 3] == 255][:, :3].mean() > 200
        assert there.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
        for stage in there.locator(".stage").all():
            assert stage.evaluate("one => one.scrollHeight - one.clientHeight") <= 1
            assert stage.evaluate("one => one.firstChild.offsetWidth") <= 680
        there.emulate_media(media="screen", color_scheme="dark")
        settle(there)
        assert there.locator(".view").nth(1).is_hidden()
        assert darkness(colour(place, 1, 1)) == dark


def test_all_views_come_out_of_the_printer(browser: Browser, tmp_path: Path) -> None:
    views = [View(f"View {i}", [PANELS["heads"]]) for i in range(5)]
    with opened(browser, page(views, title="Five"), tmp_path) as there:
        printed = there.pdf(format="A4")
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 5


def test_a_phone_never_scrolls_sideways(browser: Browser, tmp_path: Path) -> None:
    many = [f"token{i}" for i in range(60)]
    long = Words(text="glassformer look " + "run/" * 80, code=True)
    large = Heads(weights=rows_of_one(1, 2, 60, 60), rows=many, columns=many)
    table = Table(columns=[f"column {i}" for i in range(20)], rows=[list(range(20))])
    views = [View("All of them", [*PANELS.values(), long, table]), View("Large", [large, large])]
    with opened(browser, page(views, title="A rather long title for a phone"), tmp_path, width=360) as there:
        for tab in there.get_by_role("tab").all():
            tab.click()
            settle(there)
            assert there.evaluate("() => document.documentElement.scrollWidth") <= 360
        stage = there.locator(".view").nth(1).locator(".stage").first
        assert stage.evaluate("one => one.scrollWidth > one.clientWidth")


# --- several views, keys, strange tokens, frames of notebooks ---


def test_views_are_tabs(browser: Browser, tmp_path: Path) -> None:
    views = [View("One", [PANELS["words"]], note="first"), View("Two", [PANELS["heads"]]), View("Three", [])]
    with opened(browser, page(views, title="Three views"), tmp_path) as there:
        tabs = there.get_by_role("tab")
        assert tabs.all_inner_texts() == ["One", "Two", "Three"]
        assert there.locator("h2:visible").all_inner_texts() == ["One"]
        assert there.locator(".lede:visible").all_inner_texts() == ["first"]
        assert there.locator("canvas").count() == 0  # drawn when it is looked at
        tabs.nth(1).click()
        settle(there)
        assert there.locator("h2:visible").all_inner_texts() == ["Two"]
        assert there.locator("canvas").is_visible()
        there.keyboard.press("ArrowRight")
        assert there.locator("h2:visible").all_inner_texts() == ["Three"]
        there.keyboard.press("ArrowRight")
        assert tabs.evaluate_all("all => all.map(one => one.ariaSelected)") == ["true", "false", "false"]


def test_every_control_is_reached_by_keys_and_shows_it(show: Open) -> None:
    with show(*PANELS.values()) as there:
        reached = []
        for _ in range(60):
            there.keyboard.press("Tab")
            now = there.evaluate(
                "() => { const one = document.activeElement, style = getComputedStyle(one);"
                " return [one.tagName.toLowerCase(), one.ariaLabel ?? one.textContent,"
                " style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 || style.boxShadow !== 'none'] }"
            )
            if now[0] == "body":
                break
            reached.append(now)
        assert all(seen for *_, seen in reached), [one for one in reached if not one[2]]
        kinds = [tag for tag, *_ in reached]
        assert {"canvas", "svg", "button", "select", "input", "summary", "span", "td"} <= set(kinds)
        assert kinds.count("canvas") == 4
        assert kinds.count("select") == 6


def test_strange_tokens_are_shown_as_they_are(show: Open) -> None:
    strange = ["</script><b>x", "שלום", "👩‍🚀", " ", "a\nb"]
    said = ["</script><b>x", "שלום", "👩‍🚀", "␣", "a⏎b"]
    heads = Heads(weights=rows_of_one(1, 1, 5, 5), rows=strange, columns=strange)
    with show(heads, Tokens(tokens=strange, values=np.ones((1, 5)))) as there:
        as_table(there)
        assert there.locator("details tbody th").all_inner_texts() == said
        assert there.locator(".shaded span").all_text_contents()[:3] == said[:3]
        assert there.locator("b").count() == 0
        canvas = there.locator(".stage canvas")
        find(canvas, there.locator(".reading").first, "\u2068שלום\u2069 → 👩‍🚀:")


def test_a_page_works_in_the_frame_of_a_notebook(browser: Browser, tmp_path: Path) -> None:
    view = View("In a notebook", [PANELS["heads"], Words(text="glassformer", code=True)])
    notebook = f"<!doctype html><html><body>{view._repr_html_()}</body></html>"
    with opened(browser, notebook, tmp_path) as there:
        inside = there.frame_locator("iframe")
        inside.locator(".stage canvas").wait_for()
        settle(there)
        inside.get_by_label("head", exact=True).select_option("0")
        inside.get_by_text("Layer 1, head 0: d").wait_for()
        inside.get_by_role("button", name="copy").click()
        inside.get_by_text(re.compile("copied|Ctrl")).wait_for()
