"""Whether one model of a table is better than another, or had luck: differences on the same examples."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.significance import Difference, SeedSpread, difference, seed_spread
from glassformer.trials.jobs import FLOOR, REFERENCE, Outcome
from glassformer.trials.results.metrics import from_to, is_paired, limit_of, titled, unit_of

SURE = (FLOOR, REFERENCE)
"""Kinds in which no chance has a part: fitted twice they are the same."""
CHANCE = 0.05
"""What shows less often by chance alone counts as told apart."""

Outcomes = Sequence[Outcome]
"""Those of one row: of its seeds, or folds."""


@dataclass(frozen=True)
class Lead(Difference):
    """By how much one row is better than another on the same examples, as a number and for sentences."""

    metric: str

    @property
    def is_better(self) -> bool:
        """Whether the first row is better, and not by chance. Of a few examples that all differ alike, only p tells."""
        return self.low > 0 and self.p < CHANCE

    @property
    def is_worse(self) -> bool:
        """Whether the second row is better, and not by chance."""
        return self.reversed.is_better

    @property
    def reversed(self) -> "Lead":
        """The lead of the second row over the first."""
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    @property
    def numbers(self) -> dict[str, float | bool]:
        """The fields that programs read."""
        return {"value": self.value, "low": self.low, "high": self.high, "p": self.p, "seeds": self.seeds}

    @property
    def amount(self) -> str:
        """The difference, its interval and its unit: 0.021 (0.010 to 0.032) nats."""
        unit = "" if unit_of(self.metric) == titled(self.metric) else f" {unit_of(self.metric)}"
        return from_to(self.value, self.low, self.high) + unit

    @property
    def words(self) -> str:
        """The first row compared with the second. With one seed, the chance of training is not in the interval."""
        if not self.is_better and not self.is_worse:
            return f"not significantly different ({self.amount.replace(' (', ', ').replace(')', '')})"
        way, shown = ("better", self) if self.is_better else ("worse", self.reversed)
        return f"significantly {way} by {shown.amount}" if self.seeds else f"{way} by {shown.amount} on these examples"


def repeats_of(outcomes: Outcomes) -> str:
    """Return what a row has several of: folds or seeds."""
    return "folds" if any("data.fold" in outcome.job.settings for outcome in outcomes) else "seeds"


@dataclass(frozen=True)
class Pairs:
    """The differences between rows of one table, each reckoned once. The more rows, the likelier one is ahead by luck:
    the intervals hold for all pairs at once.
    """

    rows: int = 2
    """How many compete."""
    spread: SeedSpread | None = None
    """How much seeds change a score, over all of them."""
    leads: dict[tuple[str, str], Lead | None] = field(default_factory=dict)

    @classmethod
    def of(cls, competing: Sequence[Outcomes]) -> Self:
        """The pairs of such rows, none of them reckoned yet. Of two rows, each has a spread of its own."""
        if len(competing) < 3:
            return cls()
        first = competing[0][0]
        same = [row for row in competing if first.scores and all(one.examples == first.examples for one in row)]
        weights = None if first.weights is None else weights_of(first)
        return cls(len(competing), seed_spread([_stack(row) for row in same], weights))

    def compare(self, first: Outcomes, second: Outcomes, metric: str) -> Lead | None:
        """By how much one row is better than another on the same examples; None: there are none."""
        if not first or not second:
            return None
        key = first[0].job.row, second[0].job.row
        if key not in self.leads:
            found = self._difference(first, second, metric)
            self.leads[key] = None if found is None else Lead(**vars(found), metric=metric)
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
        # folds: each seed has examples of its own, which together are one long list
        mine, theirs = ({outcome.job.repeat: outcome for outcome in row} for row in (first, second))
        both = [seed for seed in mine if seed in theirs and mine[seed].examples == theirs[seed].examples]
        if not both:
            return None
        # each fold counts alike, as in the mean over folds that the table shows
        weights = np.concatenate([weights_of(mine[seed]) / weights_of(mine[seed]).sum() for seed in both])
        scores = [np.concatenate([scores_of(folds[seed]) for seed in both])[None] for folds in (mine, theirs)]
        return difference(scores[0], scores[1], weights, rows=self.rows, limit=limit_of(metric))


def scores_of(outcome: Outcome) -> NDArray[np.float64]:
    """A score for each example, such that the mean is the metric, below zero where lower is better. An RMSE is the root
    of a mean: there they lie on the root's tangent at that mean.
    """
    scores = np.array(outcome.scores, float)
    root = outcome.metrics[outcome.primary]
    return (scores / root - root) / 2 if outcome.primary == "rmse" and root > 0 else scores


def _stack(row: Outcomes) -> NDArray[np.float64]:
    """The scores, seeds×examples. What no chance has a part in would be the same a second time."""
    scores = np.array([scores_of(outcome) for outcome in row])
    return np.repeat(scores, 2, 0) if row[0].job.kind in SURE and len(scores) == 1 else scores


def weights_of(outcome: Outcome) -> NDArray[np.float64]:
    """How much each example counts."""
    return np.ones(len(outcome.scores)) if outcome.weights is None else np.array(outcome.weights, float)
