"""Exercises on words: one byte-pair merge, TF-IDF, and the average of a text's word vectors."""

import string
from collections import Counter
from itertools import pairwise

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Case, Exercise, answer, drawn, exercise

Words = list[list[str]]
Pair = tuple[str, str]


def merge_step(words: Words, *, mistake: str = "") -> tuple[Pair, Words]:
    """Return the right result, or the result of a known mistake."""
    counted = words
    if mistake == "borders":
        counted = [[token for word in words for token in word]]
    if mistake == "types":
        counted = [list(word) for word in dict.fromkeys(map(tuple, words))]
    counts = Counter(pair for word in counted for pair in pairwise(word))
    best = max(counts, key=lambda pair: counts[pair])
    return best, [_merged(word, best, mistake) for word in words]


def _merged(word: list[str], pair: Pair, mistake: str) -> list[str]:
    out, place = list[str](), 0
    while place < len(word):
        here = tuple(word[place : place + 2]) == pair and not (mistake == "once" and "".join(pair) in out)
        out.append("".join(pair) if here else word[place])
        place += 2 if here and mistake != "overlap" else 1
    return out


def tfidf(counts: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    n = counts.shape[0]
    having = counts.sum(0) if mistake == "total" else (counts > 0).sum(0).float()
    ratio = n / having if mistake == "plain" else (1 + n) / (1 + having)
    x = counts * (ratio.log() + (mistake != "no 1"))
    if mistake == "no length":
        return x
    length = x.square().sum(1, keepdim=True).sqrt()
    return x / length if mistake == "0 by 0" else x / length.clamp(min=1e-9)


def average(vectors: Tensor, mask: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    if mistake == "padding":
        return vectors.mean(1)
    if mistake == "inverse":
        mask = ~mask
    total, real = (vectors * mask.unsqueeze(-1)).sum(1), mask.sum(1, keepdim=True)
    if mistake == "length":
        return total / vectors.shape[1]
    return total / real if mistake == "0 by 0" else total / real.clamp(min=1)


@drawn
def _spelled(chance: Generator, texts: list[str]) -> tuple[Words]:
    """Split texts at hyphens into tokens, and replace the letters by a random permutation."""
    letters = [string.ascii_lowercase[place] for place in torch.randperm(26, generator=chance)]
    other = str.maketrans(string.ascii_lowercase, "".join(letters))
    return ([[piece.translate(other) for piece in text.split("-")] for text in texts],)


def _letters(*words: str) -> list[str]:
    return ["-".join(word) for word in words]


def _counts(chance: Generator) -> tuple[Tensor]:
    counts = torch.randint(0, 4, (5, 6), generator=chance) * (torch.rand(5, 6, generator=chance) < 0.6)
    counts[0], counts[1, :2], counts[:, 5] = torch.arange(6), 2, 1
    return (counts.float(),)


def _with_empty(chance: Generator) -> tuple[Tensor]:
    (counts,) = _counts(chance)
    counts[3] = 0
    return (counts,)


@drawn
def _padded(chance: Generator, lengths: list[int]) -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return torch.randn(*mask.shape, 4, generator=chance), mask


FREQUENT = "bun hug sun bun rug sun bun pug hugs sun bun bun sun hugs rug sun bun"
"""Words in which `un` occurs more often than `ug`, but in fewer distinct words."""

EXERCISES: list[Exercise] = [
    exercise(
        merge_step,
        Case("the most frequent pair", _spelled(_letters(*FREQUENT.split()))),
        Case("pairs end where a word ends", _spelled(_letters("pa", "ti", "la", "te", "ma", "to", "pa"))),
        Case("a letter many times", _spelled(_letters("aaaab", "baaa", "banaan", "aab"))),
        Case("equally frequent pairs", _spelled(_letters("kit", "dog", "kit", "dog")), visible=False),
        Case("tokens that are merged already", _spelled(["lo-w", "lo-w-er", "s-lo-w", "n-ew"]), visible=False),
    ),
    exercise(
        tfidf,
        Case("five texts, six words", _counts, points=2),
        Case("a text without words", _with_empty, visible=False),
    ),
    answer(__name__, "apart"),
    exercise(
        average,
        Case("texts of several lengths", _padded([3, 5, 2]), points=2),
        Case("a text without words", _padded([4, 0]), visible=False),
    ),
]
