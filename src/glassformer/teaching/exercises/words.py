"""One merge of byte pairs, TF-IDF, and the average of a text's word vectors."""

import string
from collections import Counter
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Answer, Case, Exercise, Function, Mistake, equals

Words = list[list[str]]
Pair = tuple[str, str]


def merge_step(words: Words, *, mistake: str = "") -> tuple[Pair, Words]:
    """The right one, or with one of the mistakes that are known."""
    counted = words
    if mistake == "borders":
        counted = [[token for word in words for token in word]]
    if mistake == "types":
        counted = [list(word) for word in dict.fromkeys(map(tuple, words))]
    counts = Counter(pair for word in counted for pair in pairwise(word))
    if mistake == "last of ties":
        counts = Counter(dict(reversed(counts.items())))
    best = max(counts, key=lambda pair: counts[pair])
    return best, [_merged(word, best, mistake) for word in words]


def _merged(word: list[str], pair: Pair, mistake: str) -> list[str]:
    out, place = list[str](), 0
    while place < len(word):
        here = tuple(word[place : place + 2]) == pair and not (mistake == "once" and "".join(pair) in out)
        if mistake == "last lost" and not here and place == len(word) - 1:
            break
        out.append("".join(pair) if here else word[place])
        place += 2 if here and mistake != "overlap" else 1
    return out


def _merge_mistake(hint: str, name: str) -> Mistake:
    return Mistake(hint, lambda words: merge_step(words, mistake=name))


MERGE_MISTAKES = [
    _merge_mistake("a pair lies within a word: the end of one and the start of the next are no pair", "borders"),
    _merge_mistake("a word that stands there ten times counts ten times", "types"),
    _merge_mistake("all places of a word are merged, not only the first", "once"),
    _merge_mistake("after a merge go on behind both tokens: the second of them is used up", "overlap"),
    _merge_mistake("the last token of a word is lost", "last lost"),
    _merge_mistake("of equally frequent pairs the one that comes first in the text is taken", "last of ties"),
]


def tfidf(counts: Tensor, *, mistake: str = "") -> Tensor:
    """The right one, or with one of the mistakes that are known."""
    n = counts.shape[0]
    having = counts.sum(0) if mistake == "total" else (counts > 0).sum(0).float()
    ratio = (n / having) if mistake == "plain" else (1 + n) / (1 + having)
    logs = {"log2": ratio.log2(), "log10": ratio.log10()}.get(mistake, ratio.log())
    idf = logs if mistake == "no 1" else logs + 1
    x = (counts > 0).float() * idf if mistake == "once" else counts * idf
    if mistake == "no length":
        return x
    if mistake == "sum":
        return x / x.sum(1, keepdim=True).clamp(min=1e-9)
    axis = 0 if mistake == "columns" else 1
    length = x.square().sum(axis, keepdim=True).sqrt()
    return x / length if mistake == "0 by 0" else x / length.clamp(min=1e-9)


def _tfidf_mistake(hint: str, name: str) -> Mistake:
    return Mistake(hint, lambda counts: tfidf(counts, mistake=name))


TFIDF_MISTAKES = [
    _tfidf_mistake("df counts the texts that have the word, not how often it stands in them", "total"),
    _tfidf_mistake("the 1 after the logarithm is missing", "no 1"),
    _tfidf_mistake("1 is added to n and to df, so that nothing is divided by 0", "plain"),
    _tfidf_mistake("ln is the natural logarithm (torch.log)", "log2"),
    _tfidf_mistake("ln is the natural logarithm (torch.log)", "log10"),
    _tfidf_mistake("how often a word stands in the text is left out: multiply by the count", "once"),
    _tfidf_mistake("the rows are not brought to length 1", "no length"),
    _tfidf_mistake("length is the root of the sum of squares, not the sum", "sum"),
    _tfidf_mistake("each text (row) gets length 1, not each word (column)", "columns"),
    _tfidf_mistake("a text without words has length 0: 0 divided by 0 is nan", "0 by 0"),
]


