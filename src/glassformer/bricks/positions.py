"""Position encodings, from which attention learns the order of its inputs."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks import AnyVectors, Index, Vectors
from glassformer.bricks.kernels import cpu as cpu_kernels
from glassformer.bricks.kernels.gpu import waves
from glassformer.bricks.tap import Brick, Changes, Recorded, record_output
from glassformer.config.model_section import Scaling


def sine_cosine(index: Int[Tensor, "*rest"], width: int) -> AnyVectors:
    """Return PE(t, 2i) = sin(t / 10000^(2i/d)) and PE(t, 2i+1) = cos(t / 10000^(2i/d)), written out."""
    pair = torch.arange(0, width, 2, device=index.device)
    angle = index.unsqueeze(-1) / 10_000 ** (pair / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :width]


class Positions(Brick, nn.Module, ABC):
    """Base class of position encodings."""

    kind: str
    limit: int | None = None
    """Number of positions that it supports; None: any."""

    @abstractmethod
    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T _"]:
        """Return what each position adds to a vector of this width; for rotary positions, the cosines of the angles."""


class AddedPositions(Positions):
    """Positions that change the vectors themselves."""

    def forward(self, x: Vectors, index: Index) -> Vectors:
        return x + self.vectors(index, x.shape[-1]).to(x.dtype)

    def added(self, x: Vectors, index: Index, output: Vectors) -> Float[Tensor, "*B T d"]:
        """Return what a call added to x, without a batch axis if all rows have the same positions."""
        return self.vectors(index, x.shape[-1])

    def record(self, args: tuple[Any, ...], output: Tensor) -> Recorded:
        yield "vectors", lambda: self.added(args[0], args[1], output)
        yield "output", lambda: output

    def changed(self, args: tuple[Any, ...], output: Tensor, change: Changes) -> Tensor:
        if change.wants("vectors"):
            vectors = self.added(args[0], args[1], output)
            output = output + (change("vectors", vectors) - vectors).to(output.dtype)
        return change("output", output)


class NoPositions(Brick, nn.Module):
    """No positions: attention sees the sentence as a bag of words."""

    record = record_output

    def forward(self, x: Vectors, index: Index) -> Vectors:
        return x


class SineCosine(AddedPositions):
    """Fixed sine and cosine waves of many lengths. With `halves`, all sines come before all cosines."""

    def __init__(self, *, halves: bool = False) -> None:
        super().__init__()
        self.halves = halves
        self.kind = "sine-halves" if halves else "sine"

    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T d"]:
        waves = sine_cosine(index, width)
        return torch.cat([waves[..., 0::2], waves[..., 1::2]], -1) if self.halves else waves


class LearnedPositions(AddedPositions):
    """A learned vector for each position within the context."""

    kind = "learned"

    def __init__(self, *, width: int, context: int) -> None:
        super().__init__()
        self.limit = context
        self.table = nn.Embedding(context, width)

    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T d"]:
        return self.table(index)


class OneHotPositions(AddedPositions):
    """A one-hot vector of the position, concatenated to x and mapped back to width d."""

    kind = "onehot"
    limit: int

    def __init__(self, *, width: int, context: int) -> None:
        super().__init__()
        self.limit = context
        self.join = nn.Linear(width + context, width, bias=False)

    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T d"]:
        return self.join.weight[:, width:].T[index]

    def forward(self, x: Vectors, index: Index) -> Vectors:
        hot = F.one_hot(index, self.limit).to(x.dtype)
        return self.join(torch.cat([x, hot.expand(*x.shape[:2], -1)], -1))


def slow_frequencies(frequencies: Float[Tensor, "half"], scaling: Scaling) -> Float[Tensor, "half"]:
    """Return frequencies for more tokens than a model was first trained on.

    `linear` divides all of them by the factor. `llama3` divides only the frequencies of waves that are too long to
    repeat often within the first context. It keeps short waves and interpolates between the two.
    """
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    rounds = scaling.context / (2 * math.pi / frequencies)
    share = ((rounds - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
    return share * frequencies + (1 - share) * frequencies / scaling.factor


class Rotation(NamedTuple):
    """Cosines and sines of the angles of rotary positions."""

    cos: Float[Tensor, "*B T half"]
    sin: Float[Tensor, "*B T half"]


class Rotary(Positions):
    """Rotary positions: queries and keys are rotated by an angle proportional to the position.

    Their dot product then depends only on the distance. Element i is paired with element i + d/2 (half-split layout).
    """

    kind = "rotary"
    frequencies: Tensor

    def __init__(self, *, head_width: int, base: float = 10_000.0, scaling: Scaling | None = None) -> None:
        super().__init__()
        frequencies = torch.empty((head_width + 1) // 2)
        if not frequencies.is_meta:  # on the meta device `arange` would load torch's compiler
            # another order of operations would round to other angles than other libraries have, far into a long text
            frequencies = 1 / base ** (torch.arange(0, head_width, 2) / head_width)
            if scaling is not None:
                frequencies = slow_frequencies(frequencies, scaling)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, index: Index) -> Rotation:
        angle = index.unsqueeze(-1) * self.frequencies
        if torch.compiler.is_dynamo_compiling() and angle.is_cuda:
            return Rotation(*waves(angle))
        return Rotation(angle.cos(), angle.sin())

    def vectors(self, index: Index, width: int) -> Float[Tensor, "*B T half"]:
        return self(index).cos

    def record(self, args: tuple[Any, ...], output: Any) -> Recorded:
        yield "cos", lambda: output.cos
        yield "sin", lambda: output.sin


def rotate(x: Float[Tensor, "B h T e"], rotation: Rotation) -> Float[Tensor, "B h T e"]:
    """Rotate each pair (a, b) to (a cos − b sin, b cos + a sin)."""
    cos, sin = rotation
    if cpu_kernels.applies_to(x):
        return cpu_kernels.CPURotation.apply(x, cos, sin)  # type: ignore[no-untyped-call]
    if cos.dim() == 3:  # each row of the batch has its own positions
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    pairs, sign = x.view(*x.shape[:-1], 2, -1), torch.arange(-1.0, 2.0, 2.0, device=x.device).unsqueeze(-1)
    turned = pairs * cos.unsqueeze(-2) + pairs.flip(-2) * (sin.unsqueeze(-2) * sign)
    return turned.flatten(-2).to(x.dtype)
