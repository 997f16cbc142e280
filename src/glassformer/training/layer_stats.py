"""How large gradients, weights and updates are, layer by layer, at a few steps of a training."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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

    def __init__(self, model: nn.Module) -> None:
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.counts: dict[str, int] = {}
        for name, weight in self.weights.items():
            self.counts[layer_of(name)] = self.counts.get(layer_of(name), 0) + weight.numel()
        self._before: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None

    @torch.no_grad()
    def before(self, step: int) -> None:
        """Measure the gradients of this step as they are, not clipped yet."""
        self._before = None
        if measured(step):
            gradients = {name: weight.grad for name, weight in self.weights.items() if weight.grad is not None}
            self._before = self._squares(gradients), {name: self.weights[name].detach().clone() for name in gradients}

    @torch.no_grad()
    def after(self) -> dict[str, LayerStats] | None:
        """The stats after the update; None where this step is not measured, or its numbers are not finite."""
        if self._before is None:
            return None
        gradients, old = self._before
        self._before = None
        now = {name: self.weights[name].detach() for name in old}
        changes = dict(zip(old, torch._foreach_sub(list(now.values()), list(old.values())), strict=True))
        squares = (gradients, self._squares(now), self._squares(changes))
        rows = torch.stack([torch.stack([part[layer] for part in squares]) for layer in gradients]).sqrt().tolist()
        stats = {layer: LayerStats(*row) for layer, row in zip(gradients, rows, strict=True)}
        finite = all(value < float("inf") for row in rows for value in row)
        return stats if finite else None

    def _squares(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The mean square of each layer."""
        norms = torch._foreach_norm(list(tensors.values()))
        sums: dict[str, Tensor] = {}
        for name, norm in zip(tensors, norms, strict=True):
            layer = layer_of(name)
            square = norm.float().square() / self.counts[layer]
            sums[layer] = sums[layer] + square if layer in sums else square
        return sums
