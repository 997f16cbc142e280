"""Whether a training came to its end, by its log: losses that fall as known curves do, and updates against an epoch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glassformer.trials.running.scoring import falling, undertraining


def log_of(
    loss: Callable[[float], float], *, updates: int = 100, validations: int = 10, cosine: bool = False
) -> list[dict[str, Any]]:
    """The log of a training whose loss is a function of how far it is, from 0 to 1."""
    steps = [
        {"event": "step", "step": step, "loss": loss((step - 1) / updates), "lr": _rate(step / updates, cosine)}
        for step in range(1, updates + 1)
    ]
    places = [updates * (place + 1) // validations for place in range(validations)]
    return [*steps, *({"event": "validation", "step": step, "loss": loss(step / updates)} for step in places)]


def _rate(done: float, cosine: bool) -> float:
    return 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2 if cosine else 1.0


def _between(*losses: float) -> Callable[[float], float]:
    """A curve through losses at tenths of a training."""
    return lambda done: float(np.interp(done, np.linspace(0, 1, len(losses)), losses))


SHORT = _between(8.31, 7.34, 6.47, 6.22, 6.04, 5.93, 5.84, 5.78, 5.73, 5.70, 5.68)
"""A small language model after one epoch, at n-grams' feet: with a rate that falls, the loss is flat all the same."""
THROUGH = _between(0.70, 0.70, 0.73, 0.61, 0.47, 0.39, 0.34, 0.35, 0.32, 0.36, 0.36)
"""A classifier that has begun to learn by heart."""

STILL = {
    "in a straight line": (lambda done: 0.7 - 0.3 * done, False),
    "slower and slower, but far from the end": (lambda done: 0.2 + 0.5 * math.exp(-done), False),
    "only at the end, after a plateau": (lambda done: 4.0 - 2.0 * max(0.0, done - 0.5), False),
    "by little, with little rate": (SHORT, True),
}
NO_MORE = {
    "to its end": (lambda done: 0.2 + 0.5 * math.exp(-8 * done), False),
    "as that of a language model does": (lambda done: 1.5 + 6.0 * (0.01 / (0.01 + done)), True),
    "and rises again": (lambda done: 0.7 - 0.3 * done if done < 0.5 else 0.55 + done - 0.5, False),
    "by little, with much rate": (SHORT, False),
    "up and down": (lambda done: 0.69 - 0.02 * done + 0.02 * (round(10 * done) % 2), False),
    "and was there already": (THROUGH, True),
    "not at all": (lambda done: 0.7 + done, False),
}


@pytest.mark.parametrize("curve", STILL)
def test_a_loss_that_is_still_falling(curve: str) -> None:
    loss, cosine = STILL[curve]
    words = falling(log_of(loss, cosine=cosine), 100)
    assert words is not None
    assert words.startswith("its validation loss still fell, by 0.")
    assert words.endswith("in the last fifth of its updates")


@pytest.mark.parametrize("curve", NO_MORE)
def test_a_loss_that_falls_no_more(curve: str) -> None:
    loss, cosine = NO_MORE[curve]
    assert falling(log_of(loss, cosine=cosine), 100) == ""


def test_a_log_that_does_not_say() -> None:
    line, _ = STILL["in a straight line"]
    assert falling([], 100) is None
    assert falling(log_of(line, validations=1), 100) is None  # nothing to compare the last one with
    assert falling([{**one, "event": "step", "lr": 1.0} for one in log_of(line)], 100) is None


@pytest.mark.parametrize(("status", "task", "updates", "epoch", "expected"), [
    ("finished", "classification", 100, 101, "100 updates, and an epoch takes 101"),
    ("finished", "translation", 100, 100.5, "100 updates, and an epoch takes 101"),
    ("finished", "language-model", 100, 101, ""),  # of a text, the loss tells enough
    ("finished", "classification", 100, 100, ""),
    ("finished", "classification", 100, None, ""),  # not known
    ("stopped early", "classification", 100, 101, ""),
    ("finished", "classification", 9, 3, "9 updates, too few to tell by"),
    ("finished", "language-model", 9, 3, "9 updates, too few to tell by"),
    ("finished", "classification", 10, 3, ""),
])  # fmt: skip
def test_an_epoch_and_some_updates_at_least(
    status: str, task: str, updates: int, epoch: float | None, expected: str
) -> None:
    card = {"status": status, "steps": updates, "task": task, "steps_per_epoch": epoch}
    assert undertraining(card, log_of(THROUGH, updates=updates)) == expected
