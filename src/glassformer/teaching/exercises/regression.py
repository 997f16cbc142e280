"""The gradient of a line's loss, cross-entropy that does not overflow, and how many numbers a network learns."""

from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.config.sentences import sentence
from glassformer.teaching.exercise import Answer, Args, Case, Exercise, Mistake, equals, exercise, near, normal


def gradient(x: Tensor, y: Tensor, w: Tensor, b: Tensor, *, mistake: str = "") -> tuple[Tensor, Tensor]:
    """Return the right result, or the one that a known mistake leads to."""
    error = x @ w - y if mistake == "no b" else x @ w + b - y
    if mistake == "sign":
        error = -error
    factor = 1 if mistake == "no 2" else 2
    by = 1 if mistake == "sum" else len(x)
    by_b = 1 if mistake == "sum of b" else by
    return factor * x.T @ error / by, factor * error.sum() / by_b


def cross_entropy(scores: Tensor, labels: Tensor, *, mistake: str = "", tiny: float = 0.0) -> Tensor:
    """Return the right result, or the one that a known mistake leads to."""
    axis = 0 if mistake == "axis" else -1
    logs = scores.log_softmax(axis)
    if mistake == "overflow":
        logs = (scores.exp() / scores.exp().sum(axis, keepdim=True)).log()
    if mistake == "log of 0":
        logs = scores.softmax(axis).log()
    if mistake == "plain sum":
        logs = scores - scores.exp().sum(axis, keepdim=True).log()
    if mistake == "added":
        logs = (scores.softmax(axis) + tiny).log()
    if mistake == "no log":
        logs = scores.softmax(axis)
    if mistake == "scores":
        logs = scores
    losses = -logs.gather(1, labels[:, None]).squeeze(1)
    if mistake == "sum":
        return losses.sum()
    if mistake == "classes":
        return losses.sum() / scores.numel()
    if mistake == "each":
        return losses
    return -losses.mean() if mistake == "sign" else losses.mean()


TINY_NUMBERS = [10.0**-power for power in range(5, 17)]
TINY_MISTAKES = [
    Mistake(sentence(__name__, "tiny in the logarithm"), partial(cross_entropy, mistake="added", tiny=tiny))
    for tiny in TINY_NUMBERS
]


def _line(rows: int, width: int) -> Args:
    return normal((rows, width), (rows,), (width,), ())


def _scores(rows: int, classes: int, times: float = 1.0) -> Any:
    def draw(chance: Generator) -> tuple[Tensor, ...]:
        scores = torch.randn(rows, classes, generator=chance) * times
        return scores, torch.randint(classes, (rows,), generator=chance)

    return draw


def _equal_scores(chance: Generator) -> tuple[Tensor, ...]:
    return torch.full((4, 7), 3.0), torch.randint(7, (4,), generator=chance)


EXERCISES: list[Exercise] = [
    Answer(
        "least_rmse",
        near(30, 2),
        "the least RMSE on new flats, in €",
        hints=[
            (near(0, 1e-9), "nobody can predict the noise"),
            (near(900, 1), "that is its square: rmse is the root of the mean square"),
        ],
    ),
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
        mistakes=TINY_MISTAKES,
    ),
    Answer(
        "parameters",
        equals(64 * 32 + 32 + 32 * 10 + 10),
        "how many numbers it learns",
        hints=[
            (equals(64 * 32 + 32 * 10), "each layer has biases too, one for each of its outputs"),
            (equals(64 * 32 + 32), "the second layer, from 32 to 10, is missing"),
            (equals(64 * 10 + 10), "that is the linear model: there is a layer of 32 between"),
            (equals(64 * 32 * 10), "layers add up: 64×32 numbers, then 32×10"),
            (equals(64 * 32 + 64 + 32 * 10 + 32), "a layer has a bias for each output, not for each input"),
            (equals(8 * 32 + 32 + 32 * 10 + 10), "an image of 8×8 is 64 numbers"),
        ],
    ),
]
