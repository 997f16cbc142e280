"""Whether a training came to its end, by what its log holds. Before that, a score says how far it got, and not how good
the model is.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from glassformer.config.presets import reads_stream
from glassformer.data.wording import counted

FEWEST = 10
"""The updates after which a loss can tell anything: with fewer, not even each tenth of a training is one."""

LAST = 0.2
"""The part of the updates, at the end, in which a loss should have stopped to fall."""
PACE = 0.25
"""It is falling still if it falls there at more than such a part of its average pace."""
EARLY = "stopped early"
"""The status of a run whose validation got no better: that is an end."""


def undertraining(card: Mapping[str, Any], log: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a run was not trained to its end, in a few words; empty: it was. None: its log does not say.

    An epoch is asked for of examples, not of a text: a long one is rarely read to its end, and its loss tells enough.
    """
    if card.get("status") == EARLY:
        return ""
    updates = int(card.get("steps", 0))
    epoch = 0 if reads_stream(str(card.get("task"))) else math.ceil(card.get("steps_per_epoch") or 0)
    if 0 < updates < epoch:
        return f"{counted(updates, 'update')}, and an epoch takes {epoch:,}"
    if 0 < updates < FEWEST:
        return f"{counted(updates, 'update')}, too few to tell by"
    return falling(log, updates)


def falling(log: Iterable[Mapping[str, Any]], updates: int) -> str | None:
    """How far the best validation loss fell in the last fifth of the updates, if that is much of its whole way from the
    loss of the first batch, and it fell from one validation to the next for as long again; else nothing. None: there is
    too little to tell by.

    How much is much follows from the learning rate, which falls as well: a loss is soon still where the rate is low.
    """
    start, rates, losses = None, [0.0, 0.0], []
    for line in log:
        if line.get("event") == "step":
            start = float(line["loss"]) if start is None else start
            rates[line["step"] > (1 - LAST) * updates] += float(line["lr"])
        elif line.get("event") == "validation" and "loss" in line:
            losses.append((int(line["step"]), float(line["loss"])))
    before = [loss for step, loss in losses if step <= (1 - LAST) * updates]
    if start is None or not before or not sum(rates) > 0:
        return None
    best = min(loss for _, loss in losses)
    fell, whole = min(start, *before) - best, start - best
    recent = [loss for step, loss in losses if step >= (1 - 2 * LAST) * updates]
    steadily = all(after < loss for loss, after in pairwise(recent))
    if not steadily or fell <= PACE * whole * rates[1] / sum(rates):
        return ""
    return f"its validation loss still fell, by {fell:.2g} of {whole:.2g} in the last fifth of its updates"
