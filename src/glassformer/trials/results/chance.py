"""Whether one row is better than another, or had luck: on the very same examples."""

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.paired import Difference, difference
from glassformer.trials.outcome import Outcome
from glassformer.trials.results.metrics import is_paired
from glassformer.trials.results.rows import SURE, Row, scores_of

CHANCE = 0.05
"""What shows less often by chance alone counts as told apart."""


def compared(one: Row, other: Row) -> Difference | None:
    """By how much one is better than the other; None: they were not judged on the same examples."""
    if not one.outcomes or not other.outcomes or not is_paired(one.metric, one.outcomes[0]):
        return None
    pair = _alike(one, other)
    return None if pair is None else difference(*pair)


def beyond(found: Difference) -> bool:
    """Whether it is better, and not by chance. Of a few examples that all differ alike, only p tells."""
    return found.low > 0 and found.p < CHANCE


def turned(found: Difference) -> Difference:
    """The other way round."""
    return Difference(-found.value, -found.high, -found.low, found.p, found.seeds)


Pair = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]


def _alike(one: Row, other: Row) -> Pair | None:
    """Scores of both on the same examples, a row for each seed, and the examples' weights."""
    digests = {outcome.examples for row in (one, other) for outcome in row.outcomes}
    if len(digests) == 1:
        return _stacked(one), _stacked(other), None if one.outcomes[0].weights is None else _counts(one.outcomes[0])
    # folds: each seed has examples of its own, which together are one long list
    mine, theirs = ({outcome.cell.repeat: outcome for outcome in row.outcomes} for row in (one, other))
    both = [seed for seed in mine if seed in theirs and mine[seed].examples == theirs[seed].examples]
    if not both:
        return None
    lists = [np.concatenate([scores_of(of[seed]) for seed in both])[None] for of in (mine, theirs)]
    # each fold counts alike, as in the mean over folds that the table shows
    counts = [one / one.sum() for one in (_counts(mine[seed]) for seed in both)]
    return lists[0], lists[1], np.concatenate(counts)


def _stacked(row: Row) -> NDArray[np.float64]:
    """S×N. What no chance has a part in would be the same a second time."""
    scores = np.array([scores_of(outcome) for outcome in row.outcomes])
    return np.repeat(scores, 2, 0) if row.kind in SURE and len(scores) == 1 else scores


def _counts(one: Outcome) -> NDArray[np.float64]:
    """How much each example counts."""
    return np.ones(len(one.scores)) if one.weights is None else np.array(one.weights, float)
