"""The promise of a 95 % interval: drawn again and again from a known truth, it holds the truth as often as it says.

The accepted band is the claim ± 3 standard deviations of that many throws of a coin, and what an approximation may
be off.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator
from scipy import stats

from glassformer.statistics.intervals import (
    Interval,
    mean_interval,
    share_interval,
    weighted_mean_interval,
)
from glassformer.statistics.significance import Difference, difference, mcnemar, seed_spread

TIMES = 1000
DEVIATION = math.sqrt(0.95 * 0.05 / TIMES)
"""0.0069: of the share of intervals that hold the truth."""


def share_holding(truth: float, draw: Callable[[Generator], Interval | Difference | None], times: int = TIMES) -> float:
    random = np.random.default_rng(7)
    found = [draw(random) for _ in range(times)]
    return float(np.mean([each is not None and each.low <= truth <= each.high for each in found]))


@pytest.mark.parametrize("seeds", [3, 5])
def test_means_over_seeds(seeds: int) -> None:
    """Exact for normal values: no allowance."""
    held = share_holding(0.8, lambda random: mean_interval(random.normal(0.8, 0.02, seeds).tolist()))
    assert abs(held - 0.95) <= 3 * DEVIATION


def test_a_lower_level_holds_the_truth_less_often() -> None:
    held = share_holding(0.8, lambda random: mean_interval(random.normal(0.8, 0.02, 4).tolist(), level=0.7))
    assert abs(held - 0.7) <= 3 * math.sqrt(0.7 * 0.3 / TIMES)


def test_shares() -> None:
    """No chance in this one: all outcomes are summed up. A share jumps, so single truths miss the claim by a little;
    on average over truths it must hold.
    """
    held = {}
    for of in (10, 50, 400):
        intervals = [share_interval(hits, of) for hits in range(of + 1)]
        low, high = (np.array([getattr(each, end) for each in intervals]) for end in ("low", "high"))
        for truth in np.linspace(0.05, 0.95, 37):
            holds = (low <= truth) & (truth <= high)
            held[of, truth] = float(stats.binom.pmf(np.arange(of + 1), of, truth)[holds].sum())
    assert np.mean(list(held.values())) == pytest.approx(0.95, abs=0.005)
    assert min(held.values()) > 0.83


@pytest.mark.parametrize("weighted", [False, True])
def test_means_over_examples(weighted: bool) -> None:
    """Windows whose loss and whose number of tokens go together. Right for many examples; 0.01 for 150."""

    def draw(random: Generator) -> Interval:
        tokens = random.integers(2, 20, 150).astype(float)
        return weighted_mean_interval(2 + tokens / 10 + random.exponential(1, 150), tokens if weighted else None)

    tokens = np.arange(2, 20)
    truth = 3 + float((tokens**2).sum() / tokens.sum() if weighted else tokens.mean()) / 10
    assert abs(share_holding(truth, draw) - 0.95) <= 3 * DEVIATION + 0.01


def results(random: Generator, seeds: int, count: int, *, of_seeds: float, of_both: float, better: float) -> np.ndarray:
    """Scores of a model: what an example costs it, how good a seed is, and how good that seed is at that example."""
    of_examples = random.normal(better, 0.5, count)
    return of_examples + random.normal(0, of_seeds, (seeds, 1)) + random.normal(0, of_both, (seeds, count))


CHANCES = {
    "examples alone": {"of_seeds": 0.0, "of_both": 0.0},
    "mostly seeds": {"of_seeds": 0.2, "of_both": 0.1},
    "mostly how a seed meets an example": {"of_seeds": 0.01, "of_both": 1.0},
    "all of it": {"of_seeds": 0.05, "of_both": 0.5},
}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(3, 3), (5, 2)])
@pytest.mark.parametrize("chance", CHANCES)
def test_differences(chance: str, seeds: tuple[int, int]) -> None:
    """Between 0.93 and 0.985, and what chance allows: few seeds are made up for by Satterthwaite's approximation."""

    def draw(random: Generator) -> Difference:
        shared = random.normal(0, 2, 80)  # hard examples are hard for both
        return difference(
            shared + results(random, seeds[0], 80, better=0.3, **CHANCES[chance]),
            shared + results(random, seeds[1], 80, better=0.0, **CHANCES[chance]),
        )

    assert 0.93 - 3 * DEVIATION <= share_holding(0.3, draw) <= 0.985 + DEVIATION


def test_differences_of_models_trained_once() -> None:
    """Then it is the difference of these two models, not of their kinds: right where seeds do nothing."""
    still = {"of_seeds": 0.0, "of_both": 0.4}

    def draw(random: Generator) -> Difference:
        return difference(results(random, 1, 80, better=0.3, **still), results(random, 1, 80, better=0.0, **still))

    assert abs(share_holding(0.3, draw) - 0.95) <= 3 * DEVIATION


