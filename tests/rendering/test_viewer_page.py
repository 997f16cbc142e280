"""In a real browser: the page as a whole, in light, in dark, on paper, on a phone, by keys alone, in a notebook."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from glassformer.rendering.panels import Guesses, Heads, Table, Tokens, Words
from glassformer.rendering.view import View, Views
from helpers.browser import Open, as_table, colour, darkness, find, opened, pixels, read_after_click, settle
from helpers.every_panel import COLUMNS, PANELS, rows_of_one


@pytest.mark.slow
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


@pytest.mark.slow
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
    with opened(browser, Views("Both", views).page(), tmp_path, width=680) as there:
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


@pytest.mark.slow
def test_a_printer_that_is_told_of_twice_draws_once_and_in_light(show: Open) -> None:
    with show(PANELS["heads"]) as there:
        there.emulate_media(color_scheme="dark")
        settle(there)
        canvas = there.locator(".stage canvas")
        dark = pixels(canvas)
        there.evaluate("() => dispatchEvent(new Event('beforeprint'))")  # the screen's style still holds
        light = pixels(canvas)
        assert light[light[:, 3] == 255][:, :3].mean() > 200
        canvas.evaluate(
            "one => { one.getContext('2d').fillStyle = '#ff0000'; one.getContext('2d').fillRect(0, 0, 9, 9) }"
        )
        there.emulate_media(media="print", color_scheme="dark")
        settle(there)
        assert colour(canvas, 1, 1) == (255, 0, 0)  # not drawn over
        there.evaluate("() => dispatchEvent(new Event('afterprint'))")
        there.emulate_media(media="screen", color_scheme="dark")
        settle(there)
        assert np.array_equal(pixels(canvas), dark)


def test_all_views_come_out_of_the_printer(browser: Browser, tmp_path: Path) -> None:
    views = [View(f"View {i}", [PANELS["heads"]]) for i in range(5)]
    with opened(browser, Views("Five", views).page(), tmp_path) as there:
        printed = there.pdf(format="A4")
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 5


def test_a_phone_never_scrolls_sideways(browser: Browser, tmp_path: Path) -> None:
    many = [f"token{i}" for i in range(60)]
    long = Words(text="glassformer look " + "run/" * 80, code=True)
    large = Heads(weights=rows_of_one(1, 2, 60, 60), rows=many, columns=many)
    table = Table(columns=[f"column {i}" for i in range(20)], rows=[list(range(20))])
    views = [View("All of them", [*PANELS.values(), long, table]), View("Large", [large, large])]
    with opened(browser, Views("A rather long title for a phone", views).page(), tmp_path, width=360) as there:
        for tab in there.get_by_role("tab").all():
            tab.click()
            settle(there)
            assert there.evaluate("() => document.documentElement.scrollWidth") <= 360
        stage = there.locator(".view").nth(1).locator(".stage").first
        assert stage.evaluate("one => one.scrollWidth > one.clientWidth")


def test_views_are_tabs(browser: Browser, tmp_path: Path) -> None:
    views = [View("One", [PANELS["words"]], note="first"), View("Two", [PANELS["heads"]]), View("Three", [])]
    with opened(browser, Views("Three views", views).page(), tmp_path) as there:
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
        assert re.search("copied|Ctrl", read_after_click(inside.get_by_role("button", name="copy")))
