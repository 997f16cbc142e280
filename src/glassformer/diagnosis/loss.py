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
"""Times what guessing evenly costs. Small first weights give nearly 1."""
BELOW = 0.5
"""Before the first update nothing can be known, but for what the first weights bring along."""
SQUARED_ABOVE = 5.0
"""Times what guessing costs in squared errors: a small batch may hold an outlier or two."""


def first_loss(loss: float, expected: float, guess: str, advise: Advice, *, squared: bool = False) -> Finding | None:
    """Compare the first loss with that of guessing evenly, `expected`. `guess`: its name, as 'ln of 4,096 tokens'."""
    numbers, ratio = {"loss": loss, "expected": expected}, loss / expected
    if ratio > (SQUARED_ABOVE if squared else ABOVE):
        severity = PROBLEM if ratio > (2 * SQUARED_ABOVE if squared else FAR_ABOVE) else WARNING
        return finding(advise, "first-loss: high", severity, numbers, ratio=ratio, guess=guess)
    if ratio < BELOW and not squared:
        return finding(advise, "first-loss: low", WARNING, numbers, ratio=ratio, guess=guess)
    return None


# --- an answer that is read ---

TOO_GOOD = 0.1
"""Bits per byte. The best language models there are need 0.6 or more for text they have not seen."""


def missing_causal_mask(advise: Advice) -> Finding:
    return finding(advise, "leak: mask", PROBLEM, {"mask": False}, try_first="--model.causal_mask true")


def too_good_loss(bits: float, advise: Advice) -> Finding | None:
    if bits >= TOO_GOOD:
        return None
    return finding(advise, "leak: bits", WARNING, {"bits_per_byte": bits})


# --- a loss that does not fall ---

ENOUGH_UPDATES = 30
"""Updates, below which one cannot tell a fall from chance."""
LARGE_FALL, SMALL_FALL = 0.05, 0.005
"""Parts of the first loss: a fall as large as this is one, whatever chance may do; one below the other is none."""
SURE = 2.0
"""Standard errors beyond which a fall in between is no chance."""


def flat_loss(losses: Sequence[float], done: float, advise: Advice) -> Finding | None:
    """`losses` of every update so far, `done` of the budget."""
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
"""Updates that a spike is measured against."""
SPIKE, FEW_SPIKES = 8.0, 3
"""Spreads above the median of the updates before it make a spike; so many spikes are no chance."""
LARGE_SPIKE = 1.5
"""Times that median: a smaller spike does not count, however quiet it was before."""
HIGH = 0.5
"""A part of the first losses: where next to nothing is left to learn, one odd example is a spike of no account."""
WORSE = 1.2
"""Times the first losses: where a training ends above them, it has come apart."""


def loss_spikes(losses: Sequence[float]) -> list[int]:
    """Return the updates whose loss is far above those just before; two within a few updates count as one."""
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
"""A rise beyond what validations differ by anyway, as a part of the best validation loss."""
RISES_ENOUGH, SURER = 0.02, 0.1
"""A rise as a part of what guessing costs; and where answers are as good as before, and only surer."""
AFTER = 2
"""Validations since the best, before a rise counts."""
NARROW = 0.35
"""Training loss over validation loss: below it, much of what was learned holds for the training part alone."""
COUNTS = 0.25
"""A part of what guessing costs: a smaller gap does not count, however small the training loss."""


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
    """Compare the losses of one model on training and validation; both without dropout and smoothing."""
    wide = validation - training
    if training >= NARROW * validation or wide < COUNTS * (guessing if guessing is not None else validation):
        return None
    return finding(advise, "gap", NOTE, {"training": training, "validation": validation})


# --- stopping too early ---

FIFTH = 0.2
"""The last part of the budget."""
FALLS = 0.05
"""A part of the loss: where it falls by more over that fifth, a longer training run gains more."""
FALLS_ENOUGH = 0.02
"""A fall as a part of what guessing costs: the last thousandths are not worth it."""


def stopped_too_early(
    validations: Sequence[Mapping[str, Any]], guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """Report a validation loss that was still falling at the last `step`; two validations can tell."""
    losses = {line["step"]: line["loss"] for line in validations if "loss" in line}
    early = [at for at in losses if at <= (1 - FIFTH) * step]
    if not early or min(losses.values()) < losses[max(losses)]:
        return None
    earlier, latest = max(early), max(losses)
    before, last = losses[earlier], losses[latest]
    fifths = (latest - earlier) / (FIFTH * step)  # where validations are few, they lie further apart
    if before - last < max(1.0, fifths) * max(FALLS * before, FALLS_ENOUGH * (guessing or before)):
        return None
    numbers = {"before": before, "last": last}
    return finding(advise, "still-falling", NOTE, numbers, earlier=earlier, latest=latest)
