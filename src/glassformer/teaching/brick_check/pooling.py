"""Contracts of pooling, which reduces the vectors of a text to one."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Contract, Facts, contract, padded, tokens
from glassformer.teaching.brick_check.names import Weight, sizes
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps

WIDTH = 11


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    """Return a plain case, a padded case, and a case of negative numbers padded with zeros (for maximum pooling)."""
    plain = Case("plain", facts.options, {"x": tokens(WIDTH, drawn)})
    out = padded(facts, plain, per_token=False)
    for case in out[1:]:
        mask = case.inputs["mask"]
        negative = (-plain.inputs["x"].abs() - 0.1) * mask.unsqueeze(-1)
        out.append(Case("padded, numbers below 0", facts.options, {"x": negative, "mask": mask}))
    return out


def real(s: Scope) -> Tensor:
    """Return the mask B×T, True at real tokens."""
    return torch.ones(s.x.shape[:2], dtype=torch.bool) if s.mask is None else s.mask


def lengths(s: Scope) -> Tensor:
    """Return the number of real tokens per row, B×1."""
    return real(s).sum(1, keepdim=True)


def filled(s: Scope, padding: float = 0.0) -> Tensor:
    """Return x with padding replaced by a number, B×T×d."""
    return s.x.masked_fill(~real(s).unsqueeze(-1), padding)


def last_token(s: Scope) -> Tensor:
    """Return the last real token of each row, B×d."""
    return s.x[torch.arange(len(s.x)), lengths(s).squeeze(1) - 1]


def query_scores(s: Scope) -> Tensor:
    return torch.einsum("d,btd->bt", s.query, s.x) + (0.0 if s.query_bias is None else s.query_bias)


POOLS: dict[str, tuple[str, Steps, Mistakes]] = {
    "mean": (
        r".*(mean|average|avg).*",
        {"sum": lambda s: filled(s).sum(1), "output": lambda s: s.sum / lengths(s)},
        {
            "pool: padding counted": {"sum": lambda s: s.x.sum(1), "output": lambda s: s.sum / s.x.shape[1]},
            "pool: divided by T": {"output": lambda s: s.sum / s.x.shape[1]},
            "pool: not divided": {"output": lambda s: s.sum},
            "pool: mask upside down": {
                "sum": lambda s: s.x.masked_fill(real(s).unsqueeze(-1), 0.0).sum(1),
                "output": lambda s: s.sum / (~real(s)).sum(1, keepdim=True),
            },
        },
    ),
    "max": (
        r".*max(imum)?(pool|over|ingtime).*|.*poolmax.*",
        {"output": lambda s: filled(s, -math.inf).amax(1)},
        {
            "pool: maximum of padding": {"output": lambda s: s.x.amax(1)},
            "pool: padding of zeros": {"output": lambda s: filled(s).amax(1)},
        },
    ),
    "last": (
        r".*last.*",
        {"output": last_token},
        {"pool: position T − 1": {"output": lambda s: s.x[:, -1]}, "pool: first": {"output": lambda s: s.x[:, 0]}},
    ),
    "first": (r".*(first|cls).*", {"output": lambda s: s.x[:, 0]}, {"pool: last": {"output": lambda s: s.x[:, -1]}}),
    "sum": (
        r".*sum(pool|over).*|.*poolsum.*|sum",
        {"output": lambda s: filled(s).sum(1)},
        {"pool: padding counted": {"output": lambda s: s.x.sum(1)}},
    ),
    "attention": (
        r".*attention.*pool.*|.*attn.*pool.*|.*pool.*attention.*",
        {
            "scores": lambda s: query_scores(s).masked_fill(~real(s), -math.inf),
            "weights": lambda s: s.scores.softmax(-1),
            "output": lambda s: torch.einsum("bt,btd->bd", s.weights, s.x),
        },
        {
            "pool: padding counted": {"scores": query_scores},
            "softmax: batch of texts": {"weights": lambda s: s.scores.softmax(0)},
            "mask: zeros": {"scores": lambda s: query_scores(s).masked_fill(~real(s), 0.0)},
        },
    ),
}
"""Name pattern, reference steps and known mistakes, by kind of pooling."""
QUERY_NAMES = "query|q|w|weight|attention|attn|scores?|scorer|vector|u|v"
QUERY = Weight("query", "query", QUERY_NAMES, bias="query_bias", shape=(WIDTH,))


def contracts(kind: str) -> list[Contract]:
    pattern, steps, mistakes = POOLS[kind]
    as_class = contract(
        "pooling",
        name=f"{kind}-pool",
        pattern=pattern,
        steps=steps,
        mistakes=mistakes,
        inputs=cases,
        sizes=sizes(width=WIDTH),
        permutes="" if kind in ("first", "last") else "same",
        shape=lambda case: (case.inputs["x"].shape[0], WIDTH),
    )
    if kind == "attention":
        return [replace(as_class, weights=[QUERY], sources={"scores": "into softmax", "weights": "softmax"})]
    return [as_class, replace(as_class, is_function=True)]


CONTRACTS = [contract for kind in POOLS for contract in contracts(kind)]
