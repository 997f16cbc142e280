"""Charts and maps: series, bands, dots, logarithms; points whose names cover neither one another nor a point."""

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from glassformer.rendering.curves import curves, smoothed
from glassformer.rendering.drawing.charts import short_number, spread
from glassformer.rendering.drawing.sheet import BLUE, ORANGE
from glassformer.rendering.panels import Line, Lines, Points
from glassformer.rendering.view import View
from helpers.drawn import drawn, find, numbers_of, outside, overlapping, said_in


@pytest.mark.slow
def test_series() -> None:
    figure = drawn(Lines(
        series=[
            Line(name="noise", x=[0, 1, 2], y=[3.0, np.nan, 2.0], faint=True),
            Line(name="mean", x=[0, 1, 2], y=[2.5, np.inf, 1.5]),
            Line(name="other", x=[0, 2], y=[1, 2], low=[0.5, 1], high=[2, 3], dots=True),
        ],
        x_name="updates",
        y_name="loss",
    ))  # fmt: skip
    (axes,) = figure.axes
    noise, mean, _ = axes.lines
    np.testing.assert_array_equal(noise.get_xydata(), [[0, 3], [1, np.nan], [2, 2]])
    np.testing.assert_array_equal(mean.get_ydata(), [2.5, np.nan, 1.5])
    assert [to_hex(str(one.get_color())) for one in axes.lines] == [BLUE, BLUE, ORANGE]  # noise has its line's colour
    assert [one.get_alpha() for one in axes.lines] == [0.35, None, None]
    assert noise.get_linewidth() < mean.get_linewidth()
    assert [one.get_marker() for one in axes.lines] == ["", "", "o"]
    (band,) = axes.collections
    assert isinstance(band, FillBetweenPolyCollection)
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {(0, 0.5), (0, 2), (2, 1), (2, 3)} <= corners
    assert {"noise", "mean", "other", "updates", "loss"} <= set(said_in(figure))
    assert not outside(figure)


def test_one_series_needs_no_legend_and_one_point_is_a_dot() -> None:
    figure = drawn(Lines(series=[Line(name="alone", x=[1], y=[2])]))
    assert "alone" not in said_in(figure)
    assert figure.axes[0].lines[0].get_marker() == "o"


@pytest.mark.parametrize(("x", "said"), [
    ([1e4, 1e5, 1e6, 1e7], {"10k", "100k", "1M", "10M"}),
    ([1, 2, 5, 50], {"1", "2", "5", "10", "20", "50"}),
    ([1e-5, 1e-3, 1e-1], {"1e−5", "0.001", "0.1"}),
], ids=lambda value: len(value))  # fmt: skip
def test_logarithms(x: list[float], said: set[str]) -> None:
    for which in ("x", "y"):
        ends: dict[str, Any] = {which: x, "y" if which == "x" else "x": range(len(x)), f"log_{which}": True}
        series = [Line(name="a", x=ends["x"], y=ends["y"])]
        figure = drawn(Lines(series=series, log_x="log_x" in ends, log_y="log_y" in ends))
        axes = figure.axes[0]
        assert (axes.get_xscale(), axes.get_yscale()) == (("log", "linear") if which == "x" else ("linear", "log"))
        assert said <= set(said_in(figure))
        assert not outside(figure)
        assert not overlapping(figure)


def test_a_logarithm_of_nothing_above_0_is_none() -> None:
    figure = drawn(Lines(series=[Line(name="a", x=[0, 1], y=[0, -1])], log_y=True, log_x=True))
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("log", "linear")


def ticks_of(panel: Lines, which: str) -> list[float]:
    """Those that are seen."""
    axis = getattr(drawn(panel).axes[0], f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    return [float(tick) for tick in axis.get_majorticklocs() if low <= tick <= high]


@pytest.mark.parametrize("x", [[3], [0, 1], [0, 1, 2], [0, 1, 2, 3, 4]])
def test_whole_numbers_have_whole_ticks(x: list[float]) -> None:
    found = ticks_of(Lines(series=[Line(name="a", x=x, y=x)]), "x")
    assert found == x


def test_short_numbers() -> None:
    values = (0.00002, 0.5, 1, 500, 2000, 10_000, 250_000, 1e6, 3.5e7, 2e9)
    said = ["2e−5", "0.5", "1", "500", "2,000", "10k", "250k", "1M", "35M", "2B"]
    assert [short_number(value) for value in values] == said


# --- maps ---


def test_points_and_their_names() -> None:
    places = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, -1.0]])
    figure = drawn(
        Points(points=places, labels=["a", "b", "c"], groups=["p", "q", "p"], x_name="first", y_name="second")
    )
    (axes,) = figure.axes
    found = [np.asarray(one.get_offsets()) for one in axes.collections]
    np.testing.assert_array_equal(found[0], places[[0, 2]])
    np.testing.assert_array_equal(found[1], places[[1]])
    assert [to_hex(one.get_facecolor()[0]) for one in axes.collections] == [BLUE, ORANGE]
    assert {"first", "second", "p", "q"} <= set(said_in(figure))
    for name, place in zip("abc", places, strict=True):
        box = find(figure, name).get_window_extent()
        x, y = axes.transData.transform(place)
        assert 0 < box.x0 - x < 0.1 * 150
        assert abs((box.y0 + box.y1) / 2 - y) < 8


