"""A comparison as panels: the table, what it says, scores against cost, and how each model learned."""

import math
from collections.abc import Sequence

import numpy as np

from glassformer.rendering.panels import Line, Lines, Panel, Points, Table, Words
from glassformer.rendering.view import View
from glassformer.trials.outcome import FLOOR, KINDS
from glassformer.trials.results.metrics import titled, value_of
from glassformer.trials.results.mode_panels import panels_of_mode
from glassformer.trials.results.modes import with_all_data
from glassformer.trials.results.rounding import rounded
from glassformer.trials.results.rows import Row
from glassformer.trials.results.summary import Summary
from glassformer.trials.results.tables import TEXT_COLUMNS, filled_columns

MOST_LINES = 8
"""Learning curves on one picture: those of the best."""
FAR = 0.5
"""A floor that is farther off than so many times what the models reach over would squeeze them to a line."""
SOME = 1.05
"""Costs that differ less (each was trained for so many minutes) are no picture."""
UNBROKEN = "\u00a0"
"""A space at which no line ends."""


def view_of(comparison: Summary) -> View:
    """Everything on one page."""
    names, rows = filled_columns(comparison)
    whole = [
        [cell if names[place] in TEXT_COLUMNS else cell.replace(" ", UNBROKEN) for place, cell in enumerate(row)]
        for row in rows
    ]
    competing = sorted(with_all_data(comparison.rows), key=lambda row: row.rank if row.outcomes else math.inf)
    panels: list[Panel] = [
        Words(title="What it says", text="\n\n".join(comparison.words)),
        Table(title="Side by side", columns=names, rows=whole, note=" ".join(comparison.notes)),
        *panels_of_mode(comparison),
        *against_cost(competing),
        *learning_curves(competing),
        *each_seed(comparison.rows),
    ]
    about = f"Trained for {comparison.budget}." if comparison.budget else ""
    return View(comparison.title, panels, about)


def against_cost(rows: Sequence[Row]) -> list[Panel]:
    """Score by seconds of training; floors, which cost nothing, as lines."""
    done = [row for row in rows if row.outcomes and math.isfinite(row.score)]
    placed = [row for row in done if row.kind != FLOOR and row.seconds > 0]
    costs = [row.seconds for row in placed]
    if not placed or max(costs) < SOME * min(costs):
        return []
    low = [row.score if row.interval is None else row.interval.low for row in placed]
    high = [row.score if row.interval is None else row.interval.high for row in placed]
    metric = titled(done[0].metric)
    floors = [row for row in done if row.kind == FLOOR]
    reach = max(high) - min(low)
    near = [row for row in floors if min(low) - FAR * reach <= row.score <= max(high) + FAR * reach]
    apart = [
        f" {row.label}, at {rounded(row.score, None)}, lies beyond the picture." for row in floors if row not in near
    ]
    best = "Best is at the lower left" if done[0].lower else "Best is at the upper left"
    return [
        Points(
            title="Score against cost",
            note=f"{best}: a better score for less training. Bars are the intervals of the table.{''.join(apart)}",
            points=np.array([[row.seconds, row.score] for row in placed]),
            labels=[row.label for row in placed],
            groups=[KINDS[row.kind] for row in placed],
            x_name="seconds of training",
            y_name=metric,
            log_x=True,
            low=low,
            high=high,
            levels=[(row.label, row.score) for row in near],
        )
    ]


def learning_curves(rows: Sequence[Row]) -> list[Panel]:
    """The validations on the way, a line for each model; around it from the worst seed to the best."""
    drawn = [row for row in rows if any(outcome.curve for outcome in row.outcomes)]
    lines = [line for row in drawn[:MOST_LINES] if (line := _curve(row)) is not None]
    if not lines:
        return []
    left = f" The {MOST_LINES} best of {len(drawn)}." if len(drawn) > MOST_LINES else ""
    several = any(len(row.outcomes) > 1 for row in drawn)
    band = " The mean over seeds; the band reaches from the worst of them to the best." if several else ""
    return [
        Lines(
            title="How each learned",
            series=lines,
            x_name="updates",
            y_name=f"{titled(drawn[0].outcomes[0].primary)} in validation",
            note=f"{band}{left}".strip(),
        )
    ]


def _curve(row: Row) -> Line | None:
    """At the updates at which each of its seeds was validated."""
    curves = [{at: value for at, _, value in outcome.curve} for outcome in row.outcomes if outcome.curve]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not common:
        return None
    values = np.array([[curve[at] for at in common] for curve in curves])
    band = {"low": values.min(0).tolist(), "high": values.max(0).tolist()} if len(values) > 1 else {}
    return Line(name=row.label, x=common, y=values.mean(0).tolist(), dots=len(common) < 20, **band)


def each_seed(rows: Sequence[Row]) -> list[Panel]:
    """The scores that the means are of."""
    done = [row for row in rows if row.outcomes]
    most = max((len(row.outcomes) for row in done), default=0)
    if most < 2:
        return []
    seeds = sorted({outcome.cell.repeat for row in done for outcome in row.outcomes})
    table = []
    for row in done:
        values = {outcome.cell.repeat: value_of(outcome, row.metric) for outcome in row.outcomes}
        table.append([row.label, *(values.get(seed) for seed in seeds)])
    what = next(row.repeats for row in done if len(row.outcomes) == most).removesuffix("s")
    columns = ["model", *(f"{what} {seed + 1}" for seed in seeds)]
    return [Table(title=f"{what.capitalize()} by {what}", columns=columns, rows=table)]
