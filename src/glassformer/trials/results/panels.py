"""Panels of a comparison: what is varied, scores against cost, and how each model learned."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.rendering.panels import Line, Lines, Panel, Points, model_colours
from glassformer.rendering.takeaways import leading, three
from glassformer.trials.jobs import FLOOR
from glassformer.trials.results.metrics import sentence, titled, unit_of
from glassformer.trials.results.modes import along, are_numbers, parts_left_out
from glassformer.trials.results.rows import Row, label_of
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES, VARY

MAX_LINES = 8
"""Learning curves on one picture: those of the best models."""
FAR = 0.5
"""A baseline is drawn if it is within this share of the range of the models, which it would squeeze otherwise."""
MIN_COST_RATIO = 1.05
"""Costs that differ less (each model was trained for the same minutes) are not drawn."""
ENDS_BEST = {"one": "{name} ends best ({number})", "several": "{name} end equally well", "all": "All end equally well"}


Colours = Mapping[str, int]
"""Colours of rows by their labels; baselines have none."""


def row_colours(rows: Sequence[Row], competing: Sequence[Row]) -> Colours:
    """Return a colour per model; where a model competes in several rows, a colour per row."""
    names = [row.name for row in competing]
    names_tell = len(set(names)) == len(names)
    models = {row.label: row.name if names_tell else row.label for row in [*competing, *rows] if row.kind != FLOOR}
    names = list(dict.fromkeys(models.values()))
    places = dict(zip(names, model_colours(names), strict=True))
    return {label: places[model] for label, model in models.items()}


def against_cost(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Score by seconds of training; baselines, which cost nothing, as lines."""
    done = [row for row in rows if row.outcomes and math.isfinite(row.score)]
    placed = [row for row in done if row.kind != FLOOR and row.seconds > 0]
    costs = [row.seconds for row in placed]
    if not placed or max(costs) < MIN_COST_RATIO * min(costs):
        return []
    low, high = [row.low for row in placed], [row.high for row in placed]
    margin = FAR * (max(high) - min(low))
    floors = [(row.label, row.score) for row in done if row.kind == FLOOR]
    return [
        Points(
            title="Score against cost",
            note=sentence("note cost", corner="lower" if done[0].lower else "upper"),
            points=np.array([[row.seconds, row.score] for row in placed]),
            labels=[row.label for row in placed],
            colours=[colours[row.label] for row in placed],
            x_name="seconds of training",
            y_name=titled(done[0].metric),
            log_x=True,
            low=low,
            high=high,
            levels=[(label, score) for label, score in floors if min(low) - margin <= score <= max(high) + margin],
        )
    ]


