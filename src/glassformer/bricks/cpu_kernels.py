"""RMS norm and rotation as a CPU learns through them, with the backward pass written out.

What torch derives there makes a pass over memory of every small step of a formula, twice as many as are needed; for a
GPU it has a kernel, or compiles one.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def applies_to(x: Tensor) -> bool:
    """Whether a gradient through x is to be made on a CPU, in full precision and as the code stands, not compiled."""
    return (
        x.device.type == "cpu"
        and x.requires_grad
        and torch.is_grad_enabled()
        and x.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
    )


class CPURMSNorm(torch.autograd.Function):
    """a / √(mean a² + ε) · γ, over the last axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        x = _as_in_memory(x)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        normed = x * scale
        ctx.save_for_backward(normed, scale, gain)
        return _as_in_memory(normed * gain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_out: Tensor) -> tuple[Tensor, Tensor, None]:
        normed, scale, gain = ctx.saved_tensors
        by_out = _as_in_memory(by_out)
        along = by_out * normed
        by_gain = along.flatten(0, -2).sum(0)
        inner = (along @ gain).div_(len(gain)).unsqueeze(-1)
        by_x = (by_out * gain).addcmul_(normed, inner, value=-1).mul_(scale)
        return _as_in_memory(by_x), by_gain, None


class CPURotation(torch.autograd.Function):
    """(a, b) → (a cos − b sin, b cos + a sin), of the halves of B×h×T×e. The gradient is turned back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_out: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(by_out, cos, -sin), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # over whole vectors: loops over half of one are too short to be fast
    x, cos, sin = _as_in_memory(x), cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    a, b = x.chunk(2, -1)
    crossed = torch.cat([b, a], -1).mul_(torch.cat([-sin, sin], -1))
    return _as_in_memory(crossed.addcmul_(x, torch.cat([cos, cos], -1)))


def _as_in_memory(x: Tensor) -> Tensor:
    """B×h×T×e as B×T×h×e, which is how heads lie in memory, and back; anything else as it is."""
    return x.transpose(1, 2) if x.dim() == 4 else x
