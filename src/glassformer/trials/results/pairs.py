"""Differences between models on the same examples, and whether they are significant."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.significance import Difference, SeedSpread, difference, seed_spread
from glassformer.trials.jobs import FLOOR, REFERENCE, Outcome
from glassformer.trials.results.metrics import from_to, is_paired, limit_of, titled, unit_of

DETERMINISTIC = (FLOOR, REFERENCE)
"""Kinds of rows that do not depend on a seed."""
SIGNIFICANCE = 0.05
"""A difference is significant if its p is below this level."""

Outcomes = Sequence[Outcome]
"""Outcomes of one row: of its seeds or folds."""


@dataclass(frozen=True)
class Lead(Difference):
    """The lead of the first row over the second on the same examples."""

    metric: str

    @property
    def is_better(self) -> bool:
        """Whether the first row is significantly better. If a few examples all differ by the same, only p decides."""
        return self.low > 0 and self.p < SIGNIFICANCE

    @property
    def is_worse(self) -> bool:
        """Whether the second row is significantly better."""
        return self.reversed.is_better

    @property
    def reversed(self) -> "Lead":
        """The lead of the second row over the first."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    @property
    def numbers(self) -> dict[str, float | bool]:
        """The fields in comparison.json."""
        return {"value": self.value, "low": self.low, "high": self.high, "p": self.p, "seeds": self.seeds}

    @property
    def amount(self) -> str:
        """The difference with its interval and unit: 0.021 (0.010 to 0.032) nats."""
        unit = "" if unit_of(self.metric) == titled(self.metric) else f" {unit_of(self.metric)}"
        return from_to(self.value, self.low, self.high) + unit

    @property
    def words(self) -> str:
        """Result of comparing the rows, as a phrase. With one seed, the interval omits the variance of training."""
        if not self.is_better and not self.is_worse:
            return f"not significantly different ({self.amount.replace(' (', ', ').replace(')', '')})"
        way, shown = ("better", self) if self.is_better else ("worse", self.reversed)
        return f"significantly {way} by {shown.amount}" if self.seeds else f"{way} by {shown.amount} on these examples"


def repeats_of(outcomes: Outcomes) -> str:
    """Return the name of the repeats of a row: "folds" or "seeds"."""
    return "folds" if any("data.fold" in outcome.job.settings for outcome in outcomes) else "seeds"


@dataclass(frozen=True)
class Pairs:
    """Differences between the rows of one table, each computed once. The intervals hold for all pairs at once."""

    rows: int = 2
    """Number of rows that compete."""
    spread: SeedSpread | None = None
    """Variance between seeds, pooled over all rows."""
    leads: dict[tuple[str, str], Lead | None] = field(default_factory=dict)

    @classmethod
    def of(cls, competing: Sequence[Outcomes]) -> Self:
        """Return the pairs of these rows, not computed yet. Two rows do not pool their variances."""
        if len(competing) < 3:
            return cls()
        first = competing[0][0]
        same = [row for row in competing if first.scores and all(one.examples == first.examples for one in row)]
        weights = None if first.weights is None else weights_of(first)
        return cls(len(competing), seed_spread([_stack(row) for row in same], weights))

    def compare(self, first: Outcomes, second: Outcomes, metric: str) -> Lead | None:
        """Return the lead of the first row on the same examples; None if they share no examples."""
        if not first or not second:
            return None
        key = first[0].job.row, second[0].job.row
        if key not in self.leads:
            value = self._difference(first, second, metric)
            self.leads[key] = None if value is None else Lead(**vars(value), metric=metric)
        return self.leads[key]

    def _difference(self, first: Outcomes, second: Outcomes, metric: str) -> Difference | None:
        outcomes = [*first, *second]
        if not is_paired(metric, outcomes[0]) or not all(outcome.scores for outcome in outcomes):
            return None
        if len({outcome.examples for outcome in outcomes}) == 1:
            weights = None if outcomes[0].weights is None else weights_of(outcomes[0])
            return difference(
                _stack(first), _stack(second), weights, rows=self.rows, spread=self.spread, limit=limit_of(metric)
            )
        # folds: each seed has its own examples, which are concatenated
        mine, theirs = ({outcome.job.repeat: outcome for outcome in row} for row in (first, second))
        both = [seed for seed in mine if seed in theirs and mine[seed].examples == theirs[seed].examples]
        if not both:
            return None
        # each fold has the same weight, as in the mean over folds that the table shows
        weights = np.concatenate([weights_of(mine[seed]) / weights_of(mine[seed]).sum() for seed in both])
        scores = [np.concatenate([scores_of(folds[seed]) for seed in both])[None] for folds in (mine, theirs)]
        return difference(scores[0], scores[1], weights, rows=self.rows, limit=limit_of(metric))


def scores_of(outcome: Outcome) -> NDArray[np.float64]:
    """Return a score per example whose mean is the metric, negated where lower is better.

    RMSE is the root of a mean, so its scores are on the tangent of the root at that mean.
    """
    scores = np.array(outcome.scores, float)
    root = outcome.metrics[outcome.primary]
    return (scores / root - root) / 2 if outcome.primary == "rmse" and root > 0 else scores


def _stack(row: Outcomes) -> NDArray[np.float64]:
    """Return the scores, seeds×examples; a deterministic row gets its scores twice, because a repeat would be equal."""
    scores = np.array([scores_of(outcome) for outcome in row])
    return np.repeat(scores, 2, 0) if row[0].job.kind in DETERMINISTIC and len(scores) == 1 else scores


def weights_of(outcome: Outcome) -> NDArray[np.float64]:
    """Return the weight of each example."""
    return np.ones(len(outcome.scores)) if outcome.weights is None else np.array(outcome.weights, float)
