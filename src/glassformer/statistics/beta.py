"""The incomplete beta function, from which the tails of Student's t and of the binomial distribution follow."""

import math

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
        below = 1 / _apart(1 + term * below)
        above = _apart(1 + term / above)
        value *= above * below
        if abs(above * below - 1) < EXACT:
            break
    return value


def _apart(value: float) -> float:
    """Not 0, since it is divided by."""
    return value if abs(value) > TINY else TINY
