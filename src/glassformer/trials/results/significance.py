"""Whether one row is better than another, or had luck: on the very same examples."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.paired import Difference, difference
from glassformer.trials.outcome import Outcome
from glassformer.trials.results.metrics import is_paired
from glassformer.trials.results.rows import SURE, Row, scores_of

CHANCE = 0.05
"""What shows less often by chance alone counts as told apart."""


def compare_rows(one: Row, other: Row) -> Difference | None:
    """The difference: by how much one is better than the other; None: they were not judged on the same examples."""
    if not one.outcomes or not other.outcomes or not is_paired(one.metric, one.outcomes[0]):
        return None
    pairs = _paired_scores(one, other)
    return None if pairs is None else difference(*pairs)


def is_better(found: Difference) -> bool:
    """Whether one is better, and not by chance. Of a few examples that all differ alike, only p tells."""
    return found.low > 0 and found.p < CHANCE


def is_level(one: Row, other: Row) -> bool:
    """Whether one is known not to be better beyond chance."""
    found = compare_rows(one, other)
    return found is not None and not is_better(found)


def reverse(found: Difference) -> Difference:
    """The difference the other way round."""
    return Difference(-found.value, -found.high, -found.low, found.p, found.seeds)


class PairedScores(NamedTuple):
    """Scores on the same examples, a row for each seed, and the examples' weights."""

    one: NDArray[np.float64]
    other: NDArray[np.float64]
    weights: NDArray[np.float64] | None


def _paired_scores(one: Row, other: Row) -> PairedScores | None:
    outcomes = [*one.outcomes, *other.outcomes]
    if not all(outcome.scores for outcome in outcomes):
        return None
    first = outcomes[0]
    if len({outcome.examples for outcome in outcomes}) == 1:
        return PairedScores(_stack(one), _stack(other), None if first.weights is None else _weights(first))
    # folds: each seed has examples of its own, which together are one long list
    mine, theirs = ({outcome.cell.repeat: outcome for outcome in row.outcomes} for row in (one, other))
    both = [seed for seed in mine if seed in theirs and mine[seed].examples == theirs[seed].examples]
    if not both:
        return None
    # each fold counts alike, as in the mean over folds that the table shows
    weights = [_weights(mine[seed]) / _weights(mine[seed]).sum() for seed in both]
    scores = [np.concatenate([scores_of(outcomes[seed]) for seed in both])[None] for outcomes in (mine, theirs)]
    return PairedScores(scores[0], scores[1], np.concatenate(weights))


def _stack(row: Row) -> NDArray[np.float64]:
    """The scores, seeds×examples. What no chance has a part in would be the same a second time."""
    scores = np.array([scores_of(outcome) for outcome in row.outcomes])
    return np.repeat(scores, 2, 0) if row.kind in SURE and len(scores) == 1 else scores


def _weights(one: Outcome) -> NDArray[np.float64]:
    """How much each example counts."""
    return np.ones(len(one.scores)) if one.weights is None else np.array(one.weights, float)
