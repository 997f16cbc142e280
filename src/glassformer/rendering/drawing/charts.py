"""Line charts and scatter plots."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from glassformer.config.arrays import Array
from glassformer.rendering.drawing.sheet import (
    DPI,
    GAP,
    GREY,
    INK,
    RULE,
    SMALL,
    TEXT,
    Block,
    Key,
    Sheet,
    any_letter,
    legend,
    paragraph,
    series_colour,
    shorten,
    stack,
    width_of,
)
from glassformer.rendering.panels import Line, Lines, Points

WIDE, HIGH = 7.5, 3.8
"""Size of a line chart in inches."""
MAP_WIDE, MAP_HIGH, MAP_LEFT, MAP_BELOW = 7.0, 5.4, 0.8, 0.55
"""Inches: size of a scatter plot, and of the space for its tick labels."""
WAYS = [(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)]
REACHES = (0.06, 0.14, 0.22)
"""Candidate positions of a point's name: directions (WAYS) and distances in inches."""
MAX_NAME_WIDTH = 1.8
MAX_TICKS = 12
"""Maximum number of named ticks."""
SHAPES = "osD^vP*X"

Point = tuple[float, float]


def lines(panel: Lines, wish: float) -> Block:
    width = min(wish, WIDE)
    # a faint line has the colour of the next line
    colours = [
        series_colour(sum(not one.faint for one in panel.series[:place]) if line.colour is None else line.colour)
        for place, line in enumerate(panel.series)
    ]
    keys = [Key(line.name, colour, line.faint) for line, colour in zip(panel.series, colours, strict=True)]
    log_x = panel.log_x and _any_above_0([line.x for line in panel.series])
    log_y = panel.log_y and _any_above_0([line.y for line in panel.series])

    def draw(sheet: Sheet, x: float, y: float) -> None:
        axes = sheet.axes(x, y, width, HIGH)
        for line, colour in zip(panel.series, colours, strict=True):
            _plot(axes, line, colour)
        for name, height in panel.levels:
            axes.axhline(height, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            place: dict[str, Any] = {"xy": (1, height), "xycoords": ("axes fraction", "data"), "xytext": (-3, 2)}
            axes.annotate(name, **place, textcoords="offset points", ha="right", color=GREY, **SMALL.style)
        quiet(axes, panel.x_name, panel.y_name)
        for which, log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
            if log:
                _logarithmic(axes, which)
        if panel.x_ticks:
            every = math.ceil(len(panel.x_ticks) / MAX_TICKS)
            axes.set_xticks(range(0, len(panel.x_ticks), every), panel.x_ticks[::every])
        elif not log_x and all(float(at).is_integer() for line in panel.series for at in line.x):
            axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
        _fit(sheet, axes, (x, y, width, HIGH))

    return stack([legend(keys if len(keys) > 1 else [], width), Block(width, HIGH, draw)])


def _plot(axes: Axes, line: Line, colour: str) -> None:
    at, values = _finite(line.x), _finite(line.y)
    if line.low is not None and line.high is not None:
        axes.fill_between(at, _finite(line.low), _finite(line.high), color=colour, alpha=0.18, linewidth=0)
    dots = "o" if line.dots or len(at) == 1 else ""
    how: dict[str, Any] = {"alpha": 0.35, "linewidth": 0.8} if line.faint else {"linewidth": 1.8}
    axes.plot(at, values, color=colour, marker=dots, markersize=4.5, **how)


def _finite(values: Sequence[float]) -> Array:
    numbers = np.array(values, float)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _any_above_0(values: Sequence[Sequence[float]]) -> bool:
    """Return whether any value has a logarithm."""
    return any(value > 0 and np.isfinite(value) for series in values for value in series)


def _logarithmic(axes: Axes, which: Any) -> None:
    """Make an axis logarithmic, with ticks at 1, 2, 5, 10 … if it is short and at powers of ten if it is long."""
    getattr(axes, f"set_{which.axis_name}scale")("log", nonpositive="mask")
    low, high = which.get_view_interval()
    decades = np.log10(high / low)
    which.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,), numticks=12))
    which.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    which.set_minor_formatter(NullFormatter())
    if decades < 0.6:
        which.set_major_locator(MaxNLocator(5))


def short_number(value: float) -> str:
    """Format a number briefly: 500, 20k, 3M."""
    for large, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= large * (10 if letter == "k" else 1):
            return f"{value / large:,.4g}{letter}"
    return f"{value:,.4g}" if value >= 1e-4 else f"{value:.0e}".replace("e-0", "e-").replace("-", "−")


