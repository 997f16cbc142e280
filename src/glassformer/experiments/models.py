"""Models of like size, each as wide as gives it about as many weights as the Transformer has, and how each is trained:
briefly, and nothing is left but the model.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from glassformer.config.errors import silent
from glassformer.config.resolve import resolve
from glassformer.config.sections import ModelSettings, TrainingSettings
from glassformer.experiments.request import HEADS
from glassformer.models.build import build_language_model, parameter_count
from glassformer.tasks.base import Task
from glassformer.training.checkpointer import NoCheckpoints
from glassformer.training.loop import Trainer

STEP = 8
"""Widths are multiples of it."""


def transformer_of(width: int, layers: int, *, context: int) -> ModelSettings:
    """The measure of all the others."""
    chosen = {"width": width, "layers": layers, "heads": HEADS, "context": context}
    return resolve({}, {"model": "transformer", **{f"model.{key}": value for key, value in chosen.items()}}).model


def same_size_models(
    names: Sequence[str], *, width: int, layers: int, vocab: int, context: int
) -> dict[str, ModelSettings]:
    """Settings of each model by name; depth and all else are its usual ones."""
    measure = transformer_of(width, layers, context=context)
    weights = count(measure, vocab)
    found = {}
    for name in names:
        if name == "transformer":
            found[name] = measure
            continue
        usual = resolve({}, {"model": name, "model.context": context}).model
        found[name] = _as_large(usual, weights, vocab)
    return found


def count(settings: ModelSettings, vocab: int) -> int:
    return parameter_count(build_language_model(settings, vocab=vocab))


def _as_large(usual: ModelSettings, weights: int, vocab: int) -> ModelSettings:
    """The width whose number of weights is nearest: the number grows with the width, so halving finds it."""

    def wide(steps: int) -> ModelSettings:
        return replace(usual, width=steps * STEP, hidden=None)  # type: ignore[arg-type]  # filled in anew

    below, above = 1, 2
    while count(wide(above), vocab) < weights:
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        if count(wide(middle), vocab) < weights:
            below = middle
        else:
            above = middle
    return min(wide(below), wide(above), key=lambda settings: abs(count(settings, vocab) - weights))


def brief_training(steps: int, seed: int) -> dict[str, Any]:
    """Settings of a training of so many updates: alike for every model, judged once, at its end."""
    return {
        "steps": steps,
        "seed": seed,
        "training.validate_every": steps,
        "training.validation_tokens": 1000,
        "training.keep": "last",
        "training.compile": "off",
        "training.precision": "fp32",
    }


def train_briefly(model: nn.Module, task: Task, settings: TrainingSettings, device: torch.device) -> None:
    """The model as it is after its last update, ready for use. Ctrl-C stops everything."""
    trainer = Trainer(model, task, settings, device=device, checkpointer=NoCheckpoints(), listen=silent)
    if trainer.run().reason == "interrupted":
        raise KeyboardInterrupt
    model.eval()
