"""Panels of a comparison: scores along a varied setting, scores against cost, learning curves."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from glassformer.rendering.panels import Line, Lines, Panel, Points, model_colours
from glassformer.rendering.takeaways import leading, three
from glassformer.trials.jobs import FLOOR
from glassformer.trials.results.metrics import sentence, titled, unit_of
from glassformer.trials.results.rows import Row, label_of
from glassformer.trials.results.verdict import Ablation, along, are_numbers
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES, VARY

MAX_LINES = 8
"""Maximum number of learning curves in one picture; those of the best models are drawn."""
FLOOR_MARGIN = 0.5
"""A baseline is drawn if it is within this share of the range of the models; others would squeeze the picture."""
MIN_COST_RATIO = 1.05
"""Costs are drawn if the largest is at least this multiple of the smallest."""
ENDS_BEST = {"one": "{name} ends best ({number})", "several": "{name} end equally well", "all": "All end equally well"}

Colours = Mapping[str, int]
"""Colours of rows by label; baselines have none."""


def row_colours(rows: Sequence[Row], competing: Sequence[Row]) -> Colours:
    """Return a colour per model; if a model competes in several rows, a colour per row."""
    names = [row.name for row in competing]
    names_differ = len(set(names)) == len(names)
    models = {row.label: row.name if names_differ else row.label for row in [*competing, *rows] if row.kind != FLOOR}
    names = list(dict.fromkeys(models.values()))
    colours = dict(zip(names, model_colours(names), strict=True))
    return {label: colours[model] for label, model in models.items()}


def against_cost(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Draw the score by seconds of training; baselines, which cost nothing, are lines."""
    done = [row for row in rows if row.outcomes and math.isfinite(row.score)]
    drawn = [row for row in done if row.kind != FLOOR and row.seconds > 0]
    costs = [row.seconds for row in drawn]
    if not drawn or max(costs) < MIN_COST_RATIO * min(costs):
        return []
    low, high = _ends(drawn)
    margin = FLOOR_MARGIN * (max(high) - min(low))
    floors = [(row.label, row.score) for row in done if row.kind == FLOOR]
    return [
        Points(
            title="Score against cost",
            note=sentence("note cost", corner="lower" if done[0].lower else "upper"),
            points=np.array([[row.seconds, row.score] for row in drawn]),
            labels=[row.label for row in drawn],
            colours=[colours[row.label] for row in drawn],
            x_name="seconds of training",
            y_name=titled(done[0].metric),
            log_x=True,
            low=low,
            high=high,
            levels=[(label, score) for label, score in floors if min(low) - margin <= score <= max(high) + margin],
        )
    ]