def learning_curves(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Validation scores during training, a line per model and a band from the worst seed to the best.

    If models made different numbers of updates, the lines run over the share of these.
    """
    drawn = [row for row in rows if any(outcome.curve for outcome in row.outcomes)]
    curves = {row.label: (row, line) for row in drawn[:MAX_LINES] if (line := _curve(row)) is not None}
    if not curves:
        return []
    made = {label: max(row.updates[1], line.x[-1]) for label, (row, line) in curves.items()}
    alike = len(set(made.values())) == 1
    lines = [
        replace(line, colour=colours[label], x=line.x if alike else [at / made[label] for at in line.x])
        for label, (_, line) in curves.items()
    ]
    first = drawn[0].outcomes[0]
    note = sentence("note band") if any(len(row.outcomes) > 1 for row in drawn) else ""
    note += sentence("note most", shown=MAX_LINES, count=len(drawn)) if len(drawn) > MAX_LINES else ""
    ranked = {label for label, (row, _) in curves.items() if row.is_judged}
    return [
        Lines(
            title="How each learned",
            takeaway=_ends_best(lines, ranked, lower=first.lower_is_better),
            series=lines,
            x_name="updates" if alike else "share of its updates",
            y_name=f"{titled(first.primary)} in validation",
            note=(note if alike else note + sentence("note shares")).strip(),
        )
    ]


def _ends_best(lines: Sequence[Line], ranked: Collection[str], *, lower: bool) -> str:
    """Name the line with the best end among the ranked ones. `ranked`: names of the lines that are not undertrained."""
    competing = [line for line in lines if line.name in ranked]
    if not competing:
        return sentence("takeaway no model")
    ends = [line.y[-1] for line in competing]
    names = [line.name for line in competing]
    best = min(ends) if lower else max(ends)
    return leading(names, [-end if lower else end for end in ends], ENDS_BEST, number=three(best))


def _curve(row: Row) -> Line | None:
    """Return the mean at the updates at which each seed was validated."""
    curves = [{point.updates: point.score for point in outcome.curve} for outcome in row.outcomes if outcome.curve]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not common:
        return None
    values = np.array([[curve[at] for at in common] for curve in curves])
    band = {"low": values.min(0).tolist(), "high": values.max(0).tolist()} if len(values) > 1 else {}
    return Line(name=row.label, x=common, y=values.mean(0).tolist(), dots=len(common) < 20, **band)


# --- what is varied ---


def panels_of_mode(rows: Sequence[Row], mode: str, colours: Colours) -> list[Panel]:
    if not any(row.outcomes for row in rows):
        return []
    if mode == FRACTIONS:
        return [_lines("How much data it takes", rows, FRACTION, "share of the training part", colours)]
    if mode == SIZES:
        return [_lines("How large it must be", rows, SIZE, "parameters", colours)]
    if mode == ABLATION:
        return _left_out(rows)
    return _varied(rows, colours) if mode == VARY else []


def _lines(title: str, rows: Sequence[Row], key: str, name: str, colours: Colours, *, log: bool = True) -> Lines:
    series, lines = [], along(rows, key)
    for label, line in lines.items():
        x = [float(row.parameters if key == SIZE else row.varied[key]) for row in line]
        low, high = [row.low for row in line], [row.high for row in line]
        ends: dict[str, Any] = {"low": low, "high": high} if any(row.interval for row in line) else {}
        own = {colours[row.label] for row in line if row.label in colours}
        colour = own.pop() if len(own) == 1 else None
        series.append(Line(name=label, x=x, y=[row.score for row in line], dots=True, colour=colour, **ends))
    first = next(row for row in rows if row.outcomes)
    ranked = {label for label, line in lines.items() if line[-1].is_judged}
    takeaway = _ends_best(series, ranked, lower=first.lower)
    at = sorted({value for line in series for value in line.x})
    for row in rows:
        if row.kind == FLOOR and not row.varied and row.outcomes and at:
            series.append(Line(name=row.label, x=[at[0], at[-1]], y=[row.score] * 2, faint=True))
    return Lines(title=title, takeaway=takeaway, series=series, x_name=name, y_name=titled(first.metric), log_x=log)


def _varied(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Return lines along a single setting whose values are numbers, a line for each model."""
    keys = {key for row in rows for key in row.varied}
    values = [value for row in rows if row.is_trained for value in row.varied.values()]
    if len(keys) != 1 or not are_numbers(values) or len(set(values)) < 2:
        return []
    key = keys.pop()
    wide = min(values) > 0 and max(values) / min(values) >= 8
    return [_lines(f"Along {key}", rows, key, key, colours, log=wide)]


def _left_out(rows: Sequence[Row]) -> list[Panel]:
    """What each part was worth: how much worse the model is without it."""
    whole, parts = parts_left_out(rows)
    if whole is None or not parts:
        return []
    names = [label_of("", row.varied) for row, _ in parts]
    most = next(((name, worth) for name, (_, worth) in zip(names, parts, strict=True) if worth.low > 0), None)
    told = sentence("takeaway worth", name=most[0], value=three(most[1].value)) if most else ""
    return [
        Points(
            title="What each part was worth",
            takeaway=told or sentence("takeaway worthless"),
            note=sentence("note worth"),
            points=np.array([[place, worth.value] for place, (_, worth) in enumerate(parts, 1)], float),
            labels=names,
            x_name="parts left out, from the most to the least worth",
            y_name=f"worse by ({unit_of(whole.metric)})",
            low=[worth.low for _, worth in parts],
            high=[worth.high for _, worth in parts],
            levels=[("the whole", 0.0)],
        )
    ]
