"""Student's t: what an average of few values, whose spread is itself only estimated, strays by."""

import math
from functools import lru_cache

from glassformer.statistics.beta import incomplete_beta


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
