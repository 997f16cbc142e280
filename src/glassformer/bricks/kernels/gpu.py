"""CUDA kernels of our own: whether they work, and operations that torch's compiler must not split."""

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from glassformer.config.errors import first_line

_works: bool | None = None


def kernels_work() -> bool:
    """Return whether Triton compiles kernels here: it needs a C compiler and a GPU that it knows.

    The first call tries it, which a compiler cannot trace: `StepLoss` calls it before compiling.
    """
    global _works
    if _works is None:
        _works = find_spec("triton") is not None and _try_kernel()
    return _works


def _try_kernel() -> bool:
    from glassformer.bricks.kernels.triton_decoding import linear_rows

    try:
        linear_rows(torch.ones(1, 16, device="cuda"), [torch.ones(16, 16, device="cuda")], [None])
    except Exception as error:
        warnings.warn(
            f"Triton makes no kernels here ({first_line(error)[:120]}): training and writing take longer", stacklevel=3
        )
        return False
    return True


@torch.library.custom_op("glassformer::waves", mutates_args=())
def waves(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine. If this were compiled, every layer would compute both for every rotated number."""
    return angle.cos(), angle.sin()


@waves.register_fake
def _fake_waves(angle: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(angle), torch.empty_like(angle)


class GPUGELU(torch.autograd.Function):
    """GELU accurate to 1e-7, for compilation on a GPU.

    The exact error function takes longer there than reading x and writing the result. The exponential is shared with
    the gradient.
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
    """Return Φ(x) (Abramowitz and Stegun, 7.1.26) and exp(−x²/2)."""
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
    """Return queries, keys and values (B×T×h×e each) from one product (B×T×i).

    Queries and keys get the RMS norm with their gains (2×e) and are rotated. The kernel makes one pass over memory, and
    one in the backward pass, where a compiler makes about six of each. It needs `kernels_work()`.
    """
    from glassformer.bricks.kernels.triton_training import heads_of

    return heads_of(packed, gains, (cos, sin), eps, kv_heads)


@norm_and_rotate.register_fake
def _fake_norm_and_rotate(
    packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float, kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, width = *packed.shape[:2], gains.shape[1]
    heads = packed.shape[2] // width - 2 * kv_heads
    query, key, value = (packed.new_empty(batch, tokens, count, width) for count in (heads, kv_heads, kv_heads))
    return query, key, value


@torch.library.custom_op("glassformer::norm_and_rotate_backward", mutates_args=())
def _norm_and_rotate_backward(
    by_heads: list[Tensor], packed: Tensor, gains: Tensor, cos: Tensor, sin: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients by the product and by the gains."""
    from glassformer.bricks.kernels.triton_training import gradients_of_heads

    by_query, by_key, by_value = (part if part.stride(-1) == 1 else part.contiguous() for part in by_heads)
    return gradients_of_heads(packed, gains, (cos, sin), eps, (by_query, by_key, by_value))


@_norm_and_rotate_backward.register_fake
def _fake_norm_and_rotate_backward(
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