def _ends(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of the rows' intervals."""
    return [row.ends[0] for row in rows], [row.ends[1] for row in rows]


def learning_curves(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Draw validation scores during training, a line per model and a band from the worst seed to the best.

    If models made different numbers of updates, the x axis is the share of these.
    """
    drawn = [row for row in rows if any(outcome.curve for outcome in row.outcomes)]
    curves = {row.label: (row, line) for row in drawn[:MAX_LINES] if (line := _curve(row)) is not None}
    if not curves:
        return []
    updates = {label: max(row.updates[1], line.x[-1]) for label, (row, line) in curves.items()}
    are_equal = len(set(updates.values())) == 1
    lines = [
        replace(line, colour=colours[label], x=line.x if are_equal else [at / updates[label] for at in line.x])
        for label, (_, line) in curves.items()
    ]
    first = drawn[0].outcomes[0]
    note = sentence("note band") if any(len(row.outcomes) > 1 for row in drawn) else ""
    note += sentence("note most", shown=MAX_LINES, count=len(drawn)) if len(drawn) > MAX_LINES else ""
    ranked = {label for label, (row, _) in curves.items() if row.is_ranked}
    return [
        Lines(
            title="How each learned",
            takeaway=_ends_best(lines, ranked, lower=first.lower_is_better),
            series=lines,
            x_name="updates" if are_equal else "share of its updates",
            y_name=f"{titled(first.primary)} in validation",
            note=(note if are_equal else note + sentence("note shares")).strip(),
        )
    ]


def _ends_best(lines: Sequence[Line], ranked: Collection[str], *, lower: bool) -> str:
    """Name the line with the best end among the lines named in `ranked`."""
    ends = {line.name: -line.y[-1] if lower else line.y[-1] for line in lines if line.name in ranked}
    if not ends:
        return sentence("takeaway no model")
    best = max(ends.values())
    return leading(list(ends), list(ends.values()), ENDS_BEST, number=three(-best if lower else best))


def _curve(row: Row) -> Line | None:
    """Return the mean over seeds at the updates at which every seed was validated."""
    curves = [{point.updates: point.score for point in outcome.curve} for outcome in row.outcomes if outcome.curve]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not common:
        return None
    values = np.array([[curve[at] for at in common] for curve in curves])
    band = {"low": values.min(0).tolist(), "high": values.max(0).tolist()} if len(values) > 1 else {}
    return Line(name=row.label, x=common, y=values.mean(0).tolist(), dots=len(common) < 20, **band)


# --- varied settings ---


def panels_of_mode(rows: Sequence[Row], mode: str, colours: Colours) -> list[Panel]:
    if not any(row.outcomes for row in rows):
        return []
    if mode == FRACTIONS:
        return [_lines("How much data it takes", rows, FRACTION, "share of the training part", colours)]
    if mode == SIZES:
        return [_lines("How large it must be", rows, SIZE, "parameters", colours)]
    if mode == ABLATION:
        return _worth_of_parts(rows)
    return _varied(rows, colours) if mode == VARY else []


def _lines(title: str, rows: Sequence[Row], key: str, name: str, colours: Colours, *, log: bool = True) -> Lines:
    series, lines = [], along(rows, key)
    for label, line in lines.items():
        x = [float(row.parameters if key == SIZE else row.varied[key]) for row in line]
        low, high = _ends(line) if any(row.interval for row in line) else (None, None)
        own = {colours[row.label] for row in line if row.label in colours}
        colour = own.pop() if len(own) == 1 else None
        y = [row.score for row in line]
        series.append(Line(name=label, x=x, y=y, dots=True, colour=colour, low=low, high=high))
    first = next(row for row in rows if row.outcomes)
    ranked = {label for label, line in lines.items() if line[-1].is_ranked}
    takeaway = _ends_best(series, ranked, lower=first.lower)
    at = sorted({value for line in series for value in line.x})
    for row in rows:
        if row.kind == FLOOR and not row.varied and row.outcomes and at:
            series.append(Line(name=row.label, x=[at[0], at[-1]], y=[row.score] * 2, faint=True))
    return Lines(title=title, takeaway=takeaway, series=series, x_name=name, y_name=titled(first.metric), log_x=log)


def _varied(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Draw lines along a single setting whose values are numbers, a line per model."""
    keys = {key for row in rows for key in row.varied}
    values = [value for row in rows if row.is_trained for value in row.varied.values()]
    if len(keys) != 1 or not are_numbers(values) or len(set(values)) < 2:
        return []
    key = keys.pop()
    wide = min(values) > 0 and max(values) / min(values) >= 8
    return [_lines(f"Along {key}", rows, key, key, colours, log=wide)]


def _worth_of_parts(rows: Sequence[Row]) -> list[Panel]:
    """Draw how much worse the model is without each part."""
    ablation = Ablation.of(rows)
    if ablation.whole is None or not ablation.parts:
        return []
    names, leads = [label_of("", row.varied) for row, _ in ablation.parts], [lead for _, lead in ablation.parts]
    worth = [
        sentence("takeaway worth", name=name, value=three(lead.value))
        for name, lead in zip(names, leads, strict=True)
        if lead.low > 0
    ]
    return [
        Points(
            title="What each part was worth",
            takeaway=worth[0] if worth else sentence("takeaway worthless"),
            note=sentence("note worth"),
            points=np.array([[place, lead.value] for place, lead in enumerate(leads, 1)], float),
            labels=names,
            x_name="parts left out, from the most to the least worth",
            y_name=f"worse by ({unit_of(ablation.whole.metric)})",
            low=[lead.low for lead in leads],
            high=[lead.high for lead in leads],
            levels=[("the whole", 0.0)],
        )
    ]
