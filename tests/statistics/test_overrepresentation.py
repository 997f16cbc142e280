"""What errors have more often than the rest, against Fisher's exact test; Holm's correction by hand."""

import numpy as np
import pytest
from scipy import stats

from glassformer.statistics.intervals import share_interval
from glassformer.statistics.significance import holm, over_represented


def test_against_fishers_exact_test() -> None:
    errors, rest = 37, 211
    in_errors = {"not": 20, "the": 37, "rare": 1, "never": 0}
    in_rest = {"not": 31, "the": 211, "rare": 0, "never": 9, "only": 211}
    found = over_represented(in_errors, in_rest, errors, rest)
    assert list(found) == ["not", "rare", "the", "never", "only"]
    for name, row in found.items():
        hits, others = in_errors.get(name, 0), in_rest.get(name, 0)
        table = [[hits, others], [errors - hits, rest - others]]
        assert row.p == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue, rel=1e-9)
        assert (row.in_errors, row.in_all, row.rate) == (hits, hits + others, share_interval(hits, hits + others))
        assert row.lift == pytest.approx(hits / (hits + others) / (errors / (errors + rest)))
    assert found["the"].lift == pytest.approx(1)
    assert found["the"].p == 1
    assert found["not"].holm == pytest.approx(5 * found["not"].p)


def test_by_chance_one_list_in_twenty_at_most() -> None:
    """20 words, spread blindly over 400 lists: below 0.05 in 5 % of them at most (and 3 standard deviations)."""
    random = np.random.default_rng(0)
    below = 0
    for _ in range(400):
        wrong = random.permutation(np.arange(120) < 30)
        words = random.random((20, 120)) < 0.3
        rows = over_represented(
            {str(word): int((has & wrong).sum()) for word, has in enumerate(words)},
            {str(word): int((has & ~wrong).sum()) for word, has in enumerate(words)},
            30,
            90,
        )
        below += min(row.holm for row in rows.values()) < 0.05
    assert below / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def test_no_errors_no_rest_and_nothing() -> None:
    assert over_represented({}, {}, 3, 4) == {}
    (row,) = over_represented({}, {"a": 2}, 0, 4).values()
    assert (row.in_errors, row.lift, row.p) == (0, 0.0, 1.0)
    (row,) = over_represented({"a": 2}, {}, 4, 0).values()
    assert (row.lift, row.p) == (1.0, pytest.approx(1))
    with pytest.raises(ValueError, match="'a' was counted in more"):
        over_represented({"a": 5}, {}, 4, 9)


def test_holm() -> None:
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])
