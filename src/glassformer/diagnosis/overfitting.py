"""Overfitting, and stopping too early."""

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.diagnosis.advice import Advice
from glassformer.training.finding import NOTE, WARNING, Finding

RISES = 0.1
"""Of the best validation loss: a rise beyond what validations differ by anyway."""
RISES_ENOUGH, SURER = 0.02, 0.1
"""The same, of what guessing costs; and where answers are as good as before, and only surer."""
AFTER = 2
"""Validations since the best, before a rise counts."""
FIFTH = 0.2
"""Of the budget, at its end."""
FALLS = 0.05
"""Of the loss, over that fifth: more is to be had by going on."""
FALLS_ENOUGH = 0.02
"""The same, of what guessing costs: the last thousandths are not worth it."""
NARROW = 0.35
"""Training loss over validation loss: below it, much of what was learned holds for the training part alone."""
COUNTS = 0.25
"""Of what guessing costs: a smaller gap is none, however small the training loss."""


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
    losses = [one["loss"] for one in validations if "loss" in one]
    if len(losses) != len(validations) or len(losses) <= AFTER:
        return None
    best = min(range(len(losses)), key=losses.__getitem__)
    rise = losses[-1] - losses[best]
    if len(losses) - 1 - best < AFTER or rise < RISES * losses[best]:
        return None
    judged = [float(one[primary]) for one in validations]
    worse = judged[-1] > judged[best] if lower else judged[-1] < judged[best]
    if rise < (RISES_ENOUGH if worse else SURER) * (guessing or losses[0]):
        return None
    at = validations[best]["step"]
    words = (
        f"The validation loss was lowest at step {at:,} ({losses[best]:.4g}) and has risen to {losses[-1]:.4g} by step "
        f"{validations[-1]['step']:,}: "
    )
    words += (
        "from there on the model learns the training part by heart."
        if worse
        else (f"the model grows surer than it is right, though its {primary.replace('_', ' ')} has not fallen.")
    )
    numbers = {"best_step": at, "best": losses[best], "last": losses[-1]}
    return Finding("overfitting", step, WARNING if worse else NOTE, words, advise.by_heart(), numbers)


def generalisation_gap(
    training: float, validation: float, guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """The loss of one model on what it learned from, and on what was held out; both without dropout and smoothing."""
    wide = validation - training
    if training >= NARROW * validation or wide < COUNTS * (guessing if guessing is not None else validation):
        return None
    words = (
        f"The loss is {training:.3g} on the training part and {validation:.3g} on validation: much of what was learned "
        "holds for the training part alone."
    )
    return Finding("gap", step, NOTE, words, advise.by_heart(), {"training": training, "validation": validation})


def stopped_too_early(
    validations: Sequence[Mapping[str, Any]], guessing: float | None, advise: Advice, step: int
) -> Finding | None:
    """Whether the validation loss was still on its way down when the budget was spent; two validations can tell."""
    losses = {one["step"]: one["loss"] for one in validations if "loss" in one}
    earlier = [at for at in losses if at <= (1 - FIFTH) * step]
    if not earlier or min(losses.values()) < losses[max(losses)]:
        return None
    before, last = losses[max(earlier)], losses[max(losses)]
    fifths = (max(losses) - max(earlier)) / (FIFTH * step)  # where validations are few, they lie further apart
    if before - last < max(1.0, fifths) * max(FALLS * before, FALLS_ENOUGH * (guessing or before)):
        return None
    words = (
        f"The validation loss was still falling at the end: {before:.4g} at step {max(earlier):,}, {last:.4g} at step "
        f"{max(losses):,}. The model can learn more."
    )
    advice = f"train longer: {advise.longer()}"
    return Finding("still-falling", step, NOTE, words, advice, {"before": before, "last": last})
