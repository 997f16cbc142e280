"""The metric that a comparison ranks by, and numbers rounded to their significant digits: 0.868 ± 0.010.

Rows are ranked by a mean over examples, so that differences of scores equal the means of paired differences.
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
"""Return a sentence of the report with facts filled in."""

EXAMPLE_F1, SENTENCE_CHRF = "example_f1", "sentence_chrf"
MEANS = {"micro_f1": EXAMPLE_F1, "chrf": SENTENCE_CHRF}
"""The mean over examples that replaces, for ranking, a metric that is not such a mean."""
NAMES = {EXAMPLE_F1: "mean F1 of the examples", SENTENCE_CHRF: "mean chrF of the sentences"}
UNITS = {"loss": "nats", EXAMPLE_F1: "F1", SENTENCE_CHRF: "chrF"}
"""Units of differences, for metrics whose name is not a unit."""
SCALES = {
    **dict.fromkeys(("accuracy", "micro_f1", "macro_f1", "average_precision", EXAMPLE_F1), (0.0, 1.0)),
    **dict.fromkeys(("chrf", SENTENCE_CHRF), (0.0, 100.0)),
    **dict.fromkeys(("loss", "bits_per_byte", "rmse"), (0.0, math.inf)),
}
"""Smallest and largest possible value of a metric."""
QUALITY = (
    "accuracy", "micro_f1", "macro_f1", "average_precision", "exact_match", "hamming", "rmse", "mae", "r2",
    "chrf", "bleu", "bleu_lowercase", "loss", "perplexity", "bits_per_byte",
)  # fmt: skip
"""Metrics that show how good a model is; others count examples or belong to constant answers."""


def titled(metric: str) -> str:
    """Return the name of a metric as reports write it."""
    return NAMES.get(metric) or metric_name(metric)


def unit_of(metric: str) -> str:
    return UNITS.get(metric) or titled(metric)


def ranked_by(good: Sequence[Outcome]) -> tuple[str, bool]:
    """Return the metric that ranks rows, and whether lower is better.

    With different tokenizers that is bits per byte, because the loss per token does not compare.
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
    """Return whether the metric is the mean of the outcome's scores."""
    return metric == MEANS.get(outcome.primary, outcome.primary)


def value_of(outcome: Outcome, metric: str) -> float:
    return float(np.mean(outcome.scores)) if metric in MEANS.values() else outcome.metrics[metric]


def limit_of(metric: str) -> float:
    """Return the largest possible difference of two values of a metric: 1 for accuracies; inf where there is none."""
    low, high = SCALES.get(metric, (-math.inf, math.inf))
    return high - low


def within(interval: Interval | None, metric: str) -> Interval | None:
    """Clip an interval to the scale of the metric."""
    low, high = SCALES.get(metric, (-math.inf, math.inf))
    return interval and Interval(interval.value, max(interval.low, low), min(interval.high, high))


# --- numbers ---

DEFAULT_DIGITS = 3
"""Digits of a number without an interval."""
MIN_DIGITS, MAX_EXTRA_DECIMALS = 2, 2
"""Minimum number of digits of a score, however wide its interval (0.65 ± 0.60), and maximum number of decimals for
them."""


def decimals_of(error: float) -> int | None:
    """Return the decimals that show two digits of an error that begins with 1 or 2, else one digit; None for 0."""
    if not (math.isfinite(error) and error > 0):
        return None
    exponent = math.floor(math.log10(error))
    return -exponent + (error / 10**exponent < 2.95)


def rounded(value: float, decimals: int | None) -> str:
    """Return a number with these decimals; None: three digits; negative: rounded to tens, hundreds."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "?"
    if decimals is None:
        decimals = max(DEFAULT_DIGITS - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
    text = f"{abs(round(value, decimals)):,.{max(decimals, 0)}f}"
    return f"−{text}" if round(value, decimals) < 0 else text


def score_decimals(value: float, error: float) -> int | None:
    """Return the decimals of a score with this error; None if the error is unknown."""
    decimals = decimals_of(error)
    if decimals is None or not value:
        return decimals
    digits = MIN_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return max(decimals, min(digits, MAX_EXTRA_DECIMALS))


def with_ends(value: float, low: float, high: float, decimals: int | None = None) -> str:
    """Return a value with its interval: 0.868 ± 0.010 if that is symmetric, else 0.65 (0.40 to 1.00).

    If the interval is empty or unbounded, return the value alone, with `decimals`.
    """
    half = (high - low) / 2
    known = score_decimals(value, half)
    if known is None:
        return rounded(value, decimals)
    if rounded(value - low, known) == rounded(high - value, known) == rounded(half, known):
        return f"{rounded(value, known)} ± {rounded(half, known)}"
    return f"{rounded(value, known)} ({rounded(low, known)} to {rounded(high, known)})"


def from_to(value: float, low: float, high: float) -> str:
    """Return a difference with its interval: 0.021 (0.010 to 0.032); alone if both ends are equal."""
    if low == high:
        return rounded(value, None)
    decimals = decimals_of((high - low) / 2)
    if decimals is not None and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1  # the reader must see on which side of 0 an end is
    return f"{rounded(value, decimals)} ({rounded(low, decimals)} to {rounded(high, decimals)})"


def amount(number: float | None) -> str:
    """Return a number in short form: 900, 12k, 3.4M."""
    if number is None:
        return ""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * (10 if letter == "k" else 1):
            return f"{two_digits(number / size)}{letter}"
    return f"{number:,.0f}"
