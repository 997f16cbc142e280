"""Exercises on attention: one head, several heads, and the number of parameters."""

import torch
from torch import Tensor, nn

from glassformer.teaching.exercise import Args, Case, Exercise, answer, exercise, normal


def _head(length: int, width: int, inner: int) -> Args:
    return normal((length, width), *3 * [(width, inner)])


def attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, causal: bool = False, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    if mistake == "swapped":
        q, k = k, q
    scores = q @ k.T / {"d": q.shape[-1], "bare": 1.0}.get(mistake, q.shape[-1] ** 0.5)
    past = torch.ones_like(scores).bool()
    if causal:
        past = past.triu() if mistake == "upside down" else past.tril({"itself": -1, "ahead": 1}.get(mistake, 0))
    axis = 0 if mistake == "axis" else -1
    if mistake == "after":
        return (scores.softmax(axis) * past) @ v
    if mistake == "zero":
        return (scores * past).softmax(axis) @ v
    return scores.masked_fill(~past, -torch.inf).softmax(axis) @ v


class MultiHeadAttention(nn.Module):
    """Reference solution; a subclass with `mistake` set makes a known mistake."""

    mistake = ""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def split(y: Tensor) -> Tensor:
            if self.mistake == "view":
                return y.view(batch, self.heads, length, width // self.heads)
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        wide = {"width": width, "bare": 1}.get(self.mistake, q.shape[-1])
        scores = q @ k.transpose(-1, -2) / wide**0.5
        if self.causal and self.mistake != "unmasked":
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        mixed = scores.softmax(-2 if self.mistake == "queries" else -1) @ v
        if self.mistake != "not back":
            mixed = mixed.transpose(1, 2)
        joined = mixed.reshape(batch, length, width)
        return joined if self.mistake == "no output" else self.output(joined)


EXERCISES: list[Exercise] = [
    exercise(
        attention,
        Case("every word sees every word", _head(5, 6, 4), points=2),
        Case("the future is hidden", _head(5, 6, 4), points=2, kwargs={"causal": True}),
        Case("one word alone", _head(1, 3, 2), kwargs={"causal": True}, visible=False),
        Case("a wide head", _head(7, 4, 16), visible=False),
    ),
    exercise(
        MultiHeadAttention,
        Case("two heads", normal((2, 5, 8)), points=2, build={"width": 8, "heads": 2}),
        Case("the future is hidden", normal((2, 5, 8)), build={"width": 8, "heads": 2, "causal": True}),
        Case("gradients", normal((1, 4, 6)), build={"width": 6, "heads": 3}, learn=True),
        Case("as many heads as numbers", normal((1, 3, 4)), build={"width": 4, "heads": 4}, visible=False),
    ),
    answer(__name__, "parameters"),
]