def test_points_that_were_measured() -> None:
    """On a logarithm, with bars for how sure they are, and lines to compare them with."""
    places = np.array([[1.0, 0.5], [10.0, 0.8], [100.0, 0.7]])
    figure = drawn(Points(
        points=places, labels=["a", "b", "c"], log_x=True, low=[0.4, 0.75, 0.7], high=[0.6, 0.85, 0.7],
        levels=[("a floor", 0.2)], x_name="seconds",
    ))  # fmt: skip
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    dots, bars = axes.collections
    np.testing.assert_array_equal(np.asarray(dots.get_offsets()), places)
    ends = [segment.tolist() for segment in bars.get_segments()]
    assert ends == [[[1, 0.4], [1, 0.6]], [[10, 0.75], [10, 0.85]], [[100, 0.7], [100, 0.7]]]
    assert [line.get_ydata()[0] for line in axes.lines] == [0.2]
    low, high = axes.get_ylim()
    assert low < 0.2 < 0.85 < high
    assert {"1", "10", "100", "a floor"} <= set(said_in(figure))
    for name, (x, y) in zip("abc", places, strict=True):
        box = find(figure, name).get_window_extent()
        assert abs(box.x0 - axes.transData.transform((x, y))[0]) < 30
    assert not outside(figure)
    assert not overlapping(figure)
    flat = drawn(Points(points=np.array([[0.0, 1.0], [1.0, 2.0]]), labels=["a", "b"], log_x=True))
    assert flat.axes[0].get_xscale() == "linear"  # there is no logarithm of 0


def test_names_cover_nothing() -> None:
    figure = drawn(Points(points=numbers_of(60, 2), labels=[f"a name {place}" for place in range(60)]))
    assert not overlapping(figure)
    assert not outside(figure)
    names = [said for said in said_in(figure) if said.startswith("a name")]
    lost = [said for said in said_in(figure) if said.endswith("of 60 names had no room")]
    assert 30 < len(names) < 60
    assert lost == [f"{60 - len(names)} of 60 names had no room"]
    points = figure.axes[0].transData.transform(figure.axes[0].collections[0].get_offsets())
    for name in names:
        box = find(figure, name).get_window_extent()
        assert not any(box.contains(x, y) for x, y in points)


def test_a_point_without_a_name_is_no_name_without_room() -> None:
    crowded = np.zeros((40, 2))
    figure = drawn(Points(points=crowded, labels=["a", *[""] * 39]))
    assert find(figure, "a") is not None
    assert not any("had no room" in said for said in said_in(figure))


def test_names_spread_within_their_room() -> None:
    inches = np.array([[0.02, 0.02], [3.95, 2.95], [2.0, 1.5], [2.05, 1.5]])
    spots = spread(inches, ["corner", "other corner", "one", "two"], (4.0, 3.0))
    for spot in spots:
        assert spot is not None
        left, top, right, bottom = spot.extents
        assert 0 <= left < right <= 4
        assert 0 <= top < bottom <= 3
    for one, two in itertools.combinations(spots, 2):
        assert one is not None
        assert two is not None
        assert one.x0 >= two.x1 or two.x0 >= one.x1 or one.y0 >= two.y1 or two.y0 >= one.y1


# --- curves ---


def curves_of(metrics: list[dict[str, Any]], **more: Any) -> Figure:
    figure = View("runs/$a$", curves(metrics, unit="nats", **more)).figure()
    figure.canvas.draw()
    return figure


def test_curves() -> None:
    steps = [{"event": "step", "step": n, "loss": 4.0 / n, "lr": 0.001 * n} for n in range(1, 8)]
    checks = [
        {"event": "validation", "step": n, "loss": loss, "accuracy": 0.5, "best": loss < 3.0}
        for n, loss in ((2, 3.0), (4, 1.25), (6, 3.5))
    ]
    figure = curves_of([*steps, *checks], smoothing=0.1)
    upper, middle, lower = figure.axes
    np.testing.assert_allclose(np.asarray(upper.lines[0].get_ydata()), [4.0 / n for n in range(1, 8)])
    np.testing.assert_allclose(np.asarray(upper.lines[1].get_ydata()), smoothed([4.0 / n for n in range(1, 8)]))
    np.testing.assert_allclose(upper.lines[2].get_xydata(), [[2, 3.0], [4, 1.25], [6, 3.5]])
    np.testing.assert_allclose(middle.lines[0].get_xydata(), [[2, 0.5], [4, 0.5], [6, 0.5]])
    np.testing.assert_allclose(np.asarray(lower.lines[0].get_ydata()), [0.001 * n for n in range(1, 8)])
    said = set(said_in(figure))
    assert {"runs/$a$", "loss (nats)", "accuracy", "rate", "updates", "validation"} <= said
    assert "training, with label smoothing 0.1, running average" in said
    assert "The best validation is 1.25, after 4 updates" in said
    assert not outside(figure)
    assert len(curves_of(steps).axes) == 2
    assert said_in(curves_of([])) == ["runs/$a$"]
