"""Convolution over a sequence: the same small window of weights slides along the text."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Mask, Vectors
from glassformer.bricks.tap import Brick


class Convolution(Brick, nn.Module):
    """y_t = Σ_i W_i x_(t + i·dilation − offset) + b.

    Causal: the window ends at t. Centred: it lies around t. Beyond the borders, and at padding, stand zeros.
    """

    def __init__(
        self, *, width: int, out: int, kernel: int, dilation: int = 1, causal: bool = True, bias: bool = True
    ) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        """How many tokens beside its own an output reads."""
        self.before = self.reach if causal else self.reach // 2
        self.slide = nn.Conv1d(width, out, kernel, dilation=dilation, bias=bias)

    def forward(self, x: Vectors, mask: Mask = None) -> Float[Tensor, "B T e"]:
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return self.inside(F.pad(x, (0, 0, self.before, self.reach - self.before)))

    def extend(
        self, x: Vectors, recent: Float[Tensor, "B reach d"], mask: Mask = None
    ) -> tuple[Float[Tensor, "B T e"], Float[Tensor, "B reach d"]]:
        """The outputs for inputs after those that were there, and those that the next outputs will read."""
        joined = torch.cat([recent.to(x.dtype), x], 1)
        if mask is None:
            return self.inside(joined), joined[:, x.shape[1] :]
        places = mask.sum(1, keepdim=True) + torch.arange(self.reach, device=x.device)
        return self.inside(joined), joined.gather(1, places.unsqueeze(-1).expand(-1, -1, joined.shape[-1]))

    def inside(self, x: Float[Tensor, "B S d"]) -> Float[Tensor, "B T e"]:
        """The outputs where the whole window lies inside: `reach` fewer than inputs."""
        return self.slide(x.transpose(1, 2)).transpose(1, 2)
