"""How sure the primary metric of an evaluation is, from its records: what is said where only a sample was judged."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer.data.wording import counted
from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.tasks.base import Evaluation, Task

GROUPS = 10
"""Groups of translations that are scored each alone: how far their scores lie apart tells how sure that of all is."""

Records = Sequence[Mapping[str, Any]]


def _accuracy(records: Records) -> Interval:
    return share_interval(sum(record["predicted"] == record["label"] for record in records), len(records))


def _micro_f1(records: Records) -> Interval:
    """Twice what is in both sets of labels over what is in each: a mean of the examples' F1, by how many labels."""
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
    """The loss per token, of windows that have more or fewer of them."""
    judged = [record for record in records if record["tokens"]]
    losses = [record["loss"] / record["tokens"] for record in judged]
    return weighted_mean_interval(losses, [float(record["tokens"]) for record in judged])


def _chrf(records: Records) -> Interval:
    """chrF is no mean over sentences: its spread is that of groups of them."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()

    def score(some: Records) -> float:
        return float(metric.corpus_score([one["output"] for one in some], [[one["target"] for one in some]]).score)

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
"""By primary metric; one that is not here is said without."""


def with_interval(task: Task, evaluation: Evaluation) -> Evaluation:
    """An evaluation of a sample, with how much was judged and how sure its primary metric is; of all, as it is."""
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
