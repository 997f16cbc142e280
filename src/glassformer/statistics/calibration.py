"""Calibration: reliability diagram, temperature scaling and selective prediction."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from glassformer.config.arrays import Array
from glassformer.statistics.intervals import Interval, share_interval

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 100.0
"""Range of the fitted temperature. The loss of a model without errors has its minimum at 0."""


@dataclass(frozen=True)
class Bin:
    """Predictions with similar confidence: their mean confidence and their accuracy."""

    count: int
    confidence: float
    accuracy: float
    interval: Interval
    """Confidence interval of `accuracy`."""


@dataclass(frozen=True)
class Threshold:
    """A minimum confidence for answering, with the resulting coverage and accuracy."""

    threshold: float
    coverage: float
    """Share of the examples that are answered."""
    accuracy: float
    """Share of correct answers among the answered examples."""


def reliability(probabilities: Float[Array, " N"], right: Bool[Array, " N"], bins: int = 10) -> list[Bin]:
    """Return the bins of a reliability diagram: `bins` bins of equal width from 0 to 1, without the empty ones."""
    bin_of = np.minimum((probabilities * bins).astype(int), bins - 1)
    return [
        Bin(
            int(in_bin.sum()),
            float(probabilities[in_bin].mean()),
            float(right[in_bin].mean()),
            share_interval(int(right[in_bin].sum()), int(in_bin.sum())),
        )
        for number in range(bins)
        if (in_bin := bin_of == number).any()
    ]


def expected_error(bins: list[Bin]) -> float:
    """Return the expected calibration error (ECE): the mean distance of confidence and accuracy over all examples."""
    total = sum(bin.count for bin in bins)
    return sum(bin.count * abs(bin.confidence - bin.accuracy) for bin in bins) / max(1, total)


def fit_temperature(logits: Float[Array, "N C"], answers: Int[Array, " N"]) -> float:
    """Return the temperature T for which the loss of logits / T is smallest.

    For a single score s of two classes, pass the columns 0 and s.

    The loss is convex in 1/T. Its slope, the mean score minus the score of the answer, changes its sign once.
    """
    scores = logits.astype(float)
    scores = scores - scores.max(1, keepdims=True)
    own = scores[np.arange(len(scores)), answers]

    def is_too_hot(log_temperature: float) -> bool:
        weights = np.exp(scores / math.exp(log_temperature))
        return float((np.einsum("nc,nc->n", weights, scores) / weights.sum(1) - own).mean()) < 0

    low, high = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if is_too_hot(middle) else (middle, high)
    return math.exp((low + high) / 2)


def coverage(confidence: Float[Array, " N"], right: Bool[Array, " N"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Return coverage and accuracy when only the 1, 2, …, N most confident examples are answered.

    Examples of equal confidence have no order, so each of them counts as their mean.
    """
    _, group, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    averages = np.bincount(group, weights=right) / sizes
    numbers = np.arange(1, len(confidence) + 1)
    return numbers / len(confidence), np.cumsum(np.repeat(averages, sizes)) / numbers


def threshold_for(confidence: Float[Array, " N"], right: Bool[Array, " N"], accuracy: float) -> Threshold | None:
    """Return the threshold with the largest coverage that reaches `accuracy`; None if none reaches it."""
    values, sizes = np.unique(-confidence, return_counts=True)
    last = np.cumsum(sizes) - 1
    shares, accuracies = coverage(confidence, right)
    reached = np.flatnonzero(accuracies[last] >= accuracy - 1e-12)
    if not len(reached):
        return None
    best = reached[-1]
    return Threshold(float(-values[best]), float(shares[last[best]]), float(accuracies[last[best]]))
