"""Pooling: the vectors of a text become one."""

import math
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, Scope, Steps, numbers, ragged
from glassformer.teaching.brick_check.kinds.names import MASK_NAMES, WIDTHS
from glassformer.teaching.brick_check.weights import Weight

BATCH, TOKENS, WIDTH = 2, 5, 11


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    """Without padding, and with large numbers in it; and with 0 in padding and all else below, for the largest."""
    x, real = numbers(BATCH, TOKENS, WIDTH, drawn=drawn), ragged(BATCH, TOKENS)
    out = [Case("plain", facts.options, {"x": x, "mask": None})]
    if "mask" in facts.takes:
        hidden = ~real.unsqueeze(-1)
        below = -x.abs() - 0.1
        out.append(Case("padded", facts.options, {"x": torch.where(hidden, 3 * x + 1, x), "mask": real}))
        out.append(Case("padded, numbers below 0", facts.options, {"x": below.masked_fill(hidden, 0.0), "mask": real}))
    return out


def real(s: Scope) -> Tensor:
    """B×T×1."""
    seen = torch.ones(s.x.shape[:2], dtype=torch.bool) if s.mask is None else s.mask
    return seen.unsqueeze(-1)


def without_padding(s: Scope, other: float = 0.0) -> Tensor:
    return s.x.masked_fill(~real(s), other)


def at(s: Scope, place: Any) -> Tensor:
    rows = torch.arange(len(s.x))
    return s.x[rows, place(real(s).sum((1, 2)))]


LENGTHS = (
    "padding is ignored: it is counted as if it were tokens",
    "it is divided by T: it must be the number of real tokens",
)
MEAN: Steps = {"sum": lambda s: without_padding(s).sum(1), "output": lambda s: s.sum / real(s).sum(1)}
MAX: Steps = {"output": lambda s: without_padding(s, -math.inf).amax(1)}
SUM: Steps = {"output": lambda s: without_padding(s).sum(1)}
LAST: Steps = {"output": lambda s: at(s, lambda lengths: lengths - 1)}
FIRST: Steps = {"output": lambda s: s.x[:, 0]}
ATTENTION: Steps = {
    "scores": lambda s: (mapped_scores(s)).masked_fill(~real(s).squeeze(-1), -math.inf),
    "weights": lambda s: s.scores.softmax(-1),
    "output": lambda s: torch.einsum("bt,btd->bd", s.weights, s.x),
}


def mapped_scores(s: Scope) -> Tensor:
    return torch.einsum("d,btd->bt", s.query, s.x) + (0.0 if s.query_bias is None else s.query_bias)


