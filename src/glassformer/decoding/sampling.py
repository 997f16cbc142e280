"""Choosing the next token: plain functions of scores."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.config.errors import SettingError


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen."""

    temperature: float = 1.0
    """Below 1 the likely becomes likelier; 0 is greedy."""
    top_k: int | None = None
    """Only the k likeliest."""
    top_p: float | None = None
    """Only the likeliest that together reach this probability."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that were there before become less likely."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise SettingError(f"--temperature is {self.temperature:g}, but must be at least 0")
        if self.top_k is not None and self.top_k < 1:
            raise SettingError(f"--top-k is {self.top_k}, but must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError(f"--top-p is {self.top_p:g}, but must lie above 0 and be at most 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise SettingError(f"--repetition-penalty is {self.repetition_penalty:g}, but must be above 0")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


GREEDY = Sampling(temperature=0.0)


def penalise(scores: Float[Tensor, "B V"], seen: Bool[Tensor, "B V"], penalty: float) -> Float[Tensor, "B V"]:
    """Divide the positive scores of tokens already seen by the penalty, multiply the negative ones (Keskar 2019)."""
    lower = torch.where(scores > 0, scores / penalty, scores * penalty)
    return torch.where(seen, lower, scores)


def keep_top_k(scores: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """All but the k highest become −∞; of equal ones, too, only k stay."""
    highest = scores.topk(min(k, scores.shape[-1]), -1).indices
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, highest, True)
    return scores.masked_fill(~kept, -torch.inf)


def keep_top_p(scores: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """All but the smallest set of likeliest tokens that reaches probability p become −∞."""
    ordered, order = scores.sort(-1, descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, before < p)
    return scores.masked_fill(~kept, -torch.inf)


def distribution(
    scores: Float[Tensor, "B V"], how: Sampling, seen: Bool[Tensor, "B V"] | None = None
) -> Float[Tensor, "B V"]:
    """The probabilities that are sampled from; greedy puts all on the highest score."""
    scores = scores.float()
    if seen is not None and how.repetition_penalty != 1.0:
        scores = penalise(scores, seen, how.repetition_penalty)
    if how.greedy:
        return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    scores = (scores - scores.amax(-1, keepdim=True)) / how.temperature  # the highest is 0: no overflow
    if how.top_k is not None:
        scores = keep_top_k(scores, how.top_k)
    if how.top_p is not None:
        scores = keep_top_p(scores, how.top_p)
    return scores.softmax(-1)


def choose(
    scores: Float[Tensor, "B V"],
    how: Sampling,
    generator: torch.Generator,
    seen: Bool[Tensor, "B V"] | None = None,
) -> Int[Tensor, "B"]:
    """One token for each row. The random numbers are drawn on the CPU: a seed gives the same text on any device."""
    probabilities = distribution(scores, how, seen)
    if how.greedy:
        return probabilities.argmax(-1)
    cumulative = probabilities.cumsum(-1)
    draw = torch.rand(scores.shape[0], 1, generator=generator).to(scores.device)
    # The first place where the running total passes the draw; the total itself may miss 1 by rounding.
    return (cumulative <= draw * cumulative[:, -1:]).sum(-1).clamp(max=scores.shape[-1] - 1)
