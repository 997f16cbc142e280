"""Where a regressor is wrong: by how much, in which direction, and for which examples."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from glassformer.error_analysis.classification import example_name
from glassformer.error_analysis.comparison import PairedScores, RunPair, compare_scores, match_records
from glassformer.error_analysis.finding import CHANCE, ErrorFinding, ErrorRequest, ends, plural, worst
from glassformer.error_analysis.groups import Group, column_groups, difference_p, means, quartiles
from glassformer.error_analysis.words import lengths_of
from glassformer.families.base import Family, Prepared
from glassformer.families.predict import texts_in
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Points, Rows, Table
from glassformer.statistics.intervals import mean_interval, weighted_mean_interval
from glassformer.tasks.base import Evaluation
from glassformer.text.display import cut

MOST_POINTS = 800
"""Points of a picture; of more, every so-manieth."""


def regression_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    groups = column_groups(request.evaluated.part)
    if (texts := texts_in(inputs)) is not None:
        lengths, unit = lengths_of(texts.texts)
        groups = [*quartiles(unit, lengths), *groups]
    return [
        mean_error(records, inputs.noun),
        errors_by_group(records, groups, inputs.noun),
        ErrorFinding([largest_errors(records, inputs.noun), residuals(records, inputs.noun)]),
    ]


def regression_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    return [largest_errors(evaluations[part].records, prepared.task.parts[part].noun)]


def compare_numbers(family: Family, pair: RunPair) -> list[ErrorFinding]:
    first, second = match_records(pair, lambda side: side.part.lines)
    sizes = [np.abs([record["error"] for record in records]) for records in (first, second)]
    rows: Rows = [[cut(example_name(record)), record["number"]] for record in first]
    return compare_scores(PairedScores(sizes, pair.names, "error", "example"), ["example", "true"], rows)


def largest_errors(records: Records, noun: str) -> Table:
    """Where a regressor was farthest off."""
    places = worst(records, lambda one: abs(one["error"]))
    rows = [[cut(one[noun]), one["number"], one["predicted"], one["error"]] for one in (records[p] for p in places)]
    return Table(title="Farthest off", columns=[noun, "true", "predicted", "difference"], rows=rows)


def mean_error(records: Records, noun: str) -> ErrorFinding:
    """The mean error with its sign (bias) and without it."""
    errors = np.array([one["error"] for one in records], float)
    bias, size = mean_interval(errors.tolist()), weighted_mean_interval(np.abs(errors))
    rows: Rows = [
        ["predicted less true (bias)", float(errors.mean()), *((None, None) if bias is None else ends(bias))],
        ["without its sign", size.value, *ends(size)],
    ]
    note = "The true mean lies between “from” and “to” in 95 of 100 cases; of a single example nobody knows."
    table = Table(title="How far off", columns=["mean difference", "value", "from", "to"], rows=rows, note=note)
    sentence = f"{plural(len(records), noun)}: {size.value:.4g} off on average"
    if bias is not None and not bias.low <= 0 <= bias.high:
        than = "large" if bias.value > 0 else "small"
        sentence += f", and too {than} by {abs(bias.value):.3g} ({bias.low:.3g} to {bias.high:.3g})"
    return ErrorFinding([table], f"{sentence}.")


def errors_by_group(records: Records, groups: Sequence[Group], noun: str) -> ErrorFinding:
    """The mean absolute error of each group, such as a quarter of a column."""
    sizes = np.abs(np.array([one["error"] for one in records], float))
    table = means("How far off, by group", groups, sizes, noun, "mean absolute error")
    if table is None:
        return ErrorFinding()
    compared = [(difference_p(sizes[group.rows], sizes[~group.rows]), group) for group in groups if group.size > 1]
    sure = [one for one in compared if one[0] * len(compared) < CHANCE and sizes[one[1].rows].mean() > sizes.mean()]
    if not sure:
        return ErrorFinding([table])
    group = min(sure, key=lambda one: one[0])[1]
    sentence = f"Where {group.of} is {group.name}, it is {sizes[group.rows].mean():.3g} off, against "
    return ErrorFinding([table], f"{sentence}{sizes.mean():.3g} of all.")


def residuals(records: Records, noun: str) -> Points:
    """What was predicted, and how far above the truth that is."""
    stride = -(-len(records) // MOST_POINTS)
    sample = records[::stride]
    return Points(
        title="Predicted, and how far off",
        points=np.array([[one["predicted"], one["error"]] for one in sample], np.float32),
        labels=[cut(str(one[noun]), 60) for one in sample],
        x_name="predicted",
        y_name="predicted less true",
        note="" if stride == 1 else f"Every {stride}th of {plural(len(records), noun)}.",
    )
