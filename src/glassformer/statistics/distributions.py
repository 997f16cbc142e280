"""Tails of distributions: Student's t, which says what an average of few values strays by when their spread is itself
only estimated, and the incomplete beta function, from which it and the binomial distribution follow.
"""

import math
from functools import lru_cache

TINY = 1e-300
EXACT = 1e-15


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
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        if t_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return high if p > 0.5 else -high
