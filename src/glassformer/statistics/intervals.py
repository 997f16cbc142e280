"""Intervals: between which two values the truth lies, at a level of 95 in 100 unless told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from glassformer.config.arrays import Array
from glassformer.statistics.distributions import t_quantile


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


def around(value: float, variance: float, df: float, level: float) -> Interval:
    """The interval within Student's t of a value with so much variance."""
    if math.isinf(variance):
        return Interval(value, -math.inf, math.inf)
    half = t_quantile((1 + level) / 2, df) * math.sqrt(variance)
    return Interval(value, value - half, value + half)
