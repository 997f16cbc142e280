"""Whether a training came to its end, by its log: losses that fall as known curves do, and updates against an epoch."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.resolve import resolve
from glassformer.families.base import FAMILIES
from glassformer.runs.run import Run
from glassformer.trials.running.convergence import falling, undertraining, updates_per_epoch


def log_of(loss: Callable[[float], float], *, updates: int = 100, validations: int = 10) -> list[dict[str, Any]]:
    """The log of a training whose loss is a function of how far it is, from 0 to 1."""
    steps = [{"event": "step", "step": step, "loss": loss((step - 1) / updates)} for step in range(1, updates + 1)]
    places = [updates * (place + 1) // validations for place in range(validations)]
    return [*steps, *({"event": "validation", "step": step, "loss": loss(step / updates)} for step in places)]


STILL = {
    "in a straight line": lambda done: 0.7 - 0.3 * done,
    "slower and slower, but far from the end": lambda done: 0.2 + 0.5 * math.exp(-done),
    "only at the end, after a plateau": lambda done: 4.0 - 2.0 * max(0.0, done - 0.7),
}
NO_MORE = {
    "to its end": lambda done: 0.2 + 0.5 * math.exp(-8 * done),
    "as that of a language model does": lambda done: 1.5 + 6.0 * (0.01 / (0.01 + done)),
    "and rises again": lambda done: 0.7 - 0.3 * done if done < 0.5 else 0.55 + done - 0.5,
    "by a little, of a little": lambda done: 0.693 - 0.004 * done,
    "not at all": lambda done: 0.7 + done,
}


@pytest.mark.parametrize("curve", STILL)
def test_a_loss_that_is_still_falling(curve: str) -> None:
    words = falling(log_of(STILL[curve]), 100)
    assert words is not None
    assert words.startswith("its validation loss still fell, by 0.")
    assert words.endswith("in the last fifth of its updates")


@pytest.mark.parametrize("curve", NO_MORE)
def test_a_loss_that_falls_no_more(curve: str) -> None:
    assert falling(log_of(NO_MORE[curve]), 100) == ""


def test_a_log_that_does_not_say() -> None:
    line = STILL["in a straight line"]
    assert falling([], 100) is None
    assert falling(log_of(line, validations=1), 100) is None  # nothing to compare the last one with
    assert falling([{"event": one["event"], "step": one["step"]} for one in log_of(line)], 100) is None


@pytest.mark.parametrize(("status", "epoch", "expected"), [
    ("finished", 101, "100 updates, and an epoch takes 101"),
    ("finished", 100, ""),
    ("finished", None, ""),
    ("stopped early", 101, ""),
])  # fmt: skip
def test_an_epoch_at_least(tmp_path: Path, status: str, epoch: int | None, expected: str) -> None:
    run = Run(tmp_path)
    card = {"format": 2, "status": status, "steps": 100, "task": "classification", "config": {}}
    (tmp_path / "glassformer.json").write_text(json.dumps(card))
    run.metrics_path.write_text("".join(json.dumps(line) + "\n" for line in log_of(NO_MORE["to its end"])))
    assert undertraining(run, epoch) == expected


def test_how_many_updates_an_epoch_is() -> None:
    labels = resolve({}, {"task": "classification", "training.batch_size": 32})
    assert updates_per_epoch(FAMILIES["classification"], labels, {}, range(65)) == 3
    pairs = resolve({}, {"task": "translation", "training.batch_tokens": 1000})
    tokens = {"data": {"tokens": {"train": 12_001}}}
    assert updates_per_epoch(FAMILIES["translation"], pairs, tokens, range(9)) == 13
    assert updates_per_epoch(FAMILIES["translation"], pairs, {"data": {}}, range(9)) is None
    text = resolve({}, {"task": "language-model"})
    assert updates_per_epoch(FAMILIES["language-model"], text, tokens, None) is None
