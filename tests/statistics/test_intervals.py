"""Intervals against scipy and written-out formulas; whether they cover what they claim is in test_true_coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from glassformer.statistics.intervals import (
    Interval,
    mean_interval,
    share_interval,
    weighted_mean_interval,
)

SCORES = [0.31, 0.93, 0.42, 0.55, 0.11]


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_a_mean_over_seeds(level: float) -> None:
    found = mean_interval(SCORES, level)
    assert found is not None
    low, high = stats.t.interval(level, len(SCORES) - 1, np.mean(SCORES), stats.sem(SCORES))
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(SCORES), low, high))


def test_one_seed_has_no_spread() -> None:
    assert mean_interval([0.5]) is None
    assert mean_interval([]) is None
    assert mean_interval([0.5, 0.5]) == Interval(0.5, 0.5, 0.5)


@pytest.mark.parametrize(("hits", "of"), [(0, 7), (7, 7), (3, 7), (1, 1000), (999, 1000), (40, 97)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson(hits: int, of: int, level: float) -> None:
    found = share_interval(hits, of, level)
    low, high = stats.binomtest(hits, of).proportion_ci(level, method="wilson")
    assert (found.value, found.low, found.high) == pytest.approx((hits / of, low, high), abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_a_share_of_nothing() -> None:
    found = share_interval(0, 0)
    assert math.isnan(found.value)
    assert (found.low, found.high) == (0, 1)
    with pytest.raises(ValueError, match="8 hits of 7"):
        share_interval(8, 7)


def test_a_mean_over_examples_that_count_alike() -> None:
    plain = mean_interval(SCORES)
    for weights in (None, [3.0] * 5):
        found = weighted_mean_interval(SCORES, weights)
        assert plain is not None
        assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_a_weighted_mean_as_a_ratio_of_two_sums() -> None:
    """The delta method, written with covariances: var(u/w) from those of u = w·score and w."""
    random = np.random.default_rng(0)
    scores, weights = random.normal(3, 1, 211), random.integers(1, 9, 211).astype(float)
    parts = scores * weights
    ratio = parts.mean() / weights.mean()
    (uu, uw), (_, ww) = np.cov(parts, weights)
    variance = (uu - 2 * ratio * uw + ratio**2 * ww) / weights.mean() ** 2 / len(scores)
    half = stats.t.ppf(0.975, 210) * math.sqrt(variance)
    found = weighted_mean_interval(scores, weights)
    assert (found.value, found.low, found.high) == pytest.approx((ratio, ratio - half, ratio + half))


def test_means_that_nothing_is_known_of() -> None:
    assert weighted_mean_interval([0.7]) == Interval(0.7, -math.inf, math.inf)
    with pytest.raises(ValueError, match="5 scores, but 2 weights"):
        weighted_mean_interval(SCORES, [1, 2])
    with pytest.raises(ValueError, match="come to 0"):
        weighted_mean_interval(SCORES, [0] * 5)
