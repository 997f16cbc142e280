"""Whether one model of a table is better than another, or had luck: differences on the same examples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.significance import Difference, SeedSpread, difference, seed_spread
from glassformer.trials.outcome import FLOOR, REFERENCE, Outcome
from glassformer.trials.results.metrics import is_paired, limit_of

SURE = (FLOOR, REFERENCE)
"""Kinds in which no chance has a part: fitted twice they are the same."""
CHANCE = 0.05
"""What shows less often by chance alone counts as told apart."""

Outcomes = Sequence[Outcome]
"""Those of one row: of its seeds, or folds."""


@dataclass(frozen=True)
class Pairs:
    """The differences between rows of one table, each reckoned once. The more rows, the likelier one is ahead by luck:
    the intervals hold for all pairs at once.
    """

    rows: int = 2
    """How many compete."""
    spread: SeedSpread | None = None
    """How much seeds change a score, over all of them."""
    leads: dict[tuple[str, str], Difference | None] = field(default_factory=dict)

    @classmethod
    def of(cls, competing: Sequence[Outcomes]) -> Self:
        """The pairs of such rows, none of them reckoned yet. Of two rows, each has a spread of its own."""
        if len(competing) < 3:
            return cls()
        first = competing[0][0]
        same = [row for row in competing if first.scores and all(one.examples == first.examples for one in row)]
        weights = None if first.weights is None else weights_of(first)
        return cls(len(competing), seed_spread([_stack(row) for row in same], weights))

    def compare(self, first: Outcomes, second: Outcomes, metric: str) -> Difference | None:
        """By how much one row is better than another on the same examples; None: there are none."""
        if not first or not second:
            return None
        key = first[0].cell.row, second[0].cell.row
        if key not in self.leads:
            self.leads[key] = self._difference(first, second, metric)
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
        mine, theirs = ({outcome.cell.repeat: outcome for outcome in row} for row in (first, second))
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
    return np.repeat(scores, 2, 0) if row[0].cell.kind in SURE and len(scores) == 1 else scores


def weights_of(outcome: Outcome) -> NDArray[np.float64]:
    """How much each example counts."""
    return np.ones(len(outcome.scores)) if outcome.weights is None else np.array(outcome.weights, float)


def is_better(lead: Difference) -> bool:
    """Whether one is better, and not by chance. Of a few examples that all differ alike, only p tells."""
    return lead.low > 0 and lead.p < CHANCE


def reverse(lead: Difference) -> Difference:
    """The difference the other way round."""
    return Difference(-lead.value, -lead.high, -lead.low, lead.p, lead.seeds)
