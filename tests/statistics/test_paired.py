"""Two models on the same examples: differences by hand, against paired and Welch's tests; McNemar against scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from glassformer.statistics.significance import Difference, McNemar, difference, difference_p, mcnemar, seed_spread

RANDOM = np.random.default_rng(5)


def test_trained_once_it_is_the_paired_t_test() -> None:
    a, b = RANDOM.normal(1, 1, (1, 53)), RANDOM.normal(0.8, 1, (1, 53))
    found = difference(a, b)
    known = stats.ttest_rel(a[0], b[0])
    low, high = known.confidence_interval(0.95)
    assert (found.value, found.low, found.high) == pytest.approx((a.mean() - b.mean(), low, high))
    assert found.p == pytest.approx(known.pvalue)
    assert not found.seeds


def test_where_only_seeds_differ_it_is_welchs_test() -> None:
    """All examples alike: what varies is what seeds do to all of them."""
    a, b = np.array([0.71, 0.74, 0.75]), np.array([0.60, 0.75, 0.66, 0.69, 0.61])
    found = difference(np.repeat(a[:, None], 17, 1), np.repeat(b[:, None], 17, 1))
    known = stats.ttest_ind(a, b, equal_var=False)
    low, high = known.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((low, high, known.pvalue))
    assert found.seeds


@pytest.mark.parametrize("weighted", [False, True])
def test_both_kinds_of_chance_written_out(weighted: bool) -> None:
    seeds, count = 3, 41
    weights = RANDOM.integers(1, 6, count).astype(float) if weighted else None
    a = RANDOM.normal(0, 1, count) + RANDOM.normal(0, 2, (seeds, 1)) + RANDOM.normal(0, 0.3, (seeds, count))
    b = RANDOM.normal(0, 1, (1, count))
    w = np.ones(count) if weights is None else weights
    means = [sum(w * row) / sum(w) for row in a]
    apart = a.mean(0) - b[0]
    value = sum(w * apart) / sum(w)
    examples = sum((w * (apart - value) / sum(w)) ** 2) * count / (count - 1)
    rest = [
        w[i] / sum(w) * (a[s, i] - a[:, i].mean() - means[s] + np.mean(means))
        for s in range(seeds)
        for i in range(count)
    ]
    twice = sum(np.square(rest)) * count / (count - 1) / (seeds - 1) / seeds
    parts = {count - 1: examples, seeds - 1: np.var(means, ddof=1) / seeds, (seeds - 1) * (count - 1): -twice}
    variance = sum(parts.values())
    df = variance**2 / sum(part**2 / free for free, part in parts.items())
    found = difference(a, b, weights)
    half = stats.t.ppf(0.975, df) * math.sqrt(variance)
    assert (found.value, found.low, found.high) == pytest.approx((value, value - half, value + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(value) / math.sqrt(variance), df))
    assert not found.seeds
    twin = difference(a, np.repeat(b, 2, 0), weights)  # a floor, which no seed changes
    assert (twin.low, twin.high, twin.seeds) == (pytest.approx(found.low), pytest.approx(found.high), True)


def test_the_other_way_round() -> None:
    a, b = RANDOM.normal(1, 1, (3, 29)), RANDOM.normal(0, 1, (2, 29))
    one, other = difference(a, b), difference(b, a)
    assert (one.value, one.low, one.high, one.p) == pytest.approx((-other.value, -other.high, -other.low, other.p))


def test_nothing_varies() -> None:
    same, better = np.zeros((2, 6)), np.ones((2, 6))
    assert difference(same, same) == Difference(0, 0, 0, 1.0, True)
    found = difference(better, same)
    assert (found.value, found.low, found.high) == pytest.approx((1, 1, 1))
    assert found.p == 2**-5  # as six throws of a coin, all heads or all tails
    assert difference(better[:1, :1], same[:1, :1]) == Difference(1, -math.inf, math.inf, 1.0, False)


def test_differences_of_accuracies_stay_within_what_is_possible() -> None:
    right = np.array([[1.0, 1.0, 0.0, 1.0, 1.0]])
    found = difference(right, np.zeros((1, 5)), rows=6, limit=1)
    assert difference(right, np.zeros((1, 5)), rows=6).high > 1
    assert found.low < 0 < found.value < found.high == 1
    assert difference(right[:, :1], right[:, :1], limit=1) == Difference(0, -1, 1, 1.0, False)


@pytest.mark.parametrize("count", [5, 6, 20])
def test_few_examples_that_all_differ_alike(count: int) -> None:
    """The ends are the shares of unseen examples that would show none in so many draws 25 times of 1,000."""
    same, better = np.zeros((1, count)), np.ones((1, count))
    missed = 1 - 0.025 ** (1 / count)
    nothing, all_better = difference(same, same, limit=1), difference(better, same, limit=1)
    assert (nothing.low, nothing.high) == pytest.approx((-missed, missed))
    assert (all_better.low, all_better.high) == pytest.approx((1 - 2 * missed, 1))
    assert (all_better.low > 0) == (all_better.p < 0.05)


def test_rounding_is_no_difference() -> None:
    seeds = np.repeat([[0.1], [0.2], [0.3]], 40, 1)
    a, b = seeds, seeds[::-1]
    assert a.mean(0)[0] != b.mean(0)[0]  # the same numbers, added in another order
    assert difference(a - a.mean() + 0.7, b - b.mean() + 0.7).p == pytest.approx(1.0)
    assert difference(np.full((1, 40), 0.1 + 0.2), np.full((1, 40), 0.3)).p == 1.0


def test_seeds_that_both_models_share_leave_an_interval_of_use() -> None:
    """What seeds do to single examples is the same in both, and cancels in the difference; each alone has plenty of it.
    Taken off, it leaves so little that the plain formula has far less than one degree of freedom.
    """
    random = np.random.default_rng(0)
    found = []
    for _ in range(300):
        shared = random.normal(0, 1, (2, 30))
        a, b = (shared + random.normal(0, 0.01, (2, 30)) for _ in range(2))
        found.append(difference(a, b))
    assert max(one.high - one.low for one in found) < 20
    assert np.mean([one.low <= 0 <= one.high for one in found]) >= 0.95


def test_more_rows_tell_less() -> None:
    """Tukey and Kramer's test of all pairs, where only seeds differ, and in all rows alike."""
    means = np.array([0.0, 0.3, 0.1, 2.1])[:, None] + np.array([-1.0, 0.25, 0.75])
    rows = [np.repeat(row[:, None], 19, 1) for row in means]
    known = stats.tukey_hsd(*means)
    ends = known.confidence_interval(0.95)
    for one, other in ((3, 0), (1, 2)):
        found = difference(rows[one], rows[other], rows=4, spread=seed_spread(rows))
        assert found.p == pytest.approx(known.pvalue[one, other], abs=1e-4)
        assert (found.low, found.high) == pytest.approx((ends.low[one, other], ends.high[one, other]), abs=1e-3)
        assert difference(rows[one], rows[other]).p < found.p