MISTAKES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "mean": [
        (LENGTHS[0], {"sum": lambda s: s.x.sum(1), "output": lambda s: s.sum / s.x.shape[1]}),
        (LENGTHS[1], {"output": lambda s: s.sum / s.x.shape[1]}),
        ("padding is summed too, though it is divided by the number of real tokens", {"sum": lambda s: s.x.sum(1)}),
        ("the sum is not divided by the number of tokens", {"output": lambda s: s.sum}),
        ("it is divided by the length plus 1", {"output": lambda s: s.sum / (real(s).sum(1) + 1)}),
        (
            "the mask is upside down: padding is averaged",
            {"sum": lambda s: s.x.masked_fill(real(s), 0.0).sum(1), "output": lambda s: s.sum / (~real(s)).sum(1)},
        ),
        ("the mean goes over the batch: it must go over the tokens", {"output": lambda s: s.x.mean(0)}),
    ],
    "max": [
        ("padding is ignored: a number of padding can be the largest", {"output": lambda s: s.x.amax(1)}),
        (
            "padding is set to 0, and 0 is larger than all numbers below it: set it to −∞",
            {"output": lambda s: without_padding(s).amax(1)},
        ),
        ("the smallest is taken, not the largest", {"output": lambda s: without_padding(s, math.inf).amin(1)}),
        (
            "the largest absolute value is taken: the sign is lost",
            {"output": lambda s: without_padding(s).abs().amax(1)},
        ),
    ],
    "last": [
        ("position T − 1 is taken: it must be the last real token of each row", {"output": lambda s: s.x[:, -1]}),
        (
            "the token after the last real one is taken: it is at length − 1",
            {"output": lambda s: at(s, lambda lengths: lengths.clamp(max=s.x.shape[1] - 1))},
        ),
        (
            "the token before the last is taken: it is at length − 1",
            {"output": lambda s: at(s, lambda lengths: lengths - 2)},
        ),
        ("the first token is taken, not the last", {"output": lambda s: s.x[:, 0]}),
    ],
    "first": [("the last token is taken, not the first", {"output": lambda s: s.x[:, -1]})],
    "sum": [
        (LENGTHS[0], {"output": lambda s: s.x.sum(1)}),
        (
            "it is a mean: the sum is divided by the number of tokens",
            {"output": lambda s: without_padding(s).sum(1) / real(s).sum(1)},
        ),
    ],
    "attention": [
        (LENGTHS[0], {"scores": mapped_scores}),
        ("softmax goes over the batch: it must go over the tokens", {"weights": lambda s: s.scores.softmax(0)}),
        (
            "there is no softmax: the scores themselves weigh the vectors",
            {"weights": lambda s: s.scores.masked_fill(~real(s).squeeze(-1), 0.0)},
        ),
        (
            "the mask is applied after the softmax, so that the weights no longer sum to 1",
            {"scores": mapped_scores, "weights": lambda s: s.scores.softmax(-1) * real(s).squeeze(-1)},
        ),
        (
            "hidden scores are set to 0, and exp(0) is 1: they must be −∞",
            {"scores": lambda s: mapped_scores(s).masked_fill(~real(s).squeeze(-1), 0.0)},
        ),
        (
            "the weighted vectors are averaged over T once more",
            {"output": lambda s: torch.einsum("bt,btd->bd", s.weights, s.x) / s.x.shape[1]},
        ),
        (
            "the scores are divided by √d: this pooling does not",
            {"scores": lambda s: (mapped_scores(s) / WIDTH**0.5).masked_fill(~real(s).squeeze(-1), -math.inf)},
        ),
    ],
}
STEPS: dict[str, Steps] = {"mean": MEAN, "max": MAX, "last": LAST, "first": FIRST, "sum": SUM, "attention": ATTENTION}
PATTERNS = {
    "mean": r".*(mean|average|avg).*",
    "max": r".*max(imum)?(pool|over|ingtime).*|.*poolmax.*",
    "last": r".*last.*",
    "first": r".*(first|cls).*",
    "sum": r".*sum(pool|over).*|.*poolsum.*|sum",
    "attention": r".*attention.*pool.*|.*attn.*pool.*|.*pool.*attention.*",
}


def _contracts(kind: str) -> list[Contract]:
    common: dict[str, Any] = {
        "name": f"{kind}-pool",
        "group": "pooling",
        "signature": "x B×T×d, mask B×T → B×d",
        "pattern": PATTERNS[kind],
        "steps": STEPS[kind],
        "mistakes": MISTAKES[kind],
        "inputs": cases,
        "arguments": {"x": ("input", "states", "vectors", "h"), "mask": MASK_NAMES},
        "permutes": "" if kind in ("first", "last") else "same",
        "shape": lambda case: (case.inputs["x"].shape[0], WIDTH),
    }
    sizes = {"width": Offer(WIDTH, WIDTHS)}
    if kind != "attention":
        return [Contract(**common, sizes=sizes), Contract(**common, is_function=True)]
    names = ("query", "q", "w", "weight", "attention", "attn", "score", "scores", "scorer", "vector", "u", "v")
    query = Weight("query", "query", names, bias="query_bias", shape=lambda options: (WIDTH,))
    return [Contract(**common, sizes=sizes, weights=[query], sources={"scores": "into softmax", "weights": "softmax"})]


CONTRACTS = [contract for kind in STEPS for contract in _contracts(kind)]
