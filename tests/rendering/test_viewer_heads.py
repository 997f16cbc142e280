"""In a real browser: attention as lines between tokens, all heads at once, and many of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from glassformer.rendering.panels import Heads
from helpers.browser import Open, as_table, find, pixels, reading, settle, share_of
from helpers.every_panel import COLUMNS, NAMES, PANELS, ROWS, WEIGHTS, H, L

LIGHT = 6e6
"""Bytes of a page of 512 tokens and 12 × 12 heads, whose weights are 150 MB: how long one waits goes with it."""


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_table_beneath_lines_follows_the_heads_that_are_lit(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        there.get_by_role("button", name="lines").click()
        as_table(there)
        cells = there.locator("details td.number")
        assert cells.all_inner_texts()[4] == "1.00"
        there.locator(".swatches button").nth(2).click()
        assert abs(float(cells.all_inner_texts()[4]) - WEIGHTS[1, 1:, 0, 4].mean()) < 0.0075
        for head in (1, 2):
            there.locator(".swatches button").nth(head).click()
        assert set(cells.all_inner_texts()) == {"0.00"}  # none is lit


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


@pytest.mark.slow
def test_512_tokens_and_144_heads_are_light(show: Open, tmp_path: Path) -> None:
    many = [f"t{i}" for i in range(512)]
    place = np.random.default_rng(0).integers(0, 512, (12, 12, 512, 20))
    heavy = np.full((12, 12, 512, 512), 1e-4, np.float32)
    np.put_along_axis(heavy, place, np.float32(0.04), -1)
    heavy[3, 5, 7] = 0
    heavy[3, 5, 7, 11] = 1
    with show(Heads(weights=heavy, rows=many, columns=many)) as there:
        assert (tmp_path / "page.html").stat().st_size < LIGHT
        assert there.get_by_text("the 16 largest of each row").is_visible()
        act = """([what, value]) => {
          const one = document.querySelector(what);
          if (value === null) one.click();
          else { one.value = value; one.dispatchEvent(new Event('change')); }
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
            there.evaluate(act, list(step))
            settle(there)
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
