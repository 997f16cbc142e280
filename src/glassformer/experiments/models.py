"""Models of about the same size, and their brief training, which writes no files.

The width of each model is chosen so that it has about as many weights as the Transformer.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from glassformer.config.model_section import ModelSettings
from glassformer.config.resolve import resolve
from glassformer.config.sections import TrainingSettings
from glassformer.experiments.request import HEADS
from glassformer.models.build import build_language_model, parameter_count
from glassformer.tasks.base import Task
from glassformer.training.context import TrainerOptions
from glassformer.training.loop import Trainer

STEP = 8
"""Divisor of all widths."""


def same_size_models(
    names: Sequence[str], *, width: int, layers: int, vocab: int, context: int
) -> dict[str, ModelSettings]:
    """Return the settings of each model by name, with about as many weights as the Transformer.

    `width` and `layers` apply to the Transformer. Other models have their default depth and other settings.
    """
    sizes = {"model.width": width, "model.layers": layers, "model.heads": HEADS, "model.context": context}
    transformer = resolve({}, {"model": "transformer", **sizes}).model
    weights = count(transformer, vocab)
    others = {name: _as_large(name, context, weights, vocab) for name in names if name != "transformer"}
    return {name: others.get(name, transformer) for name in names}


def count(settings: ModelSettings, vocab: int) -> int:
    return parameter_count(build_language_model(settings, vocab=vocab))


def _as_large(name: str, context: int, weights: int, vocab: int) -> ModelSettings:
    """Return the model whose number of weights is nearest to `weights`; its width is found by bisection."""

    def wide(steps: int) -> ModelSettings:
        return resolve({}, {"model": name, "model.context": context, "model.width": steps * STEP}).model

    def size(steps: int) -> int:
        return count(wide(steps), vocab)

    above = 2
    while size(above) < weights:
        above *= 2
    enough = bisect_left(range(above), weights, lo=above // 2, key=size)
    return wide(min(max(1, enough - 1), enough, key=lambda steps: abs(size(steps) - weights)))


def sizes_of(models: dict[str, ModelSettings]) -> dict[str, dict[str, int]]:
    return {name: {"width": settings.width, "layers": settings.layers} for name, settings in models.items()}


def brief_training(steps: int, seed: int) -> dict[str, Any]:
    """Return the settings of a training run of `steps` updates, with a single validation at its end."""
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
    """Train a model in place, and leave it in evaluation mode. Raise `KeyboardInterrupt` on Ctrl-C."""
    trainer = Trainer(model, task, settings, TrainerOptions(device))
    if trainer.run().reason == "interrupted":
        raise KeyboardInterrupt
    model.eval()
