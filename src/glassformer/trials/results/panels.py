"""Panels of a comparison: what is varied, scores against cost, and how each model learned."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.data.wording import counted
from glassformer.rendering.panels import Grid, Line, Lines, Panel, Points, Table, model_colours
from glassformer.rendering.takeaways import course, leaders, listed, three
from glassformer.trials.outcome import FLOOR
from glassformer.trials.results.metrics import rounded, sentence, titled, unit_of, value_of
from glassformer.trials.results.modes import along, are_numbers, parts_left_out
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.rows import Row, best_rows, label_of
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES, VARY

MOST_LINES = 8
"""Learning curves on one picture: those of the best."""
FAR = 0.5
"""A floor that is farther off than so many times what the models reach over would squeeze them to a line."""
MIN_COST_RATIO = 1.05
"""Costs that differ less (each was trained for so many minutes) are no picture."""


Colours = Mapping[str, int]
"""Of rows, by their labels; floors have none."""


def row_colours(rows: Sequence[Row], competing: Sequence[Row]) -> Colours:
    """One for each model; where a model competes in several rows, one for each of these."""
    names = [row.name for row in competing]
    names_tell = len(set(names)) == len(names)
    models = {row.label: row.name if names_tell else row.label for row in [*competing, *rows] if row.kind != FLOOR}
    names = list(dict.fromkeys(models.values()))
    places = dict(zip(names, model_colours(names), strict=True))
    return {label: places[model] for label, model in models.items()}


def against_cost(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """Score by seconds of training; floors, which cost nothing, as lines."""
    done = [row for row in rows if row.outcomes and math.isfinite(row.score)]
    placed = [row for row in done if row.kind != FLOOR and row.seconds > 0]
    costs = [row.seconds for row in placed]
    if not placed or max(costs) < MIN_COST_RATIO * min(costs):
        return []
    low, high = [row.low for row in placed], [row.high for row in placed]
    metric = titled(done[0].metric)
    floors = [row for row in done if row.kind == FLOOR]
    reach = max(high) - min(low)
    near = [row for row in floors if min(low) - FAR * reach <= row.score <= max(high) + FAR * reach]
    apart = [sentence("note beyond", row=row, score=rounded(row.score, None)) for row in floors if row not in near]
    corner = "lower" if done[0].lower else "upper"
    return [
        Points(
            title="Score against cost",
            takeaway=_best_and_cheapest(placed),
            note=sentence("note cost", corner=corner, apart="".join(apart)),
            points=np.array([[row.seconds, row.score] for row in placed]),
            labels=[row.label for row in placed],
            colours=[colours[row.label] for row in placed],
            x_name="seconds of training",
            y_name=metric,
            log_x=True,
            low=low,
            high=high,
            levels=[(row.label, row.score) for row in near],
        )
    ]


def learning_curves(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """The validations on the way, a line for each model; around it from the worst seed to the best. Where they made not
    equally many updates, over the share of them that was made.
    """
    drawn = [row for row in rows if any(outcome.curve for outcome in row.outcomes)]
    curves = {row.label: (row, line) for row in drawn[:MOST_LINES] if (line := _curve(row)) is not None}
    if not curves:
        return []
    made = {label: max(row.updates[1], line.x[-1]) for label, (row, line) in curves.items()}
    alike = len(set(made.values())) == 1
    lines = [
        replace(line, colour=colours[label], x=line.x if alike else [at / made[label] for at in line.x])
        for label, (_, line) in curves.items()
    ]
    ends = ", ".join(f"{label} after {counted(int(made[label]), 'update')}" for label in curves)
    own = "" if alike else sentence("note shares", ends=ends)
    left = f" The {MOST_LINES} best of {len(drawn)}." if len(drawn) > MOST_LINES else ""
    band = sentence("note band") if any(len(row.outcomes) > 1 for row in drawn) else ""
    return [
        Lines(
            title="How each learned",
            takeaway=_ends_best(
                lines,
                {label for label, (row, _) in curves.items() if row.is_judged},
                lower=drawn[0].outcomes[0].lower_is_better,
            ),
            series=lines,
            x_name="updates" if alike else "share of its updates",
            y_name=f"{titled(drawn[0].outcomes[0].primary)} in validation",
            note=f"{band}{left}{own}".strip(),
        )
    ]


def _best_and_cheapest(placed: Sequence[Row]) -> str:
    """Name the best and the cheapest of the rows in the picture that are not undertrained."""
    placed = [row for row in placed if row.is_judged]
    if not placed:
        return sentence("takeaway no model")
    best, cheapest = [row.label for row in best_rows(placed)], min(placed, key=lambda row: row.seconds).label
    return sentence(
        "takeaway cost",
        names=listed(best),
        score="scores" if len(best) == 1 else "score",
        cheapest="takes" if best == [cheapest] else f"{cheapest} takes",
    )


def _ends_best(lines: Sequence[Line], ranked: Collection[str], *, lower: bool) -> str:
    """Name the line with the best end among the ranked ones. `ranked`: names of the lines that are not undertrained."""
    if len(lines) == 1:
        return f"{lines[0].name} {course(lines[0].y)}"
    competing = [line for line in lines if line.name in ranked]
    if not competing:
        return sentence("takeaway no model")
    among = sentence("among trained") if len(competing) < len(lines) else ""
    ends = [line.y[-1] for line in competing]
    first = leaders([-end if lower else end for end in ends])
    names = listed([competing[at].name for at in first])
    if len(first) == 1:
        return sentence("takeaway ends best", name=names, among=among, value=three(ends[first[0]]))
    return sentence("takeaway end equal", names=names, among=among) if first else ""


def _curve(row: Row) -> Line | None:
    """The mean at the updates at which each of its seeds was validated."""
    curves = [{point.updates: point.score for point in outcome.curve} for outcome in row.outcomes if outcome.curve]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not common:
        return None
    values = np.array([[curve[at] for at in common] for curve in curves])
    band = {"low": values.min(0).tolist(), "high": values.max(0).tolist()} if len(values) > 1 else {}
    return Line(name=row.label, x=common, y=values.mean(0).tolist(), dots=len(common) < 20, **band)


def each_seed(done: Sequence[Row], colours: Colours) -> list[Panel]:
    """The scores that the means are of."""
    most = max((len(row.outcomes) for row in done), default=0)
    if most < 2:
        return []
    seeds = sorted({outcome.cell.repeat for row in done for outcome in row.outcomes})
    scores = [{outcome.cell.repeat: value_of(outcome, row.metric) for outcome in row.outcomes} for row in done]
    table = [[row.label, *map(own.get, seeds)] for row, own in zip(done, scores, strict=True)]
    what = next(row.repeats for row in done if len(row.outcomes) == most).removesuffix("s")
    names = (f"{what} {seed + 1}" for seed in seeds)
    spots = [colours.get(row.label) for row in done]
    apart = [np.ptp([score for score in own.values() if math.isfinite(score)] or [0.0]) for own in scores]
    wide = [done[at].label for at in leaders(apart)]
    most_apart, vary = three(max(apart)), "varies" if len(wide) == 1 else "vary"
    spread = sentence("takeaway varies", names=listed(wide), vary=vary, what=what, most=most_apart)
    return [
        Table(
            title=f"{what.capitalize()} by {what}",
            takeaway=spread if max(apart) > 0 else sentence("takeaway constant", what=what),
            columns=["model", *names],
            rows=table,
            colours=spots,
        )
    ]


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
    series = []
    for label, line in along(rows, key).items():
        x = [float(row.parameters if key == SIZE else row.varied[key]) for row in line]
        low, high = [row.low for row in line], [row.high for row in line]
        ends: dict[str, Any] = {"low": low, "high": high} if any(row.interval for row in line) else {}
        own = {colours[row.label] for row in line if row.label in colours}
        colour = own.pop() if len(own) == 1 else None
        series.append(Line(name=label, x=x, y=[row.score for row in line], dots=True, colour=colour, **ends))
    at = sorted({value for line in series for value in line.x})
    for row in rows:
        if row.kind == FLOOR and not row.varied and row.outcomes and at:
            series.append(Line(name=row.label, x=[at[0], at[-1]], y=[row.score] * 2, faint=True))
    metric = next(row.metric for row in rows if row.outcomes)
    lower = next(row.lower for row in rows if row.outcomes)
    models = [line for line in series if not line.faint]
    ranked = {label for label, line in along(rows, key).items() if line[-1].is_judged}
    told = _ends_best(models, ranked, lower=lower) if models else ""
    return Lines(title=title, takeaway=told, series=series, x_name=name, y_name=titled(metric), log_x=log)


def _varied(rows: Sequence[Row], colours: Colours) -> list[Panel]:
    """One setting: a line for each model where it is a number. Two: a grid for each model."""
    keys = list(dict.fromkeys(key for row in rows for key in row.varied))
    trained = [row for row in rows if row.is_trained and row.varied]
    if len(keys) == 1:
        values = [row.varied[keys[0]] for row in trained]
        if not are_numbers(values) or len(set(values)) < 2:
            return []
        wide = min(values) > 0 and max(values) / min(values) >= 8
        return [_lines(f"Along {keys[0]}", rows, keys[0], keys[0], colours, log=wide)]
    if len(keys) != 2:
        return []
    return [_grid(name, [row for row in trained if row.name == name], keys) for name in dict.fromkeys(
        row.name for row in trained)]  # fmt: skip


def _grid(name: str, rows: Sequence[Row], keys: Sequence[str]) -> Grid:
    down, across = (sorted({row.varied[key] for row in rows}, key=_order) for key in keys)
    values = np.full((len(down), len(across)), np.nan)
    judged = values.copy()
    for row in rows:
        at = down.index(row.varied[keys[0]]), across.index(row.varied[keys[1]])
        values[at] = row.score
        judged[at] = row.score if row.is_judged else math.nan
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    best = [divmod(at, len(across)) for at in leaders(-judged if rows[0].lower else judged)]
    where = f"{keys[0]} {down[best[0][0]]}, {keys[1]} {across[best[0][1]]}" if best else ""
    told = f"The best is at {where}" if len(best) == 1 else f"{len(best)} settings are equally good"
    return Grid(
        title=f"{name}: {keys[0]} by {keys[1]}",
        takeaway=told if best else sentence("takeaway no model"),
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
            takeaway=_worth_most(parts),
            note=sentence("note worth"),
            points=np.array([[place, worth.value] for place, (_, worth) in enumerate(parts, 1)], float),
            labels=[label_of("", row.varied) for row, _ in parts],
            x_name="parts left out, from the most to the least worth",
            y_name=f"worse by ({unit_of(whole.metric)})",
            low=[worth.low for _, worth in parts],
            high=[worth.high for _, worth in parts],
            levels=[("the whole", 0.0)],
        )
    ]


def _worth_most(parts: Sequence[tuple[Row, Lead]]) -> str:
    """Name the part that is worth most. `parts`: the row without each part and what was lost, the most first."""
    for row, worth in parts:
        if worth.low > 0:
            return sentence("takeaway worth", name=label_of("", row.varied), value=three(worth.value))
    return sentence("takeaway worthless")
