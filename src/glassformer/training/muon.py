"""Muon: momentum whose update is made orthogonal, for matrices.

After Jordan et al. (2024). Every direction of a matrix moves equally far, not only the few that dominate the gradient.
Written here because torch's own computes in bf16, which is very slow on a CPU without it.
"""

from collections import defaultdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.training.update_rules import UpdateRule, gradients_of

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
            self._update(some, shape, group["lr"], group["momentum"], group["weight_decay"])

    def matrix_shape(self, weight: Tensor) -> torch.Size:
        return weight.flatten(1).shape

    def orthogonalise(self, matrices: list[Tensor], shape: torch.Size) -> Tensor:
        """Matrices of one shape, each made orthogonal."""
        return orthogonalise(torch.stack(matrices))

    def _update(
        self, weights: list[Tensor], shape: torch.Size, lr: float | Tensor, momentum: float, weight_decay: float
    ) -> None:
        averages = []
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["average"] = torch.zeros_like(weight)
            averages.append(state["average"])
        gradients = gradients_of(weights)
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, averages, momentum)
        updates = self.orthogonalise([update.flatten(1) for update in ahead], shape)
        updates.mul_(lr * 0.2 * max(shape) ** 0.5)
        if weight_decay:
            torch._foreach_mul_(weights, 1 - lr * weight_decay)
        shaped = [update.reshape_as(weight) for update, weight in zip(updates, weights, strict=True)]
        torch._foreach_sub_(weights, shaped)
