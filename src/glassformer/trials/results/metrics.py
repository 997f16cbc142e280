"""What a comparison ranks by, and its numbers as far as they are known: 0.868 ± 0.010, and no digit more.

Rows are ranked by a mean over examples, so that the scores of the table differ by what the pairs differ.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from glassformer.config.sentences import sentence as read_sentence
from glassformer.config.units import metric_name, two_digits
from glassformer.statistics.intervals import Interval
from glassformer.trials.jobs import Outcome

sentence = partial(read_sentence, __name__)
"""Return a sentence of a comparison's report, with facts filled in."""

EXAMPLE_F1, SENTENCE_CHRF = "example_f1", "sentence_chrf"
MEANS = {"micro_f1": EXAMPLE_F1, "chrf": SENTENCE_CHRF}
"""The mean that rows are ranked by, where a metric of a whole part is no mean over its examples."""
NAMES = {EXAMPLE_F1: "mean F1 of the examples", SENTENCE_CHRF: "mean chrF of the sentences"}
UNITS = {"loss": "nats", EXAMPLE_F1: "F1", SENTENCE_CHRF: "chrF"}
"""Units of differences, where the metric's name is none."""
SCALES = {
    **dict.fromkeys(("accuracy", "micro_f1", "macro_f1", "average_precision", EXAMPLE_F1), (0.0, 1.0)),
    **dict.fromkeys(("chrf", SENTENCE_CHRF), (0.0, 100.0)),
    **dict.fromkeys(("loss", "bits_per_byte", "rmse"), (0.0, math.inf)),
}
"""The ends between which a metric lies."""
QUALITY = (
    "accuracy", "micro_f1", "macro_f1", "average_precision", "exact_match", "hamming", "rmse", "mae", "r2",
    "chrf", "bleu", "bleu_lowercase", "loss", "perplexity", "bits_per_byte",
)  # fmt: skip
"""What says how good a model is; the rest counts examples, or says what a constant would come to."""


def titled(metric: str) -> str:
    """A metric as it is written."""
    return NAMES.get(metric) or metric_name(metric)


def unit_of(metric: str) -> str:
    return UNITS.get(metric) or titled(metric)


def ranked_by(good: Sequence[Outcome]) -> tuple[str, bool]:
    """The metric that decides, and whether the lower is the better. Where texts are cut into different tokens, bits per
    byte, not the loss per token.
    """
    if not good:
        return "", False
    first = good[0]
    cut = {outcome.tokenizer for outcome in good if outcome.tokenizer is not None}
    if first.primary == "loss" and len(cut) > 1 and all("bits_per_byte" in outcome.metrics for outcome in good):
        return "bits_per_byte", True
    mean = MEANS.get(first.primary)
    if mean is not None and all(outcome.scores for outcome in good):
        return mean, False
    return first.primary, first.lower_is_better


def is_paired(metric: str, outcome: Outcome) -> bool:
    """Whether it is the mean of an outcome's scores."""
    return metric == MEANS.get(outcome.primary, outcome.primary)


def value_of(outcome: Outcome, metric: str) -> float:
    return float(np.mean(outcome.scores)) if metric in MEANS.values() else outcome.metrics[metric]


def limit_of(metric: str) -> float:
    """Return the largest possible difference of two values of a metric: 1 for accuracies; inf where there is none."""
    low, high = SCALES.get(metric, (-math.inf, math.inf))
    return high - low


def within(interval: Interval | None, metric: str) -> Interval | None:
    """Cut at the ends of the metric's scale."""
    if interval is None:
        return None
    low, high = SCALES.get(metric, (-math.inf, math.inf))
    return Interval(interval.value, max(interval.low, low), min(interval.high, high))


# --- numbers ---

DIGITS = 3
"""Digits of a number whose uncertainty nobody knows."""
FEWEST, FEWEST_DECIMALS = 2, 2
"""Digits that a score has at least, however unsure it is: 0.65 ± 0.60; but no more decimals than these for it."""


def decimals_of(error: float) -> int | None:
    """Decimals that an error of this size leaves: two digits of it where it begins with 1 or 2, else one."""
    if not (math.isfinite(error) and error > 0):
        return None
    exponent = math.floor(math.log10(error))
    return -exponent + (error / 10**exponent < 2.95)


def rounded(value: float, decimals: int | None) -> str:
    """A number with so many decimals; None: with three digits. Below 0: tens, hundreds."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "?"
    if decimals is None:
        decimals = max(DIGITS - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
    told = f"{abs(round(value, decimals)):,.{max(decimals, 0)}f}"
    return f"−{told}" if round(value, decimals) < 0 else told


def score_decimals(value: float, error: float) -> int | None:
    """Decimals of a score with such an error."""
    decimals = decimals_of(error)
    if decimals is None or not value:
        return decimals
    digits = FEWEST - 1 - math.floor(math.log10(abs(value)))
    return max(decimals, min(digits, FEWEST_DECIMALS))


def with_ends(value: float, low: float, high: float, decimals: int | None = None) -> str:
    """A value and its interval: 0.868 ± 0.010 where it reaches as far up as down, else 0.65 (0.40 to 1.00). Without
    one, the value alone, with as many decimals as its neighbours.
    """
    half = (high - low) / 2
    known = score_decimals(value, half)
    if known is None:
        return rounded(value, decimals)
    if rounded(value - low, known) == rounded(high - value, known) == rounded(half, known):
        return f"{rounded(value, known)} ± {rounded(half, known)}"
    return f"{rounded(value, known)} ({rounded(low, known)} to {rounded(high, known)})"


def from_to(value: float, low: float, high: float) -> str:
    """A difference and the ends of its interval: 0.021 (0.010 to 0.032); alone where all examples differ alike."""
    if low == high:
        return rounded(value, None)
    decimals = decimals_of((high - low) / 2)
    if decimals is not None and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1  # on which side of 0 an end lies must be seen
    return f"{rounded(value, decimals)} ({rounded(low, decimals)} to {rounded(high, decimals)})"


def amount(number: float | None) -> str:
    """900, 12k, 3.4M."""
    if number is None:
        return ""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * (10 if letter == "k" else 1):
            return f"{two_digits(number / size)}{letter}"
    return f"{number:,.0f}"
