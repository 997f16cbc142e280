"""The loss of a training: no longer finite, too high or too low at first, flat, with spikes; and on what is held out:
rising, far above that of the training part, or still falling at the end.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.events import NOTE, PROBLEM, WARNING, Diverged, Finding

# --- divergence ---


def divergence(event: Diverged, advise: Advice) -> Finding:
    """Numbers that are no longer finite: where it began."""
    words = joined(f"{event.what}: it began in {event.tensor}", event.where.removesuffix("; ")) + "."
    advice = joined(f"--resume --lr {event.lr:.1g}", advise.clip(), advise.warmup())
    if len(event.rows) == 1 and not event.tensor.startswith("parameter"):
        advice = f"look at that example (glassformer data check); else {advice}"
    return Finding(
        "not-finite",
        event.batch,
        PROBLEM,
        words[0].upper() + words[1:],
        advice,
        {"tensor": event.tensor, "batch": event.batch, "rows": list(event.rows), "example": event.example},
    )


# --- the first loss ---

ABOVE, FAR_ABOVE = 1.5, 3.0
"""Times what guessing evenly costs. Small first weights give nearly 1."""
BELOW = 0.5
"""Before the first update nothing can be known, but for what the first weights bring along."""
SQUARED_ABOVE = 5.0
"""Times what guessing costs in squared errors: a small batch may hold an outlier or two."""


def first_loss(loss: float, expected: float, guess: str, advise: Advice, *, squared: bool = False) -> Finding | None:
    """A model that knows nothing yet should be as surprised as one that guesses evenly. `expected`: the loss of
    guessing; `guess`: that in words, such as 'ln of 4,096 tokens'.
    """
    numbers = {"loss": loss, "expected": expected}
    ratio = loss / expected
    if ratio > (SQUARED_ABOVE if squared else ABOVE):
        advice = joined(
            advise.put("model.initialisation", "zero"),
            advise.put("model.embed_scale", False),
            "of one's own model, a smaller last layer",
        )
        return Finding(
            "first-loss",
            1,
            PROBLEM if ratio > (2 * SQUARED_ABOVE if squared else FAR_ABOVE) else WARNING,
            words=f"The first loss is {loss:.2f}, {ratio:.1f} times that of guessing ({guess}, {expected:.2f}): the "
            "first weights make the model sure of wrong answers.",
            advice=f"smaller first weights: {advice}",
            numbers=numbers,
        )
    if ratio < BELOW and not squared:
        return Finding(
            "first-loss",
            1,
            WARNING,
            words=f"The first loss is {loss:.2f}, {ratio:.2f} of what guessing costs ({guess}, {expected:.2f}): before "
            "the first update the model already knows, so its answer may stand in what it reads.",
            advice=joined(
                "look for a column that repeats the label, for text that holds it",
                advise.put("model.causal_mask", True),
            ),
            numbers=numbers,
        )
    return None


# --- an answer that is read ---

TOO_GOOD = 0.1
"""Bits per byte. The best language models there are need 0.6 or more for text they have not seen."""


def missing_causal_mask(step: int) -> Finding:
    """A language model without its mask."""
    return Finding(
        "leak",
        step,
        PROBLEM,
        "model.causal_mask is false: every token sees the one it is to predict, so loss and perplexity mean nothing.",
        "--model.causal_mask true",
        {"mask": False},
    )


def too_good_loss(bits: float, advise: Advice, step: int) -> Finding | None:
    if bits >= TOO_GOOD:
        return None
    return Finding(
        "leak",
        step,
        WARNING,
        words=f"{bits:.3f} bits per byte on validation text are too few to be true (large models need 0.6 and more): "
        "the model reads its answer, or has seen this text in training.",
        advice=joined(advise.put("model.causal_mask", True), "look for repeated documents with glassformer data check"),
        numbers={"bits_per_byte": bits},
    )


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
    return Finding(
        "flat",
        count,
        WARNING,
        words=f"The loss does not fall: {first.mean():.4g} over the first {len(first)} updates, {last.mean():.4g} over "
        f"the last {len(last)} of {count:,}, which are {done:.0%} of the budget.",
        advice=f"{joined(advise.positions(), advise.another_rate())}; a smaller or another model; "
        f"{advise.right_data()}",
        numbers={"first": float(first.mean()), "last": float(last.mean()), "chance": chance, "done": done},
    )


# --- a learning rate that is too high ---

BEFORE = 20
"""Updates that a spike is measured against."""
SPIKE, FEW_SPIKES = 8.0, 3
"""Spreads above the middle of the updates before it make a spike; so many spikes are no chance."""
LARGE_SPIKE = 1.5
"""Times that middle: a spike that small is none, however quiet it was before."""
HIGH = 0.5
"""A part of the first losses: where next to nothing is left to learn, one odd example is a spike of no account."""
WORSE = 1.2
"""Times the first losses: where a training ends above them, it has come apart."""


def loss_spikes(losses: Sequence[float]) -> list[int]:
    """The updates whose loss stands far above those just before; two within a few updates are one."""
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


def learning_rate_too_high(losses: Sequence[float], advise: Advice, step: int) -> Finding | None:
    if len(losses) < 2 * BEFORE:
        return None
    first, last = float(np.median(losses[:5])), float(np.median(losses[-BEFORE:]))
    rate, advice = advise.rate, joined(advise.lower_rate(), advise.warmup(), advise.clip())
    if last > WORSE * first:
        return Finding(
            "rate-high",
            step,
            PROBLEM,
            f"The loss has risen, from {first:.3g} to {last:.3g} over the last {BEFORE} updates: the rate is too high.",
            advice,
            {"first": first, "last": last, "lr": rate},
        )
    spikes = loss_spikes(losses)
    if len(spikes) < max(FEW_SPIKES, len(losses) // 500):
        return None
    return Finding(
        "rate-high",
        step,
        WARNING,
        words=f"The loss jumped {len(spikes)} times to over {LARGE_SPIKE:g} times what it was before (first at step "
        f"{spikes[0]:,}, last at step {spikes[-1]:,}): the rate is too high for some batches.",
        advice=advice,
        numbers={"jumps": spikes[:20], "count": len(spikes), "lr": rate},
    )


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
"""A part of what guessing costs: a smaller gap is none, however small the training loss."""


def overfitting(
    validations: Sequence[Mapping[str, Any]],
    primary: str,
    advise: Advice,
    *,
    lower: bool,
    guessing: float | None,
    step: int,
) -> Finding | None:
    """The validation loss after its best. `primary`: the metric that decides which weights are kept."""
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
    at = validations[best]["step"]
    means = (
        "from there on the model learns the training part by heart."
        if worse
        else f"the model grows surer than it is right, though its {primary.replace('_', ' ')} has not fallen."
    )
    return Finding(
        "overfitting",
        step,
        WARNING if worse else NOTE,
        words=f"The validation loss was lowest at step {at:,} ({losses[best]:.4g}) and has risen to {losses[-1]:.4g} "
        f"by step {validations[-1]['step']:,}: {means}",
        advice=advise.by_heart(),
        numbers={"best_step": at, "best": losses[best], "last": losses[-1]},
    )


def generalisation_gap(
    training: float, validation: float, guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """The loss of one model on what it learned from, and on what was held out; both without dropout and smoothing."""
    wide = validation - training
    if training >= NARROW * validation or wide < COUNTS * (guessing if guessing is not None else validation):
        return None
    return Finding(
        "gap",
        step,
        NOTE,
        words=f"The loss is {training:.3g} on the training part and {validation:.3g} on validation: much of what was "
        "learned holds for the training part alone.",
        advice=advise.by_heart(),
        numbers={"training": training, "validation": validation},
    )


# --- stopping too early ---

FIFTH = 0.2
"""The last part of the budget."""
FALLS = 0.05
"""A part of the loss: where it falls by more over that fifth, more is to be had by going on."""
FALLS_ENOUGH = 0.02
"""A fall as a part of what guessing costs: the last thousandths are not worth it."""


def stopped_too_early(
    validations: Sequence[Mapping[str, Any]], guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """Whether the validation loss was still on its way down when the budget was spent; two validations can tell."""
    losses = {line["step"]: line["loss"] for line in validations if "loss" in line}
    earlier = [at for at in losses if at <= (1 - FIFTH) * step]
    if not earlier or min(losses.values()) < losses[max(losses)]:
        return None
    before, last = losses[max(earlier)], losses[max(losses)]
    fifths = (max(losses) - max(earlier)) / (FIFTH * step)  # where validations are few, they lie further apart
    if before - last < max(1.0, fifths) * max(FALLS * before, FALLS_ENOUGH * (guessing or before)):
        return None
    return Finding(
        "still-falling",
        step,
        NOTE,
        words=f"The validation loss was still falling at the end: {before:.4g} at step {max(earlier):,}, {last:.4g} at "
        f"step {max(losses):,}. The model can learn more.",
        advice=f"train longer: {advise.longer()}",
        numbers={"before": before, "last": last},
    )
