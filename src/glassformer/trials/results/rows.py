"""The rows of a comparison: outcomes of one model with several seeds, put together; and which of two is better."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.statistics.paired import Difference, difference
from glassformer.trials.outcome import FLOOR, GIVEN, REFERENCE, TRAINED, Outcome
from glassformer.trials.results.metrics import (
    is_paired,
    ranked_by,
    rounded,
    score_decimals,
    value_of,
    with_ends,
    within,
)

SURE = (FLOOR, REFERENCE)
"""Kinds in which no chance has a part: fitted twice they are the same."""
CHANCE = 0.05
"""What shows less often by chance alone counts as told apart."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of the table."""

    name: str
    kind: str
    varied: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    """The outcomes of the seeds that were trained to the end, in the order of the seeds."""
    errors: Sequence[str]
    """Why the others were not."""
    metric: str
    lower: bool
    """The lower the metric, the better."""
    interval: Interval | None = None
    """The score's interval: over seeds; with a single one over examples, where all rows have but one."""
    decimals: int | None = None
    """How many of its score are known."""
    marks: Sequence[str] = field(default_factory=list)
    nameless: bool = False
    """All models have one name: what is varied says enough."""

    @property
    def label(self) -> str:
        return label_of("" if self.nameless and self.varied and self.is_trained else self.name, self.varied)

    @property
    def is_trained(self) -> bool:
        return self.kind in (TRAINED, GIVEN)

    @property
    def begins(self) -> bool:
        """It begins from weights that another run has learned."""
        return any(outcome.cell.begins for outcome in self.outcomes)

    @property
    def repeats(self) -> str:
        """What there are several of."""
        return "folds" if any("data.fold" in outcome.cell.settings for outcome in self.outcomes) else "seeds"

    @property
    def values(self) -> list[float]:
        return [value_of(outcome, self.metric) for outcome in self.outcomes]

    @property
    def score(self) -> float:
        return float(np.mean(self.values)) if self.outcomes else math.nan

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def score_with_interval(self) -> str:
        """The score, and how sure it is."""
        if self.interval is None:
            return rounded(self.score, self.decimals)
        return with_ends(self.score, self.interval.low, self.interval.high, self.decimals)

    @property
    def alike(self) -> bool:
        """All of several seeds came to the same score: they say nothing of how far another would be from it."""
        return len(self.outcomes) > 1 and self.half == 0

    @property
    def seen(self) -> bool:
        """It has learned from the examples that it is judged on."""
        return any(outcome.seen for outcome in self.outcomes)

    @property
    def rank(self) -> float:
        """The key to sort by: the lower the better; what has seen the examples comes last."""
        return math.inf if self.seen else self.score if self.lower else -self.score

    @property
    def parameters(self) -> int:
        return max((outcome.parameters for outcome in self.outcomes), default=0)

    @property
    def learned(self) -> int | None:
        """How many of these parameters were trained; None where nothing was trained here."""
        return max((outcome.learned for outcome in self.outcomes if outcome.learned is not None), default=None)

    @property
    def seconds(self) -> float:
        """Seconds of training, in the middle of the seeds."""
        return median(outcome.seconds for outcome in self.outcomes) if self.outcomes else math.nan

    @property
    def per_example(self) -> float | None:
        known = [outcome.per_example for outcome in self.outcomes if outcome.per_example is not None]
        return median(known) if known else None

    @property
    def memory(self) -> int | None:
        return max((outcome.memory for outcome in self.outcomes if outcome.memory is not None), default=None)

    @property
    def updates(self) -> tuple[int, int]:
        """The fewest and the most of a seed."""
        steps = [outcome.steps for outcome in self.outcomes]
        return min(steps, default=0), max(steps, default=0)

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each over the seeds."""
        names = self.outcomes[0].metrics if self.outcomes else {}
        return {name: float(np.mean([outcome.metrics[name] for outcome in self.outcomes])) for name in names}

    def to_dict(self) -> dict[str, Any]:
        known = bool(self.outcomes)
        return {
            "name": self.name,
            "kind": self.kind,
            "varied": dict(self.varied),
            "score": self.score if known else None,
            "low": self.interval.low if self.interval else None,
            "high": self.interval.high if self.interval else None,
            "values": self.values,
            "seeds": [outcome.cell.repeat for outcome in self.outcomes],
            "metrics": self.metrics,
            "parameters": self.parameters if known else None,
            "learned": self.learned,
            "seconds": self.seconds if known else None,
            "seconds_per_example": self.per_example,
            "memory": self.memory,
            "updates": [outcome.steps for outcome in self.outcomes],
            "runs": [outcome.run for outcome in self.outcomes],
            "failed": len(self.errors),
            "errors": list(self.errors),
            "marks": list(self.marks),
        }


def label_of(name: str, varied: Mapping[str, Any]) -> str:
    """A model, and what tells it from others of its name."""
    return ", ".join([*([name] if name else []), *(setting_in_words(key, value) for key, value in varied.items())])


def setting_in_words(key: str, value: Any) -> str:
    """A setting that tells rows apart, as it is typed but for its section."""
    if key == "data.train_fraction":
        return "all the data" if value == 1 else f"{percent(value)} of the data"
    name = key.split(".")[-1]
    return f"{name}={value}".lower() if isinstance(value, bool) else f"{name}={value}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """Put together by row, those that came to something from best to worst, the others after them."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.cell.row, []).append(outcome)
    metric, lower = ranked_by([outcome for outcome in outcomes if outcome.error is None])
    several = any(sum(outcome.error is None for outcome in group) > 1 for group in groups.values())
    nameless = len({outcome.cell.name for outcome in outcomes if outcome.cell.kind in (TRAINED, GIVEN)}) == 1
    rows = []
    for group in groups.values():
        done = sorted((outcome for outcome in group if outcome.error is None), key=lambda outcome: outcome.cell.repeat)
        # over examples only where no row has more than one seed
        interval = (
            mean_interval([value_of(outcome, metric) for outcome in done]) if several else _over_examples(done, metric)
        )
        cell = group[0].cell
        rows.append(
            Row(
                name=cell.name,
                kind=cell.kind,
                varied=cell.varied,
                outcomes=done,
                errors=[outcome.error for outcome in group if outcome.error is not None],
                metric=metric,
                lower=lower,
                interval=within(interval, metric),
                nameless=nameless,
            )
        )
    finest = max((score_decimals(row.score, row.half) or 0 for row in rows if row.half), default=0)
    rows = [replace(row, decimals=_decimals(row, finest)) for row in rows]
    return sorted(rows, key=lambda row: (not row.outcomes, row.rank if row.outcomes else 0.0))


