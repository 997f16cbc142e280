"""Confidence intervals (95 % by default) and the tails of the distributions that they need.

The distributions are Student's t, the incomplete beta function (from which t and the binomial follow), and the
studentized range. The latter replaces t when the best and the worst of several models are compared.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from glassformer.config.arrays import Array

TINY = 1e-300
"""Smallest divisor in Lentz's method."""
TOLERANCE = 1e-15
"""Relative change at which the continued fraction stops."""


@dataclass(frozen=True)
class Interval:
    """A value with the lower and upper end of its confidence interval."""

    value: float
    low: float
    high: float


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Return Student's t interval of the mean over seeds; None for fewer than two values."""
    if len(values) < 2:
        return None
    scores = np.asarray(values, float)
    return around(float(scores.mean()), float(scores.var(ddof=1)) / len(scores), len(scores) - 1, level)


def share_interval(hits: int, total: int, level: float = 0.95) -> Interval:
    """Return Wilson's interval of a share, such as an accuracy.

    The ends stay within [0, 1]. For `total` 0 the value is NaN and the interval is [0, 1].
    """
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} hits of {total} cannot be")
    if total == 0:
        return Interval(math.nan, 0.0, 1.0)
    z = t_quantile((1 + level) / 2, math.inf)  # 1.96 for 0.95
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    # At the ends, rounding must not exclude the true value.
    low = 0.0 if hits == 0 else max(middle - half, 0.0)
    high = 1.0 if hits == total else min(middle + half, 1.0)
    return Interval(share, low, high)


def weighted_mean_interval(
    scores: Sequence[float] | Float[Array, " N"],
    weights: Sequence[float] | Float[Array, " N"] | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the interval of a weighted mean over examples.

    With different weights (windows of more or fewer tokens) the mean is a ratio of two sums. Both sums depend on which
    examples were drawn. For a single example the interval is infinite.
    """
    mean, variance = weighted_mean(np.asarray(scores, float), None if weights is None else np.asarray(weights, float))
    return around(mean, variance, len(scores) - 1, level)


def weighted_mean(scores: Float[Array, " N"], weights: Float[Array, " N"] | None) -> tuple[float, float]:
    """Return the mean and its sampling variance over examples; the variance is infinite for a single example."""
    counts = np.ones(len(scores)) if weights is None else weights
    if len(counts) != len(scores):
        raise ValueError(f"{len(scores)} scores, but {len(counts)} weights")
    total = counts.sum()
    if not total > 0:
        raise ValueError("no example counts: their weights come to 0")
    shares = counts / total
    mean = float(shares @ scores)
    count = len(scores)
    return mean, float(np.square(shares * (scores - mean)).sum()) * count / (count - 1) if count > 1 else math.inf


def around(value: float, variance: float, df: float, level: float, rows: int = 2) -> Interval:
    """Return the t interval of a value with this variance.

    With `rows` > 2 the value is the difference of two of `rows` models. The interval is then wide enough that the
    intervals of all pairs hold simultaneously.
    """
    if math.isinf(variance):
        return Interval(value, -math.inf, math.inf)
    half = range_t_quantile(level, rows, df) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


# --- tails of distributions ---


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b), the cumulative beta distribution with parameters a and b at x."""
    if not 0 < x < 1:
        return float(x >= 1)
    # The fraction converges fast only below the mean; the other side follows by symmetry.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction 1 + d₁/(1 + d₂/(1 + …)) of I_x(a, b) with Lentz's method."""
    value = numerator_ratio = 1.0
    denominator_ratio = 0.0
    for index in range(1, 100_000):
        half = index // 2
        if index % 2:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        denominator_ratio = 1 / _not_zero(1 + term * denominator_ratio)
        numerator_ratio = _not_zero(1 + term / numerator_ratio)
        value *= numerator_ratio * denominator_ratio
        if abs(numerator_ratio * denominator_ratio - 1) < TOLERANCE:
            break
    return value


def _not_zero(value: float) -> float:
    """Return the value, or TINY if it is too close to 0 to divide by."""
    return value if abs(value) > TINY else TINY


def t_tail(t: float, df: float) -> float:
    """Return the two-sided p-value of `t`: the probability of a value at least this far from 0."""
    if math.isinf(t):
        return 0.0
    if math.isinf(df):
        return math.erfc(abs(t) / math.sqrt(2))
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(1024)
def t_quantile(p: float, df: float) -> float:
    """Return the value below which a share `p` of Student's t distribution lies (1.96 for 0.975 and df = ∞)."""
    if not 0 < p < 1:
        raise ValueError(f"the share below a quantile lies between 0 and 1, not at {p}")
    if p == 0.5:
        return 0.0
    tail = 2 * min(p, 1 - p)
    high = _crossing(lambda t: t_tail(t, df) > tail, 1.0, 1e-11)
    return high if p > 0.5 else -high


def _crossing(is_below: Callable[[float], bool], start: float, tolerance: float) -> float:
    """Return the positive value above which `is_below` is no longer True, by bisection from `start` upwards."""
    low, high = 0.0, start
    while is_below(high):
        low, high = high, high * 2
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high


# --- studentized range: difference of the best and the worst of several equal models ---

RANGES = np.linspace(0, 14, 1401)
"""Grid for the range of standard normal values; larger ranges have a negligible probability."""
LEGENDRE = np.polynomial.legendre.leggauss(128)
"""Nodes in [−1, 1] and weights of Gauss–Legendre quadrature."""


def range_t_tail(t: float, rows: int, df: float) -> float:
    """Return the probability that any two of `rows` equal models differ by at least `t`; for two, `t_tail`."""
    if rows == 2 or math.isinf(t):
        return t_tail(t, df)
    spreads, shares = _spreads(df)
    below = np.interp(math.sqrt(2) * abs(t) * spreads, RANGES, _range_table(rows))
    return min(1.0, max(0.0, 1 - float(shares @ below)))


@lru_cache(1024)
def range_t_quantile(level: float, rows: int, df: float) -> float:
    """Return the `t` that no pair of `rows` equal models exceeds with probability `level`; for two, Student's."""
    if rows == 2:
        return t_quantile((1 + level) / 2, df)
    return _crossing(lambda t: range_t_tail(t, rows, df) > 1 - level, 4.0, 1e-6)


@lru_cache(64)
def _range_table(rows: int) -> Float[Array, " W"]:
    """Return P(range ≤ w) of `rows` standard normal values for each w in RANGES.

    One value is the smallest, and the others lie within w above it.
    """
    least = np.linspace(-8.5, 8.5, 341)
    points = np.linspace(-9, 9 + RANGES[-1], 20_001)
    normal = np.array([math.erfc(-point / math.sqrt(2)) / 2 for point in points])
    density = np.exp(-np.square(least) / 2) / math.sqrt(2 * math.pi) * (least[1] - least[0])
    between = np.interp(least + RANGES[:, None], points, normal) - np.interp(least, points, normal)
    table: Float[Array, " W"] = rows * (between ** (rows - 1)) @ density
    return table


@lru_cache(256)
def _spreads(df: float) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """Return estimates χ/√df of a standard deviation of 1 with `df` degrees of freedom, and their probabilities."""
    if df > 1e6:
        return np.ones(1), np.ones(1)
    reach = 10 / math.sqrt(2 * df)
    nodes, weights = LEGENDRE
    low, high = max(0.0, 1 - reach), 1 + reach
    spreads = (low + high) / 2 + (high - low) / 2 * nodes
    log = (df - 1) * np.log(spreads) - df * np.square(spreads) / 2
    shares = weights * np.exp(log - log.max())
    return spreads, shares / shares.sum()
