"""Residual connection and normalisation around a part of a block."""

from collections.abc import Callable
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.tap import Brick


class Residual(Brick, nn.Module):
    """Pre-norm: x + part(norm(x)). Post-norm, as in the lectures: norm(x + part(x)). Without residual, no `x +`."""

    part_names: ClassVar = {"norm": "normed"}

    def __init__(self, *, norm: nn.Module, order: str = "pre", residual: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.pre = order == "pre"
        self.residual = residual
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B T d"],
        part: Callable[[Tensor], Tensor],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        out: Tensor = self.dropout(part(self.norm(x, mask) if self.pre else x))
        if self.residual:
            out = x + out
        return out if self.pre else self.norm(out, mask)
