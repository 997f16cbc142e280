"""Exercises on the Transformer block: layer norm, sine-cosine positions, and a pre-norm block of given parts."""

from typing import Any

import torch
from torch import Generator, Tensor, nn

from glassformer.teaching.exercise import Case, Exercise, answer, drawn, exercise

# --- layer norm ---


class LayerNorm(nn.Module):
    """Reference solution; a subclass with `mistake` set makes a known mistake."""

    mistake = ""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        over = (0, 1) if self.mistake == "batch" else (-1,)
        mean = torch.zeros(1) if self.mistake == "uncentred" else x.mean(over, keepdim=True)
        variance = (x - mean).square().mean(over, keepdim=True)
        if self.mistake == "unbiased":
            variance = x.var(-1, keepdim=True)
        root = {
            "unbiased outside": x.std(-1, keepdim=True) + self.eps,
            "no eps": variance.sqrt(),
            "variance": variance + self.eps,
        }.get(self.mistake, (variance + self.eps).sqrt())
        return (x - mean) / root * self.gain + self.shift


def _vectors(rows: int, length: int, width: int, *, around: float = 0.0, spread: float = 1.0) -> Any:
    return lambda chance: (around + spread * torch.randn(rows, length, width, generator=chance),)


# --- positions ---


def sine_cosine(length: int, width: int, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    place, pair = torch.arange(length)[:, None] + (mistake == "from one"), torch.arange(0, width, 2)
    angle = place / 10_000 ** ((2 * pair if mistake == "column" else pair) / width)
    waves = [angle.cos(), angle.sin()] if mistake == "swapped" else [angle.sin(), angle.cos()]
    return torch.cat(waves, 1) if mistake == "halves" else torch.stack(waves, -1).flatten(1)


@drawn
def _sizes(chance: Generator, longest: int, pairs: int) -> tuple[int, int]:
    length = 3 + int(torch.randint(longest - 3, (), generator=chance))
    return length, 2 * (2 + int(torch.randint(pairs - 2, (), generator=chance)))


# --- the block ---


class PreNormBlock(nn.Module):
    """Reference solution; a subclass with `mistake` set makes a known mistake."""

    mistake = ""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return mixed

    def feed(self, x: Tensor) -> Tensor:
        fed: Tensor = self.down(self.up(x).relu())
        return fed

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.norm_1, self.norm_1 if self.mistake == "one norm" else self.norm_2
        if self.mistake == "post":
            x = first(x + self.attend(x))
            return torch.as_tensor(second(x + self.feed(x)))
        if self.mistake == "normed way":
            normed = first(x)
            normed = second(normed + self.attend(normed))
            return torch.as_tensor(normed + self.feed(normed))
        way = 0 if self.mistake == "no residuals" else 1
        x = self.attend(first(x)) + way * x
        return self.feed(second(x)) + way * x


EXERCISES: list[Exercise] = [
    answer(__name__, "averaged"),
    exercise(
        LayerNorm,
        Case("a batch of sentences", _vectors(2, 5, 8, around=2, spread=3), points=2, build={"width": 8}),
        Case("numbers that hardly differ", _vectors(2, 3, 7, around=1, spread=0.002), build={"width": 7}),
        Case("gradients", _vectors(2, 3, 6, spread=5), build={"width": 6}, learn=True),
        Case("one token alone", _vectors(1, 1, 11), build={"width": 11}, visible=False),
        tolerance=1e-4,
    ),
    exercise(
        sine_cosine,
        Case("a short sentence", _sizes(12, 6), points=2),
        Case("a long text", _sizes(200, 24), visible=False),
        tolerance=1e-4,
    ),
    exercise(
        PreNormBlock,
        Case("two sentences", _vectors(2, 5, 8, spread=2), points=2, build={"width": 8, "heads": 2}),
        Case("gradients", _vectors(1, 3, 6), build={"width": 6, "heads": 3}, learn=True, visible=False),
        tolerance=1e-4,
    ),
]
