"""Whether enough is held out to tell one score from another."""

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.diagnosis.advice import Advice
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.training.finding import NOTE, Finding

WIDE_SHARE = 0.05
"""Half of the interval of an accuracy: what two models must differ by to be told apart."""
WIDE_LOSS = 0.1
"""The same of a loss, as a part of it."""


def small_share(right: int, of: int, noun: str, advice: str, step: int) -> Finding | None:
    """`right` of so many answers. `advice`: what would tell more."""
    interval = share_interval(right, of)
    half = (interval.high - interval.low) / 2
    if half <= WIDE_SHARE:
        return None
    words = (
        f"Validation has {of:,} {noun}s: its accuracy, {interval.value:.3f}, is known to ± {half:.2f} (from "
        f"{interval.low:.2f} to {interval.high:.2f}); smaller differences between models or updates mean nothing."
    )
    numbers = {"right": right, "of": of, "low": interval.low, "high": interval.high}
    return Finding("small-validation", step, NOTE, words, advice, numbers)


def small_loss(losses: Sequence[float], weights: Sequence[float], noun: str, advice: str, step: int) -> Finding | None:
    """The mean loss over examples that count as many tokens each as `weights` say."""
    if len(losses) < 2 or not sum(weights) > 0:
        return None
    interval = weighted_mean_interval(list(losses), list(weights))
    half = (interval.high - interval.low) / 2
    if interval.value <= 0 or half <= WIDE_LOSS * interval.value:
        return None
    words = (
        f"Validation has {len(losses):,} {noun}s: its loss, {interval.value:.3g}, is known to ± {half:.2g} "
        f"({half / interval.value:.0%}); smaller differences between models or updates mean nothing."
    )
    numbers = {"value": interval.value, "low": interval.low, "high": interval.high, "of": len(losses)}
    return Finding("small-validation", step, NOTE, words, advice, numbers)


def too_small(
    records: Sequence[Mapping[str, Any]], noun: str, advise: Advice, step: int, rows: int | None = None
) -> Finding | None:
    """Of an evaluation's records, whatever they hold: answers, losses, or errors. `rows`: of all parts together."""
    if not records:
        return None
    first, advice = records[0], advise.more_held_out(rows)
    if "predicted" in first and "label" in first:
        right = sum(one["predicted"] == one["label"] for one in records)
        return small_share(right, len(records), noun, advice, step)
    if "tokens" in first and "loss" in first:
        judged = [one for one in records if one["tokens"]]
        tokens = [float(one["tokens"]) for one in judged]
        return small_loss([one["loss"] / one["tokens"] for one in judged], tokens, noun, advice, step)
    if "labels" in first and "loss" in first:
        return small_loss([one["loss"] for one in records], [1.0] * len(records), noun, advice, step)
    if "error" in first:
        return small_loss([one["error"] ** 2 for one in records], [1.0] * len(records), noun, advice, step)
    return None