@pytest.mark.sample(3)
@pytest.mark.parametrize("chance", CHANCES)
def test_no_difference_is_rarely_taken_for_one(chance: str) -> None:
    random = np.random.default_rng(11)
    found = [
        difference(
            results(random, 3, 80, better=0.0, **CHANCES[chance]), results(random, 3, 80, better=0.0, **CHANCES[chance])
        ).p
        for _ in range(TIMES)
    ]
    assert np.mean(np.array(found) <= 0.05) <= 0.06 + 3 * DEVIATION


# --- models that are alike: right or wrong on each example, seeds that differ by 0.03 ---

SEEDS_DIFFER = 0.03


def alike(random: Generator, rows: int, seeds: int, count: int = 200) -> list[np.ndarray]:
    """Classifiers that are right on 80 % of the examples, hard ones less often; each training is a little better or
    worse than its kind.
    """
    hard = random.normal(0, 0.15, count)
    right = []
    for _ in range(rows):
        shares = 0.8 + hard + random.normal(0, SEEDS_DIFFER, (seeds, 1))
        right.append((random.random((seeds, count)) < np.clip(shares, 0, 1)).astype(float))
    return right


def tell_apart(scores: list[np.ndarray]) -> bool:
    """Whether any two of a table's rows seem apart."""
    rows, spread = len(scores), seed_spread(scores) if len(scores) > 2 else None
    pairs = [(a, b) for place, a in enumerate(scores) for b in scores[place + 1 :]]
    return any(difference(a, b, rows=rows, spread=spread).p < 0.05 for a, b in pairs)


@pytest.mark.parametrize(("rows", "times"), [(2, 800), (8, 100)])
def test_of_several_rows_alike_none_is_taken_for_better(rows: int, times: int) -> None:
    """5 in 100 tables, however many rows they have. Each pair for itself, it was 20 and more of eight rows."""
    random = np.random.default_rng(17)
    wrong = np.mean([tell_apart(alike(random, rows, 3)) for _ in range(times)])
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / times)


def test_intervals_of_all_pairs_hold_at_once() -> None:
    """In 95 of 100 tables every one of the ten does, also where rows differ."""
    random, held, times = np.random.default_rng(23), 0, 100
    better = np.arange(5) * 0.2
    for _ in range(times):
        scores = [results(random, 3, 60, of_seeds=0.1, of_both=0.3, better=lead) for lead in better]
        spread = seed_spread(scores)
        pairs = [(one, other) for one in range(5) for other in range(one)]
        leads = [difference(scores[one], scores[other], rows=5, spread=spread) for one, other in pairs]
        held += all(
            lead.low <= better[one] - better[other] <= lead.high
            for lead, (one, other) in zip(leads, pairs, strict=True)
        )
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / times) <= held / times


# --- one seed: the interval is of this training, on other examples like these ---


def trained_once(random: Generator, count: int = 150) -> tuple[float, np.ndarray]:
    """How good a training of a kind that is right on 80 % truly came out, and where it was right."""
    share = float(np.clip(0.8 + random.normal(0, SEEDS_DIFFER), 0, 1))
    return share, (random.random((1, count)) < share).astype(float)


def test_one_seed_holds_the_truth_of_this_training() -> None:
    random = np.random.default_rng(29)
    of_this, of_its_kind, of_a_difference = [], [], []
    for _ in range(TIMES):
        (first, right), (second, also) = trained_once(random), trained_once(random)
        score, lead = share_interval(int(right.sum()), right.size), difference(right, also)
        of_this.append(score.low <= first <= score.high)
        of_a_difference.append(lead.low <= first - second <= lead.high)
        of_its_kind.append(lead.low <= 0 <= lead.high)
        assert not lead.seeds
    assert abs(np.mean(of_this) - 0.95) <= 3 * DEVIATION + 0.01
    assert abs(np.mean(of_a_difference) - 0.95) <= 3 * DEVIATION + 0.01
    assert np.mean(of_its_kind) < 0.92  # which is why no sentence of one seed speaks of kinds of models


def test_one_seed_of_a_mean_that_is_weighted() -> None:
    """Losses of windows, of a training whose own loss strays from that of its kind."""

    def held(random: Generator) -> bool:
        truth = 2 + random.normal(0, 0.1)
        tokens = random.integers(2, 20, 150).astype(float)
        found = weighted_mean_interval(truth + random.normal(0, 0.5, 150), tokens)
        return found.low <= truth <= found.high

    random = np.random.default_rng(31)
    assert abs(np.mean([held(random) for _ in range(TIMES)]) - 0.95) <= 3 * DEVIATION + 0.01


def test_mcnemar_is_rarely_taken_in() -> None:
    """Two models that are right equally often: an exact test is never above its 5 % (and 3 standard deviations)."""
    random = np.random.default_rng(13)
    found = []
    for _ in range(TIMES):
        easy = random.random(120) < 0.6
        first, second = (easy | (random.random(120) < 0.3) for _ in range(2))
        found.append(mcnemar(first, second).p)
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 3 * DEVIATION
    assert np.mean(np.array(found) <= 0.5) > 0.25  # but not asleep either
