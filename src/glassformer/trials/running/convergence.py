"""Whether a training came to its end, by what its log holds. Before that, a score says how far it got, and not how good
the model is.
"""

import math
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

from glassformer.config.resolve import Config
from glassformer.families.base import Family
from glassformer.families.labelling import LabellingFamily
from glassformer.families.translation import TranslationFamily
from glassformer.runs.run import Run

LAST = 0.2
"""The part of the updates, at the end, in which a loss should have stopped to fall."""
MUCH, LEAST = 0.1, 0.01
"""It is falling still if they brought more than such a part of all that it fell by, and of where it began."""
EARLY = "stopped early"
"""The status of a run whose validation got no better: that is an end."""


def undertraining(run: Run, epoch: int | None) -> str | None:
    """Why a run was not trained to its end, in a few words; empty: it was. None: its log does not say.

    `epoch`: how many updates go through the training data once, where that is asked of such data.
    """
    card = run.card()
    updates = int(card.get("steps", 0))
    if card.get("status") == EARLY:
        return ""
    if epoch is not None and 0 < updates < epoch:
        return f"{updates:,} update{'s' * (updates != 1)}, and an epoch takes {epoch:,}"
    return falling(run.read_metrics(), updates)


def falling(log: Iterable[Mapping[str, Any]], updates: int) -> str | None:
    """How far the best validation loss fell in the last fifth of the updates, if that is much of its whole way from the
    loss of the first batch; else nothing. None: there is too little to tell by.
    """
    start, before, best = None, math.inf, math.inf
    for line in log:
        if "loss" not in line:
            continue
        if line.get("event") == "step" and start is None:
            start = float(line["loss"])
        elif line.get("event") == "validation":
            best = min(best, float(line["loss"]))
            if line["step"] <= (1 - LAST) * updates:
                before = best
    if start is None or math.isinf(before):
        return None
    before = min(before, start)
    fell, whole = before - best, start - best
    if fell <= MUCH * whole or fell <= LEAST * abs(start):
        return ""
    return f"its validation loss still fell, by {fell:.2g} of {whole:.2g} in the last fifth of its updates"


@singledispatch
def updates_per_epoch(family: Family, config: Config, card: Mapping[str, Any], train: Any) -> int | None:
    """How many updates go through the training part once, at least. None of a text: a long one is rarely read to its
    end, and its loss tells enough.
    """
    return None


@updates_per_epoch.register
def _(family: LabellingFamily, config: Config, card: Mapping[str, Any], train: Any) -> int:
    return math.ceil(len(train) / config.training.batch_size)


@updates_per_epoch.register
def _(family: TranslationFamily, config: Config, card: Mapping[str, Any], train: Any) -> int | None:
    tokens, each = card["data"].get("tokens", {}).get("train"), config.training.batch_tokens
    return None if tokens is None or each is None else math.ceil(tokens / each)
