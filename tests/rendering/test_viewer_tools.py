"""In a real browser: what each panel offers to copy, contents, folds, and tabs that wrap."""

import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from glassformer.rendering.panels import Lines, Panel, Table, Words
from glassformer.rendering.view import View, Views
from helpers.browser import Open, opened, settle
from helpers.every_panel import PANELS

SVG = "{http://www.w3.org/2000/svg}"


def saved(there: Page, what: str) -> bytes:
    """What the first panel hands over where there is no clipboard: a file."""
    there.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
    there.locator(".tools > button").first.click()
    with there.expect_download() as download:
        there.get_by_role("menuitem", name=what).click()
    return Path(download.value.path()).read_bytes()


def about(value: Any) -> Any:
    """The same with numbers as exact as a page holds them: weights are bytes."""
    if isinstance(value, dict):
        return {name: about(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [about(inner) for inner in value]
    return pytest.approx(value, rel=1e-5, abs=0.003) if isinstance(value, float | int) else value


@pytest.mark.sample(7)
@pytest.mark.parametrize("kind", ["table", "grid", "heads", "tokens", "points", "lines", "guesses"])
def test_the_numbers_of_a_panel(show: Open, kind: str) -> None:
    panel = PANELS[kind]
    with show(panel) as there:
        found = json.loads(saved(there, "copy numbers (JSON)"))
    assert found == about(json.loads(json.dumps(panel.to_dict())))


def test_a_chart_as_vectors_that_need_no_style_sheet(show: Open) -> None:
    panel = PANELS["lines"]
    assert isinstance(panel, Lines)
    with show(replace(panel, title="Loss", levels=[("a floor", 2.0)])) as there:
        stroke = there.locator("path.series").first.evaluate("one => getComputedStyle(one).stroke")
        there.locator(".legend button").last.click()
        picture = ET.fromstring(saved(there, "copy SVG"))
    said = [text.text for text in picture.iter(f"{SVG}text")]
    assert said[:2] == ["Loss", panel.series[0].name]
    assert panel.series[1].name not in said  # which is hidden
    assert "a floor" in said
    assert next(picture.iter(f"{SVG}path")).get("stroke") == stroke
    assert not any("var(" in value for one in picture.iter() for name, value in one.items() if name != "style")


@pytest.mark.sample(6)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["table", "heads", "lines"])
def test_a_picture_of_a_panel(show: Open, kind: str, scheme: Any) -> None:
    with show(replace(PANELS[kind], title="A title")) as there:
        there.emulate_media(color_scheme=scheme)
        settle(there)
        behind = there.locator(".panel").evaluate("one => getComputedStyle(one).backgroundColor")
        picture = Image.open(io.BytesIO(saved(there, "copy PNG"))).convert("RGB")
    pixels = np.asarray(picture)
    corner = "rgb({}, {}, {})".format(*pixels[3, 3])
    assert (picture.format or "PNG", corner) == ("PNG", behind)
    assert (np.abs(pixels.astype(int) - pixels[3, 3]).max(2) > 60).mean() > 0.002  # something is drawn
    assert picture.width > 1200  # two pixels for each of the page


def test_it_is_copied_and_says_so(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, View("A view", [PANELS["table"]]).page(), tmp_path) as there:
        there.context.grant_permissions(["clipboard-read", "clipboard-write"])
        there.locator(".tools > button").click()
        there.get_by_role("menuitem", name="copy numbers").click()
        there.locator(".tools .told", has_text="copied").wait_for()
        assert json.loads(there.evaluate("() => navigator.clipboard.readText()"))["kind"] == "table"


def test_the_menu_by_keys(show: Open) -> None:
    with show(replace(PANELS["lines"], title="Loss"), PANELS["words"]) as there:
        opener = there.locator(".tools > button")
        assert opener.count() == 1  # words copy themselves
        assert opener.get_attribute("aria-label") == "export: Loss"
        opener.focus()
        there.keyboard.press("Enter")
        focused = "() => document.activeElement.textContent"
        assert there.evaluate(focused) == "copy SVG"
        there.keyboard.press("ArrowDown")
        assert there.evaluate(focused) == "copy PNG"
        assert opener.get_attribute("aria-expanded") == "true"
        there.keyboard.press("Escape")
        assert there.locator(".menu").is_hidden()
        assert there.evaluate(focused) == "⋯"
        opener.click()
        there.locator("h3").first.click()
        assert there.locator(".menu").is_hidden()


@pytest.mark.slow
def test_a_long_page_has_contents_and_what_is_folded_opens(show: Open) -> None:
    many: list[Panel] = [Words(title=f"Part {place}", text="words " * 200) for place in range(8)]
    many.append(Table(title="Settings", columns=["a", "b"], rows=[["x", 1]], folded=True))
    with show(*many[1:4]) as there:
        assert there.locator(".contents").count() == 0
    with show(*many) as there:
        links = there.locator(".contents a")
        assert links.all_inner_texts() == [panel.title for panel in many]
        assert there.locator("td").first.is_hidden()
        assert there.locator(".tools").is_hidden()
        links.last.click()
        assert there.locator("td").first.is_visible()
        assert there.evaluate("() => scrollY") > 300
        there.evaluate("() => { document.querySelector('.fold').open = false }")
        there.emulate_media(media="print")
        settle(there)
        assert there.locator("td").first.is_visible()
        there.emulate_media(media="screen")
        settle(there)
        assert there.locator("td").first.is_hidden()


@pytest.mark.sample(2)
@pytest.mark.parametrize("width", [390, 700])
def test_six_tabs_are_all_in_sight(browser: Browser, tmp_path: Path, width: int) -> None:
    views = [View(f"A view of things {place}", [PANELS["words"]]) for place in range(6)]
    with opened(browser, Views("Six", views).page(), tmp_path, width=width) as there:
        boxes = [tab.bounding_box() for tab in there.get_by_role("tab").all()]
        assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)


def test_numbers_have_three_digits_and_rows_the_colours_of_their_models(show: Open) -> None:
    table = Table(columns=["model", "loss"], rows=[["a", 0.123456], ["b", 3.14159]], colours=[3, None])
    with show(table) as there:
        assert there.locator("td.number").all_inner_texts() == ["0.123", "3.14"]
        spots = there.locator(".spot").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
        assert spots == ["rgb(204, 121, 167)", "rgba(0, 0, 0, 0)"]
        there.get_by_role("button", name="loss").click()  # the largest first
        assert there.locator("tr").nth(1).locator(".spot").evaluate("one => one.style.cssText") == ""
