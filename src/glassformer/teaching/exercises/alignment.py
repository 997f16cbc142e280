"""Exercises on a decoder's attention to the source: dot-product attention, additive scores and the bottleneck."""

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Args, Case, Exercise, answer, drawn, exercise, normal


def attend(query: Tensor, states: Tensor, mask: Tensor, *, mistake: str = "") -> tuple[Tensor, Tensor]:
    """Return the right result, or the result of a known mistake."""
    scores = (states @ query.unsqueeze(-1)).squeeze(-1)
    if mistake == "scaled":
        scores = scores / query.shape[-1] ** 0.5
    seen = ~mask if mistake == "upside down" else torch.ones_like(mask) if mistake == "unmasked" else mask
    if mistake == "before":
        weights = (scores * seen).softmax(-1)
    elif mistake == "after":
        weights = scores.softmax(-1) * seen
    else:
        axis = 0 if mistake == "batch" else -1
        weights = scores.masked_fill(~seen, -torch.inf).softmax(axis)
    context = (weights.unsqueeze(-1) * states).sum(1)
    return context, weights


def additive_scores(query: Tensor, states: Tensor, w: Tensor, u: Tensor, v: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    if mistake == "exchanged":
        w, u = u, w
    joint = (query @ w.T).unsqueeze(1) + states @ u.T
    return (joint if mistake == "linear" else joint.tanh()) @ v


@drawn
def _memory(chance: Generator, lengths: list[int], width: int, times: float = 1.0) -> tuple[Tensor, ...]:
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    states = torch.randn(*mask.shape, width, generator=chance)
    return torch.randn(len(lengths), width, generator=chance) * times, states, mask


def _joint(rows: int, length: int, width: int) -> Args:
    return normal((rows, width), (rows, length, width), (width, width), (width, width), (width,))


EXERCISES: list[Exercise] = [
    answer(__name__, "numbers"),
    exercise(
        attend,
        Case("two sources of one length", _memory([5, 5], 4), points=2),
        Case("padding is not looked at", _memory([3, 6, 4], 4), points=2),
        Case("a source of one token", _memory([1, 4], 3), visible=False),
        Case("large scores", _memory([6, 6], 8, 1000.0), visible=False),
    ),
    exercise(
        additive_scores,
        Case("three sources of five tokens", _joint(3, 5, 4), points=2),
        Case("one source", _joint(1, 4, 3), visible=False),
    ),
]
