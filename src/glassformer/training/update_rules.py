"""How weights follow from gradients: plain gradient descent, with momentum or without, and AdamW.

Written here because an optimiser of torch.optim imports torch's compiler, which takes longer than a small training. The
numbers are theirs, bit for bit, and so are the names of what is remembered.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class UpdateRule:
    """Weights in groups, each with its settings, and what is remembered of each weight."""

    def __init__(self, groups: Sequence[dict[str, Any]], **settings: Any) -> None:
        """`groups`: each with its weights (`params`), and with those settings that are not everybody's."""
        self.param_groups: list[dict[str, Any]] = [{**settings, **group} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """One update of all weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self.update(weights, group)

    def update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """One update of weights of a group, which all have a gradient."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None


class SGD(UpdateRule):
    """Gradient descent; `momentum`: what is kept of the last update."""

    def update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        updates = gradients_of(weights)
        if group["momentum"]:
            for place, (weight, gradient) in enumerate(zip(weights, updates, strict=True)):
                memory = self.state[weight]
                if memory:
                    memory["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
                else:
                    memory["momentum_buffer"] = gradient.clone()
                updates[place] = memory["momentum_buffer"]
        torch._foreach_add_(weights, updates, alpha=-group["lr"])


class AdamW(UpdateRule):
    """Adam with decoupled weight decay, all weights of a group in one fused call. On a GPU the rate may be a tensor."""

    def update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {
                    "step": torch.zeros((), dtype=torch.float32, device=weight.device),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
        memories = [self.state[weight] for weight in weights]
        steps = [memory["step"] for memory in memories]
        beta1, beta2 = group["betas"]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            weights,
            gradients_of(weights),
            [memory["exp_avg"] for memory in memories],
            [memory["exp_avg_sq"] for memory in memories],
            [],
            steps,
            amsgrad=False,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )


def gradients_of(weights: Sequence[Tensor]) -> list[Tensor]:
    return [weight.grad for weight in weights if weight.grad is not None]
