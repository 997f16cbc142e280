"""Multi-head attention written out, and what goes wrong in it."""

import math
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Scope, Steps, mapped


def heads_of(x: Tensor, heads: int) -> Tensor:
    """B×T×d → B×h×T×e."""
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """B×h×T×e → B×T×d."""
    return x.transpose(1, 2).flatten(2)


def seen(
    s: Scope, diagonal: int = 0, *, upside_down: bool = False, padding: bool = True, causal: bool = True
) -> Tensor:
    """B×1×T×S: which token may look at which; S is T unless there is a memory."""
    batch, tokens = s.x.shape[:2]
    out = torch.ones(batch, 1, tokens, getattr(s, "memory", s.x).shape[1], dtype=torch.bool)
    if s.causal and causal:
        whole = torch.ones(tokens, tokens)
        out &= (whole.triu(diagonal) if upside_down else whole.tril(diagonal)).bool()
    if s.mask is not None and padding:
        out &= s.mask[:, None, None, :]
    return out


def products(s: Scope) -> Tensor:
    return heads_of(s.queries, s.heads) @ heads_of(s.keys, s.heads).mT


def scale(s: Scope) -> float:
    return math.sqrt(s.queries.shape[-1] / s.heads)


def hide(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -torch.inf)


def viewed(x: Tensor, heads: int) -> Tensor:
    """B×T×d read as B×h×T×e without changing axes: wrong."""
    return x.reshape(len(x), heads, x.shape[1], -1)


STEPS: Steps = {
    "queries": lambda s: mapped(s.x, s.w_q, s.b_q),
    "keys": lambda s: mapped(s.x, s.w_k, s.b_k),
    "values": lambda s: mapped(s.x, s.w_v, s.b_v),
    "_seen": seen,
    "scores": lambda s: hide(products(s) / scale(s), s._seen),
    "weights": lambda s: s.scores.softmax(-1),
    "mixed": lambda s: joined(s.weights @ heads_of(s.values, s.heads)),
    "output": lambda s: mapped(s.mixed, s.w_o, s.b_o),
}


def _after_softmax(s: Scope) -> Tensor:
    return (products(s) / scale(s)).softmax(-1) * s._seen


SCALES: list[tuple[str, Any]] = [
    ("the scores are divided by the head width d, not by its root √d", lambda s: scale(s) ** 2),
    (
        "the scores are divided by √width: it must be the root of the width of one head",
        lambda s: math.sqrt(s.queries.shape[-1]),
    ),
    ("the scores are not divided by √d (the root of the head width)", lambda s: 1.0),
    ("the scores are multiplied by √d: they must be divided by it", lambda s: 1 / scale(s)),
    (
        "the scores are divided by the number of heads or its root, not by the root of a head's width",
        lambda s: math.sqrt(s.heads),
    ),
]


def _scaled(by: Any) -> dict[str, Any]:
    return {"scores": lambda s: hide(products(s) / by(s), s._seen)}


