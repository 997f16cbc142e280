"""Update rules: gradient descent with and without momentum, AdamW, and Muon.

They are written here because an optimiser of torch.optim imports torch's compiler, which takes longer than a small
training run. Results equal those of torch.optim bit for bit, and the state has the same names.

Muon (Jordan et al. 2024) orthogonalises the momentum of a matrix, so that every direction moves equally far, not only
the few that dominate the gradient. torch's own Muon computes in bf16, which is very slow on a CPU without native bf16.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(eq=False)
class WeightGroup:
    """Weights that are updated with the same settings."""

    weights: list[Tensor]
    lr: float | Tensor
    """Learning rate; a tensor on the device if the update is recorded as a CUDA graph."""
    rate_factor: float = 1.0
    """Multiplier of the optimiser's learning rate."""
    weight_decay: float = 0.0
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)


class UpdateRule:
    """Base class of update rules: groups of weights, and the state of each weight."""

    def __init__(self, groups: Sequence[WeightGroup]) -> None:
        self.groups = list(groups)
        self.state: dict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights that have a gradient."""
        for group in self.groups:
            weights = [weight for weight in group.weights if weight.grad is not None]
            if weights:
                self.update(weights, group)

    def update(self, weights: list[Tensor], group: WeightGroup) -> None:
        """Update those weights of a group that have a gradient."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        for group in self.groups:
            for weight in group.weights:
                weight.grad = None


class SGD(UpdateRule):
    """Gradient descent with optional momentum."""

    def update(self, weights: list[Tensor], group: WeightGroup) -> None:
        updates = gradients_of(weights)
        if group.momentum:
            for index, (weight, gradient) in enumerate(zip(weights, updates, strict=True)):
                state = self.state[weight]
                if state:
                    state["momentum_buffer"].mul_(group.momentum).add_(gradient)
                else:
                    state["momentum_buffer"] = gradient.clone()
                updates[index] = state["momentum_buffer"]
        torch._foreach_add_(weights, updates, alpha=-float(group.lr))


class AdamW(UpdateRule):
    """Adam with decoupled weight decay, as one fused call per group."""

    def update(self, weights: list[Tensor], group: WeightGroup) -> None:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {
                    "step": torch.zeros((), dtype=torch.float32, device=weight.device),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
        states = [self.state[weight] for weight in weights]
        steps = [state["step"] for state in states]
        beta1, beta2 = group.betas
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            weights,
            gradients_of(weights),
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            amsgrad=False,
            lr=group.lr,
            beta1=beta1,
            beta2=beta2,
            weight_decay=group.weight_decay,
            eps=1e-8,
            maximize=False,
        )


def gradients_of(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of the weights that have one."""
    return [weight.grad for weight in weights if weight.grad is not None]


# --- Muon ---


NEWTON_SCHULZ_ROUNDS = ((3.4445, -4.7750, 2.0315),) * 5
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
    """Return X after all rounds; `square` is XXᵀ."""
    factor, other = torch.empty_like(square), torch.empty_like(x)  # each round overwrites the buffers of the last one
    for number, (a, b, c) in enumerate(NEWTON_SCHULZ_ROUNDS):
        if number:
            torch.bmm(x, x.mT, out=square)
        torch.baddbmm(square, square, square, beta=b, alpha=c, out=factor)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        x, other = torch.bmm(factor, x, out=other), x
    return x


def _factor(square: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """Return the matrix by which all rounds together multiply X.

    `square` is XXᵀ; each round with factor F replaces it by F XXᵀ F. If X is much wider than high, this takes fewer
    operations than the rounds on X itself.
    """
    product, factor, half = None, torch.empty_like(square), torch.empty_like(square)
    for number, (a, b, c) in enumerate(NEWTON_SCHULZ_ROUNDS):
        torch.baddbmm(square, square, square, beta=b, alpha=c, out=factor)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        product = factor.clone() if product is None else factor @ product
        if number + 1 < len(NEWTON_SCHULZ_ROUNDS):
            torch.bmm(torch.bmm(factor, square, out=half), factor, out=square)
    assert product is not None
    return product


class Muon(UpdateRule):
    """Nesterov momentum, orthogonalised, scaled so that one learning rate serves matrices here and Adam elsewhere.

    The scale 0.2·√(larger side) gives updates the typical size of Adam's (Liu et al. 2025). No operation of a step
    waits for the device.
    """

    def update(self, weights: list[Tensor], group: WeightGroup) -> None:
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for weight in weights:
            by_shape[self.matrix_shape(weight)].append(weight)
        for shape, matrices in by_shape.items():  # matrices of one shape go through the iteration together
            averages = [self._average(weight) for weight in matrices]
            gradients = gradients_of(matrices)
            torch._foreach_lerp_(averages, gradients, 1 - group.momentum)
            ahead = torch._foreach_lerp(gradients, averages, group.momentum)
            updates = self.orthogonalise([update.flatten(1) for update in ahead], shape)
            updates.mul_(group.lr * 0.2 * max(shape) ** 0.5)
            if group.weight_decay:
                torch._foreach_mul_(matrices, 1 - group.lr * group.weight_decay)
            torch._foreach_sub_(
                matrices, [update.reshape_as(weight) for update, weight in zip(updates, matrices, strict=True)]
            )

    def _average(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["average"] = torch.zeros_like(weight)
        return state["average"]

    def matrix_shape(self, weight: Tensor) -> torch.Size:
        return weight.flatten(1).shape

    def orthogonalise(self, matrices: list[Tensor], shape: torch.Size) -> Tensor:
        """Orthogonalise each of several matrices of one shape."""
        return orthogonalise(torch.stack(matrices))
