"""Where a regressor is wrong: by how much, in which direction, and for which examples."""

from collections.abc import Sequence

import numpy as np

from glassformer.error_analysis.classes import worst
from glassformer.error_analysis.finding import CHANCE, Found, Rows, ends, some
from glassformer.error_analysis.groups import Group, apart, means
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Points, Table
from glassformer.statistics.intervals import mean_interval, weighted_mean_interval
from glassformer.text.display import cut

MOST_POINTS = 800
"""Of a picture; of more, some at even distances."""


def far_numbers(records: Records, noun: str) -> Table:
    """Where a regressor was farthest off."""
    places = worst(records, lambda one: abs(one["error"]))
    rows = [[cut(one[noun]), one["number"], one["predicted"], one["error"]] for one in (records[p] for p in places)]
    return Table(title="Farthest off", columns=[noun, "true", "predicted", "difference"], rows=rows)


def how_far(records: Records, noun: str) -> Found:
    """The mean error with its sign (bias) and without it."""
    errors = np.array([one["error"] for one in records], float)
    bias, size = mean_interval(errors.tolist()), weighted_mean_interval(np.abs(errors))
    rows: Rows = [
        ["predicted less true (bias)", float(errors.mean()), *((None, None) if bias is None else ends(bias))],
        ["without its sign", size.value, *ends(size)],
    ]
    note = "The true mean lies between “from” and “to” in 95 of 100 cases; of a single example nobody knows."
    table = Table(title="How far off", columns=["mean difference", "value", "from", "to"], rows=rows, note=note)
    said = f"{some(len(records), noun)}: {size.value:.4g} off on average"
    if bias is not None and not bias.low <= 0 <= bias.high:
        than = "large" if bias.value > 0 else "small"
        said += f", and too {than} by {abs(bias.value):.3g} ({bias.low:.3g} to {bias.high:.3g})"
    return Found([table], f"{said}.")


def by_group(records: Records, groups: Sequence[Group], noun: str) -> Found:
    """The mean absolute error of each group, such as a quarter of a column."""
    sizes = np.abs(np.array([one["error"] for one in records], float))
    table = means("How far off, by group", groups, sizes, noun, "mean absolute error")
    if table is None:
        return Found()
    compared = [(apart(sizes[group.rows], sizes[~group.rows]), group) for group in groups if group.size > 1]
    sure = [one for one in compared if one[0] * len(compared) < CHANCE and sizes[one[1].rows].mean() > sizes.mean()]
    if not sure:
        return Found([table])
    group = min(sure, key=lambda one: one[0])[1]
    said = f"Where {group.of} is {group.name}, it is {sizes[group.rows].mean():.3g} off, against "
    return Found([table], f"{said}{sizes.mean():.3g} of all.")


def residuals(records: Records, noun: str) -> Points:
    """What was predicted, and how far above the truth that is."""
    apart = -(-len(records) // MOST_POINTS)
    shown = records[::apart]
    return Points(
        title="Predicted, and how far off",
        points=np.array([[one["predicted"], one["error"]] for one in shown], np.float32),
        labels=[cut(str(one[noun]), 60) for one in shown],
        x_name="predicted",
        y_name="predicted less true",
        note="" if apart == 1 else f"Every {apart}th of {some(len(records), noun)}.",
    )
