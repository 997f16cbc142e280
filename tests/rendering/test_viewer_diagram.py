"""In a real browser: a diagram's bricks open, fold and say so, by the mouse and by keys."""

import pytest
from playwright.sync_api import Page

from glassformer.rendering.panels import Diagram
from helpers.browser import Open, colour, darkness, settle
from helpers.every_panel import two_lanes


def names_of(there: Page) -> list[str]:
    return there.locator(".brick").evaluate_all("all => all.map(one => one.dataset.name)")


@pytest.mark.slow
def test_a_click_opens_the_numbers_of_a_brick(show: Open) -> None:
    with show(two_lanes()) as there:
        assert there.locator(".overview h4").inner_text() == "13.5k parameters"
        there.evaluate("() => { window.heard = []; addEventListener('brick', event => heard.push(event.detail)); }")
        brick = there.get_by_role("button", name="Attention")
        assert brick.get_attribute("aria-label") == "Attention, 2 heads, 400 parameters, gives T×d = 5×16"
        assert brick.get_attribute("aria-expanded") == "false"
        brick.click()
        card = there.locator(".card")
        assert card.locator("td").all_inner_texts() == ["2×2", "1.5"]
        assert brick.get_attribute("aria-expanded") == "true"
        canvas = card.locator("canvas")
        nothing, blue, orange = (colour(canvas, x, y) for x, y in ((0, 0), (1, 0), (0, 1)))
        assert blue[2] > blue[0] + 60
        assert orange[0] > orange[2] + 60
        assert darkness(nothing) < darkness(blue)
        there.get_by_role("button", name="Word vectors").click()
        assert card.locator("canvas").count() == 0
        assert card.locator("pre").is_hidden()
        card.get_by_text("show the code").click()
        assert card.locator("pre").inner_text() == "def forward():"
        card.get_by_role("button", name="close").click()
        assert there.locator(".overview").is_visible()
        assert there.evaluate("() => heard") == ["attend0", "embed", None]


def test_groups_that_are_alike_are_drawn_once_until_each_is_wanted(show: Open) -> None:
    with show(two_lanes()) as there:
        assert names_of(there) == ["source", "embed", "target", "attend0", "sum0", "head"]
        arrows = {role: there.locator(f".arrow.{role}").count() for role in ("flow", "residual", "memory", "tied")}
        assert arrows == {"flow": 4, "residual": 1, "memory": 1, "tied": 1}
        times = there.locator(".times")
        assert times.text_content() == "×3"
        times.focus()
        there.keyboard.press("Enter")
        assert names_of(there)[3:-1] == ["attend0", "sum0", "attend1", "sum1", "attend2", "sum2"]
        assert there.locator(".arrow.flow").count() == 8
        assert there.locator(".arrow.residual").count() == there.locator(".arrow.memory").count() == 3
        assert there.evaluate("() => document.activeElement.getAttribute('aria-expanded')") == "true"
        there.locator(".brick[data-name=attend2]").click()
        assert there.locator(".card td").last.inner_text() == "3.5"


def test_by_keys(show: Open) -> None:
    with show(two_lanes()) as there:
        there.get_by_role("button", name="Word vectors").focus()
        there.keyboard.press("Enter")
        assert there.locator(".card").get_attribute("aria-label") == "Word vectors: numbers"
        there.keyboard.press("ArrowDown")
        there.keyboard.press(" ")
        assert there.locator(".card").get_attribute("aria-label") == "Attention: numbers"
        there.keyboard.press("Escape")
        assert there.locator(".overview").is_visible()
        assert there.evaluate("() => document.activeElement.dataset.name") == "attend0"


def test_the_wider_the_vectors_the_wider_the_box(show: Open) -> None:
    with show(two_lanes()) as there:
        boxes = there.locator(".brick:not(.of-data) > rect")
        widths = dict(
            zip(
                ["embed", "attend0", "head"],
                boxes.evaluate_all("all => all.map(one => one.width.baseVal.value)"),
                strict=True,
            )
        )
        assert widths["embed"] < widths["attend0"] < widths["head"]
        assert there.locator("text.shape").all_text_contents().count("T×d = 5×16") == 3


def test_on_a_phone_lanes_stand_beneath_each_other_and_a_card_makes_room(show: Open) -> None:
    with show(two_lanes(), width=390) as there:
        tops = there.locator(".brick").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        assert tops == sorted(tops)
        there.get_by_role("button", name="Attention").click()
        settle(there)
        card, after = (there.locator(one).bounding_box() for one in (".card", ".brick[data-name=sum0]"))
        assert card is not None
        assert after is not None
        assert card["y"] + card["height"] <= after["y"]
        assert there.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_hardly_anything_to_draw(show: Open) -> None:
    with show(Diagram(bricks=[], arrows=[])) as there:
        assert there.locator(".overview h4").inner_text() == "0 parameters"
