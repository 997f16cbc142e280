"""Bricks as a student writes them, in one file, with public names alone."""

import math

import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.rendering.panels import Words
from glassformer.rendering.view import View


@gf.register_brick("attention", "by-hand")
class Attention(nn.Module):
    """Multi-head self-attention, written out."""

    def __init__(self, *, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (
            part(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if self.causal:
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -math.inf)
        weights = scores.softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2)), weights


@gf.register_brick("attention", "turned")
class TurnedAttention(nn.Module):
    """One head that knows rotary positions and documents apart, and does not tell where it looks."""

    def __init__(self, width: int, head_width: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.query, self.key = (nn.Linear(width, head_width, bias=False) for _ in range(2))
        self.value = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotation: tuple[Tensor, Tensor] | None = None,
        seen: Tensor | None = None,
    ) -> Tensor:
        q, k = self.query(x), self.key(x)
        if rotation is not None:
            cos, sin = rotation
            q, k = (
                torch.cat([a * cos - b * sin, b * cos + a * sin], -1) for a, b in (part.chunk(2, -1) for part in (q, k))
            )
        allowed = torch.ones(len(x), x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        allowed = allowed.tril() if self.causal else allowed
        allowed = allowed if mask is None else allowed & mask[:, None]
        allowed = allowed if seen is None else allowed & seen
        scores = (q @ k.transpose(1, 2)).masked_fill(~allowed, -math.inf)
        return scores.softmax(-1) @ self.value(x)


@gf.register_brick("norm", "mean-size")
class MeanSize(nn.Module):
    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.full((width,), 0.5)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.gain


@gf.register_brick("positions", "ramp")
class Ramp(nn.Module):
    """A learned direction, the further the later."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.direction, self.context = nn.Parameter(torch.randn(width)), context

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return x + (index / self.context).unsqueeze(-1) * self.direction


@gf.register_brick("pooling", "middle")
class Middle(nn.Module):
    """Half of the mean and half of the largest."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return (x.mean(1) + x.amax(1)) / 2
        shown = mask.unsqueeze(-1)
        mean = (x * shown).sum(1) / shown.sum(1)
        return (mean + x.masked_fill(~shown, -math.inf).amax(1)) / 2


@gf.register_model("sums")
class Sums(nn.Module):
    """A whole model: the sum of the words' scores."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.scores = nn.Embedding(vocab, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return (self.scores(tokens) * mask.unsqueeze(-1)).sum(1)


@gf.register_view("shortest", shows="the shortest token of a text", needs=lambda loaded: loaded.tokenizer is not None)
def shortest(request):  # type: ignore[no-untyped-def]
    return View("The shortest token", [Words(text=min(request.example.tokens, key=len))])
