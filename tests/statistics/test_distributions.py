"""The incomplete beta function and Student's t, against scipy."""

import math

import pytest
from scipy import special, stats

from glassformer.statistics.intervals import incomplete_beta, t_quantile, t_tail

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
