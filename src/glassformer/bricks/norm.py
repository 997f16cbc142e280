"""Normalisation, and the residual connection around the parts of a block."""

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import AnyVectors, Mask, Vectors
from glassformer.bricks.kernels import cpu as cpu_kernels
from glassformer.bricks.own import own_norm
from glassformer.bricks.tap import Brick, record_output


def layer_norm(
    x: AnyVectors, gain: Float[Tensor, "d"], shift: Float[Tensor, "d"] | None = None, eps: float = 1e-5
) -> AnyVectors:
    """Return (a − μ) / σ · γ + β with μ and σ over one vector: layer norm written out."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + eps) * gain
    return normed if shift is None else normed + shift


def rms_norm(x: AnyVectors, gain: Float[Tensor, "d"], eps: float = 1e-6) -> AnyVectors:
    """Return a / √(mean a²) · γ: RMS norm written out, which is layer norm without centring."""
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * gain


class LayerNorm(Brick, nn.LayerNorm):
    record = record_output

    def forward(self, x: Vectors, mask: Mask = None) -> Vectors:
        return super().forward(x)


class RMSNorm(Brick, nn.RMSNorm):
    record = record_output

    def forward(self, x: AnyVectors, mask: Mask = None) -> AnyVectors:
        if cpu_kernels.applies_to(x) and x.dtype == self.weight.dtype:
            return cpu_kernels.CPURMSNorm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        # under autocast x has a lower precision than the gain; torch's fused norm requires the same
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class BatchNorm(Brick, nn.Module):
    """Normalisation of each of the d features over all real tokens of the batch; in use, with running averages.

    In training, a token's vector depends on all tokens of the batch, including future ones. It exists for comparison,
    as in the lectures.
    """

    record = record_output

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Vectors, mask: Mask = None) -> Vectors:
        if mask is None:
            return self.norm(x.flatten(0, 1)).view_as(x)
        out = torch.zeros_like(x)
        out[mask] = self.norm(x[mask]).to(out.dtype)
        return out


class NoNorm(Brick, nn.Module):
    record = record_output

    def forward(self, x: Vectors, mask: Mask = None) -> Vectors:
        return x


EPS = {"layer": 1e-5, "rms": 1e-6}
"""Default term added to the variance or the mean square."""


def make_norm(kind: str, width: int, *, bias: bool = True, eps: float | None = None) -> nn.Module:
    """Return the norm with this name: layer, rms, batch, none, or one registered by a user."""
    if kind == "layer":
        return LayerNorm(width, eps=eps or EPS["layer"], bias=bias)
    if kind == "rms":
        return RMSNorm(width, eps=eps or EPS["rms"])
    if kind == "batch":
        return BatchNorm(width)
    if kind == "none":
        return NoNorm()
    own = own_norm(kind, width, bias=bias, eps=eps)
    assert own is not None, kind
    return own


class Residual(Brick, nn.Module):
    """Pre-norm x + part(norm(x)), or post-norm norm(x + part(x)) as in the lectures; without residual, no `x +`."""

    part_names: ClassVar = {"norm": "normed"}

    def __init__(self, *, norm: nn.Module, order: str = "pre", residual: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.pre = order == "pre"
        self.residual = residual
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Vectors, part: Callable[[Tensor], Tensor], mask: Mask = None) -> Vectors:
        out: Tensor = self.dropout(part(self.norm(x, mask) if self.pre else x))
        if self.residual:
            out = x + out
        return out if self.pre else self.norm(out, mask)
