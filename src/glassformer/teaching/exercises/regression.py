"""Exercises on regression: the gradient of a linear model, stable cross-entropy, and the number of parameters."""

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Args, Case, Exercise, answer, drawn, exercise, normal


def gradient(x: Tensor, y: Tensor, w: Tensor, b: Tensor, *, mistake: str = "") -> tuple[Tensor, Tensor]:
    """Return the right result, or the result of a known mistake."""
    error = x @ w - y if mistake == "no b" else x @ w + b - y
    factor = {"sign": -2, "no 2": 1}.get(mistake, 2) / (1 if mistake == "sum" else len(x))
    return factor * x.T @ error, factor * error.sum()


def cross_entropy(scores: Tensor, labels: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    logs = scores.log_softmax(0 if mistake == "axis" else -1)
    if mistake == "overflow":
        logs = (scores.exp() / scores.exp().sum(-1, keepdim=True)).log()
    if mistake == "plain sum":
        logs = scores - scores.exp().sum(-1, keepdim=True).log()
    if mistake == "no log":
        logs = scores.softmax(-1)
    losses = -logs.gather(1, labels[:, None]).squeeze(1)
    if mistake == "sum":
        return losses.sum()
    return -losses.mean() if mistake == "sign" else losses.mean()


def _line(rows: int, width: int) -> Args:
    return normal((rows, width), (rows,), (width,), ())


@drawn
def _scores(chance: Generator, rows: int, classes: int, times: float = 1.0) -> tuple[Tensor, ...]:
    scores = torch.randn(rows, classes, generator=chance) * times
    return scores, torch.randint(classes, (rows,), generator=chance)


def _equal_scores(chance: Generator) -> tuple[Tensor, ...]:
    return torch.full((4, 7), 3.0), torch.randint(7, (4,), generator=chance)


EXERCISES: list[Exercise] = [
    answer(__name__, "least_rmse"),
    exercise(
        gradient,
        Case("five flats", _line(5, 2), points=2),
        Case("one flat", _line(1, 3), visible=False),
        Case("many columns", _line(9, 6), visible=False),
    ),
    exercise(
        cross_entropy,
        Case("five examples, three classes", _scores(5, 3), points=2),
        Case("scores of a thousand", _scores(5, 3, 1000.0)),
        Case("all scores alike", _equal_scores, visible=False),
    ),
    answer(__name__, "parameters"),
]