def test_all_rows_together_say_how_much_seeds_differ() -> None:
    """Two whose seeds happen to agree are not known for sure; what never varies has no part in it."""
    still, lively = np.zeros((2, 12)), [RANDOM.normal(0, 1, (2, 1)) + RANDOM.normal(0, 0.1, (2, 12)) for _ in range(4)]
    agreeing = [np.repeat([[0.5], [0.5 + 1e-9]], 12, 1), np.repeat([[0.1], [0.1 + 1e-9]], 12, 1)]
    spread = seed_spread([still, *lively, *agreeing])
    assert spread is not None
    assert spread.df == 6
    assert seed_spread([still]) is seed_spread([still[:1]]) is None
    alone = difference(*agreeing, rows=7)
    together = difference(*agreeing, rows=7, spread=spread)
    assert alone.p < 0.01 < together.p
    floors = difference(still + 0.2, still, rows=7, spread=spread)
    assert floors.low == floors.high == pytest.approx(0.2)


def test_scores_on_other_examples() -> None:
    with pytest.raises(ValueError, match=r"\(1, 3\) and \(1, 4\)"):
        difference(np.zeros((1, 3)), np.zeros((1, 4)))
    with pytest.raises(ValueError, match="a row for each seed"):
        difference(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (0, 9), (3, 11), (7, 7), (120, 171), (5000, 5201)])
def test_mcnemar_is_the_exact_binomial_test(first: int, second: int) -> None:
    both, neither = 5, 3
    a = np.array([True] * first + [False] * second + [True] * both + [False] * neither)
    b = np.array([False] * first + [True] * second + [True] * both + [False] * neither)
    p = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(a, b) == McNemar(first, second, both, neither, pytest.approx(p, rel=1e-8))


def test_mcnemar_of_other_examples() -> None:
    with pytest.raises(ValueError, match="not 2 and 3"):
        mcnemar(np.zeros(2, bool), np.zeros(3, bool))


# --- two groups ---


@pytest.mark.parametrize("spreads", [(1, 3), (3, 1)])
def test_the_more_careful_of_two_tests_against_scipy(spreads: tuple[float, float]) -> None:
    random = np.random.default_rng(2)
    one, other = random.normal(0, spreads[0], 17), random.normal(0.7, spreads[1], 29)
    both = [stats.ttest_ind(one, other, equal_var=equal).pvalue for equal in (False, True)]
    assert both[0] != pytest.approx(both[1])
    assert difference_p(one, other) == pytest.approx(max(both))
    assert difference_p(one[:1], other) == 1


def test_means_of_values_that_do_not_vary() -> None:
    """Two errors of one length are no proof, whatever the variance of nothing says."""
    lengths = np.random.default_rng(0).integers(1, 16, 500).astype(float)
    assert difference_p(np.array([12.0, 12.0]), lengths) > 0.1
    assert difference_p(np.ones(3), np.ones(4)) == 1
    assert difference_p(np.ones(2), np.zeros(2)) == pytest.approx(2 / 6)  # of six ways to draw two, two part them so
    assert difference_p(np.ones(3), np.zeros(4)) == pytest.approx(1 / 35)
    assert difference_p(np.full(3, 0.1), np.full(3, 0.1 + 1e-17)) == 1


def test_one_example_tells_no_spread() -> None:
    assert seed_spread([np.array([[0.2], [0.7]]), np.array([[0.1], [0.9]])]) is None


def test_a_pair_that_varies_more_than_other_rows_is_known_as_well_as_its_own_seeds_tell() -> None:
    quiet = [np.repeat(RANDOM.normal(0, 0.01, (3, 1)), 20, 1) for _ in range(8)]
    noisy = np.repeat(np.array([[-1.0], [0.0], [1.0]]), 20, 1)
    own, together = (difference(noisy, quiet[0], spread=spread) for spread in (None, seed_spread(quiet)))
    assert (together.low, together.high, together.p) == pytest.approx((own.low, own.high, own.p), rel=1e-2)
