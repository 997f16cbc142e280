"""Pictures of what is varied: parts of the data, sizes, settings, parts left out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.rendering.panels import Grid, Line, Lines, Panel, Points
from glassformer.trials.outcome import FLOOR
from glassformer.trials.results.metrics import titled, unit_of
from glassformer.trials.results.modes import along, part_in_words, parts_left_out
from glassformer.trials.results.rows import Row
from glassformer.trials.results.summary import Summary
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES, VARY


def panels_of_mode(comparison: Summary) -> list[Panel]:
    rows = comparison.rows
    if not any(row.outcomes for row in rows):
        return []
    if comparison.mode == FRACTIONS:
        return [_lines("How much data it takes", rows, FRACTION, "share of the training part")]
    if comparison.mode == SIZES:
        return [_lines("How large it must be", rows, SIZE, "parameters")]
    if comparison.mode == ABLATION:
        return _left_out(rows)
    return _varied(rows) if comparison.mode == VARY else []


def _lines(title: str, rows: Sequence[Row], key: str, name: str, *, log: bool = True) -> Lines:
    series = []
    for label, line in along(rows, key).items():
        x = [float(row.parameters if key == SIZE else row.varied[key]) for row in line]
        ends: dict[str, Any] = {}
        if any(row.interval for row in line):
            ends["low"] = [row.interval.low if row.interval else row.score for row in line]
            ends["high"] = [row.interval.high if row.interval else row.score for row in line]
        series.append(Line(name=label, x=x, y=[row.score for row in line], dots=True, **ends))
    at = sorted({value for line in series for value in line.x})
    for row in rows:
        if row.kind == FLOOR and not row.varied and row.outcomes and at:
            series.append(Line(name=row.label, x=[at[0], at[-1]], y=[row.score] * 2, faint=True))
    first = next(row for row in rows if row.outcomes)
    return Lines(title=title, series=series, x_name=name, y_name=titled(first.metric), log_x=log)


def _varied(rows: Sequence[Row]) -> list[Panel]:
    """One setting: a line for each model where it is a number. Two: a grid for each model."""
    keys = list(dict.fromkeys(key for row in rows for key in row.varied))
    trained = [row for row in rows if row.is_trained and row.varied]
    if len(keys) == 1:
        values = [row.varied[keys[0]] for row in trained]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        if not numbers or len(set(values)) < 2:
            return []
        log = min(values) > 0 and max(values) / min(values) >= 8
        return [_lines(f"Along {keys[0]}", rows, keys[0], keys[0], log=log)]
    if len(keys) != 2:
        return []
    return [_grid(name, [row for row in trained if row.name == name], keys) for name in dict.fromkeys(
        row.name for row in trained)]  # fmt: skip


def _grid(name: str, rows: Sequence[Row], keys: Sequence[str]) -> Grid:
    down, across = (sorted({row.varied[key] for row in rows}, key=_order) for key in keys)
    values = np.full((len(down), len(across)), np.nan)
    for row in rows:
        if row.outcomes:
            values[down.index(row.varied[keys[0]]), across.index(row.varied[keys[1]])] = row.score
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return Grid(
        title=f"{name}: {keys[0]} by {keys[1]}",
        values=values,
        rows=[str(value) for value in down],
        columns=[str(value) for value in across],
        row_name=keys[0],
        column_name=keys[1],
        low=low - 0.25 * (high - low),
        high=high if high > low else low + 1,
        numbers=True,
    )


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _left_out(rows: Sequence[Row]) -> list[Panel]:
    """What each part was worth: how much worse it is without."""
    whole, parts = parts_left_out(rows)
    if whole is None or not parts:
        return []
    return [
        Points(
            title="What each part was worth",
            note="How much worse the model is without it, with 95 % intervals; at the line it is worth nothing.",
            points=np.array([[place, found.value] for place, (_, found) in enumerate(parts, 1)], float),
            labels=[part_in_words(row.varied) for row, _ in parts],
            x_name="parts left out, from the most to the least worth",
            y_name=f"worse by ({unit_of(whole.metric)})",
            low=[found.low for _, found in parts],
            high=[found.high for _, found in parts],
            levels=[("the whole", 0.0)],
        )
    ]
