"""Attention as a function of queries, keys and values."""

import math
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Scope, Steps, numbers
from glassformer.teaching.brick_check.kinds.attention import ATTENTION
from glassformer.teaching.brick_check.kinds.attention_steps import SCALES, hide
from glassformer.teaching.brick_check.kinds.names import MASK_NAMES

BATCH, TOKENS, HEADS, WIDTH = 2, 5, 3, 7


def _allowed(s: Scope, flip: bool = False) -> Tensor:
    if s.mask is None:
        return torch.ones(s.q.shape[-2], s.k.shape[-2], dtype=torch.bool)
    return ~s.mask if flip else s.mask


FUNCTION_STEPS: Steps = {
    "_seen": _allowed,
    "scores": lambda s: hide(s.q @ s.k.mT / math.sqrt(s.q.shape[-1]), s._seen),
    "weights": lambda s: s.scores.softmax(-1),
    "output": lambda s: s.weights @ s.v,
}


def _plain(s: Scope, by: float) -> Tensor:
    return s.q @ s.k.mT / by


FUNCTION_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (SCALES[0][0], {"scores": lambda s: hide(_plain(s, s.q.shape[-1]), s._seen)}),
    (SCALES[2][0], {"scores": lambda s: hide(_plain(s, 1), s._seen)}),
    (SCALES[3][0], {"scores": lambda s: hide(_plain(s, 1 / math.sqrt(s.q.shape[-1])), s._seen)}),
    (
        "the scores are divided by the root of the number of tokens, not of the width",
        {"scores": lambda s: hide(_plain(s, math.sqrt(s.q.shape[-2])), s._seen)},
    ),
    (
        "softmax goes over the queries: it must go over the keys, the last axis",
        {"weights": lambda s: s.scores.softmax(-2)},
    ),
    (
        "softmax goes over the batch: it must go over the keys, the last axis",
        {"weights": lambda s: s.scores.softmax(0)},
    ),
    (
        "there is no softmax: the scores themselves weigh the values",
        {"weights": lambda s: s.scores.masked_fill(~s._seen, 0.0)},
    ),
    ("the mask is upside down: True is what may be seen", {"_seen": lambda s: _allowed(s, True)}),
    ("the mask is ignored", {"_seen": lambda s: torch.ones_like(_allowed(s))}),
    (
        "the mask is added as 0 and 1: what is hidden must get −∞",
        {"scores": lambda s: _plain(s, math.sqrt(s.q.shape[-1])) + s._seen},
    ),
    (
        "the mask is added as 1 where it hides: that must be −∞",
        {"scores": lambda s: _plain(s, math.sqrt(s.q.shape[-1])) + ~s._seen},
    ),
    (
        "hidden scores are set to 0, and exp(0) is 1: they must be −∞",
        {"scores": lambda s: _plain(s, math.sqrt(s.q.shape[-1])) * s._seen},
    ),
    (
        "the mask is applied after the softmax, so that the weights no longer sum to 1: set scores to −∞ before it",
        {"scores": lambda s: _plain(s, math.sqrt(s.q.shape[-1])), "weights": lambda s: s.scores.softmax(-1) * s._seen},
    ),
    (
        "the mask comes before the scores are divided, as a number that is then too small: hide with −∞",
        {"scores": lambda s: _plain(s, math.sqrt(s.q.shape[-1])).masked_fill(~s._seen, -1.0)},
    ),
    (
        "queries and keys are exchanged: rows of the scores are queries, columns are keys",
        {"scores": lambda s: hide((_plain(s, math.sqrt(s.q.shape[-1]))).mT, s._seen)},
    ),
    ("keys are averaged: it must be the values", {"output": lambda s: s.weights @ s.k}),
    ("the weights are transposed before they average the values", {"output": lambda s: s.weights.mT @ s.v}),
]


def function_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    front = {"B×T×d": (BATCH,), "B×h×T×e": (BATCH, HEADS), "T×d": ()}[facts.options["form"]]
    q, k, v = (numbers(*front, TOKENS, WIDTH, drawn=drawn) for _ in range(3))
    cases = [Case("plain", facts.options, {"q": q, "k": k, "v": v, "mask": None})]
    if "mask" in facts.takes:
        past = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
        cases.append(
            Case("masked", facts.options, {"q": q, "k": k, "v": v, "mask": past.expand(*front, -1, -1).clone()})
        )
    return cases


FUNCTION = Contract(
    name="attention",
    signature="q, k, v B×T×d, mask T×T → B×T×d",
    pattern=ATTENTION.pattern + "|scaleddotproduct.*",
    steps=FUNCTION_STEPS,
    mistakes=FUNCTION_MISTAKES,
    inputs=function_cases,
    is_function=True,
    arguments={
        "q": ("query", "queries", "x"),
        "k": ("key", "keys"),
        "v": ("value", "values"),
        "mask": ("attn_mask", "attention_mask", *MASK_NAMES),
    },
    variants=[{"form": form} for form in ("B×T×d", "B×h×T×e", "T×d")],
    says={"form": "of tensors {}"},
    sources={"scores": "into softmax", "weights": "softmax"},
    permutes="same",
    permuted=("k", "v"),
    time=-2,
    shape=lambda case: tuple(case.inputs["v"].shape),
)
CONTRACTS = [FUNCTION]