def quiet(axes: Axes, x_name: str = "", y_name: str = "") -> None:
    """Apply thin lines, small numbers and axis labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALL.size, colors=GREY, labelcolor=INK)
    axes.set_xlabel(x_name, **TEXT.style)
    axes.set_ylabel(y_name, **TEXT.style)


def _fit(sheet: Sheet, axes: Axes, place: tuple[float, float, float, float]) -> None:
    """Shrink axes until their tick labels and names are within this rectangle."""
    with any_letter():
        around, inside = axes.get_tightbbox(), axes.get_window_extent()
    assert around is not None
    x, y, width, height = place
    left, right = (inside.x0 - around.x0) / DPI, max(around.x1 - inside.x1, 0) / DPI
    below, above = (inside.y0 - around.y0) / DPI, max(around.y1 - inside.y1, 0) / DPI
    axes.set_position(sheet.place(x + left, y + above, width - left - right, height - above - below))


def points(panel: Points, wish: float) -> Block:
    """Return a scatter plot, with the name of each point where there is space."""
    places = np.asarray(panel.points, float).reshape(-1, 2)
    groups = list(panel.groups) or [""] * len(places)
    keys = [
        Key(group, series_colour(place), shape=SHAPES[place % len(SHAPES)])
        for place, group in enumerate(dict.fromkeys(groups))
    ]
    colours = np.array(
        [series_colour(place) for place in panel.colours]
        or [{key.name: key.colour for key in keys}[one] for one in groups]
    )
    width = min(wish, MAP_WIDE)
    high = MAP_HIGH * width / MAP_WIDE
    wide, tall = width - MAP_LEFT - GAP, high - MAP_BELOW - GAP
    log = panel.log_x and len(places) > 0 and bool((places[:, 0] > 0).all())
    turned = np.log10(places[:, 0]) if log else places[:, 0]
    ends = [_finite(panel.low), _finite(panel.high)]
    heights = [places[:, 1], *ends, np.array([height for _, height in panel.levels], float)]
    limits = [_around(turned), _around(np.concatenate(heights))]

    def down(values: Array) -> Array:
        """Return distances from the top in inches."""
        return np.interp(values, limits[1], (tall, 0.0))

    inches = np.stack([np.interp(turned, limits[0], (0.0, wide)), down(places[:, 1])], 1)
    names = [shorten(label, MAX_NAME_WIDTH, SMALL) for label in panel.labels] or [""] * len(places)
    levels = [_named_level(name, float(down(np.array(height)))) for name, height in panel.levels]
    bars = [
        Bbox.from_extents(x - 0.02, high, x + 0.02, low)
        for x, low, high in zip(inches[:, 0], *map(down, ends), strict=False)
    ]
    ruled = [Bbox.from_bounds(0.0, level.y1 - 0.01, wide, 0.02) for level in levels]
    spots = spread(inches, names, (wide, tall), [*levels, *ruled, *bars])

    def draw(sheet: Sheet, x: float, y: float) -> None:
        left, top = x + MAP_LEFT, y + GAP
        axes = sheet.axes(left, top, wide, tall)
        quiet(axes, panel.x_name, panel.y_name)
        axes.grid(color=RULE, linewidth=0.8)
        axes.set(xlim=[10**end for end in limits[0]] if log else limits[0], ylim=limits[1])
        axes.locator_params(nbins=5)
        if log:
            _logarithmic(axes, axes.xaxis)
        for (name, height), level in zip(panel.levels, levels, strict=True):
            axes.axhline(height, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
            sheet.words(left + level.x0, top + level.y0, shorten(name, MAX_NAME_WIDTH, SMALL), SMALL, color=GREY)
        for key in keys:
            own = np.array([group == key.name for group in groups])
            axes.scatter(places[own, 0], places[own, 1], s=28, color=colours[own], marker=key.shape, zorder=3)
            if len(ends[0]):
                axes.vlines(places[own, 0], *(end[own] for end in ends), color=colours[own], linewidth=1.4, alpha=0.6)
        for name, spot in zip(names, spots, strict=True):
            if spot is not None:
                sheet.words(left + spot.x0, top + spot.y0, name, SMALL)

    written, wanted = len(spots) - spots.count(None), len(names) - names.count("")
    remark = f"{wanted - written} of {wanted} names had no room" if written < wanted else ""
    return stack([legend(keys, width), Block(width, high, draw), paragraph(remark, width, SMALL, colour=GREY)])


def _around(values: Array) -> tuple[float, float]:
    """Return the limits of an axis, with a margin for names."""
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if not np.isfinite(high - low):
        return 0.0, 1.0
    room = 0.12 * (high - low) or 0.5 * abs(high) or 0.5
    return low - room, high + room


def _named_level(name: str, y: float) -> Bbox:
    """Return the rectangle of a horizontal line's name, above its left end."""
    wide = width_of(shorten(name, MAX_NAME_WIDTH, SMALL), SMALL)
    return Bbox.from_extents(GAP / 2, y - SMALL.line_height, GAP / 2 + wide, y)


def spread(
    inches: Array, names: Sequence[str], size: tuple[float, float], also: Sequence[Bbox] = ()
) -> list[Bbox | None]:
    """Return a rectangle for each name that covers no other name, no point and none of `also`.

    None for an empty name, or if there is no such rectangle.
    """
    taken = [*also, *(Bbox.from_bounds(px - 0.05, py - 0.05, 0.1, 0.1) for px, py in inches)]
    spots: list[Bbox | None] = []
    for point, name in zip(inches.tolist(), names, strict=True):
        options = _options(point, width_of(name, SMALL), size) if name else iter(())
        free = next((option for option in options if not option.count_overlaps(taken)), None)
        taken += [] if free is None else [free]
        spots.append(free)
    return spots


def _options(point: Point, wide: float, size: tuple[float, float]) -> Iterator[Bbox]:
    """Yield the rectangles within the plot for a name of this width, the nearest first."""
    high = SMALL.line_height
    for reach, (right, up) in itertools.product(REACHES, WAYS):
        left = point[0] + right * reach - wide * (0 if right > 0 else 1 if right < 0 else 0.5)
        top = point[1] - up * reach - high * (1 if up > 0 else 0 if up < 0 else 0.5)
        if left >= 0 and top >= 0 and left + wide <= size[0] and top + high <= size[1]:
            yield Bbox.from_bounds(left, top, wide, high)
