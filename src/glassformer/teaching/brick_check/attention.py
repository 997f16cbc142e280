"""Contracts of attention: self-attention, cross-attention, and a function of queries, keys and values."""

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import BATCH, TOKENS, Facts, contract, padded, tokens
from glassformer.teaching.brick_check.names import Offer, Weight, sizes
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps, mapped

HEADS, HEAD_WIDTH = 3, 7
WIDTH = HEADS * HEAD_WIDTH
MEMORY_TOKENS, MEMORY_WIDTH = 4, 13
"""Sizes of the memory. Both differ from the sizes of x, so that a brick that confuses the two sequences cannot pass."""

# --- formulas ---


def split(x: Tensor, heads: int) -> Tensor:
    """Split vectors into heads, B×T×d → B×h×T×e."""
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def view_as_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape vectors to heads without a transpose, which mixes tokens and heads, B×T×d → B×h×T×e."""
    return x.reshape(len(x), heads, x.shape[1], -1)


def past(s: Scope, diagonal: int = 0) -> Tensor:
    """Return the causal mask T×S, True for a token and its predecessors; all True if attention is not causal."""
    pairs = torch.ones(s._q.shape[-2], s._k.shape[-2], dtype=torch.bool)
    return pairs.tril(diagonal) if s.causal else pairs


def everything(s: Scope) -> Tensor:
    """Return a mask 1×1×1×1 that hides nothing."""
    return torch.ones(1, 1, 1, 1, dtype=torch.bool)


def real(s: Scope) -> Tensor:
    """Return the padding mask B×1×1×S, True at real tokens."""
    return everything(s) if s.mask is None else s.mask[:, None, None, :]


def products(s: Scope) -> Tensor:
    return torch.as_tensor(s._q @ s._k.mT / math.sqrt(s._q.shape[-1]))


def divided(divisor: Callable[[Scope], float]) -> Steps:
    """Return the step that divides the scores by another number than the square root of the head width."""
    return {"scores": lambda s: (s._q @ s._k.mT / divisor(s)).masked_fill(~s._seen, -math.inf)}


def heads_by(split: Callable[[Tensor, int], Tensor]) -> Steps:
    """Return the steps that split queries, keys and values into heads."""

    def heads(name: str) -> Callable[[Scope], Tensor]:
        return lambda s: split(getattr(s, name), s.heads)

    return {"_q": heads("queries"), "_k": heads("keys"), "_v": heads("values")}


STEPS: Steps = {
    "_source": lambda s: s.x,
    "queries": lambda s: mapped(s.x, s.w_q, s.b_q),
    "keys": lambda s: mapped(s._source, s.w_k, s.b_k),
    "values": lambda s: mapped(s._source, s.w_v, s.b_v),
    **heads_by(split),
    "_past": past,
    "_real": real,
    "_seen": lambda s: s._past & s._real,
    "scores": lambda s: products(s).masked_fill(~s._seen, -math.inf),
    "weights": lambda s: s.scores.softmax(-1),
    "mixed": lambda s: (s.weights @ s._v).transpose(1, 2).flatten(2),
    "output": lambda s: mapped(s.mixed, s.w_o, s.b_o),
}
CROSS_STEPS = {**STEPS, "_source": lambda s: s.memory}
FUNCTION_STEPS: Steps = {
    "_q": lambda s: s.q,
    "_k": lambda s: s.k,
    "_seen": lambda s: torch.ones(TOKENS, TOKENS, dtype=torch.bool) if s.mask is None else s.mask,
    "scores": STEPS["scores"],
    "weights": STEPS["weights"],
    "output": lambda s: s.weights @ s.v,
}

# --- mistakes ---

COMMON_MISTAKES: Mistakes = {
    "scale: head width": divided(lambda s: s._q.shape[-1]),
    "scale: width": divided(lambda s: math.sqrt(s.queries.shape[-1])),
    "scale: none": divided(lambda s: 1.0),
    "softmax: queries": {"weights": lambda s: s.scores.softmax(-2)},
    "softmax: heads": {"weights": lambda s: s.scores.softmax(1)},
    "softmax: none": {"weights": lambda s: s.scores.masked_fill(~s._seen, 0.0)},
    "mask: added as 0 and 1": {"scores": lambda s: products(s) + s._seen},
    "mask: added as 1": {"scores": lambda s: products(s) + ~s._seen},
    "mask: zeros": {"scores": lambda s: products(s) * s._seen},
    "mask: after softmax": {"scores": products, "weights": lambda s: products(s).softmax(-1) * s._seen},
    "queries and keys exchanged": {"scores": lambda s: products(s).mT.masked_fill(~s._seen, -math.inf)},
}
CROSS_MISTAKES: Mistakes = {
    **COMMON_MISTAKES,
    "memory: x instead": {"_source": lambda s: s.x, "_real": everything},
    "mask: upside down": {"_seen": lambda s: ~(s._past & s._real)},
    "padding: seen": {"_real": everything},
    "heads: not transposed back": {"mixed": lambda s: (s.weights @ s._v).reshape(*s.queries.shape)},
    "heads: viewed": heads_by(view_as_heads),
    "values by the keys' map": {"values": lambda s: s.keys},
    "values: memory itself": {"values": lambda s: s._source},
    "output map forgotten": {"output": lambda s: s.mixed},
    "residual inside": {"output": lambda s: mapped(s.mixed, s.w_o, s.b_o) + s.x},
}
MISTAKES: Mistakes = {
    "causal: upside down": {"_past": lambda s: past(s).mT},
    "padding: upside down": {"_real": lambda s: everything(s) if s.mask is None else ~real(s)},
    "causal: without itself": {"_past": lambda s: past(s, -1)},
    "causal: one ahead": {"_past": lambda s: past(s, 1)},
    "causal: forgotten": {"_past": lambda s: torch.ones(TOKENS, TOKENS, dtype=torch.bool)},
    "values: inputs themselves": {"values": lambda s: s.x},
    **{name: steps for name, steps in CROSS_MISTAKES.items() if "memory" not in name},
}
FUNCTION_MISTAKES: Mistakes = {
    **{name: steps for name, steps in COMMON_MISTAKES.items() if "heads" not in name},
    "mask: upside down": {"_seen": lambda s: FUNCTION_STEPS["_seen"](s) if s.mask is None else ~s.mask},
    "mask: ignored": {"_seen": lambda s: torch.ones(TOKENS, TOKENS, dtype=torch.bool)},
    "keys averaged": {"output": lambda s: s.weights @ s.k},
    "weights transposed": {"output": lambda s: s.weights.mT @ s.v},
}

# --- contracts ---


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    is_causal = facts.options["causal"]
    tried = [False, True] if is_causal is None or "causal" in facts.built_with else [is_causal]
    plain = (
        Case("causal" if causal else "plain", {**facts.options, "causal": causal}, {"x": tokens(WIDTH, drawn)})
        for causal in tried
    )
    return [case for one in plain for case in padded(facts, one)]


def cross_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    width = MEMORY_WIDTH if "memory_width" in facts.built_with else WIDTH
    inputs = {"x": tokens(WIDTH, drawn), "memory": torch.randn(BATCH, MEMORY_TOKENS, width, generator=drawn)}
    return padded(facts, Case("plain", {**facts.options, "causal": False}, inputs), "memory", per_token=False)


def function_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    front = {"B×T×d": (BATCH,), "B×h×T×e": (BATCH, HEADS), "T×d": ()}[facts.options["form"]]
    inputs = {name: torch.randn(*front, TOKENS, HEAD_WIDTH, generator=drawn) for name in "qkv"}
    plain = Case("plain", facts.options, inputs)
    if "mask" not in facts.takes:
        return [plain]
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril().expand(*front, -1, -1).clone()
    return [plain, Case("masked", facts.options, {**inputs, "mask": mask})]


def needs_memory(brick: Callable[..., Any]) -> bool:
    """Return whether the `forward` of a class requires a memory."""
    parameters = inspect.signature(brick.forward).parameters.values()  # type: ignore[attr-defined]
    required = [one.name.lower() for one in parameters if one.default is one.empty]
    memory, x = f"memory|{CROSS_ATTENTION.arguments['memory']}", ATTENTION.arguments["x"]
    return any(re.fullmatch(memory, name) and not re.fullmatch(x, name) for name in required)


HEAD_SIZES = sizes(width=WIDTH, heads=HEADS, head_width=HEAD_WIDTH)
SIZES = {**HEAD_SIZES, **sizes(context=16, causal=False, bias=True, dropout=0.0, batch_first=True)}
OUTPUT_NAMES = "o|wo|out(puts?)?|final|unify_?heads|mix|combine|concat|(c_)?proj|projection|fc|dense|linear"
WEIGHTS = [
    Weight("w_q", "query", "q|query|queries", bias="b_q"),
    Weight("w_k", "key", "k|keys?", bias="b_k"),
    Weight("w_v", "value", "v|values?", bias="b_v"),
    Weight("w_o", "output", OUTPUT_NAMES, bias="b_o", needed=lambda options: options["heads"] > 1),
]
ATTENTION = contract("attention", steps=STEPS, mistakes=MISTAKES, inputs=cases, sizes=SIZES, weights=WEIGHTS)
MEMORY_SIZE_NAMES = "(memory|context|source|encoder|enc|kv)_(dim|size|width)|d_(memory|context|kv)|[kv]dim"
CROSS_ATTENTION = contract(
    "cross-attention",
    steps=CROSS_STEPS,
    mistakes=CROSS_MISTAKES,
    inputs=cross_cases,
    sizes={"memory_width": Offer(MEMORY_WIDTH, MEMORY_SIZE_NAMES), **SIZES},
    weights=WEIGHTS,
)
FUNCTION = contract(
    "attention function",
    steps=FUNCTION_STEPS,
    mistakes=FUNCTION_MISTAKES,
    inputs=function_cases,
    shape=lambda case: tuple(case.inputs["v"].shape),
)
CONTRACTS = [CROSS_ATTENTION, ATTENTION, FUNCTION]
