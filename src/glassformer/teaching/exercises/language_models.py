"""Exercises on language models: perplexity, the sampling distribution, and the head that resolves a pronoun."""

from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Case, Exercise, answer, exercise, normal

# --- perplexity ---


def perplexity(probabilities: Tensor, *, mistake: str = "") -> float:
    """Return the right result, or the result of a known mistake."""
    logs = probabilities.double().log()
    right = (-logs.mean()).exp()
    wrong = {
        "sum": (-logs.sum()).exp(),
        "loss": -logs.mean(),
        "sign": logs.mean().exp(),
        "mixed": 2 ** -logs.mean(),
        "mean of p": 1 / probabilities.double().mean(),
    }
    return float(wrong.get(mistake, right))


def _chances(tokens: int, least: float = 0.02) -> Any:
    return lambda chance: (least + (1 - least) * torch.rand(tokens, generator=chance),)


def _even(chance: Generator) -> tuple[Tensor]:
    """Return the probabilities of a uniform model with a random vocabulary size."""
    return (torch.full((9,), 1 / int(torch.randint(5, 50, (), generator=chance))),)


# --- sampling ---


def next_distribution(
    scores: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    *,
    mistake: str = "",
) -> Tensor:
    """Return the right result, or the result of a known mistake."""
    if mistake == "after":
        chances = scores.softmax(-1) / temperature
        return chances / chances.sum() if top_k is None and top_p is None else chances
    cool = scores * temperature if mistake == "times" else scores / temperature
    chances = cool.softmax(-1)
    order = chances.argsort(descending=True)
    kept = torch.ones_like(chances, dtype=torch.bool)
    if top_k is not None:
        kept[order[top_k:]] = False
    if top_p is not None:
        among = torch.where(kept, chances, 0)[order]
        among = among / among.sum()
        reached = among.cumsum(0) > top_p if mistake == "short" else among.cumsum(0) - among >= top_p
        kept[order[reached]] = False
    if mistake == "zeros":
        return torch.where(kept, cool, 0).softmax(-1)
    if mistake == "not even":
        return torch.where(kept, chances, 0)
    return cool.masked_fill(~kept, -torch.inf).softmax(-1)


EXERCISES: list[Exercise] = [
    exercise(
        perplexity,
        Case("a text of eight words", _chances(8), points=2),
        Case("a model that knows nothing", _even, visible=False),
        tolerance=1e-4,
    ),
    exercise(
        next_distribution,
        Case("colder", normal((7,), scale=2), kwargs={"temperature": 0.5}),
        Case("the three likeliest", normal((7,), scale=2), kwargs={"top_k": 3}),
        Case("the fewest that reach 0.8", normal((9,), scale=2), kwargs={"top_p": 0.8}),
        Case(
            "hot, and the four likeliest",
            normal((11,), scale=2),
            kwargs={"temperature": 1.5, "top_k": 4},
            visible=False,
        ),
        Case(
            "hot, and those up to 0.7", normal((11,), scale=2), kwargs={"temperature": 3.0, "top_p": 0.7}, visible=False
        ),
        Case("more than there are", normal((5,), scale=2), kwargs={"temperature": 2.0, "top_k": 50}, visible=False),
        tolerance=1e-4,
    ),
    answer(__name__, "pronoun_head"),
]
