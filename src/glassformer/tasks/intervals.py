"""Confidence intervals of the primary metric of an evaluation on a sample."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer.data.wording import counted
from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.tasks.base import Evaluation, Task

GROUPS = 10
"""Number of groups of translations; the spread of their scores gives the interval of chrF."""

Records = Sequence[Mapping[str, Any]]


def _accuracy(records: Records) -> Interval:
    return share_interval(sum(record["predicted"] == record["label"] for record in records), len(records))


def _micro_f1(records: Records) -> Interval:
    """Return the interval of micro F1, a mean of the examples' F1 weighted by their number of labels."""
    sets = [(set(record["labels"]), set(record["predicted"])) for record in records]
    sizes = [float(len(true) + len(predicted)) for true, predicted in sets]
    if not sum(sizes):
        return Interval(0.0, 0.0, 1.0)
    hits = [2 * len(true & predicted) / max(1, len(true) + len(predicted)) for true, predicted in sets]
    return weighted_mean_interval(hits, sizes)


def _rmse(records: Records) -> Interval:
    squares = weighted_mean_interval([record["error"] ** 2 for record in records])
    return Interval(*(math.sqrt(max(0.0, value)) for value in (squares.value, squares.low, squares.high)))


def _loss(records: Records) -> Interval:
    """Return the interval of the loss per token, weighted by the tokens of each window."""
    judged = [record for record in records if record["tokens"]]
    losses = [record["loss"] / record["tokens"] for record in judged]
    return weighted_mean_interval(losses, [float(record["tokens"]) for record in judged])


def _chrf(records: Records) -> Interval:
    """Return the interval of chrF from the spread of groups, because chrF is not a mean over sentences."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()

    def score(records: Records) -> float:
        outputs, targets = ([record[key] for record in records] for key in ("output", "target"))
        return float(metric.corpus_score(outputs, [targets]).score)

    groups = mean_interval([score(records[first::GROUPS]) for first in range(min(GROUPS, len(records)))])
    value = score(records)
    half = math.inf if groups is None else (groups.high - groups.low) / 2
    return Interval(value, max(0.0, value - half), min(100.0, value + half))


INTERVALS: dict[str, Callable[[Records], Interval]] = {
    "accuracy": _accuracy,
    "micro_f1": _micro_f1,
    "rmse": _rmse,
    "loss": _loss,
    "chrf": _chrf,
}
"""Interval functions by primary metric; other metrics have no interval."""


def with_interval(task: Task, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation of a sample with the size of the sample and the interval of its primary metric.

    An evaluation of all records is returned unchanged.
    """
    if task.share >= 1:
        return evaluation
    primary = evaluation.primary
    metrics = {**evaluation.metrics, "judged_share": task.share}
    sure = ""
    if primary in INTERVALS:
        interval = INTERVALS[primary](evaluation.records)
        if math.isfinite(interval.low) and math.isfinite(interval.high):
            metrics |= {f"{primary}_low": interval.low, f"{primary}_high": interval.high}
            sure = f": {primary.replace('_', ' ')} {interval.low:.4g} to {interval.high:.4g}, 95 %"
    judged = f"{counted(len(evaluation.records), task.record)} drawn at random{sure}"
    return replace(evaluation, metrics=metrics, summary=f"{evaluation.summary} (on {judged})")