def average(vectors: Tensor, mask: Tensor, *, mistake: str = "") -> Tensor:
    """The right one, or with one of the mistakes that are known."""
    if mistake == "padding":
        return vectors.mean(1)
    total = (vectors * mask.unsqueeze(-1)).sum(1)
    real = mask.sum(1, keepdim=True)
    if mistake == "sum":
        return total
    if mistake == "length":
        return total / vectors.shape[1]
    if mistake == "all":
        return total / mask.sum()
    if mistake.startswith("inverse"):
        padding = (~mask).sum(1, keepdim=True)
        divided = {"inverse": real.clamp(min=1), "inverse twice": padding.clamp(min=1), "inverse, 0 by 0": padding}
        return (vectors * ~mask.unsqueeze(-1)).sum(1) / divided[mistake]
    return total / real if mistake == "0 by 0" else total / real.clamp(min=1)


def _average_mistake(hint: str, name: str) -> Mistake:
    return Mistake(hint, lambda vectors, mask: average(vectors, mask, mistake=name))


AVERAGE_MISTAKES = [
    _average_mistake("the padding is averaged too", "padding"),
    _average_mistake("divide by the number of words of the text, not by the length with its padding", "length"),
    _average_mistake("this is the sum: divide by the number of words", "sum"),
    _average_mistake("divide each text by its own number of words", "all"),
    *(
        _average_mistake("the mask is upside down: True is a word, False is padding", name)
        for name in ("inverse", "inverse twice", "inverse, 0 by 0")
    ),
    _average_mistake("a text without words is divided by 0: its average shall be 0", "0 by 0"),
]


def _spelled(texts: list[str]) -> Any:
    """These words, in letters that are drawn."""

    def draw(chance: Generator) -> tuple[Words]:
        letters = [string.ascii_lowercase[place] for place in torch.randperm(26, generator=chance)]
        other = str.maketrans(string.ascii_lowercase, "".join(letters))
        return ([[piece.translate(other) for piece in text.split("-")] for text in texts],)

    return draw


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


def _padded(lengths: list[int]) -> Any:
    def draw(chance: Generator) -> tuple[Tensor, Tensor]:
        mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        return torch.randn(*mask.shape, 4, generator=chance), mask

    return draw


FREQUENT = "bun hug sun bun rug sun bun pug hugs sun bun bun sun hugs rug sun bun"
"""`un` stands there more often than `ug`, in fewer different words."""

EXERCISES: list[Exercise] = [
    Function(
        "merge_step",
        merge_step,
        [
            Case("the most frequent pair", _spelled(_letters(*FREQUENT.split()))),
            Case("pairs end where a word ends", _spelled(_letters("pa", "ti", "la", "te", "ma", "to", "pa"))),
            Case("a letter many times", _spelled(_letters("aaaab", "baaa", "banaan", "aab"))),
            Case("equally frequent pairs", _spelled(_letters("kit", "dog", "kit", "dog")), visible=False),
            Case("tokens that are merged already", _spelled(["lo-w", "lo-w-er", "s-lo-w", "n-ew"]), visible=False),
        ],
        MERGE_MISTAKES,
    ),
    Function(
        "tfidf",
        tfidf,
        [
            Case("five texts, six words", _counts, points=2),
            Case("a text without words", _with_empty, visible=False),
        ],
        TFIDF_MISTAKES,
    ),
    Answer(
        "apart",
        equals(0),
        "how far apart the two answers are",
        hints=[(lambda value: 0 < abs(float(value)) <= 1, "both sentences are the same bag: what could differ?")],
    ),
    Function(
        "average",
        average,
        [
            Case("texts of several lengths", _padded([3, 5, 2]), points=2),
            Case("a text without words", _padded([4, 0]), visible=False),
        ],
        AVERAGE_MISTAKES,
    ),
]  # fmt: skip
