"""A comparison's page: one colour for each model, lines of unlike length on one axis, and a table that fits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from glassformer.rendering.panels import Lines, Points, Table
from glassformer.trials.jobs import FLOOR
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.running.question import FRACTION
from helpers.browser import opened
from helpers.simulated import floor, outcomes_of, reference


def unlike(mode: str = "ladder") -> Comparison:
    long = [
        replace(one, steps=20_000, curve=[replace(point, updates=200 * point.updates) for point in one.curve])
        for one in outcomes_of("bag", 0.7, seconds=3.0)
    ]
    known: dict[str, Any] = {"per_example": 0.00412, "memory": 1300 * 2**20, "parameters": 12_345_678}
    outcomes = [*long, *outcomes_of("transformer", 0.868, seconds=95.0, **known), *outcomes_of("lstm", 0.86, **known)]
    return summarise([*outcomes, *reference(0.8), *floor()], title="opinions", budget="2 epochs each", mode=mode)


def panel(found: Comparison, title: str) -> Any:
    return next(one for one in found.view().panels if one.title == title)


def test_a_model_has_one_colour_in_every_panel() -> None:
    found = unlike()
    table, points, curves = (panel(found, one) for one in ("Side by side", "Score against cost", "How each learned"))
    assert isinstance(table, Table)
    assert isinstance(points, Points)
    assert isinstance(curves, Lines)
    rows = {row.label: colour for row, colour in zip(found.rows, table.colours, strict=True)}
    assert [rows[row.label] for row in found.rows if row.kind == FLOOR] == [None]
    colours = [colour for colour in rows.values() if colour is not None]
    assert len(set(colours)) == len(colours) == 4
    drawn = dict(zip(points.labels, points.colours, strict=True))
    assert drawn == {label: colour for label, colour in rows.items() if colour is not None}
    assert {line.name: line.colour for line in curves.series}.items() <= drawn.items()


def test_along_parts_of_the_data_a_model_keeps_its_colour() -> None:
    outcomes = [
        one
        for name in ("lstm", "cnn")
        for share in (0.5, 1.0)
        for one in outcomes_of(name, 0.7 + share / 10, varied={FRACTION: share})
    ]
    found = summarise(outcomes, title="opinions", budget="", mode="fractions")
    colours = panel(found, "Side by side").colours
    lines = panel(found, "How much data it takes").series
    assert {row.name: colour for row, colour in zip(found.rows, colours, strict=True)} == {
        line.name: line.colour for line in lines
    }
    assert len(set(colours)) == 2


def test_trainings_of_unlike_length_are_drawn_over_the_share_of_their_updates() -> None:
    curves = panel(unlike(), "How each learned")
    assert curves.x_name == "share of its updates"
    assert all(list(line.x) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0]) for line in curves.series)
    assert "Each line ends at 1" in curves.note
    alike = summarise([*outcomes_of("lstm", 0.8), *outcomes_of("cnn", 0.7)], title="x", budget="")
    assert panel(alike, "How each learned").x_name == "updates"
    assert list(panel(alike, "How each learned").series[0].x) == [20, 40, 60, 80, 100]


def test_the_table_fits_a_small_laptop(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, unlike().view().page(), tmp_path, width=1280, height=720) as there:
        table = there.locator(".table").first
        assert table.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
        assert there.evaluate("() => document.documentElement.scrollWidth") <= 1280
