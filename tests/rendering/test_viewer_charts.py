"""In a real browser: curves and maps of points."""

import itertools
from typing import Any

import numpy as np
import pytest

from glassformer.rendering.panels import Line, Lines, Points, Table
from helpers.browser import Open, reading
from helpers.every_panel import PANELS


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_points_that_were_measured(show: Open) -> None:
    measured = Points(
        points=np.array([[1.0, 0.5], [10.0, 0.8], [100.0, 0.7]]),
        labels=["a", "b", "c"],
        log_x=True,
        low=[0.4, 0.75, 0.7],
        high=[0.6, 0.85, 0.7],
        levels=[("a floor", 0.2)],
    )
    with show(measured) as there:
        dots = there.locator("circle.dot").evaluate_all("all => all.map(one => +one.getAttribute('cx'))")
        assert dots[1] - dots[0] == dots[2] - dots[1] > 100  # ten times as much is one step on
        bars = there.locator("line.bar").evaluate_all(
            "all => all.map(one => [+one.getAttribute('x1'), one.getAttribute('y1') - one.getAttribute('y2')])"
        )
        assert [bar[0] for bar in bars] == dots
        assert bars[0][1] == 2 * bars[1][1] > 10 > bars[2][1] == 0
        assert there.locator("line.level").count() == 1
        assert "a floor" in there.locator("svg text").all_text_contents()
        assert there.locator("text.name").all_text_contents() == ["a", "b", "c"]
        there.locator("circle.dot").nth(1).hover()
        assert reading(there) == "b: 10, 0.8 (0.75 to 0.85)"


def test_a_point_without_a_name_has_nothing_beside_it(show: Open) -> None:
    points = Points(points=np.array([[0.01, 1.0], [1.0, 2.0]]), labels=["", "b"], groups=["x", "y"], log_x=True)
    with show(points) as there:
        assert there.locator("text.name").all_text_contents() == ["b"]
        there.locator("circle.dot").first.hover()
        assert reading(there) == "x: 0.01, 1"
        assert "␣" not in there.locator("svg").inner_html()
        assert {"0.01", "0.1", "1"} <= set(there.locator("svg text").all_text_contents())


@pytest.mark.slow
def test_a_wide_table_may_fill_the_window(show: Open) -> None:
    """Numbers as they are written stand at the right, and the names of rows stay while the rest scrolls."""
    names = ["model", *(f"a column of numbers {place}" for place in range(8))]
    rows = [
        [
            "lstm",
            "0.868 ± 0.010",
            "−1.5",
            "3.0\u00a0min",
            "12k",
            "300 MiB",
            "0.02 (0.01 to 0.03)",
            "80–100",
            "1e3 words",
        ]
    ]
    with show(Table(title="Side by side", columns=names, rows=rows), width=1280) as there:
        panel: Any = there.locator(".panel").first.bounding_box()
        assert panel["width"] > 1180
        assert panel["x"] > 0 <= 1280 - panel["x"] - panel["width"]
        assert there.locator("td").evaluate_all("all => all.map(one => getComputedStyle(one).textAlign)") == [
            "left", *["right"] * 7, "left",
        ]  # fmt: skip
        table = there.locator(".table")
        table.evaluate("one => one.scrollTo(500, 0)")
        assert table.evaluate("one => one.scrollLeft") > 50
        name: Any = there.locator("td").first.bounding_box()
        assert name["x"] > panel["x"]
