"""In a real browser: words, tables and shaded text are drawn, sorted, read and heard."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.rendering.panels import Guesses, Table, Tokens, Words
from helpers.browser import Open, contrasts, darkness, pixels, read_after_click, reading, settle
from helpers.every_panel import PANELS, RED


@pytest.mark.slow
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


@pytest.mark.slow
def test_words_and_the_copy_button(show: Open) -> None:
    with show(PANELS["words"], Words(text="glassformer look run", code=True)) as there:
        assert there.locator(".words p").all_inner_texts() == ["First.", "Second."]
        assert there.locator("h3").inner_text() == "Said"
        assert there.locator(".note").inner_text() == "beneath"
        assert there.locator("pre").inner_text() == "glassformer look run"
        assert re.search("copied|Ctrl", read_after_click(there.get_by_role("button", name="copy")))
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


def test_bars_of_all_columns_are_of_one_length(show: Open) -> None:
    columns = ["share", "a column with a much longer name"]
    with show(Table(columns=columns, rows=[[0.5, 0.5], [0.125, 1.0]], bars=columns)) as there:
        tracks = there.locator(".bar i").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
        assert len(tracks) == 4
        assert set(tracks) == {96}
        assert there.locator(".bar").all_inner_texts() == ["0.500", "0.500", "0.125", "1.000"]


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
        assert reading(there) == "·bad, first: −0.8"
        spans.nth(0).focus()
        there.keyboard.press("ArrowRight")
        assert reading(there) == "·and, first: 0.02"
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


def test_guesses_of_a_model_that_reads_both_ways(show: Open) -> None:
    panel = PANELS["guesses"]
    assert isinstance(panel, Guesses)
    with show(replace(panel, at=True, answers=["", "is"])) as there:
        listed = there.locator(".likeliest")
        assert listed.inner_text().startswith("At the, layer 1")  # what is hidden is what one asks for
        assert there.locator(".guesses tbody th").last.inner_text() == "what stands there"
        there.locator(".guesses td[tabindex]").nth(1).hover()
        assert listed.inner_text().startswith("At cat, layer 0; what stands there: is")


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shaded_words_can_be_read(show: Open, scheme: Any) -> None:
    values = np.linspace(-1, 1, 41)[None]
    shaded = Tokens(tokens=[f"w{i}" for i in range(41)], values=values, signed=True)
    with show(shaded, PANELS["guesses"]) as there:
        there.emulate_media(color_scheme=scheme)
        settle(there)
        assert min(contrasts(there.locator(".shaded span, .guesses td[tabindex]"))) >= 4.5


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_the_page_can_be_read(show: Open, scheme: Any) -> None:
    with show(*PANELS.values()) as there:
        there.emulate_media(color_scheme=scheme)
        there.add_style_tag(content=".panel, .panel * { background-color: var(--card) !important }")
        quiet = there.locator(".note, .small, summary, figcaption, h3, thead th button, .reading")
        assert quiet.count() > 10
        assert min(contrasts(quiet)) >= 4.5
