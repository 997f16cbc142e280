"""RMS norm and rotation for CPU training, with hand-written backward passes.

Autograd makes a pass over memory for every small step of a formula, twice as many as necessary. For GPUs, torch has a
kernel or compiles one.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def applies_to(x: Tensor) -> bool:
    """Return whether x needs a gradient on a CPU, in full precision and in uncompiled code."""
    return (
        x.device.type == "cpu"
        and x.requires_grad
        and torch.is_grad_enabled()
        and x.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
    )


def has_hooks(*modules: nn.Module | None) -> bool:
    """Return whether any module has a forward hook and must therefore be called separately."""
    return any(module is not None and module._forward_hooks for module in modules)


class CPURMSNorm(torch.autograd.Function):
    """a / √(mean a² + ε) · γ over the last axis."""

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
    """(a, b) → (a cos − b sin, b cos + a sin) for the halves of B×h×T×e. The backward pass rotates back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_out: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(by_out, cos, -sin), None, None


class CPUNormedHeads(torch.autograd.Function):
    """Norm and rotation of the query and key heads at the beginning of one product.

    The operations are those of the two functions above, so that the numbers are equal bit for bit. The n heads of a
    token are processed as one long vector, and queries and keys together.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, cos: Tensor, sin: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Return the heads (B×T×n×e) and the rest of x (B×T×i); `gain` is n×e."""
        heads = x[..., : gain.numel()].view(*x.shape[:2], *gain.shape)
        norm = torch.linalg.vector_norm(heads, dim=-1, keepdim=True)
        scale = norm.square_().div_(gain.shape[1]).add_(eps).rsqrt_()
        normed = heads * scale
        cos, sin = _for_heads(cos, cos, gain), _for_heads(-sin, sin, gain)
        ctx.save_for_backward(normed, scale, gain, cos, sin)
        gained = normed * gain
        return _swap_halves(gained).mul_(sin).addcmul_(gained, cos), x[..., gain.numel() :]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_heads: Tensor, by_rest: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        normed, scale, gain, cos, sin = ctx.saved_tensors
        by_turned = _swap_halves(by_heads).mul_(-sin).addcmul_(by_heads, cos)
        along = by_turned * normed
        by_gain = along.sum((0, 1))
        inner = along.mul_(gain).mean(-1, keepdim=True)
        by_heads = by_turned.mul_(gain).addcmul_(normed, inner, value=-1).mul_(scale)
        return torch.cat([by_heads.flatten(2), by_rest], -1), by_gain, None, None, None


def _for_heads(first: Tensor, second: Tensor, gain: Tensor) -> Tensor:
    """Return the factors of a head's halves, T×e/2 each (or B×T×e/2), as a table for all n heads."""
    table = torch.cat([first, second], -1).to(gain.dtype).unsqueeze(-2)
    return table.expand(*first.shape[:-1], *gain.shape).contiguous()


def _swap_halves(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([b, a], -1)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # whole vectors, because loops over half of one are too short to be fast
    x, cos, sin = _as_in_memory(x), cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    crossed = _swap_halves(x).mul_(torch.cat([-sin, sin], -1))
    return _as_in_memory(crossed.addcmul_(x, torch.cat([cos, cos], -1)))


def _as_in_memory(x: Tensor) -> Tensor:
    """Return B×h×T×e as B×T×h×e, the memory layout of heads, and the reverse; other shapes unchanged."""
    return x.transpose(1, 2) if x.dim() == 4 else x
