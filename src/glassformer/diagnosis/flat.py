"""Whether the loss falls at all."""

import math
from collections.abc import Sequence

import numpy as np

from glassformer.diagnosis.advice import Advice
from glassformer.training.finding import WARNING, Finding

ENOUGH = 30
"""Updates, below which one cannot tell a fall from chance."""
LARGE, SMALL = 0.05, 0.005
"""Of the first loss: a fall as large as this is one, whatever chance may do; one below the other is none."""
SURE = 2.0
"""Standard errors beyond which a fall in between is no chance."""


def flat(losses: Sequence[float], done: float, advise: Advice) -> Finding | None:
    """`losses` of every update so far, `done` of the budget."""
    count = len(losses)
    if count < ENOUGH:
        return None
    first, last = np.array(losses[: count // 3]), np.array(losses[-(count // 3) :])
    fall = float(first.mean() - last.mean())
    chance = math.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    share = fall / abs(float(first.mean())) if first.any() else 0.0
    if share >= LARGE or (share >= SMALL and fall > SURE * chance):
        return None
    words = (
        f"The loss does not fall: {first.mean():.4g} over the first {len(first)} updates, {last.mean():.4g} over the "
        f"last {len(last)} of {count:,}, which are {done:.0%} of the budget."
    )
    advice = (
        f"{advise.another_rate()}; a smaller or another model; whether labels belong to their texts (glassformer data "
        "show)"
    )
    numbers = {"first": float(first.mean()), "last": float(last.mean()), "chance": chance, "done": done}
    return Finding("flat", count, WARNING, words, advice, numbers)
