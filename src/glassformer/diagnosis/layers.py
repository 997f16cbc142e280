"""The layers of a trained model: gradients, updates, hidden units, attention heads, states and gates.

The first half judges numbers of the log, the second what passes through the model on a few training examples.
"""

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.bricks.capabilities import parts_with
from glassformer.bricks.feed_forward import Bias, hidden_units_of
from glassformer.bricks.recurrent import Recurrent
from glassformer.diagnosis.advice import Advice, finding
from glassformer.inspection.attention import stacks_of
from glassformer.inspection.capture import capture
from glassformer.models.modules import device_of
from glassformer.tasks.base import Batch, Task
from glassformer.training.events import NOTE, PROBLEM, WARNING, Finding

Layers = Mapping[str, Mapping[str, float]]

VANISHED = 1e-3
"""Gradient of the first layer over that of the last. Chosen wide, so that an uneven stack is no alarm."""
EXPLODED = 1e3
LEAST_STEPS = 6
"""Measured updates: at the very first ones, weights that start at 0 hold gradients back."""
HARDLY = 1e-6
"""Change of the weights in an update, over their size. A thousand such updates change nothing that counts."""
STILL, NOTHING = 1e-9, 1e-15
"""Gradient of a layer that learns nothing: over that of the layer that learns most, and at all."""


# --- gradients and updates ---


def vanishing_gradients(history: Sequence[Layers], advise: Advice) -> Finding | None:
    """Compare the gradients of the first and last layer of a stack. `history`: sizes by layer, where measured."""
    if len(history) < LEAST_STEPS:
        return None
    later = history[len(history) // 2 :]
    middle = {
        name: float(np.median([layers[name]["gradient"] for layers in later if name in layers])) for name in later[-1]
    }
    for first, *_, last in (names for names in stacks(later[-1]) if len(names) > 1):
        below, above = middle[first], middle[last]
        ratio = below / above if above > 0 else (1.0 if below == 0 else np.inf)
        numbers = {"first": first, "last": last, "first_gradient": below, "last_gradient": above}
        if ratio < VANISHED:
            times = f" ({1 / ratio:.0e} times as large)" if ratio else ""
            return finding(advise, "vanishing", WARNING, numbers, times=times)
        if ratio > EXPLODED:
            times = f", {ratio:.0e} times less" if above else ""
            return finding(advise, "exploding", WARNING, numbers, times=times)
    return _no_gradient(middle, advise)


def _no_gradient(gradients: Mapping[str, float], advise: Advice) -> Finding | None:
    """Report layers that receive no gradient at all."""
    most = max(gradients.values(), default=0.0)
    if most < NOTHING:
        return finding(advise, "vanishing: everywhere", PROBLEM, {"gradient": most})
    still = [name for name, gradient in gradients.items() if gradient < STILL * most]
    if not still:
        return None
    return finding(advise, "vanishing: somewhere", WARNING, {"layers": still}, named=", ".join(still[:4]))


def stacks(layers: Layers) -> list[list[str]]:
    """Layers that differ only in their last number, in its order: encoder.blocks.0, encoder.blocks.1, …"""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in layers:
        if match := re.fullmatch(r"(.*?)(\d+)", name):
            numbered.setdefault(match[1], []).append((int(match[2]), name))
    return [[name for _, name in sorted(stack)] for stack in numbered.values()]


def learning_rate_too_low(history: Sequence[Layers], advise: Advice) -> Finding | None:
    """Report that even the layer that moves most hardly moves. `history`: sizes by layer, where measured."""
    if len(history) < LEAST_STEPS:
        return None
    moves = [
        max((size["update"] / size["weight"] for size in layers.values() if size["weight"] > 0), default=0.0)
        for layers in history[len(history) // 2 :]
    ]
    middle = float(np.median(moves))
    if middle >= HARDLY:
        return None
    return finding(advise, "rate-low", WARNING, {"change": middle, "lr": advise.rate})


# --- units, gates and heads ---

DEAD, MOST_DEAD = 0.5, 0.9
"""Share of a layer's units that are never active. A good reader of digits had 41 % of them."""
SATURATED = 0.5
"""Share of a layer's numbers at the ends of tanh or the gates, where gradients are next to 0."""
POINTED = 0.05
"""Entropy of a head's weights over the largest possible: below it, the head looks at a single token."""
EVEN = 0.995
"""Above it, the head looks at all tokens alike."""
MOST_HEADS = 0.5
"""Share of all heads. Some heads of a good model do either; where most do, attention has stopped learning."""
SHOWN = 6


def dead_units(shares: Mapping[str, float], advise: Advice) -> Finding | None:
    """Judge the share of dead units by layer."""
    dead = {name: share for name, share in shares.items() if share >= DEAD}
    if not dead:
        return None
    severity = PROBLEM if max(dead.values()) >= MOST_DEAD else WARNING
    return finding(advise, "dead-units", severity, dead, named=_named(dead))


def saturated_units(shares: Mapping[str, float], advise: Advice) -> Finding | None:
    """Judge the share of states and gates at their ends, by layer."""
    saturated = {name: share for name, share in shares.items() if share >= SATURATED}
    if not saturated:
        return None
    return finding(advise, "stuck", WARNING, saturated, named=_named(saturated))


def _named(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.0%} of {name}" for name, share in list(shares.items())[:SHOWN])


def attention_heads(entropies: Mapping[str, float], advise: Advice) -> list[Finding]:
    """Judge the mean entropy of each head's weights over the largest possible, by the head's name (layer.head)."""
    pointed = {name: share for name, share in entropies.items() if share < POINTED}
    even = {name: share for name, share in entropies.items() if share > EVEN}
    findings = []
    for kind, idle in (("heads-one-token", pointed), ("heads-everywhere", even)):
        if len(idle) > MOST_HEADS * len(entropies):
            named = ", ".join(list(idle)[:SHOWN]) + (" …" if len(idle) > SHOWN else "")
            findings.append(finding(advise, kind, NOTE, idle, count=len(idle), all=len(entropies), named=named))
    return findings


# --- what passes through the model ---

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
            for units in hidden_units_of(module):
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
    recurrent = parts_with(model, Recurrent)
    layers = [path for path, module in recurrent if getattr(module.cell, "nonlinearity", "tanh") == "tanh"]
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
