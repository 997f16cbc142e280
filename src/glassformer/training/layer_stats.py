"""How large gradients, weights and updates are, layer by layer, at a few steps of a training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.training.distributed.parallel import Replicated

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

    def __init__(self, parallel: Replicated) -> None:
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
