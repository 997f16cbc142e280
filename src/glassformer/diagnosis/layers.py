"""The layers of a trained model: gradients, updates, hidden units, attention heads, states and gates.

The first half checks numbers of the log, the second the activations of a few training examples.
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

VANISHING_RATIO = 1e-3
"""Ratio of the gradient of the first layer to that of the last. Uneven but healthy stacks stay far from it."""
EXPLODING_RATIO = 1e3
MIN_MEASURED_STEPS = 6
"""Minimum number of measured updates, because weights that start at 0 block gradients at first."""
MIN_RELATIVE_UPDATE = 1e-6
"""Size of an update relative to the weights; a thousand smaller ones have no effect."""
MIN_RELATIVE_GRADIENT, MIN_GRADIENT = 1e-9, 1e-15
"""Smallest gradient of a layer that learns: relative to the largest gradient, and absolute."""


# --- gradients and updates ---


def vanishing_gradients(history: Sequence[Layers], advise: Advice) -> Finding | None:
    """Compare the gradients of the first and last layer of a stack. `history`: sizes by layer, where measured."""
    if len(history) < MIN_MEASURED_STEPS:
        return None
    later = history[len(history) // 2 :]
    middle = {
        name: float(np.median([layers[name]["gradient"] for layers in later if name in layers])) for name in later[-1]
    }
    for first, *_, last in (names for names in stacks(later[-1]) if len(names) > 1):
        below, above = middle[first], middle[last]
        ratio = below / above if above > 0 else (1.0 if below == 0 else np.inf)
        numbers = {"first": first, "last": last, "first_gradient": below, "last_gradient": above}
        if ratio < VANISHING_RATIO:
            times = f" ({1 / ratio:.0e} times as large)" if ratio else ""
            return finding(advise, "vanishing", WARNING, numbers, times=times)
        if ratio > EXPLODING_RATIO:
            times = f", {ratio:.0e} times less" if above else ""
            return finding(advise, "exploding", WARNING, numbers, times=times)
    return _no_gradient(middle, advise)


def _no_gradient(gradients: Mapping[str, float], advise: Advice) -> Finding | None:
    """Report layers that receive no gradient at all."""
    most = max(gradients.values(), default=0.0)
    if most < MIN_GRADIENT:
        return finding(advise, "vanishing: everywhere", PROBLEM, {"gradient": most})
    still = [name for name, gradient in gradients.items() if gradient < MIN_RELATIVE_GRADIENT * most]
    if not still:
        return None
    return finding(advise, "vanishing: somewhere", WARNING, {"layers": still}, named=", ".join(still[:4]))


def stacks(layers: Layers) -> list[list[str]]:
    """Return groups of layers whose names differ only in their last number, such as encoder.blocks.0, 1 and 2."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in layers:
        if match := re.fullmatch(r"(.*?)(\d+)", name):
            numbered.setdefault(match[1], []).append((int(match[2]), name))
    return [[name for _, name in sorted(stack)] for stack in numbered.values()]


