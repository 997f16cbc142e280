"""Measurements of a step: its loss, the first tensor that is not finite, and sizes of gradients and updates."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.training.distributed.parallel import Parallel

MOST_ROWS = 64
"""Examples of a batch that are tried one by one."""


class LossWatch:
    """Sums the losses of a step's pieces.

    On a GPU the sum is copied out as soon as the last forward pass is done, while the backward pass runs: reading it
    costs nothing, and a loss that is not finite is known before the weights are touched.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._total = torch.zeros((), device=device)
        if self._cuda:
            self._copy = torch.zeros((), pin_memory=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def add(self, loss: Tensor, *, first: bool, last: bool) -> None:
        detached = loss.detach().float()
        self._total = detached if first else self._total + detached
        if last and self._cuda:
            self._copy.copy_(self._total, non_blocking=True)
            self._copied.record()

    def read(self) -> float:
        if not self._cuda:
            return float(self._total)
        self._copied.synchronize()
        return float(self._copy)


def first_not_finite(model: nn.Module, compute: Callable[[], Tensor]) -> str | None:
    """The first tensor that is not finite, by name: a parameter, a module's output, the loss, or a gradient.

    Gradients are made from the loss back: the first of them is that of the last module.
    """
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            return f"parameter {name}"
    culprits: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if not culprits and isinstance(output, Tensor) and not torch.isfinite(output).all():
                culprits.append(f"output of {name}")

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        loss = compute()
        if not culprits and not torch.isfinite(loss):
            culprits.append("the loss")
        if not culprits:
            model.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            spoiled = [
                name
                for name, weight in model.named_parameters()
                if weight.grad is not None and not torch.isfinite(weight.grad).all()
            ]
            last = [name for name in spoiled if name.rpartition(".")[0] == spoiled[-1].rpartition(".")[0]]
            culprits += [f"gradient of {name}" for name in last]
    finally:
        for hook in hooks:
            hook.remove()
    return culprits[0] if culprits else None


def rows_not_finite(model: nn.Module, size: int, compute: Callable[[int], Tensor]) -> tuple[int, ...]:
    """The examples that lead to a loss or a gradient that is not finite, each alone and without dropout.

    `compute` gives the loss of one. The gradients that were there are lost.
    """
    rows = []
    model.eval()
    for row in range(min(size, MOST_ROWS)):
        model.zero_grad(set_to_none=True)
        with torch.backends.cudnn.flags(enabled=False):  # its recurrent layers have gradients in training alone
            loss = compute(row)
            if torch.isfinite(loss) and loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        if not torch.isfinite(loss) or not all(torch.isfinite(gradient).all() for gradient in gradients):
            rows.append(row)
    model.zero_grad(set_to_none=True)
    return tuple(rows)


# --- layers ---


EVERY_OCTAVE = 4
"""Steps that are measured between one power of two and the next: some forty of a thousand."""

RECURRENT = re.compile(r"^(.*?)\.?[a-z_]+_l(\d+)(_reverse)?$")
"""torch's names of the weights of a recurrent layer: weight_ih_l0."""


@dataclass(frozen=True)
class LayerStats:
    """The gradient, the weights and the update of one layer, each as the root of the mean square over its weights."""

    gradient: float
    """The size of the gradient before clipping."""
    weight: float
    update: float
    """What the step changed."""


def measured(step: int) -> bool:
    """Whether this update is: a function of its number alone, so that a run that goes on measures the same ones."""
    octave = 1 << (step.bit_length() - 1)
    return step % max(1, octave // EVERY_OCTAVE) == 0


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: encoder.blocks.3.attend.query.weight → encoder.blocks.3, or head."""
    if found := RECURRENT.match(name):
        return f"{found[1]}.{found[2]}".lstrip(".")
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdigit():
            return ".".join(parts[: place + 1])
    return ".".join(parts[: max(1, min(len(parts) - 1, 2))])


class LayerStatsRecorder:
    """Measures a model's layers around an update; it changes nothing."""

    def __init__(self, parallel: Parallel) -> None:
        self.parallel, self.weights = parallel, parallel.weights
        self._before: tuple[list[str], Tensor, list[Tensor]] | None = None
        """Of what has a gradient: the names, the gradients' squares, and the weights."""

    @torch.no_grad()
    def before(self, step: int) -> None:
        """Measure the gradients of this step as they are, not clipped yet."""
        self._before = None
        if measured(step):
            gradients = {name: weight.grad for name, weight in self.weights.items() if weight.grad is not None}
            old = [self.weights[name].detach().clone() for name in gradients]
            self._before = list(gradients), _squares(list(gradients.values())), old

    @torch.no_grad()
    def after(self) -> dict[str, LayerStats] | None:
        """The stats after the update; None where this step is not measured, or its numbers are not finite."""
        if self._before is None:
            return None
        names, gradients, old = self._before
        self._before = None
        now = [self.weights[name].detach() for name in names]
        squares = torch.stack([gradients, _squares(now), _squares(torch._foreach_sub(now, old))])
        squares = self.parallel.sum(squares).cpu()
        layers: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            layers.setdefault(layer_of(name), []).append(place)
        means = {
            layer: squares[:, places].sum(1) / sum(self.parallel.size(names[place]) for place in places)
            for layer, places in layers.items()
        }
        stats = {layer: LayerStats(*mean.sqrt().tolist()) for layer, mean in means.items()}
        return stats if squares.isfinite().all() else None


def _squares(tensors: Sequence[Tensor]) -> Tensor:
    """‖·‖² of each."""
    return torch.stack([norm.float() for norm in torch._foreach_norm(list(tensors))]).square()