MISTAKES: list[tuple[str, dict[str, Any]]] = [
    *((hint, _scaled(by)) for hint, by in SCALES),
    (
        "softmax goes over the queries: it must go over the keys, the last axis",
        {"weights": lambda s: s.scores.softmax(-2)},
    ),
    (
        "softmax goes over the heads: it must go over the keys, the last axis",
        {"weights": lambda s: s.scores.softmax(1)},
    ),
    (
        "softmax goes over the batch: it must go over the keys, the last axis",
        {"weights": lambda s: s.scores.softmax(0)},
    ),
    (
        "there is no softmax: the scores themselves weigh the values",
        {"weights": lambda s: s.scores.masked_fill(~s._seen, 0.0)},
    ),
    (
        "the causal mask is upside down: a token sees itself and the future, not the past",
        {"_seen": lambda s: seen(s, upside_down=True)},
    ),
    (
        "the causal mask is upside down: it hides the past and the token itself",
        {"_seen": lambda s: seen(s, 1, upside_down=True)},
    ),
    (
        "the mask is upside down: what it should hide is seen, and what should be seen is hidden",
        {"_seen": lambda s: ~seen(s)},
    ),
    (
        "the padding mask is upside down: padding is seen and real tokens are hidden",
        {
            "_seen": lambda s: (
                seen(s, padding=False) & (~s.mask if s.mask is not None else torch.tensor([[True]]))[:, None, None, :]
            )
        },
    ),
    (
        "the mask is added as 0 and 1: what is hidden must get −∞",
        {"scores": lambda s: products(s) / scale(s) + s._seen},
    ),
    ("the mask is added as 1 where it hides: that must be −∞", {"scores": lambda s: products(s) / scale(s) + ~s._seen}),
    (
        "hidden scores are set to 0, and exp(0) is 1: they must be −∞",
        {"scores": lambda s: products(s) / scale(s) * s._seen},
    ),
    (
        "the mask is applied after the softmax, so that the weights no longer sum to 1: set scores to −∞ before it",
        {"scores": lambda s: products(s) / scale(s), "weights": _after_softmax},
    ),
    ("the causal mask is off by one: a token does not see itself", {"_seen": lambda s: seen(s, -1)}),
    ("the causal mask is off by one: a token sees the next one", {"_seen": lambda s: seen(s, 1)}),
    ("the causal mask is forgotten: every token sees the future", {"_seen": lambda s: seen(s, causal=False)}),
    ("the padding mask is ignored: padding is looked at", {"_seen": lambda s: seen(s, padding=False)}),
    (
        "the heads are not transposed back before they are joined: B×h×T×e must become B×T×h×e first",
        {"mixed": lambda s: (s.weights @ heads_of(s.values, s.heads)).reshape(s.x.shape[0], s.x.shape[1], -1)},
    ),
    (
        "the heads are split by a view without a transpose: view as B×T×h×e, then transpose",
        {
            "scores": lambda s: hide(viewed(s.queries, s.heads) @ viewed(s.keys, s.heads).mT / scale(s), s._seen),
            "mixed": lambda s: joined(s.weights @ viewed(s.values, s.heads)),
        },
    ),
    (
        "the heads are split and joined by a view without a transpose: view as B×T×h×e, then transpose",
        {
            "scores": lambda s: hide(viewed(s.queries, s.heads) @ viewed(s.keys, s.heads).mT / scale(s), s._seen),
            "mixed": lambda s: (s.weights @ viewed(s.values, s.heads)).reshape(s.x.shape[0], s.x.shape[1], -1),
        },
    ),
    (
        "the numbers of a head are taken with a step: view as B×T×h×e, not as B×T×e×h",
        {
            "scores": lambda s: hide(_strided(s.queries, s.heads) @ _strided(s.keys, s.heads).mT / scale(s), s._seen),
            "mixed": lambda s: joined(s.weights @ _strided(s.values, s.heads)),
        },
    ),
    (
        "queries and keys are exchanged: rows of the scores are queries, columns are keys",
        {"scores": lambda s: hide(products(s).mT / scale(s), s._seen)},
    ),
    ("the values are made by the queries' map", {"values": lambda s: s.queries}),
    ("the values are made by the keys' map", {"values": lambda s: s.keys}),
    ("the inputs themselves are averaged, not their values", {"values": lambda s: s.x}),
    ("the keys are made by the queries' map", {"keys": lambda s: s.queries}),
    ("the output projection W^O is forgotten", {"output": lambda s: s.mixed}),
    (
        "the input is added inside (a residual connection): that is the block's work",
        {"output": lambda s: mapped(s.mixed, s.w_o, s.b_o) + s.x},
    ),
    (
        "all heads are one: the width is not split",
        {
            "scores": lambda s: hide(
                s.queries.unsqueeze(1) @ s.keys.unsqueeze(1).mT / math.sqrt(s.queries.shape[-1]), s._seen
            ).expand(-1, s.heads, -1, -1)
        },
    ),
]


def _strided(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], -1, heads).permute(0, 3, 1, 2)