def learning_rate_too_low(history: Sequence[Layers], advise: Advice) -> Finding | None:
    """Report that even the layer that moves most hardly moves. `history`: sizes by layer, where measured."""
    if len(history) < MIN_MEASURED_STEPS:
        return None
    moves = [
        max((size["update"] / size["weight"] for size in layers.values() if size["weight"] > 0), default=0.0)
        for layers in history[len(history) // 2 :]
    ]
    middle = float(np.median(moves))
    if middle >= MIN_RELATIVE_UPDATE:
        return None
    return finding(advise, "rate-low", WARNING, {"change": middle, "lr": advise.rate})


# --- units, gates and heads ---

MIN_DEAD_SHARE, HIGH_DEAD_SHARE = 0.5, 0.9
"""Shares of units that are never active for a warning and for a problem. A good model of digits had 41 %."""
MIN_SATURATED_SHARE = 0.5
"""Share of saturated states or gates, whose gradients are close to 0."""
MAX_POINTED_ENTROPY = 0.05
"""Relative entropy of attention weights below which a head attends to a single token."""
MIN_EVEN_ENTROPY = 0.995
"""Relative entropy above which a head attends to all tokens equally."""
MIN_IDLE_HEADS = 0.5
"""Share of idle heads for a finding; some heads of a good model are idle."""
MAX_NAMED = 6


def dead_units(shares: Mapping[str, float], advise: Advice) -> Finding | None:
    """Report layers with many dead units, by their share."""
    dead = {name: share for name, share in shares.items() if share >= MIN_DEAD_SHARE}
    if not dead:
        return None
    severity = PROBLEM if max(dead.values()) >= HIGH_DEAD_SHARE else WARNING
    return finding(advise, "dead-units", severity, dead, named=_named(dead))


def saturated_units(shares: Mapping[str, float], advise: Advice) -> Finding | None:
    """Report layers with many saturated states or gates, by their share."""
    saturated = {name: share for name, share in shares.items() if share >= MIN_SATURATED_SHARE}
    if not saturated:
        return None
    return finding(advise, "stuck", WARNING, saturated, named=_named(saturated))


def _named(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.0%} of {name}" for name, share in list(shares.items())[:MAX_NAMED])


def attention_heads(entropies: Mapping[str, float], advise: Advice) -> list[Finding]:
    """Report idle heads. `entropies`: relative entropy of attention weights by head (layer.head)."""
    pointed = {name: share for name, share in entropies.items() if share < MAX_POINTED_ENTROPY}
    even = {name: share for name, share in entropies.items() if share > MIN_EVEN_ENTROPY}
    findings = []
    for kind, idle in (("heads-one-token", pointed), ("heads-everywhere", even)):
        if len(idle) > MIN_IDLE_HEADS * len(entropies):
            named = ", ".join(list(idle)[:MAX_NAMED]) + (" …" if len(idle) > MAX_NAMED else "")
            findings.append(finding(advise, kind, NOTE, idle, count=len(idle), all=len(entropies), named=named))
    return findings


# --- activations on a few examples ---

MAX_BATCHES, MAX_BATCH_ROWS, MAX_CAPTURED_ROWS = 8, 32, 4
"""Maximum number of training batches, of examples per batch, and of examples whose states are captured."""
MIN_ACTIVATION = 1e-3
"""Absolute value up to which a unit is inactive."""
MIN_SMOOTH_INPUT = -4.0
"""Input of a smooth activation (GELU) up to which its output is close to 0."""
SATURATED_VALUE = 0.99
"""|tanh| from which its gradient is below 2 %; gates are saturated below 0.01 and above 0.99."""
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
MIN_KEYS = 4
"""Minimum number of visible tokens for the entropy of a head."""


def sample_batches(task: Task) -> Iterator[Batch]:
    """Yield training batches spread over an epoch."""
    steps = max(1, math.floor(task.steps_per_epoch))
    for step in sorted({steps * number // MAX_BATCHES for number in range(MAX_BATCHES)}):
        batch = task.batch(step)
        yield batch.rows(0, min(MAX_BATCH_ROWS, batch.size))


def _record(model: nn.Module, task: Task, names: list[str]) -> Mapping[str, Tensor]:
    """Capture tensors of a model by name on a few examples."""
    batch = next(sample_batches(task))
    with capture(model, names) as seen:
        task.loss(model, *batch.rows(0, min(MAX_CAPTURED_ROWS, batch.size)).tensors(device_of(model)))
    return seen


@torch.no_grad()
def training_loss(model: nn.Module, task: Task) -> float | None:
    """Return the mean training loss without smoothing and class weights, as evaluations compute it; None if empty."""
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
    """Return the share of hidden units that are inactive at every token of the sample, by layer."""
    alive: dict[str, Tensor] = {}
    last = ("", 0, 0)
    """The layer that ran last: its name, the dimension of its units, and their number."""

    def look(name: str, dim: int, active: Tensor) -> None:
        units = active.movedim(dim, 0).flatten(1).any(1)
        alive[name] = alive[name] | units if name in alive else units

    def watch(
        name: str, dim: int, active: Callable[[Tensor], Tensor], module: nn.Module, inputs: object, output: Tensor
    ) -> None:
        look(name, dim, active(output.float()))

    def remember(name: str, dim: int, module: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal last
        last = name, dim, output.shape[dim]

    def rectified(module: nn.Module, inputs: object, output: Tensor) -> None:
        """Count the units that a ReLU passes. A user's model may share one ReLU among layers: the last one counts."""
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
    """Return a function that tells which units are active.

    `activation`: the function applied to them next, which may be ReLU or smooth; None: it was applied already.
    """
    if activation is None:
        return lambda output: output.abs() > MIN_ACTIVATION
    sharp = float(activation(torch.tensor(-1.0))) == 0
    return lambda before: before > (0 if sharp else MIN_SMOOTH_INPUT)


# --- heads ---


@torch.no_grad()
def head_entropies(model: nn.Module, task: Task) -> dict[str, float]:
    """Return the mean relative entropy of each head's attention weights, where it sees several tokens."""
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
            weights = seen[f"{path}.weights"]  # a user's attention may have no scores; hidden tokens have weight 0
            spreads = _spread(weights, seen[scores] if (scores := f"{path}.scores") in seen else weights.log())
            out |= {f"{layer}.{head}": spread for head, spread in enumerate(spreads) if spread is not None}
    return out


def _spread(weights: Tensor, scores: Tensor) -> list[float | None]:
    """Return the relative entropy of B×h×T×S weights by head; None for a head whose rows all see too few tokens.

    Hidden tokens have a score of −∞.
    """
    if weights.dim() == 3:  # of a recurrent decoder: one head
        weights, scores = weights.unsqueeze(1), scores.unsqueeze(1)
    keys = scores.isfinite().sum(-1)
    shares = torch.special.entr(weights.float()).sum(-1) / keys.clamp_min(2).log()
    counted = keys >= MIN_KEYS
    by_head = zip(shares.unbind(1), counted.unbind(1), strict=True)
    return [float(share[mask].mean()) if mask.any() else None for share, mask in by_head]


# --- states and gates ---


@torch.no_grad()
def saturated_shares(model: nn.Module, task: Task) -> dict[str, float]:
    """Return the share of saturated states and gates of recurrent layers, by tensor."""
    recurrent = parts_with(model, Recurrent)
    layers = [path for path, module in recurrent if getattr(module.cell, "nonlinearity", "tanh") == "tanh"]
    if not layers:
        return {}
    seen = _record(model, task, [f"{path}.*{what}" for path in layers for what in (".states", ".gates.*")])
    out = {}
    for name in seen:
        values = seen[name].float()
        values = values[values.abs().sum(-1) > 0]  # without padding
        signed = name.rpartition(".")[2] in ("states", "g", "n")
        ends = values.abs() > SATURATED_VALUE if signed else (values - 0.5).abs() > SATURATED_VALUE - 0.5
        if values.numel():
            out[name] = float(ends.float().mean())
    return out
