"""Measurements of a step: its loss, the first tensor that is not finite, and sizes of gradients and updates."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.training.distributed.parallel import Parallel

MAX_TRIED_ROWS = 64
"""Maximum number of examples of a batch that are tried one by one."""


class LossWatch:
    """Sum of the losses of a step's pieces.

    On a GPU, the sum is copied to the host while the last backward pass runs. Reading it then needs no waiting, and a
    loss that is not finite is known before the weights are updated.
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
    """Return the name of the first tensor that is not finite: a parameter, an output, the loss, or a gradient.

    The backward pass starts at the loss, so the first gradient is that of the last module. None if all are finite.
    """
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            return f"parameter {name}"
    culprits: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
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
    """Return the examples whose own loss or gradient is not finite, without dropout.

    `compute` returns the loss of one example. Gradients of the model are deleted.
    """
    rows = []
    model.eval()
    for row in range(min(size, MAX_TRIED_ROWS)):
        model.zero_grad(set_to_none=True)
        with torch.backends.cudnn.flags(enabled=False):  # cuDNN's recurrent layers have no backward pass in eval mode
            loss = compute(row)
            if torch.isfinite(loss) and loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        if not torch.isfinite(loss) or not all(torch.isfinite(gradient).all() for gradient in gradients):
            rows.append(row)
    model.zero_grad(set_to_none=True)
    return tuple(rows)


# --- layers ---


STEPS_PER_OCTAVE = 4
"""Number of measured steps between consecutive powers of two: about forty of a thousand steps."""

RECURRENT_WEIGHT = re.compile(r"^(.*?)\.?[a-z_]+_l(\d+)(_reverse)?$")
"""Weights of a recurrent layer in torch's naming, such as weight_ih_l0."""


@dataclass(frozen=True)
class LayerStats:
    """Root mean squares of the gradient, the weights and the update of one layer."""

    gradient: float
    """The size of the gradient before clipping."""
    weight: float
    update: float


def is_measured(step: int) -> bool:
    """Return whether layers are measured in this update, which depends on its number only."""
    octave = 1 << (step.bit_length() - 1)
    return step % max(1, octave // STEPS_PER_OCTAVE) == 0


def layer_of(name: str) -> str:
    """Return the layer of a parameter: encoder.blocks.3.attend.query.weight → encoder.blocks.3."""
    if found := RECURRENT_WEIGHT.match(name):
        return f"{found[1]}.{found[2]}".lstrip(".")
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdigit():
            return ".".join(parts[: place + 1])
    return ".".join(parts[: max(1, min(len(parts) - 1, 2))])


class _BeforeUpdate(NamedTuple):
    """Weights with a gradient before an update."""

    names: list[str]
    gradients: Tensor
    """The squared norm of each gradient."""
    weights: list[Tensor]


class LayerStatsRecorder:
    """Measurements of a model's layers before and after an update."""

    def __init__(self, parallel: Parallel) -> None:
        self.parallel, self.weights = parallel, parallel.weights
        self._before: _BeforeUpdate | None = None

    @torch.no_grad()
    def before(self, step: int) -> None:
        """Measure the gradients of this step before clipping."""
        self._before = None
        if is_measured(step):
            gradients = {name: weight.grad for name, weight in self.weights.items() if weight.grad is not None}
            old = [self.weights[name].detach().clone() for name in gradients]
            self._before = _BeforeUpdate(list(gradients), _squares(list(gradients.values())), old)

    @torch.no_grad()
    def after(self) -> dict[str, LayerStats] | None:
        """Return the measurements after the update; None if the step is not measured or a number is not finite."""
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
    """Return the squared norm of each tensor."""
    return torch.stack([norm.float() for norm in torch._foreach_norm(list(tensors))]).square()
