"""How weights follow from gradients: gradient descent with and without momentum, AdamW, and Muon.

Written here because an optimiser of torch.optim imports torch's compiler, which takes longer than a small training run.
The numbers are those of torch.optim, bit for bit, and so are the names of the state. Muon is momentum whose update is
made orthogonal, for matrices, after Jordan et al. (2024): every direction of a matrix moves equally far, not only the
few that dominate the gradient. torch's own Muon computes in bf16, which is very slow on a CPU without it.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
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


# --- Muon ---


ROUNDS = ((3.4445, -4.7750, 2.0315),) * 5
"""Coefficients a, b, c of the quintics ax + bx³ + cx⁵, applied one after the other, as published with the method.

Singular values between 0.003 and 1 end between 0.68 and 1.13; smaller ones grow 485-fold. Four rounds with optimal
coefficients (Amsel et al. 2025) are cheaper, but cost translation quality: see docs/decisions.md.
"""


def orthogonalise(matrices: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """Return approximately the nearest orthogonal matrix, U Vᵀ of each U S Vᵀ, by Newton–Schulz iteration."""
    if matrices.shape[-2] > matrices.shape[-1]:
        return orthogonalise(matrices.mT).mT
    x = matrices.bfloat16() if matrices.device.type == "cuda" else matrices
    square = x @ x.mT
    # The trace of XXᵀ is the sum of the squared singular values, so no singular value of X / √trace exceeds 1.
    trace = (
        square.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=torch.promote_types(x.dtype, torch.float32))[..., None, None]
        + 1e-14
    )
    square = (square / trace).to(x.dtype)
    if x.shape[-1] >= 1.5 * x.shape[-2] and x.dtype != torch.bfloat16:  # bfloat16 has too few digits for squares
        return (_factor(square) / trace.sqrt()) @ x
    return _rounds((x / trace.sqrt()).to(x.dtype), square).to(matrices.dtype)


def _rounds(x: Float[Tensor, "n r c"], square: Float[Tensor, "n r r"]) -> Float[Tensor, "n r c"]:
    """X after all rounds; `square` is XXᵀ."""
    factor, other = torch.empty_like(square), torch.empty_like(x)  # each round writes where the last one did
    for number, (a, b, c) in enumerate(ROUNDS):
        if number:
            torch.bmm(x, x.mT, out=square)
        torch.baddbmm(square, square, square, beta=b, alpha=c, out=factor)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        x, other = torch.bmm(factor, x, out=other), x
    return x


def _factor(square: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """What all rounds together multiply X by; `square` is XXᵀ, and with each round's factor F becomes F XXᵀ F.

    Where X is much wider than high, these are fewer operations than on X itself.
    """
    product, factor, half = None, torch.empty_like(square), torch.empty_like(square)
    for number, (a, b, c) in enumerate(ROUNDS):
        torch.baddbmm(square, square, square, beta=b, alpha=c, out=factor)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        product = factor.clone() if product is None else factor @ product
        if number + 1 < len(ROUNDS):
            torch.bmm(torch.bmm(factor, square, out=half), factor, out=square)
    assert product is not None
    return product


class Muon(UpdateRule):
    """Nesterov momentum, orthogonalised, scaled so that one learning rate serves matrices here and Adam elsewhere.

    The scale 0.2·√(larger side) gives updates the size that Adam's typically have (Liu et al. 2025). Nothing in a step
    waits for the device, and the rate may be a tensor there.
    """

    def update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for weight in weights:
            alike[self.matrix_shape(weight)].append(weight)
        for shape, some in alike.items():  # matrices of one shape go through the iteration together
            averages = [self._average(weight) for weight in some]
            gradients = gradients_of(some)
            torch._foreach_lerp_(averages, gradients, 1 - group["momentum"])
            ahead = torch._foreach_lerp(gradients, averages, group["momentum"])
            updates = self.orthogonalise([update.flatten(1) for update in ahead], shape)
            updates.mul_(group["lr"] * 0.2 * max(shape) ** 0.5)
            if group["weight_decay"]:
                torch._foreach_mul_(some, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_sub_(some, [update.reshape_as(one) for update, one in zip(updates, some, strict=True)])

    def _average(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["average"] = torch.zeros_like(weight)
        return state["average"]

    def matrix_shape(self, weight: Tensor) -> torch.Size:
        return weight.flatten(1).shape

    def orthogonalise(self, matrices: list[Tensor], shape: torch.Size) -> Tensor:
        """Matrices of one shape, each made orthogonal."""
        return orthogonalise(torch.stack(matrices))
