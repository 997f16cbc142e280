"""Contracts of the functions softmax and cross-entropy."""

from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Facts, contract
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps

ROWS, CLASSES, IGNORED = 5, 7, -100
"""Number of examples, number of classes, and the label of ignored examples."""


def softmax_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x = torch.randn(ROWS, CLASSES, generator=drawn)
    large = x.clone()
    large[0] += 1000
    return [Case("plain", {}, {"x": x, "dim": -1}), Case("large numbers", {}, {"x": large, "dim": -1})]


def divide_by_sum(x: Tensor) -> Tensor:
    return x / x.sum(-1, keepdim=True)


SOFTMAX_STEPS: Steps = {
    "exponentials": lambda s: (s.x - s.x.amax(-1, keepdim=True)).exp(),
    "output": lambda s: divide_by_sum(s.exponentials),
}
SOFTMAX_MISTAKES: Mistakes = {
    "softmax: overflows": {"exponentials": lambda s: s.x.exp()},
    "softmax: over the rows": {"output": lambda s: s.x.softmax(0)},
    "softmax: not divided": {"output": lambda s: s.x.exp()},
    "softmax: no exp": {"output": lambda s: divide_by_sum(s.x)},
}
SOFTMAX = contract("softmax", steps=SOFTMAX_STEPS, mistakes=SOFTMAX_MISTAKES, inputs=softmax_cases, time=None)


def loss_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    inputs: dict[str, Any] = {
        "scores": torch.randn(ROWS, CLASSES, generator=drawn),
        "true": torch.randint(CLASSES, (ROWS,), generator=drawn),
        "ignored": IGNORED,
    }
    counted = torch.arange(ROWS) < ROWS - 2
    out = [Case("plain", {}, inputs)]
    if "mask" in facts.takes:
        out.append(Case("padded", {}, {**inputs, "mask": counted}))
    elif "ignored" in facts.takes:
        out.append(Case("padded", {}, {**inputs, "true": inputs["true"].masked_fill(~counted, IGNORED)}))
    return out


def losses(s: Scope) -> Tensor:
    return -getattr(s, "log probabilities").gather(-1, s.true.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def counts(s: Scope) -> Tensor:
    """Return the mask of examples that count in the loss, N."""
    return (s.true != IGNORED) & (True if s.mask is None else s.mask)


def mean_loss(s: Scope) -> Tensor:
    return (s.losses * counts(s)).sum() / counts(s).sum()


LOSS_STEPS: Steps = {"log probabilities": lambda s: s.scores.log_softmax(-1), "losses": losses, "output": mean_loss}
LOSS_MISTAKES: Mistakes = {
    "loss: softmax twice": {"log probabilities": lambda s: s.scores.softmax(-1).log_softmax(-1)},
    "loss: summed": {"output": lambda s: (s.losses * counts(s)).sum()},
    "loss: padding counted": {"output": lambda s: s.losses.mean()},
    "loss: sign": {"output": lambda s: -mean_loss(s)},
}
CROSS_ENTROPY = contract(
    "cross-entropy", steps=LOSS_STEPS, mistakes=LOSS_MISTAKES, inputs=loss_cases, time=None, shape=lambda case: ()
)
CONTRACTS = [SOFTMAX, CROSS_ENTROPY]
