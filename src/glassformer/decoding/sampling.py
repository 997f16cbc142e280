"""Sampling of the next token: plain functions of scores."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.decoding.options import Sampling

MIN_TOP_P = torch.finfo(torch.float32).tiny
"""Smallest useful top-p; smaller values would be 0 in single precision and keep no token."""
GREEDY = Sampling(temperature=0.0)


Scores = Float[Tensor, "B V"]
Flags = Bool[Tensor, "B V"]
Column = Float[Tensor, "B 1"]
"""A number per row."""


class SamplingRows(NamedTuple):
    """Sampling settings of each row, as tensors on the device of the scores."""

    temperature: Column
    """0 is greedy."""
    top_k: Int[Tensor, "B 1"]
    """0 keeps all tokens."""
    top_p: Column
    """2 keeps all tokens."""
    repetition_penalty: Column
    presence_penalty: Column
    frequency_penalty: Column

    @staticmethod
    def of(rows: Sequence[Sampling], device: torch.device | str = "cpu") -> "SamplingRows":
        columns = (
            [sampling.temperature for sampling in rows],
            [sampling.top_k or 0 for sampling in rows],
            [2.0 if sampling.top_p is None else max(sampling.top_p, MIN_TOP_P) for sampling in rows],
            [sampling.repetition_penalty for sampling in rows],
            [sampling.presence_penalty for sampling in rows],
            [sampling.frequency_penalty for sampling in rows],
        )
        return SamplingRows(*(torch.tensor(column, device=device).unsqueeze(1) for column in columns))


class SamplingPlan(NamedTuple):
    """Settings that any row uses; other computations are skipped.

    A row without a setting has the same probabilities, whatever other rows use.
    """

    random: bool
    top_k: int
    """Largest k; 0 if no row has one."""
    only_top_k: bool
    """Whether every row has a k, so that only the `top_k` best tokens matter."""
    top_p: bool
    penalty: bool
    """Whether any row has a repetition penalty."""
    counts: bool
    """Whether any row has a presence or frequency penalty."""

    @staticmethod
    def of(rows: Iterable[Sampling]) -> "SamplingPlan":
        rows = list(rows)
        random = [sampling for sampling in rows if not sampling.greedy]
        return SamplingPlan(
            bool(random),
            max((sampling.top_k or 0 for sampling in random), default=0),
            all(sampling.top_k is not None for sampling in random),
            any(sampling.top_p is not None for sampling in random),
            any(sampling.repetition_penalty != 1.0 for sampling in rows),
            any(sampling.presence_penalty or sampling.frequency_penalty for sampling in rows),
        )


def penalise(scores: Scores, seen: Flags, penalty: Column) -> Scores:
    """Divide the positive scores of tokens already seen by the penalty, multiply the negative ones (Keskar 2019)."""
    lower = torch.where(scores > 0, scores / penalty, scores * penalty)
    return torch.where(seen, lower, scores)


def _penalised(
    scores: Scores, settings: SamplingRows, plan: SamplingPlan, seen: Flags | None, counts: Scores | None
) -> Scores:
    scores = scores.float()
    if seen is not None and plan.penalty:
        scores = penalise(scores, seen, settings.repetition_penalty)
    if counts is not None and plan.counts:
        # as in OpenAI's API
        scores = scores - settings.presence_penalty * (counts > 0) - settings.frequency_penalty * counts
    return scores


def keep_top_k(scores: Scores, k: Int[Tensor, "B 1"], max_k: int) -> Scores:
    """Set all but the k highest scores to −∞; ties do not add tokens. `max_k` is the largest k; k = 0 keeps all."""
    highest = scores.topk(min(max_k, scores.shape[-1]), -1).indices
    among = torch.arange(highest.shape[-1], device=scores.device) < k
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, highest, among)
    return scores.masked_fill(~(kept | (k == 0)), -torch.inf)


def keep_top_p(scores: Scores, p: Column) -> Scores:
    """Set scores to −∞ outside the smallest set of most probable tokens that reaches probability p."""
    ordered, order = scores.sort(-1, descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, before < p)
    return scores.masked_fill(~kept, -torch.inf)


def temper(scores: Scores, temperature: Column) -> Scores:
    """Return each score's difference to the highest one, divided by the temperature (by 1 for temperature 0)."""
    # the highest is 0: no overflow
    return (scores - scores.amax(-1, keepdim=True)) / torch.where(temperature == 0, 1.0, temperature)


def distribution(
    scores: Scores, settings: SamplingRows, plan: SamplingPlan, seen: Flags | None = None, counts: Scores | None = None
) -> Scores:
    """Return the probabilities to sample from; greedy rows have probability 1 at the highest score."""
    scores = _penalised(scores, settings, plan, seen, counts)
    certain = torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    if not plan.random:
        return certain
    greedy = settings.temperature == 0
    scores = temper(scores, settings.temperature)
    if plan.top_k:
        scores = keep_top_k(scores, settings.top_k, plan.top_k)
    if plan.top_p:
        scores = keep_top_p(scores, settings.top_p)
    return torch.where(greedy, certain, scores.softmax(-1))


def choose(
    scores: Scores,
    settings: SamplingRows,
    plan: SamplingPlan,
    draw: Column,
    seen: Flags | None = None,
    counts: Scores | None = None,
) -> Int[Tensor, "B"]:
    """Return a token for each row, given a random number in [0, 1) per row.

    `seen` marks tokens of the prompt and the text; `counts` has how often each token was generated.
    """
    scores = _penalised(scores, settings, plan, seen, counts)
    if not plan.random:
        return scores.argmax(-1)
    if not plan.only_top_k or plan.top_k >= scores.shape[-1]:
        return _drawn(distribution(scores, settings, plan), draw)
    # only these tokens can be chosen, and few numbers are fast to process
    highest, ids = scores.topk(plan.top_k, -1)
    ranks = torch.arange(plan.top_k, device=scores.device)
    kept = ranks < torch.where(settings.temperature == 0, 1, settings.top_k)
    highest = temper(highest, settings.temperature).masked_fill(~kept, -torch.inf)
    probabilities = highest.softmax(-1)
    if plan.top_p:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = highest.masked_fill(before >= settings.top_p, -torch.inf).softmax(-1)
    ids, order = ids.sort(-1)
    return ids.gather(-1, _drawn(probabilities.gather(-1, order), draw).unsqueeze(-1)).squeeze(-1)


def _drawn(probabilities: Float[Tensor, "B n"], draw: Column) -> Int[Tensor, "B"]:
    """Return the first index whose cumulative probability exceeds the draw, allowing for rounding of the total."""
    cumulative = probabilities.cumsum(-1)
    return (cumulative <= draw * cumulative[:, -1:]).sum(-1).clamp(max=probabilities.shape[-1] - 1)
