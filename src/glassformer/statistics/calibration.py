"""Whether a model is as sure as it is right: reliability, temperature, and answering only when sure."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from glassformer.config.arrays import Array
from glassformer.statistics.intervals import Interval, share_interval

COLDEST, HOTTEST = 0.01, 100.0
"""Between these a temperature is sought; a model that is never wrong would like to be endlessly cold."""


@dataclass(frozen=True)
class Bin:
    """Guesses of about the same probability: how probable they were on average, and how many were right."""

    count: int
    confidence: float
    accuracy: float
    interval: Interval
    """The accuracy's interval."""


@dataclass(frozen=True)
class Threshold:
    """Answering only from this confidence on: which share of the examples is answered, and which of those rightly."""

    threshold: float
    coverage: float
    accuracy: float


def reliability(probabilities: Float[Array, " N"], right: Bool[Array, " N"], bins: int = 10) -> list[Bin]:
    """Guesses by their own probabilities, in bins of one width from 0 to 1; those that hold nothing are left out."""
    places = np.minimum((probabilities * bins).astype(int), bins - 1)
    return [
        Bin(
            int(here.sum()),
            float(probabilities[here].mean()),
            float(right[here].mean()),
            share_interval(int(right[here].sum()), int(here.sum())),
        )
        for place in range(bins)
        if (here := places == place).any()
    ]


def expected_error(bins: list[Bin]) -> float:
    """How far confidence and accuracy are apart, on average over the examples (ECE)."""
    whole = sum(each.count for each in bins)
    return sum(each.count * abs(each.confidence - each.accuracy) for each in bins) / max(1, whole)


def fit_temperature(logits: Float[Array, "N C"], answers: Int[Array, " N"]) -> float:
    """Return the temperature T that logits are divided by so that the loss is smallest. For one score s of two classes,
    give the columns 0 and s.

    The loss is convex in 1/T: its slope, the mean score less the score of the answer, changes its sign once.
    """
    scores = logits.astype(float)
    scores = scores - scores.max(1, keepdims=True)
    own = scores[np.arange(len(scores)), answers]

    def is_too_hot(log_temperature: float) -> bool:
        weights = np.exp(scores / math.exp(log_temperature))
        return float((np.einsum("nc,nc->n", weights, scores) / weights.sum(1) - own).mean()) < 0

    low, high = math.log(COLDEST), math.log(HOTTEST)
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if is_too_hot(middle) else (middle, high)
    return math.exp((low + high) / 2)


def coverage(confidence: Float[Array, " N"], right: Bool[Array, " N"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Answering only the most confident 1, 2, … N examples: their shares of all, and how many of them are right.
    Examples of one confidence come in no order: each counts as their average.
    """
    _, group, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    averages = np.bincount(group, weights=right) / sizes
    numbers = np.arange(1, len(confidence) + 1)
    return numbers / len(confidence), np.cumsum(np.repeat(averages, sizes)) / numbers


def threshold_for(confidence: Float[Array, " N"], right: Bool[Array, " N"], accuracy: float) -> Threshold | None:
    """The confidence from which on answers are right this often, and as many as can be are answered; None: never."""
    values, sizes = np.unique(-confidence, return_counts=True)
    last = np.cumsum(sizes) - 1
    shares, accuracies = coverage(confidence, right)
    enough = np.flatnonzero(accuracies[last] >= accuracy - 1e-12)
    if not len(enough):
        return None
    place = enough[-1]
    return Threshold(float(-values[place]), float(shares[last[place]]), float(accuracies[last[place]]))
