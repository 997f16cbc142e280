"""What a comparison ranks by: a mean over examples, so that the scores of the table differ by what the pairs differ."""

import math
from collections.abc import Sequence

import numpy as np

from glassformer.rendering.curves import named
from glassformer.statistics.intervals import Interval
from glassformer.trials.outcome import Outcome

EXAMPLE_F1, SENTENCE_CHRF = "example_f1", "sentence_chrf"
MEANS = {"micro_f1": EXAMPLE_F1, "chrf": SENTENCE_CHRF}
"""The mean that rows are ranked by, where a metric of a whole part is no mean over its examples."""
NAMES = {EXAMPLE_F1: "mean F1 of the examples", SENTENCE_CHRF: "mean chrF of the sentences", "micro_f1": "micro F1"}
UNITS = {"loss": "nats per token", EXAMPLE_F1: "F1", SENTENCE_CHRF: "chrF"}
"""Units of differences, where the metric's name is none."""
LABELLED = ("accuracy", EXAMPLE_F1)
"""Where there are labels to be told."""
SCALES = {
    **dict.fromkeys(("accuracy", "micro_f1", EXAMPLE_F1), (0.0, 1.0)),
    **dict.fromkeys(("chrf", SENTENCE_CHRF), (0.0, 100.0)),
    **dict.fromkeys(("loss", "bits_per_byte", "rmse"), (0.0, math.inf)),
}
"""The ends between which a metric lies."""
QUALITY = (
    "accuracy", "micro_f1", "macro_f1", "exact_match", "hamming", "rmse", "mae", "r2",
    "chrf", "bleu", "bleu_lowercase", "loss", "perplexity", "bits_per_byte",
)  # fmt: skip
"""What says how good a model is; the rest counts examples, or says what a constant would come to."""


def titled(metric: str) -> str:
    """A metric as it is written."""
    return NAMES.get(metric) or named(metric)


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


def is_paired(metric: str, one: Outcome) -> bool:
    """Whether it is the mean of an outcome's scores."""
    return metric == MEANS.get(one.primary, one.primary)


def value_of(one: Outcome, metric: str) -> float:
    return float(np.mean(one.scores)) if metric in MEANS.values() else one.metrics[metric]


def within(found: Interval | None, metric: str) -> Interval | None:
    """Cut at the ends of the metric's scale."""
    if found is None:
        return None
    low, high = SCALES.get(metric, (-math.inf, math.inf))
    return Interval(found.value, max(found.low, low), min(found.high, high))
