"""Normalisation of the vectors between the parts of a block, and the residual connection around a part."""

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
    """Layer norm written out: (a − μ) / σ · γ + β, with μ and σ over the numbers of one vector."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + eps) * gain
    return normed if shift is None else normed + shift


def rms_norm(x: AnyVectors, gain: Float[Tensor, "d"], eps: float = 1e-6) -> AnyVectors:
    """RMS norm written out: a / √(mean a²) · γ. Layer norm without the centring."""
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
        # under autocast x is of lower precision than the gain; torch's fused norm wants them alike
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class BatchNorm(Brick, nn.Module):
    """Each of the d numbers normalised over all real tokens of the batch; in use, by the averages of training.

    While it trains, a token's vector depends on every other token of the batch, the future included: it stands here to
    be compared, as the lectures do.
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
"""What is added to the variance, or the mean square, where nobody says."""


def make_norm(kind: str, width: int, *, bias: bool = True, eps: float | None = None) -> nn.Module:
    """A norm by name: layer, rms, batch, none, or one's own."""
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
    """Pre-norm: x + part(norm(x)). Post-norm, as in the lectures: norm(x + part(x)). Without residual, no `x +`."""

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
