"""The update: plain gradient descent, momentum, AdamW, or Muon for matrices and AdamW for the rest."""

import torch
from torch import Tensor, nn

from glassformer.config.sections import TrainingSettings
from glassformer.training.muon import Muon

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
    """One or two of torch's optimisers as one, with state by parameter name."""

    def __init__(self, model: nn.Module, settings: TrainingSettings) -> None:
        self.lr = settings.lr or 0.0
        self.names = {id(weight): name for name, weight in model.named_parameters() if weight.requires_grad}
        self.decay = settings.weight_decay
        decaying = decayed(model)
        decay = list(decaying.values())
        rest = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in map(id, decay)]
        self._by_hand: list[Tensor] = []
        if settings.optimizer in ("sgd", "momentum"):
            momentum = settings.momentum if settings.optimizer == "momentum" else 0.0
            self.parts: list[torch.optim.Optimizer] = [torch.optim.SGD([*decay, *rest], lr=self.lr, momentum=momentum)]
            self._by_hand = [*decay]  # torch's SGD would add the decay to the gradient, which is L2
            return
        matrices: list[nn.Parameter] = []
        if settings.optimizer == "muon":
            bags = {id(module.weight) for module in model.modules() if isinstance(module, nn.EmbeddingBag)}
            plain = {name for name, weight in decaying.items() if name.startswith("head.") or id(weight) in bags}
            matrices = [weight for name, weight in decaying.items() if name not in plain]
            decay = [weight for name, weight in decaying.items() if name in plain]
        groups = [{"params": decay, "weight_decay": self.decay}, {"params": rest, "weight_decay": 0.0}]
        adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=self.lr,
            betas=(settings.beta1, settings.beta2),
            fused=True,
        )
        self.parts = [adamw]
        if matrices:
            self.parts.append(Muon(matrices, lr=self.lr, momentum=MUON_MOMENTUM, weight_decay=self.decay))

    def step(self, factor: float) -> None:
        """One update at `factor` times the learning rate."""
        lr = self.lr * factor
        if self._by_hand and self.decay:
            with torch.no_grad():
                torch._foreach_mul_(self._by_hand, 1 - lr * self.decay)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr
            part.step()

    def zero(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Everything it remembers, as `parameter name/what` → tensor."""
        return {
            f"{self.names[id(weight)]}/{key}": value
            for part in self.parts
            for weight, memory in part.state.items()
            for key, value in memory.items()
            if isinstance(value, Tensor)
        }

    def load(self, state: dict[str, Tensor]) -> None:
        for part in self.parts:
            for group in part.param_groups:
                for weight in group["params"]:
                    start = f"{self.names[id(weight)]}/"
                    memory = {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
                    if memory:
                        part.state[weight] = {key: value.to(weight.device) for key, value in memory.items()}
