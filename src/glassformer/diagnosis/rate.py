"""The learning rate: too high where the loss jumps, too low where the weights hardly move."""

from collections.abc import Mapping, Sequence

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import PROBLEM, WARNING, Finding

BEFORE = 20
"""Updates that a jump is measured against."""
JUMP, FEW = 8.0, 3
"""Spreads above the middle of the updates before it make a jump; so many jumps are no chance."""
LARGE = 1.5
"""Times that middle: a jump that small is none, however quiet it was before."""
HIGH = 0.5
"""Of the first losses: where next to nothing is left to learn, one odd example is a jump of no account."""
WORSE = 1.2
"""Times the first losses: where a training ends above them, it has come apart."""
HARDLY = 1e-6
"""Change of the weights in an update, over their size. A thousand such updates change nothing that counts."""


def jumps(losses: Sequence[float]) -> list[int]:
    """The updates whose loss stands far above those just before; two within a few updates are one."""
    found: list[int] = []
    least = HIGH * float(np.median(losses[:5]))
    for place in range(BEFORE, len(losses)):
        if losses[place] < least:
            continue
        before = np.array(losses[place - BEFORE : place])
        middle = float(np.median(before))
        spread = 1.4826 * float(np.median(np.abs(before - middle)))
        high = losses[place] > max(middle + JUMP * spread, LARGE * middle, middle + least)
        if high and (not found or place + 1 - found[-1] > BEFORE):
            found.append(place + 1)
    return found


def too_high(losses: Sequence[float], advise: Advice, step: int) -> Finding | None:
    if len(losses) < 2 * BEFORE:
        return None
    first, last = float(np.median(losses[:5])), float(np.median(losses[-BEFORE:]))
    rate, advice = advise.rate, joined(advise.lower_rate(), advise.warmup(), advise.clip())
    if last > WORSE * first:
        words = (
            f"The loss has risen, from {first:.3g} to {last:.3g} over the last {BEFORE} updates: the rate is too high."
        )
        return Finding("rate-high", step, PROBLEM, words, advice, {"first": first, "last": last, "lr": rate})
    at = jumps(losses)
    if len(at) < max(FEW, len(losses) // 500):
        return None
    words = (
        f"The loss jumped {len(at)} times to over {LARGE:g} times what it was before (first at step {at[0]:,}, last at "
        f"step {at[-1]:,}): the rate is too high for some batches."
    )
    return Finding("rate-high", step, WARNING, words, advice, {"jumps": at[:20], "count": len(at), "lr": rate})


def too_low(history: Sequence[Mapping[str, Mapping[str, float]]], advise: Advice, step: int) -> Finding | None:
    """`history`: sizes by layer where they were measured; judged by the layer that moves most, of the later half."""
    moves = [
        max((one["update"] / one["weight"] for one in layers.values() if one["weight"] > 0), default=0.0)
        for layers in history[len(history) // 2 :]
    ]
    if len(history) < 6 or not moves or (middle := float(np.median(moves))) >= HARDLY:
        return None
    words = f"The weights hardly move: an update changes even the quickest layer by {middle:.1e} of its size."
    return Finding("rate-low", step, WARNING, words, advise.higher_rate(), {"change": middle, "lr": advise.rate})
