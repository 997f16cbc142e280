"""RMS norm and rotation as a CPU learns through them, with the backward pass written out.

What torch derives there makes a pass over memory of every small step of a formula, twice as many as are needed; for a
GPU it has a kernel, or compiles one.
"""

from typing import Any

import torch
from torch import Tensor, nn
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


def watched(*modules: nn.Module | None) -> bool:
    """Whether someone looks at what these give, each of which must then be called by itself."""
    return any(module is not None and module._forward_hooks for module in modules)


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


class CPUNormedHeads(torch.autograd.Function):
    """Heads of queries and keys, as one product gives them with the values behind: normed, and turned.

    The same operations as of the two above, so that the numbers are theirs, bit for bit; but a token's n heads are gone
    through as one long vector, and once for both.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, cos: Tensor, sin: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """`x`: B×T×i; `gain`: n×e, of the heads that x begins with. Gives these heads, B×T×n×e, and what follows."""
        heads = x[..., : gain.numel()].view(*x.shape[:2], *gain.shape)
        norm = torch.linalg.vector_norm(heads, dim=-1, keepdim=True)
        scale = norm.square_().div_(gain.shape[1]).add_(eps).rsqrt_()
        normed = heads * scale
        cos, sin = _for_heads(cos, cos, gain), _for_heads(-sin, sin, gain)
        ctx.save_for_backward(normed, scale, gain, cos, sin)
        gained = normed * gain
        return _swapped(gained).mul_(sin).addcmul_(gained, cos), x[..., gain.numel() :]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_heads: Tensor, by_rest: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        normed, scale, gain, cos, sin = ctx.saved_tensors
        by_turned = _swapped(by_heads).mul_(-sin).addcmul_(by_heads, cos)
        along = by_turned * normed
        by_gain = along.sum((0, 1))
        inner = along.mul_(gain).mean(-1, keepdim=True)
        by_heads = by_turned.mul_(gain).addcmul_(normed, inner, value=-1).mul_(scale)
        return torch.cat([by_heads.flatten(2), by_rest], -1), by_gain, None, None, None


def _for_heads(first: Tensor, second: Tensor, gain: Tensor) -> Tensor:
    """What the halves of a head are multiplied by, T×e/2 each (or B×T×e/2), as a table for all n heads."""
    table = torch.cat([first, second], -1).to(gain.dtype).unsqueeze(-2)
    return table.expand(*first.shape[:-1], *gain.shape).contiguous()


def _swapped(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([b, a], -1)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # over whole vectors: loops over half of one are too short to be fast
    x, cos, sin = _as_in_memory(x), cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    crossed = _swapped(x).mul_(torch.cat([-sin, sin], -1))
    return _as_in_memory(crossed.addcmul_(x, torch.cat([cos, cos], -1)))


def _as_in_memory(x: Tensor) -> Tensor:
    """B×h×T×e as B×T×h×e, which is how heads lie in memory, and back; anything else as it is."""
    return x.transpose(1, 2) if x.dim() == 4 else x
