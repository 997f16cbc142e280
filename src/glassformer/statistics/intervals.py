"""Intervals: between which two values the truth lies, at a level of 95 in 100 unless told; and the tails of
distributions that they come from: Student's t, which says what an average of few values strays by when their spread is
itself only estimated, the incomplete beta function, from which it and the binomial distribution follow, and the
studentized range: what t becomes where the best and the worst of several are picked.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from glassformer.config.arrays import Array

TINY = 1e-300
EXACT = 1e-15


@dataclass(frozen=True)
class Interval:
    """A value, and how far it may be from the truth."""

    value: float
    low: float
    high: float


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """The mean's interval over seeds, by Student's t; None for fewer than two values, whose spread nobody knows."""
    if len(values) < 2:
        return None
    scores = np.asarray(values, float)
    return around(float(scores.mean()), float(scores.var(ddof=1)) / len(scores), len(scores) - 1, level)


def share_interval(hits: int, of: int, level: float = 0.95) -> Interval:
    """The interval of a share, such as an accuracy, by Wilson's formula: never below 0 or above 1; of nothing, anything
    between.
    """
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} hits of {of} cannot be")
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    z = t_quantile((1 + level) / 2, math.inf)  # standard deviations that hold such a share: 1.96 for 0.95
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    # At the ends rounding must not leave the truth outside.
    low = 0.0 if hits == 0 else max(middle - half, 0.0)
    high = 1.0 if hits == of else min(middle + half, 1.0)
    return Interval(share, low, high)


def weighted_mean_interval(
    scores: Sequence[float] | Float[Array, " N"],
    weights: Sequence[float] | Float[Array, " N"] | None = None,
    level: float = 0.95,
) -> Interval:
    """The interval of a mean over examples. Where they count differently (windows of more or fewer tokens), the mean is
    a ratio of two sums that both depend on which examples were drawn. A single example has an interval without ends.
    """
    mean, variance = weighted_mean(np.asarray(scores, float), None if weights is None else np.asarray(weights, float))
    return around(mean, variance, len(scores) - 1, level)


def weighted_mean(scores: Float[Array, " N"], weights: Float[Array, " N"] | None) -> tuple[float, float]:
    """The mean, and by how much it varies from one draw of examples to the next (endlessly, for all that one tells)."""
    counts = np.ones(len(scores)) if weights is None else weights
    if len(counts) != len(scores):
        raise ValueError(f"{len(scores)} scores, but {len(counts)} weights")
    whole = counts.sum()
    if not whole > 0:
        raise ValueError("no example counts: their weights come to 0")
    shares = counts / whole
    mean = float(shares @ scores)
    count = len(scores)
    return mean, float(np.square(shares * (scores - mean)).sum()) * count / (count - 1) if count > 1 else math.inf


def around(value: float, variance: float, df: float, level: float, rows: int = 2) -> Interval:
    """The interval within Student's t of a value with so much variance; with more than two `rows`, of the difference of
    two of them, so wide that those of all pairs hold at once.
    """
    if math.isinf(variance):
        return Interval(value, -math.inf, math.inf)
    half = range_t_quantile(level, rows, df) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


# --- tails of distributions ---


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b): which share of the beta distribution of a and b lies below x."""
    if not 0 < x < 1:
        return float(x >= 1)
    # The fraction converges fast on this side of the mean only; the other side is the mirror image.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction 1 + d₁/(1 + d₂/(1 + …)) of I_x(a, b), from its first term on (Lentz)."""
    value = above = 1.0
    below = 0.0
    for index in range(1, 100_000):
        half = index // 2
        if index % 2:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        below = 1 / _not_zero(1 + term * below)
        above = _not_zero(1 + term / above)
        value *= above * below
        if abs(above * below - 1) < EXACT:
            break
    return value


def _not_zero(value: float) -> float:
    """The value, or almost 0, since it is divided by."""
    return value if abs(value) > TINY else TINY


def t_tail(t: float, df: float) -> float:
    """How probable a value at least this far from 0, on either side, is by chance: the two-sided p-value."""
    if math.isinf(t):
        return 0.0
    if math.isinf(df):
        return math.erfc(abs(t) / math.sqrt(2))
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(1024)
def t_quantile(p: float, df: float) -> float:
    """The value below which a share p of the distribution lies: 1.96 for 0.975 and endless degrees of freedom."""
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


# --- the studentized range: of several values alike, how far the best and the worst are apart by chance ---

RANGES = np.linspace(0, 14, 1401)
"""Ranges of standard normal values; none is larger."""
LEGENDRE = np.polynomial.legendre.leggauss(128)
"""Places between −1 and 1, and their weights in an integral."""


def range_t_tail(t: float, rows: int, df: float) -> float:
    """How probable it is by chance that any two of so many rows alike are at least this t apart; of two, `t_tail`."""
    if rows == 2 or math.isinf(t):
        return t_tail(t, df)
    spreads, shares = _spreads(df)
    below = np.interp(math.sqrt(2) * abs(t) * spreads, RANGES, _range_table(rows))
    return min(1.0, max(0.0, 1 - float(shares @ below)))


@lru_cache(1024)
def range_t_quantile(level: float, rows: int, df: float) -> float:
    """The t that no two of so many rows alike exceed in such a share of tables; of two, Student's."""
    if rows == 2:
        return t_quantile((1 + level) / 2, df)
    return _crossing(lambda t: range_t_tail(t, rows, df) > 1 - level, 4.0, 1e-6)


@lru_cache(64)
def _range_table(rows: int) -> Float[Array, " W"]:
    """P(range ≤ w) of so many standard normal values, for w from 0 on: one of them is the least, the others lie within
    w above it.
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
    """Estimates of a spread of 1 with so many degrees of freedom (χ/√df), and how probable each is."""
    if df > 1e6:
        return np.ones(1), np.ones(1)
    reach = 10 / math.sqrt(2 * df)
    nodes, weights = LEGENDRE
    low, high = max(0.0, 1 - reach), 1 + reach
    spreads = (low + high) / 2 + (high - low) / 2 * nodes
    log = (df - 1) * np.log(spreads) - df * np.square(spreads) / 2
    shares = weights * np.exp(log - log.max())
    return spreads, shares / shares.sum()
