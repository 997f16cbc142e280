"""Positions: how a model that sees a set of vectors learns of their order."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def sine_cosine(index: Int[Tensor, "*rest"], width: int) -> Float[Tensor, "*rest d"]:
    """Written out: PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i+1) = cos(t / 10000^(2i/d))."""
    pair = torch.arange(0, width, 2, device=index.device)
    angle = index.unsqueeze(-1) / 10_000 ** (pair / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :width]


class NoPositions(nn.Module):
    """Nothing is added: to attention, the sentence is a bag of words."""

    def forward(self, x: Float[Tensor, "B T d"], index: Int[Tensor, "*B T"]) -> Float[Tensor, "B T d"]:
        return x


class SineCosine(nn.Module):
    """Waves of many lengths are added; nothing is learned."""

    def forward(self, x: Float[Tensor, "B T d"], index: Int[Tensor, "*B T"]) -> Float[Tensor, "B T d"]:
        return x + sine_cosine(index, x.shape[-1]).to(x.dtype)


class LearnedPositions(nn.Module):
    """A learned vector for each position is added; there are none beyond the context."""

    def __init__(self, *, width: int, context: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context, width)

    def forward(self, x: Float[Tensor, "B T d"], index: Int[Tensor, "*B T"]) -> Float[Tensor, "B T d"]:
        return x + self.table(index).to(x.dtype)


class OneHotPositions(nn.Module):
    """A one-hot vector of the position is appended, and a linear map brings the pair back to width d."""

    def __init__(self, *, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.join = nn.Linear(width + context, width, bias=False)

    def forward(self, x: Float[Tensor, "B T d"], index: Int[Tensor, "*B T"]) -> Float[Tensor, "B T d"]:
        hot = F.one_hot(index, self.context).to(x.dtype)
        return self.join(torch.cat([x, hot.expand(*x.shape[:2], -1)], -1))


class Rotation(NamedTuple):
    """Cosines and sines of the angles by which queries and keys are turned."""

    cos: Float[Tensor, "*B T half"]
    sin: Float[Tensor, "*B T half"]


class Rotary(nn.Module):
    """Rotary positions: queries and keys are turned by an angle that grows with the position.

    Their dot product then depends on the distance alone. Number i is paired with number i + d/2 (half-split layout).
    """

    frequencies: Tensor

    def __init__(self, *, head_width: int, base: float = 10_000.0) -> None:
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_width, 2) / head_width)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, index: Int[Tensor, "*B T"]) -> Rotation:
        angle = index.unsqueeze(-1) * self.frequencies
        return Rotation(angle.cos(), angle.sin())


def rotate(x: Float[Tensor, "B h T e"], rotation: Rotation) -> Float[Tensor, "B h T e"]:
    """Each pair (a, b) becomes (a cos − b sin, b cos + a sin)."""
    cos, sin = rotation
    if cos.dim() == 3:  # every row of the batch stands at positions of its own
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
