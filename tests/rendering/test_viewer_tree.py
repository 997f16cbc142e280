"""Trees of tokens and steps of a choice on the page."""

import json

import pytest
from playwright.sync_api import Page

from helpers.browser import Open, reading, settle
from helpers.every_panel import PANELS


def label(there: Page) -> str:
    return there.evaluate("() => document.activeElement.getAttribute('aria-label')")


def test_a_tree_is_read_by_mouse_and_keyboard(show: Open) -> None:
    with show(PANELS["tree"]) as there:
        items = there.locator("[role=treeitem]")
        assert items.count() == 6
        assert there.locator("[role=tree]").count() == 1
        there.locator(".chip.pruned").first.hover()
        assert reading(there) == "ran: hardly; 3rd of 2: −2.8"
        assert there.locator("[role=treeitem][tabindex='0']").count() == 1
        items.first.focus()
        seen = []
        for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "Home"):
            there.keyboard.press(key)
            seen.append(label(there).split(":")[0])
        assert seen == ["cat", "dog", "ran", "dog", "cat", "sat", "ran", "the"]
        assert there.locator("[role=treeitem][aria-selected=true]").count() == 2


def test_the_likelier_the_thicker(show: Open) -> None:
    with show(PANELS["tree"]) as there:
        widths = there.locator(".edge").evaluate_all("all => all.map(one => Number(one.getAttribute('stroke-width')))")
        assert abs(max(widths) / 0.6 - 11) < 0.1
        assert sorted(widths)[-2] / max(widths) - 0.5 / 0.6 < 0.01


@pytest.mark.slow
def test_branches_can_be_left_out(show: Open) -> None:
    with show(PANELS["tree"]) as there:
        for name, count in (("followed", 4), ("chosen", 3), ("all", 6)):
            there.get_by_role("button", name=name).click()
            assert there.locator("[role=treeitem]").count() == count


def test_a_tree_grows(show: Open) -> None:
    with show(PANELS["tree"]) as there:
        there.evaluate(
            "() => document.querySelector('.tree').addEventListener('grow', e => { window.asked = e.detail; })"
        )
        there.locator(".chip.kept").click()
        assert there.evaluate("() => window.asked") == {"path": [6], "tokens": ["dog"]}
        there.keyboard.press("ArrowRight")
        there.keyboard.press("Enter")
        assert there.evaluate("() => window.asked.path") == [6, 8]
        more = [{"id": 8, "token": "ran", "probability": 0.2}, {"id": 9, "token": "fast", "probability": 0.7}]
        detail = json.dumps({"path": [6, 8], "branches": more})
        grown = f"() => document.querySelector('.tree').dispatchEvent(new CustomEvent('grown', {{ detail: {detail} }}))"
        there.evaluate(grown)
        there.evaluate(grown)
        assert there.locator("[role=treeitem]").count() == 8  # what is there already does not come twice
        there.keyboard.press("ArrowRight")
        assert label(there) == "fast: probability 0.7"
        there.keyboard.press("Enter")
        assert there.evaluate("() => window.asked.path") == [6, 8, 9]


def test_a_tree_scrolls_in_itself(show: Open) -> None:
    with show(PANELS["tree"], PANELS["choices"], width=360, height=640) as there:
        settle(there)
        assert there.evaluate("() => document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_steps_of_a_choice(show: Open) -> None:
    with show(PANELS["choices"]) as there:
        rows = there.locator(".choices tbody tr")
        share = "one => one.getBoundingClientRect().width / one.parentElement.getBoundingClientRect().width"
        bars = rows.nth(1).locator("i").evaluate_all(f"all => all.map({share})")
        assert [round(bar, 2) for bar in bars] == [0.5, 0.5, 0.5, 0.25]
        assert "below top-k 2" in rows.nth(2).inner_text()
        assert there.locator(".choices .pruned").count() == 1
