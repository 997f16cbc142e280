"""Pooling of a text's vectors into one vector. A text without tokens yields 0."""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks import Mask, Vector, Vectors
from glassformer.bricks.attention import masked_softmax
from glassformer.bricks.capabilities import Capability
from glassformer.bricks.own import OwnPool
from glassformer.bricks.tap import Brick, Tap
from glassformer.config.plugins import own_part


def pool_first(x: Vectors, mask: Mask = None) -> Vector:
    """Return the vector of the first token."""
    return x[:, 0] if mask is None else _only_real(x[:, 0], mask)


def pool_last(x: Vectors, mask: Mask = None) -> Vector:
    """Return the vector of the last token."""
    if mask is None:
        return x[:, -1]
    last = (mask.sum(1) - 1).clamp(min=0)
    return _only_real(x[torch.arange(x.shape[0], device=x.device), last], mask)


def pool_ends(x: Vectors, mask: Mask = None) -> Vector:
    """Return the final state of each direction of a bidirectional network.

    It is the forward half at the last token and the backward half at the first.
    """
    forwards, backwards = x.chunk(2, -1)
    return torch.cat([pool_last(forwards, mask), pool_first(backwards, mask)], -1)


def pool_sum(x: Vectors, mask: Mask = None) -> Vector:
    """Return Σ x_t."""
    return x.sum(1) if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)


def pool_mean(x: Vectors, mask: Mask = None) -> Vector:
    """Return Σ x_t / T, with T the tokens of the row."""
    return x.mean(1) if mask is None else pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(x: Vectors, mask: Mask = None) -> Vector:
    """Return the maximum of each of the d features."""
    if mask is None:
        return x.amax(1)
    return _only_real(x.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1), mask)


def pool_flatten(x: Vectors, mask: Mask = None) -> Float[Tensor, "B Td"]:
    """Return all vectors concatenated, for inputs with a fixed number of tokens."""
    return (x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0)).flatten(1)


def _only_real(pooled: Vector, mask: Bool[Tensor, "B T"]) -> Vector:
    return pooled.masked_fill(~mask.any(1, keepdim=True), 0.0)


class KnownPool(Capability, Protocol):
    """A pool of this package."""

    kind: str
    """Its name, as `make_pool` takes it."""


class Pool(Brick, nn.Module, KnownPool):
    """A pool that is one of the functions above, by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.function = kind, FUNCTIONS[kind]

    def forward(self, x: Vectors, mask: Mask = None) -> Float[Tensor, "B pooled"]:
        return self.function(x, mask)


class UnitLength(nn.Module):
    """x / ‖x‖. The dot product of two such vectors is their cosine similarity."""

    def forward(self, x: Vector) -> Vector:
        return F.normalize(x, dim=-1)


class AttentionPool(Brick, nn.Module, KnownPool):
    """Attention pooling with a learned query w: p = softmax(wᵀx_t), Σ p_t x_t. w starts at 0, which is the mean."""

    kind = "attention"

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))
        self.weights = Tap()

    def forward(self, x: Vectors, mask: Mask = None) -> Vector:
        weights = self.weights(masked_softmax(torch.einsum("d,btd->bt", self.query, x), mask))
        return torch.einsum("bt,btd->bd", weights, x)


FUNCTIONS: dict[str, Callable[[Tensor, Mask], Tensor]] = {
    "last": pool_last,
    "first": pool_first,
    "ends": pool_ends,
    "mean": pool_mean,
    "max": pool_max,
    "sum": pool_sum,
    "flatten": pool_flatten,
}


def make_pool(kind: str, *, width: int, both_ways: bool = False) -> nn.Module:
    """Return the pooling with this name: last, first, ends, mean, max, sum, flatten, attention, or a user's.

    `both_ways`: the first half of the vectors is from a forward network, the second half from a backward network.
    """
    if kind == "attention":
        return AttentionPool(width=width)
    if (part := own_part("pooling", kind)) is not None:
        return OwnPool(part, width=width)
    return Pool("ends" if kind == "last" and both_ways else kind)
