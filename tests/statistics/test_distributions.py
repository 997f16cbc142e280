"""The incomplete beta function, Student's t and the studentized range, against scipy."""

import math

import pytest
from scipy import special, stats

from glassformer.statistics.intervals import incomplete_beta, range_t_quantile, range_t_tail, t_quantile, t_tail

FREEDOM = [1, 2, 2.7, 5, 30.5, 1000, 1e6]


@pytest.mark.parametrize("a", [0.5, 1.0, 3.7, 50.0, 4001.0])
@pytest.mark.parametrize("b", [0.5, 2.0, 17.3, 3000.0])
@pytest.mark.parametrize("x", [1e-9, 0.02, 0.3, 0.5, 0.77, 0.9999])
def test_incomplete_beta(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-14)


def test_the_ends_of_the_beta_distribution() -> None:
    assert [incomplete_beta(x, 2, 3) for x in (-1.0, 0.0, 1.0, 2.0)] == [0, 0, 1, 1]


@pytest.mark.parametrize("df", [*FREEDOM, math.inf])
@pytest.mark.parametrize("t", [0.0, 0.1, -0.1, 1.96, -4.0, 25.0])
def test_tails(t: float, df: float) -> None:
    assert t_tail(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-8)


def test_the_tail_beyond_everything() -> None:
    assert t_tail(math.inf, 3) == t_tail(-math.inf, math.inf) == 0


@pytest.mark.parametrize("df", [*FREEDOM, math.inf])
@pytest.mark.parametrize("p", [1e-4, 0.025, 0.31, 0.5, 0.8, 0.975, 0.9999])
def test_quantiles(p: float, df: float) -> None:
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-12)


def test_a_share_that_is_none() -> None:
    for p in (0.0, 1.0, 1.2):
        with pytest.raises(ValueError, match="between 0 and 1"):
            t_quantile(p, 3)


@pytest.mark.parametrize("rows", [3, 8, 30])
@pytest.mark.parametrize("df", [1.0, 2.7, 16.0, 1000.0, math.inf])
def test_the_studentized_range(rows: int, df: float) -> None:
    t = range_t_quantile(0.95, rows, df)
    assert stats.studentized_range.sf(math.sqrt(2) * t, rows, df) == pytest.approx(0.05, abs=1e-4)
    for other in (0.0, 0.5 * t, -1.5 * t):
        known = stats.studentized_range.sf(math.sqrt(2) * abs(other), rows, df)
        assert range_t_tail(other, rows, df) == pytest.approx(known, abs=1e-4)


def test_of_two_rows_it_is_students_t() -> None:
    assert range_t_quantile(0.95, 2, 4.0) == t_quantile(0.975, 4.0)
    assert range_t_tail(2.5, 2, 4.0) == t_tail(2.5, 4.0)
    assert range_t_tail(math.inf, 8, 4.0) == 0
