"""The training loss and the validation loss: not finite, implausible at first, flat, with spikes, rising or falling."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.diagnosis.advice import Advice, finding, joined
from glassformer.training.events import NOTE, PROBLEM, WARNING, Diverged, Finding

# --- divergence ---


def divergence(event: Diverged, advise: Advice) -> Finding:
    """Report the tensor and the batch in which numbers stopped being finite."""
    place = joined(f"{event.what}: it began in {event.tensor}", event.where.removesuffix("; "))
    first = f"--resume --lr {event.lr:.1g}"
    if len(event.rows) == 1 and not event.tensor.startswith("parameter"):
        first = f"look at that example (glassformer data check), {first}"
    numbers = {"tensor": event.tensor, "batch": event.batch, "rows": list(event.rows), "example": event.example}
    return finding(advise, "not-finite", PROBLEM, numbers, try_first=first, place=place[0].upper() + place[1:])


# --- the first loss ---

ABOVE, FAR_ABOVE = 1.5, 3.0
"""Ratio of the first loss to that of uniform guessing, for a warning and for a problem. Small weights give nearly 1."""
BELOW = 0.5
"""Ratio below which the first loss is too low: a model without updates has learned nothing."""
SQUARED_ABOVE = 5.0
"""The ratio for a warning with squared errors; it is higher because a small batch may contain outliers."""


def first_loss(loss: float, expected: float, guess: str, advise: Advice, *, squared: bool = False) -> Finding | None:
    """Compare the first loss with that of uniform guessing, `expected`. `guess`: its name, as 'ln of 4,096 tokens'."""
    numbers, ratio = {"loss": loss, "expected": expected}, loss / expected
    if ratio > (SQUARED_ABOVE if squared else ABOVE):
        severity = PROBLEM if ratio > (2 * SQUARED_ABOVE if squared else FAR_ABOVE) else WARNING
        return finding(advise, "first-loss: high", severity, numbers, ratio=ratio, guess=guess)
    if ratio < BELOW and not squared:
        return finding(advise, "first-loss: low", WARNING, numbers, ratio=ratio, guess=guess)
    return None


# --- leakage: the model sees the answer ---

TOO_GOOD = 0.1
"""Bits per byte below which a loss is implausible. The best language models need at least 0.6 for unseen text."""


def missing_causal_mask(advise: Advice) -> Finding:
    return finding(advise, "leak: mask", PROBLEM, {"mask": False}, try_first="--model.causal_mask true")


def too_good_loss(bits: float, advise: Advice) -> Finding | None:
    if bits >= TOO_GOOD:
        return None
    return finding(advise, "leak: bits", WARNING, {"bits_per_byte": bits})


# --- a loss that does not fall ---

ENOUGH_UPDATES = 30
"""Minimum number of updates to recognise a decrease of the loss."""
LARGE_FALL, SMALL_FALL = 0.05, 0.005
"""Decrease as a share of the first losses: from the larger share, it always counts; below the smaller one, never."""
SURE = 2.0
"""Standard errors from which a decrease between these two shares counts."""


def flat_loss(losses: Sequence[float], done: float, advise: Advice) -> Finding | None:
    """Report a loss that has not decreased. It compares the first third of the losses with the last third.

    `losses`: of every update so far. `done`: part of the budget that was spent.
    """
    count = len(losses)
    if count < ENOUGH_UPDATES:
        return None
    first, last = np.array(losses[: count // 3]), np.array(losses[-(count // 3) :])
    fall = float(first.mean() - last.mean())
    chance = math.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    share = fall / abs(float(first.mean())) if first.any() else 0.0
    if share >= LARGE_FALL or (share >= SMALL_FALL and fall > SURE * chance):
        return None
    numbers = {"first": float(first.mean()), "last": float(last.mean()), "chance": chance, "done": done}
    return finding(advise, "flat", WARNING, numbers, third=len(first), count=count)


# --- a learning rate that is too high ---

BEFORE = 20
"""Number of preceding updates with which a spike is compared."""
SPIKE, FEW_SPIKES = 8.0, 3
"""Minimum height of a spike above the median of these updates, in standard deviations; minimum number of spikes."""
LARGE_SPIKE = 1.5
"""Minimum ratio of a spike to that median, even if the losses before it hardly varied."""
HIGH = 0.5
"""Minimum loss and height of a spike as a share of the first losses: near 0, a single odd example causes spikes."""
WORSE = 1.2
"""Ratio of the last losses to the first ones above which training has diverged."""


def loss_spikes(losses: Sequence[float]) -> list[int]:
    """Return the updates (from 1) whose loss is far above the losses before; of close ones, only the first."""
    spikes: list[int] = []
    least = HIGH * float(np.median(losses[:5]))
    for place in range(BEFORE, len(losses)):
        if losses[place] < least:
            continue
        before = np.array(losses[place - BEFORE : place])
        middle = float(np.median(before))
        spread = 1.4826 * float(np.median(np.abs(before - middle)))
        high = losses[place] > max(middle + SPIKE * spread, LARGE_SPIKE * middle, middle + least)
        if high and (not spikes or place + 1 - spikes[-1] > BEFORE):
            spikes.append(place + 1)
    return spikes


def learning_rate_too_high(losses: Sequence[float], advise: Advice) -> Finding | None:
    if len(losses) < 2 * BEFORE:
        return None
    first, last = float(np.median(losses[:5])), float(np.median(losses[-BEFORE:]))
    if last > WORSE * first:
        risen = {"first": first, "last": last, "lr": advise.rate}
        return finding(advise, "rate-high: risen", PROBLEM, risen, window=BEFORE)
    spikes = loss_spikes(losses)
    if len(spikes) < max(FEW_SPIKES, len(losses) // 500):
        return None
    numbers = {"jumps": spikes[:20], "count": len(spikes), "lr": advise.rate}
    return finding(advise, "rate-high: jumps", WARNING, numbers, times=LARGE_SPIKE, first=spikes[0], last=spikes[-1])


# --- overfitting ---

RISES = 0.1
"""Minimum rise as a share of the best validation loss; smaller differences between validations are usual."""
RISES_ENOUGH, SURER = 0.02, 0.1
"""Minimum rise as a share of the loss of guessing: if the primary metric is worse, and if only confidence has grown."""
AFTER = 2
"""Minimum number of validations since the best one."""
NARROW = 0.35
"""Ratio of training loss to validation loss below which much of what was learned holds only for the training set."""
COUNTS = 0.25
"""Minimum gap as a share of the loss of guessing, however small the training loss is."""


def overfitting(
    validations: Sequence[Mapping[str, Any]], primary: str, advise: Advice, *, lower: bool, guessing: float | None
) -> Finding | None:
    """Compare the last validation loss with its best. `primary`: the metric that decides which weights are kept."""
    losses = [line["loss"] for line in validations if "loss" in line]
    if len(losses) != len(validations) or len(losses) <= AFTER:
        return None
    best = min(range(len(losses)), key=losses.__getitem__)
    rise = losses[-1] - losses[best]
    if len(losses) - 1 - best < AFTER or rise < RISES * losses[best]:
        return None
    first, last = float(validations[best][primary]), float(validations[-1][primary])
    worse = last > first if lower else last < first
    if rise < (RISES_ENOUGH if worse else SURER) * (guessing or losses[0]):
        return None
    key, severity = ("overfitting: worse", WARNING) if worse else ("overfitting: surer", NOTE)
    numbers = {"best_step": validations[best]["step"], "best": losses[best], "last": losses[-1]}
    metric, step = primary.replace("_", " "), validations[-1]["step"]
    return finding(advise, key, severity, numbers, metric=metric, step=step)


def generalisation_gap(training: float, validation: float, guessing: float | None, advise: Advice) -> Finding | None:
    """Compare the losses of one model on the training and validation sets, both without dropout and smoothing."""
    wide = validation - training
    if training >= NARROW * validation or wide < COUNTS * (guessing if guessing is not None else validation):
        return None
    return finding(advise, "gap", NOTE, {"training": training, "validation": validation})


# --- stopping too early ---

FIFTH = 0.2
"""Part of the run, at its end, in which the decrease of the loss is measured."""
FALLS = 0.05
"""Decrease in that part as a share of the loss, from which a longer training run is worthwhile."""
FALLS_ENOUGH = 0.02
"""Minimum decrease as a share of the loss of guessing; tiny improvements are not worth a longer run."""


def stopped_too_early(
    validations: Sequence[Mapping[str, Any]], guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """Report a validation loss that was still falling at the last `step`. At least two validations are needed."""
    losses = {line["step"]: line["loss"] for line in validations if "loss" in line}
    early = [at for at in losses if at <= (1 - FIFTH) * step]
    if not early or min(losses.values()) < losses[max(losses)]:
        return None
    earlier, latest = max(early), max(losses)
    before, last = losses[earlier], losses[latest]
    fifths = (latest - earlier) / (FIFTH * step)  # with few validations, the two are further apart
    if before - last < max(1.0, fifths) * max(FALLS * before, FALLS_ENOUGH * (guessing or before)):
        return None
    numbers = {"before": before, "last": last}
    return finding(advise, "still-falling", NOTE, numbers, earlier=earlier, latest=latest)
