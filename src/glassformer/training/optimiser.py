"""The update: plain gradient descent, momentum, AdamW, or Muon for matrices and AdamW for the rest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.sections import TrainingSettings
from glassformer.models.weights import trained_weights
from glassformer.training.frozen import rates
from glassformer.training.muon import Muon
from glassformer.training.update_rules import SGD, AdamW, UpdateRule

MUON_MOMENTUM = 0.95


def decayed(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that weight decay and L2 shrink: matrices. Not biases, norms, first states and embeddings."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    first = {id(weight) for name, weight in model.named_parameters() if ".first." in name}
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.requires_grad and weight.dim() >= 2 and id(weight) not in tables | first
    }


class Optimiser:
    """One or two update rules as one, with state by parameter name. Deeper weights may learn more slowly."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        new: Sequence[str] = (),
        weights: Mapping[str, Tensor] | None = None,
        muon: Callable[..., Muon] = Muon,
    ) -> None:
        """`new`: what a model that was trained before has beside what was taken; it learns at the full rate.
        `weights`: what is updated, by name, where it is not all of each weight; and `muon`: the Muon of such.
        """
        weights = trained_weights(model) if weights is None else weights
        self.lr = settings.lr or 0.0
        self._rate = self.lr
        self.names = {id(weight): name for name, weight in weights.items()}
        self.decay = settings.weight_decay
        self._rates = rates(model, settings.layer_decay, new)
        decaying = {name: weights[name] for name in decayed(model)}
        decay = list(decaying.values())
        rest = [weight for name, weight in weights.items() if name not in decaying]
        self._by_hand: list[tuple[float, list[Tensor]]] = []
        if settings.optimizer in ("sgd", "momentum"):
            momentum = settings.momentum if settings.optimizer == "momentum" else 0.0
            groups = self._groups([*decay, *rest])
            self.parts: list[UpdateRule] = [SGD(groups, lr=self.lr, momentum=momentum)]
            self.recordable = False
            # decay is no part of the gradient, which would be L2
            self._by_hand = [(group["part"], group["params"]) for group in self._groups(decay)]
            return
        bags = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.EmbeddingBag)}
        matrices = {
            name: weight
            for name, weight in decaying.items()
            if settings.optimizer == "muon" and not name.startswith("head.") and name not in bags
        }
        decay = [weight for name, weight in decaying.items() if name not in matrices]
        self.parts = []
        groups = [*self._groups(decay, weight_decay=self.decay), *self._groups(rest, weight_decay=0.0)]
        self.recordable = all(weight.device.type == "cuda" for weight in [*decay, *rest, *matrices.values()])
        if groups or not matrices:
            betas = (settings.beta1, settings.beta2)
            self.parts.append(AdamW(groups, lr=self.lr, betas=betas))
        if matrices:
            groups = self._groups(matrices.values())
            self.parts.append(muon(groups, lr=self.lr, momentum=MUON_MOMENTUM, weight_decay=self.decay))
        if self.recordable:
            for part in self.parts:
                for group in part.param_groups:
                    group["lr"] = torch.tensor(self.lr, device=group["params"][0].device)

    def _groups(self, weights: Iterable[Tensor], **more: Any) -> list[dict[str, Any]]:
        """Weights that learn at one rate together; `part`: of the whole rate."""
        by_rate: dict[float, list[Tensor]] = {}
        for weight in weights:
            by_rate.setdefault(self._rates[self.names[id(weight)]], []).append(weight)
        return [{"params": some, "part": part, **more} for part, some in by_rate.items()]

    @property
    def orthogonalised(self) -> list[Tensor]:
        """The weights whose update is made orthogonal."""
        groups = [group for part in self.parts if isinstance(part, Muon) for group in part.param_groups]
        return [weight for group in groups for weight in group["params"]]

    def set_rate(self, factor: float) -> None:
        """The next update is at `factor` times the learning rate."""
        self._rate = self.lr * factor
        for part in self.parts:
            for group in part.param_groups:
                rate = self._rate * group["part"]
                group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate

    def step(self, factor: float) -> None:
        """One update at `factor` times the learning rate."""
        self.set_rate(factor)
        self.update()

    def update(self) -> None:
        """One update. Where it is `recordable`, rates are tensors, and nothing waits for the device."""
        if self.decay:
            for part, weights in self._by_hand:
                with torch.no_grad():
                    torch._foreach_mul_(weights, 1 - self._rate * part * self.decay)
        for optimiser in self.parts:
            optimiser.step()

    def zero(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """Everything it remembers, as `parameter name/what` → tensor."""
        return {
            f"{self.names[id(weight)]}/{key}": value
            for part in self.parts
            for weight, memory in part.state.items()
            for key, value in memory.items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        for part in self.parts:
            for group in part.param_groups:
                for weight in group["params"]:
                    start = f"{self.names[id(weight)]}/"
                    memory = {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
                    if memory:
                        part.state[weight] = {key: value.to(weight.device) for key, value in memory.items()}