def _decimals(row: Row, finest: int) -> int | None:
    """Decimals of a score; of a row with one seed as many as its examples tell, and no fewer than others have."""
    if row.half or not row.outcomes:
        return score_decimals(row.score, row.half or 0.0)
    interval = _over_examples(row.outcomes, row.metric)
    own = None if interval is None else score_decimals(row.score, (interval.high - interval.low) / 2)
    return None if own is None else max(own, finest)


def _over_examples(outcomes: Sequence[Outcome], metric: str) -> Interval | None:
    """The interval of the first seed's score over its examples."""
    if not outcomes or not is_paired(metric, outcomes[0]) or len(outcomes[0].scores) < 2:
        return None
    first = outcomes[0]
    value = value_of(first, metric)
    if first.weights is None and set(first.scores) <= {0.0, 1.0}:
        share = share_interval(int(sum(first.scores)), len(first.scores))
        return Interval(value, share.low, share.high)
    mean = weighted_mean_interval(scores_of(first), first.weights)
    half = (mean.high - mean.low) / 2
    return Interval(value, value - half, value + half)


def scores_of(outcome: Outcome) -> NDArray[np.float64]:
    """A score for each example, such that the mean is the metric, below zero where lower is better. An RMSE is the root
    of a mean: there they lie on the root's tangent at that mean.
    """
    scores = np.array(outcome.scores, float)
    root = outcome.metrics[outcome.primary]
    return (scores / root - root) / 2 if outcome.primary == "rmse" and root > 0 else scores


# --- whether one row is better than another, or had luck ---


def compare_rows(first: Row, second: Row) -> Difference | None:
    """The difference on the same examples: by how much one is better than the other; None: there are none."""
    outcomes = [*first.outcomes, *second.outcomes]
    if not first.outcomes or not second.outcomes or not is_paired(first.metric, outcomes[0]):
        return None
    if not all(outcome.scores for outcome in outcomes):
        return None
    if len({outcome.examples for outcome in outcomes}) == 1:
        weights = None if outcomes[0].weights is None else _weights(outcomes[0])
        return difference(_stack(first), _stack(second), weights)
    # folds: each seed has examples of its own, which together are one long list
    mine, theirs = ({outcome.cell.repeat: outcome for outcome in row.outcomes} for row in (first, second))
    both = [seed for seed in mine if seed in theirs and mine[seed].examples == theirs[seed].examples]
    if not both:
        return None
    # each fold counts alike, as in the mean over folds that the table shows
    weights = np.concatenate([_weights(mine[seed]) / _weights(mine[seed]).sum() for seed in both])
    scores = [np.concatenate([scores_of(folds[seed]) for seed in both])[None] for folds in (mine, theirs)]
    return difference(scores[0], scores[1], weights)


def _stack(row: Row) -> NDArray[np.float64]:
    """The scores, seeds×examples. What no chance has a part in would be the same a second time."""
    scores = np.array([scores_of(outcome) for outcome in row.outcomes])
    return np.repeat(scores, 2, 0) if row.kind in SURE and len(scores) == 1 else scores


def _weights(outcome: Outcome) -> NDArray[np.float64]:
    """How much each example counts."""
    return np.ones(len(outcome.scores)) if outcome.weights is None else np.array(outcome.weights, float)


def is_better(lead: Difference) -> bool:
    """Whether one is better, and not by chance. Of a few examples that all differ alike, only p tells."""
    return lead.low > 0 and lead.p < CHANCE


def is_level(first: Row, second: Row) -> bool:
    """Whether one is known not to be better beyond chance."""
    lead = compare_rows(first, second)
    return lead is not None and not is_better(lead)


def reverse(lead: Difference) -> Difference:
    """The difference the other way round."""
    return Difference(-lead.value, -lead.high, -lead.low, lead.p, lead.seeds)
