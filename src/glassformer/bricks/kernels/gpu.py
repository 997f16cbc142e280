"""Kernels of our own on a CUDA GPU: whether there can be any, and what torch's compiler is not to take apart."""

import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from glassformer.config.errors import first_line


@cache
def kernels_work() -> bool:
    """Whether Triton is here and makes kernels: it needs a C compiler, and a GPU that it knows."""
    if find_spec("triton") is None:
        return False
    from glassformer.bricks.kernels.triton_decoding import linear_rows

    try:
        linear_rows(torch.ones(1, 16, device="cuda"), [torch.ones(16, 16, device="cuda")], [None])
    except Exception as error:
        warnings.warn(
            f"Triton makes no kernels here ({first_line(error)[:120]}): training and writing take longer", stacklevel=2
        )
        return False
    return True


@torch.library.custom_op("glassformer::waves", mutates_args=())
def waves(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine. Compiled, every layer would compute both for every number that it turns by them."""
    return angle.cos(), angle.sin()


@waves.register_fake
def _(angle: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(angle), torch.empty_like(angle)


class GPUGELU(torch.autograd.Function):
    """GELU to 1e-7, to be compiled for a GPU, where the error function takes longer than reading x and writing the
    result; its exponential serves the gradient too.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x * _normal_share(x)[0]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, by_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        share, bell = _normal_share(x)
        return (by_out * (share + x * bell * (2 * torch.pi) ** -0.5)).to(x.dtype)


def _normal_share(x: Tensor) -> tuple[Tensor, Tensor]:
    """The share of a normal distribution below x (Abramowitz and Stegun, 7.1.26), and exp(−x²/2)."""
    z = x.float().abs() * 0.5**0.5
    bell = (-z * z).exp()
    t = 1 / (1 + 0.3275911 * z)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * tail * bell
    return torch.where(x > 0, 1 - tail, tail), bell


@torch.library.custom_op("glassformer::norm_and_rotate", mutates_args=())
def norm_and_rotate(
    packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float, kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (B×T×h×e each) of one product (B×T×i): the first two with the RMS norm of their gains
    (2×e), and turned. One pass over memory, and one backward, where a compiler makes some six of each.
    """
    if packed.is_cuda and kernels_work():
        from glassformer.bricks.kernels.triton_training import heads_of

        return heads_of(packed, gains, (cos, sin), eps, kv_heads)
    query, key, value = _heads(packed, gains, kv_heads)
    normed = [_normed(part, eps)[0] * gain for part, gain in zip((query, key), gains, strict=True)]
    query, key = (_turned(part, cos, sin).to(packed.dtype) for part in normed)
    return query, key, value.clone(memory_format=torch.contiguous_format)


@norm_and_rotate.register_fake
def _(
    packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float, kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (part.new_empty(part.shape) for part in _heads(packed, gains, kv_heads))
    return query, key, value


@torch.library.custom_op("glassformer::norm_and_rotate_backward", mutates_args=())
def _norm_and_rotate_backward(
    by_heads: list[Tensor], packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The gradients by the product and by the gains."""
    if packed.is_cuda and kernels_work():
        from glassformer.bricks.kernels.triton_training import gradients_of_heads

        by_query, by_key, by_value = (part if part.stride(-1) == 1 else part.contiguous() for part in by_heads)
        return gradients_of_heads(packed, gains, (cos, sin), eps, (by_query, by_key, by_value))
    by_parts, by_gains = [], []
    for by_part, part, gain in zip(by_heads, _heads(packed, gains, by_heads[1].shape[2]), gains, strict=False):
        normed, scale = _normed(part, eps)
        along = _turned(by_part, cos, -sin)
        by_gains.append((along * normed).flatten(0, -2).sum(0))
        along = along * gain
        by_parts.append((along - normed * (along * normed).mean(-1, keepdim=True)) * scale)
    by_packed = torch.cat([part.flatten(2) for part in (*by_parts, by_heads[2])], -1)
    return by_packed.to(packed.dtype), torch.stack(by_gains)


@_norm_and_rotate_backward.register_fake
def _(
    by_heads: list[Tensor], packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(packed), torch.empty_like(gains)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.eps, _ = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, *by_heads: Tensor) -> tuple[Tensor | None, ...]:
    by_packed, by_gains = _norm_and_rotate_backward(list(by_heads), *ctx.saved_tensors, ctx.eps)
    return by_packed, by_gains, None, None, None, None


norm_and_rotate.register_autograd(_backward, setup_context=_remember)


def _heads(packed: Tensor, gains: Tensor, kv_heads: int) -> list[Tensor]:
    """Queries, keys and values of the product as it stands: B×T×h×e."""
    heads = packed.view(*packed.shape[:2], -1, gains.shape[1])
    return list(torch.split(heads, [heads.shape[2] - 2 * kv_heads, kv_heads, kv_heads], 2))


def _normed(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Vectors of length √e, and what they were multiplied by; in no less than float32."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * scale, scale


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
