"""What passes through a trained model on a few examples that it learned from: how active, how spread, how sure."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bricks.feed_forward import Bias, MultilayerPerceptron
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.tap import Brick
from glassformer.inspection.attention import stacks_of
from glassformer.inspection.capture import capture
from glassformer.models.modules import device_of
from glassformer.tasks.base import Batch, Task

BATCHES, ROWS, FEW_ROWS = 8, 32, 4
"""Batches of the training part, examples of each; and of one batch, those whose states are followed token by token."""
SMALL = 1e-3
"""An activation that is never further from 0 than this is none."""
BEFORE_SMOOTH = -4.0
"""What goes into a smooth activation (GELU) and never above this comes out as next to 0."""
AT_END = 0.99
"""|tanh|, from which on its gradient is below 2 %; a gate that is 0.01 or 0.99."""
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
LEAST_KEYS = 4
"""Tokens among which a head can choose, for its spread to mean something."""


def sample_batches(task: Task) -> Iterator[Batch]:
    """Some batches of the training part, spread over an epoch."""
    steps = max(1, math.floor(task.steps_per_epoch))
    for step in sorted({steps * number // BATCHES for number in range(BATCHES)}):
        batch = task.batch(step)
        yield batch.rows(0, min(ROWS, batch.size))


def _record(model: nn.Module, task: Task, names: list[str]) -> Mapping[str, Tensor]:
    """What passes through a model by these names, on a few examples."""
    batch = next(sample_batches(task))
    with capture(model, names) as seen:
        task.loss(model, *batch.rows(0, min(FEW_ROWS, batch.size)).tensors(device_of(model)))
    return seen


@torch.no_grad()
def training_loss(model: nn.Module, task: Task) -> float | None:
    """The mean loss on the training part without dropout, smoothing and weights of classes, as evaluations have it."""
    plain: Any = copy.copy(task)
    plain.smoothing, plain.weights = 0.0, None
    total, count = 0.0, 0
    for batch in sample_batches(task):
        total += float(plain.loss(model, *batch.tensors(device_of(model))))
        count += batch.count
    return total / count if count else None


# --- units ---


@torch.no_grad()
def dead_shares(model: nn.Module, task: Task) -> dict[str, float]:
    """The share of a layer's hidden units that are active at no token of the sample, by layer."""
    alive: dict[str, Tensor] = {}
    last = ("", 0, 0)
    """The layer that ran last: its name, where its units lie, and how many they are."""

    def look(name: str, dim: int, active: Tensor) -> None:
        units = active.movedim(dim, 0).flatten(1).any(1)
        alive[name] = alive[name] | units if name in alive else units

    def watch(
        name: str, dim: int, active: Callable[[Tensor], Tensor], module: nn.Module, inputs: Any, output: Tensor
    ) -> None:
        look(name, dim, active(output.float()))

    def remember(name: str, dim: int, module: nn.Module, inputs: Any, output: Tensor) -> None:
        nonlocal last
        last = name, dim, output.shape[dim]

    def rectified(module: nn.Module, inputs: Any, output: Tensor) -> None:
        """What a ReLU lets through; a person's own model may have one for many layers, and the last one is meant."""
        name, dim, size = last
        if output.shape[dim] == size:
            look(name, dim, output > 0)

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            for units in module.hidden_units() if isinstance(module, Brick | MultilayerPerceptron) else ():
                name = ".".join(part for part in (path, units.name) if part)
                hook = partial(watch, name, units.dim, _active(units.activation))
                hooks.enter_context(units.layer.register_forward_hook(hook))
            if isinstance(module, nn.ReLU):
                hooks.enter_context(module.register_forward_hook(rectified))
            elif isinstance(module, (nn.Linear, Bias, *CONVOLUTIONS)):
                dim = 1 if isinstance(module, CONVOLUTIONS) else -1
                hooks.enter_context(module.register_forward_hook(partial(remember, path, dim)))
        for batch in sample_batches(task):
            task.loss(model, *batch.tensors(device_of(model)))
    return {name: 1 - float(units.float().mean()) for name, units in alive.items()}


def _active(activation: Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor]:
    """Which of a layer's units say something. `activation`: what their numbers go through next: ReLU lets nothing below
    0 through, a smooth one next to nothing far below; None: they have been through it.
    """
    if activation is None:
        return lambda output: output.abs() > SMALL
    sharp = float(activation(torch.tensor(-1.0))) == 0
    return lambda before: before > (0 if sharp else BEFORE_SMOOTH)


# --- heads ---


@torch.no_grad()
def head_entropies(model: nn.Module, task: Task) -> dict[str, float]:
    """The mean entropy of each head's weights over the largest possible, where it has several tokens to choose from."""
    stacks = stacks_of(model)
    layers = {
        path: f"{stack}:{layer}" if len(stacks) > 1 else str(layer)
        for stack, paths in stacks.items()
        for layer, (path, _) in enumerate(paths)
    }
    if not layers:
        return {}
    seen = _record(model, task, [f"{path}.{what}" for path in layers for what in ("scores", "weights")])
    out: dict[str, float] = {}
    for path, layer in layers.items():
        if f"{path}.weights" in seen:
            weights = seen[f"{path}.weights"]  # a person's own attention tells no scores: what it does not see weighs 0
            spreads = _spread(weights, seen[scores] if (scores := f"{path}.scores") in seen else weights.log())
            out |= {f"{layer}.{head}": spread for head, spread in enumerate(spreads) if spread is not None}
    return out


def _spread(weights: Tensor, scores: Tensor) -> list[float | None]:
    """The entropy of B×h×T×S weights, by head; rows that see too few tokens do not count. What cannot be seen has a
    score of −∞.
    """
    if weights.dim() == 3:  # of a recurrent decoder: one head
        weights, scores = weights.unsqueeze(1), scores.unsqueeze(1)
    keys = scores.isfinite().sum(-1)
    shares = torch.special.entr(weights.float()).sum(-1) / keys.clamp_min(2).log()
    counted = keys >= LEAST_KEYS
    by_head = zip(shares.unbind(1), counted.unbind(1), strict=True)
    return [float(share[here].mean()) if here.any() else None for share, here in by_head]


# --- states and gates ---


@torch.no_grad()
def saturated_shares(model: nn.Module, task: Task) -> dict[str, float]:
    """The share of a recurrent layer's states and gates that lie at an end of tanh or sigmoid."""
    layers = [
        path
        for path, module in model.named_modules()
        if isinstance(module, Recurrent) and getattr(module.cell, "nonlinearity", "tanh") == "tanh"
    ]
    if not layers:
        return {}
    seen = _record(model, task, [f"{path}.*{what}" for path in layers for what in (".states", ".gates.*")])
    out = {}
    for name in seen:
        values = seen[name].float()
        values = values[values.abs().sum(-1) > 0]  # not at padding
        signed = name.rpartition(".")[2] in ("states", "g", "n")
        ends = values.abs() > AT_END if signed else (values - 0.5).abs() > AT_END - 0.5
        if values.numel():
            out[name] = float(ends.float().mean())
    return out
