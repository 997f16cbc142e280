"""Muon: momentum whose update is made orthogonal, for matrices.

After Jordan et al. (2024). Every direction of a matrix moves equally far, not only the few that dominate the gradient.
Written here because torch's own computes in bf16, which is very slow on a CPU without it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The quintic that drives every singular value towards 1, as published with the method."""


def orthogonalise(matrices: Float[Tensor, "n r c"], rounds: int = 5) -> Float[Tensor, "n r c"]:
    """The nearest orthogonal matrices, roughly: U Vᵀ of each U S Vᵀ, by Newton–Schulz iteration."""
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.mT
    if x.device.type == "cuda":
        x = x.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x if wide else x.mT).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, scaled so that one learning rate serves matrices here and Adam elsewhere.

    The scale 0.2·√(larger side) gives updates the size that Adam's typically have (Liu et al. 2025).
    """

    def __init__(
        self, params: Iterable[Tensor] | list[dict[str, Any]], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[weight.flatten(1).shape].append(weight)
            for weights in alike.values():  # matrices of one shape go through the iteration together
                self._update(weights, group["lr"], group["momentum"], group["weight_decay"])

    def _update(self, weights: list[Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        averages = []
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["average"] = torch.zeros_like(weight)
            averages.append(state["average"])
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, averages, momentum)
        updates = orthogonalise(torch.stack([update.flatten(1) for update in ahead]))
        scale = 0.2 * max(updates.shape[-2:]) ** 0.5
        updates.mul_(lr * scale)
        if weight_decay:
            torch._foreach_mul_(weights, 1 - lr * weight_decay)
        shaped = [update.view_as(weight) for update, weight in zip(updates, weights, strict=True)]
        torch._foreach_sub_(weights, shaped)
