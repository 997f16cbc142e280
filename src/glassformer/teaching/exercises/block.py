"""Layer norm, sine-cosine positions, and a whole pre-norm block of given parts."""

from typing import Any

import torch
from torch import Generator, Tensor, nn

from glassformer.teaching.exercise import Answer, Case, Exercise, equals, exercise

# --- layer norm ---


class LayerNorm(nn.Module):
    """The reference; a subclass makes a known mistake."""

    mistake = ""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        over = {"batch": (0, 1), "tokens": (1,)}.get(self.mistake, (-1,))
        mean = x.mean(over, keepdim=True) if self.mistake != "uncentred" else torch.zeros(1)
        variance = (x - mean).square().mean(over, keepdim=True)
        if self.mistake == "unbiased":
            variance = x.var(-1, keepdim=True)
        root = {
            "outside": variance.sqrt() + self.eps,
            "unbiased outside": x.std(-1, keepdim=True) + self.eps,
            "no eps": variance.sqrt(),
            "variance": variance + self.eps,
        }.get(self.mistake, (variance + self.eps).sqrt())
        normed = (x - mean) / root
        if self.mistake == "bare":
            return normed
        if self.mistake == "no shift":
            return normed * self.gain
        return normed * self.gain + self.shift


def _vectors(rows: int, length: int, width: int, *, around: float = 0.0, spread: float = 1.0) -> Any:
    return lambda chance: (around + spread * torch.randn(rows, length, width, generator=chance),)


# --- positions ---


def sine_cosine(length: int, width: int, *, mistake: str = "") -> Tensor:
    """Return the right result, or the one that a known mistake leads to."""
    place, pair = torch.arange(length)[:, None] + (mistake == "from one"), torch.arange(0, width, 2)
    power = {"half": pair / 2, "column": pair * 2}.get(mistake, pair) / width
    angle = place * 10_000**power if mistake == "times" else place / 10_000**power
    if mistake == "own wave":  # each column with its own length of wave
        every = place / 10_000 ** (torch.arange(width) / width)
        return torch.stack([every[:, 0::2].sin(), every[:, 1::2].cos()], -1).flatten(1)
    waves = [angle.cos(), angle.sin()] if mistake == "swapped" else [angle.sin(), angle.cos()]
    return torch.cat(waves, 1) if mistake == "halves" else torch.stack(waves, -1).flatten(1)


def _sizes(longest: int, pairs: int) -> Any:
    def draw(chance: Generator) -> tuple[int, int]:
        length = 3 + int(torch.randint(longest - 3, (), generator=chance))
        return length, 2 * (2 + int(torch.randint(pairs - 2, (), generator=chance)))

    return draw


# --- the block ---


class PreNormBlock(nn.Module):
    """The reference; a subclass makes a known mistake."""

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
        inner = self.up(x)
        fed: Tensor = self.down(inner if self.mistake == "no relu" else inner.relu())
        return fed

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.norm_1, self.norm_1 if self.mistake == "one norm" else self.norm_2
        if self.mistake == "post":
            x = first(x + self.attend(x))
            return torch.as_tensor(second(x + self.feed(x)))
        if self.mistake == "no norms":
            x = x + self.attend(x)
            return x + self.feed(x)
        if self.mistake == "parallel":
            return x + self.attend(first(x)) + self.feed(second(x))
        if self.mistake == "normed way":
            normed = first(x)
            x = normed + self.attend(normed)
            normed = second(x)
            return torch.as_tensor(normed + self.feed(normed))
        x = self.attend(first(x)) + (0 if self.mistake in ("no residuals", "first lost") else x)
        return self.feed(second(x)) + (0 if self.mistake in ("no residuals", "second lost") else x)


EXERCISES: list[Exercise] = [
    Answer(
        "averaged",
        equals((8, 10)),
        "how many numbers go into one mean of layer norm, and of batch norm",
        hints=[
            (equals((10, 8)), "it is the other way round"),
            (equals((80, 80)), "neither takes the mean of everything"),
            (equals((40, 10)), "layer norm takes one token at a time, not a sentence"),
            (equals((8, 2)), "batch norm takes all tokens of all sentences: there are 2 · 5"),
            (equals((8, 5)), "batch norm takes all tokens of all sentences: there are 2 · 5"),
        ],
    ),
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
