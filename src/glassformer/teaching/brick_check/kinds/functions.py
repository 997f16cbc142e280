"""Softmax and cross-entropy, as functions."""

from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Scope, numbers

ROWS, CLASSES, HIDDEN = 5, 7, -100
"""Examples, classes, and what stands for no answer."""


def softmax_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x = numbers(ROWS, CLASSES, drawn=drawn)
    large = x.clone()
    large[0] += 1000
    return [Case("plain", {}, {"x": x, "dim": -1}), Case("large numbers", {}, {"x": large, "dim": -1})]


def _normed(x: Tensor, axis: Any) -> Tensor:
    return x / x.sum(axis, keepdim=True)


def _stable(x: Tensor) -> Tensor:
    return (x - x.amax(-1, keepdim=True)).exp()


SOFTMAX = Contract(
    name="softmax",
    signature="x N×C → N×C",
    pattern=r".*softmax.*",
    steps={"exponentials": lambda s: _stable(s.x), "output": lambda s: _normed(s.exponentials, -1)},
    mistakes=[
        ("exp overflows: subtract the largest number of each row first", {"exponentials": lambda s: s.x.exp()}),
        (
            "exp overflows, and the sum goes over everything",
            {"exponentials": lambda s: s.x.exp(), "output": lambda s: s.exponentials / s.exponentials.sum()},
        ),
        (
            "the sum goes over the rows: it must go over the classes, the last axis",
            {"output": lambda s: s.x.softmax(0)},
        ),
        (
            "the sum goes over everything: each row has its own",
            {"output": lambda s: s.x.flatten().softmax(0).view_as(s.x)},
        ),
        ("it is not divided by the sum", {"output": lambda s: s.x.exp()}),
        ("it is not divided by the sum", {"output": lambda s: s.exponentials}),
        ("there is no exp: the numbers themselves are divided by their sum", {"output": lambda s: _normed(s.x, -1)}),
        ("the logarithm is given: this is log softmax", {"output": lambda s: s.x.log_softmax(-1)}),
        ("it is the sigmoid of each number", {"output": lambda s: s.x.sigmoid()}),
        ("the sign is wrong: exp(−x)", {"output": lambda s: (-s.x).softmax(-1)}),
    ],
    inputs=softmax_cases,
    is_function=True,
    arguments={"x": ("scores", "logits", "z", "input", "a", "s"), "dim": ("axis",)},
    time=None,
)


def loss_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    scores, true = numbers(ROWS, CLASSES, drawn=drawn), torch.randint(CLASSES, (ROWS,), generator=drawn)
    out = [Case("plain", {}, {"scores": scores, "true": true, "mask": None, "ignored": HIDDEN})]
    real = torch.arange(ROWS) < ROWS - 2
    if "mask" in facts.takes:
        out.append(Case("padded", {}, {"scores": scores, "true": true, "mask": real, "ignored": HIDDEN}))
    elif "ignored" in facts.takes:
        inputs = {"scores": scores, "true": true.masked_fill(~real, HIDDEN), "mask": None, "ignored": HIDDEN}
        out.append(Case("padded", {}, inputs))
    return out


def losses(s: Scope, logs: Tensor | None = None) -> Tensor:
    logs = s.scores.log_softmax(-1) if logs is None else logs
    return -logs.gather(-1, s.true.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def real(s: Scope) -> Tensor:
    return (s.true != HIDDEN) & (True if s.mask is None else s.mask)


CROSS_ENTROPY = Contract(
    name="cross-entropy",
    signature="scores N×C, true N → one number",
    pattern=r".*crossentropy.*|.*softmaxloss.*|ce|.*nll.*",
    steps={
        "log probabilities": lambda s: s.scores.log_softmax(-1),
        "losses": lambda s: losses(s, getattr(s, "log probabilities")),
        "output": lambda s: (s.losses * real(s)).sum() / real(s).sum(),
    },
    mistakes=[
        (
            "softmax is taken twice: the log softmax of what is softmax already",
            {"log probabilities": lambda s: s.scores.softmax(-1).log_softmax(-1)},
        ),
        (
            "log softmax is taken twice",
            {"log probabilities": lambda s: s.scores.log_softmax(-1).log_softmax(-1).log_softmax(-1) * 2},
        ),
        (
            "there is no logarithm: the probability itself is the loss",
            {"log probabilities": lambda s: s.scores.softmax(-1)},
        ),
        ("there is no softmax: the scores themselves are taken", {"log probabilities": lambda s: s.scores}),
        ("the losses are summed: it must be their mean", {"output": lambda s: (s.losses * real(s)).sum()}),
        ("padding is counted: its losses must not be in the mean", {"output": lambda s: s.losses.mean()}),
        (
            "it is divided by all positions: it must be the number of real ones",
            {"output": lambda s: (s.losses * real(s)).sum() / len(s.losses)},
        ),
        (
            "it is divided by the number of classes too",
            {"output": lambda s: (s.losses * real(s)).sum() / real(s).sum() / CLASSES},
        ),
        ("the sign is wrong: the loss is −log p", {"output": lambda s: -(s.losses * real(s)).sum() / real(s).sum()}),
        (
            "softmax goes over the examples: it must go over the classes, the last axis",
            {"log probabilities": lambda s: s.scores.log_softmax(0)},
        ),
        (
            "the logarithm is of base 2: it must be the natural one",
            {"output": lambda s: (s.losses * real(s)).sum() / real(s).sum() / torch.tensor(2.0).log()},
        ),
    ],
    sources={"log probabilities": "last log_softmax"},
    inputs=loss_cases,
    is_function=True,
    arguments={
        "scores": ("logits", "x", "input", "inputs", "predicted", "y_hat", "pred", "outputs", "output", "z"),
        "true": ("target", "targets", "y", "labels", "label", "answers", "t", "y_true", "gold"),
        "mask": ("padding_mask", "attention_mask", "pad_mask"),
        "ignored": ("ignore_index", "pad", "padding", "padding_idx", "pad_id", "ignore"),
    },
    time=None,
    shape=lambda case: (),
)
CONTRACTS = [SOFTMAX, CROSS_ENTROPY]
