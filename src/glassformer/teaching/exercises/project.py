"""Exercises on evaluation: leaked texts, scores of a confusion matrix, significance, and the sample size."""

from math import comb
from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Case, Exercise, answer, drawn, exercise


def leaked(train: list[str], test: list[str], *, mistake: str = "") -> list[str]:
    """Return the right result, or the result of a known mistake."""

    def same(text: str) -> str:
        text = text if mistake in ("exact", "spaces") else text.lower()
        return text if mistake in ("exact", "case") else " ".join(text.split())

    known = {same(text) for text in train}
    found = [text for text in test if same(text) in known]
    return list(dict.fromkeys(found)) if mistake == "once" else found


PLAIN = ["good soup", "the bill was fair", "cold pasta", "rude waiters", "a lovely view", "never again", "a dull party"]


def _written(text: str, how: int) -> str:
    return [text, text.upper(), f" {text}  ", text.replace(" ", "  "), text.title()][how]


@drawn
def _parts(chance: Generator, plain: bool = False, none: bool = False) -> tuple[list[str], list[str]]:
    """Draw training and test texts, with two texts in both parts; one of them is twice in the test set.

    `plain`: shared texts have the same spelling in both parts. `none`: no text is shared.
    """
    order = [PLAIN[place] for place in torch.randperm(len(PLAIN), generator=chance).tolist()]
    train, both, test = order[:3], order[3:5], order[5:]
    if none:
        return train, test
    ways = [0] * 3 if plain else (torch.randperm(4, generator=chance)[:3] + 1).tolist()
    again = [_written(text, how) for text, how in zip([*both, both[0]], ways, strict=True)]
    return [*train, *both], [*test, *again, test[0]]


def scores(confusion: Tensor, *, mistake: str = "") -> dict[str, Any]:
    """Return the right result, or the result of a known mistake."""
    confusion = confusion.double()
    if mistake == "turned":
        confusion = confusion.T
    right, truths, guesses = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    least = 0 if mistake == "nan" else 1
    precision, recall = right / guesses.clamp(min=least), right / truths.clamp(min=least)
    f1 = 2 * right / (truths + guesses).clamp(min=1)
    if mistake == "nan":
        f1 = 2 * precision * recall / (precision + recall)
    macro = f1.mean()
    if mistake == "of means":
        macro = 2 * precision.mean() * recall.mean() / (precision.mean() + recall.mean())
    if mistake == "weighted":
        macro = (f1 * truths).sum() / truths.sum()
    accuracy = right.sum() / confusion.sum()
    return {"accuracy": float(accuracy), "precision": precision, "recall": recall, "macro_f1": float(macro)}


@drawn
def _table(chance: Generator, classes: int, never: bool = False) -> tuple[Tensor]:
    table = torch.randint(1, 20, (classes, classes), generator=chance) + 20 * torch.eye(classes, dtype=torch.long)
    table[0] *= 3
    if never:
        table[:, -1] = 0
    return (table,)


def mcnemar(first: list[bool], second: list[bool], *, mistake: str = "") -> float:
    """Return the right result, or the result of a known mistake."""
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    fewer, n = min(only_first, only_second), only_first + only_second
    if mistake == "all":
        n = len(first)
    if mistake == "exactly":
        return min(1.0, 2 * comb(n, fewer) / 2**n)
    tail = sum(comb(n, k) for k in range(fewer + 1)) / 2**n
    return tail if mistake == "one side" else min(1.0, 2 * tail)


@drawn
def _two_models(chance: Generator, rows: int, first: float, second: float) -> tuple[list[bool], list[bool]]:
    drawn = torch.rand(2, rows, generator=chance)
    return (drawn[0] < first).tolist(), (drawn[1] < second).tolist()


def _even(chance: Generator) -> tuple[list[bool], list[bool]]:
    """Draw the answers of two models that are right equally often."""
    pairs = [(True, False), (False, True), (True, True)] * 6
    order = torch.randperm(len(pairs), generator=chance).tolist()
    return [pairs[place][0] for place in order], [pairs[place][1] for place in order]


EXERCISES: list[Exercise] = [
    exercise(
        leaked,
        Case("the same text", _parts(plain=True)),
        Case("written a little otherwise", _parts()),
        Case("nothing leaks", _parts(none=True), visible=False),
    ),
    exercise(
        scores,
        Case("three classes", _table(3), points=2),
        Case("a class that is never guessed", _table(3, never=True)),
        Case("two classes", _table(2), visible=False),
    ),
    exercise(
        mcnemar,
        Case("two models", _two_models(60, 0.85, 0.7), points=2),
        Case("as often ahead as behind", _even, visible=False),
        Case("many rows", _two_models(400, 0.8, 0.75), visible=False),
    ),
    answer(__name__, "rows_needed"),
]
