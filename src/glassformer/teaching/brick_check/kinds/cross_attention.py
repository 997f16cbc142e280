"""Cross-attention as a class: queries of one sequence, keys and values of another, the memory."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, Scope, mapped, numbers, ragged
from glassformer.teaching.brick_check.kinds.attention import ATTENTION, BATCH, LOUD, SIZES, TOKENS, WIDTH
from glassformer.teaching.brick_check.kinds.attention_steps import MISTAKES, STEPS
from glassformer.teaching.brick_check.kinds.names import MASK_NAMES, MEMORY_NAMES, MEMORY_WIDTHS

SOURCE_TOKENS, MEMORY_WIDTH = 4, 13
"""Tokens of the memory, and its width where the brick takes one. Both differ from those of x, so that a brick that
confuses the two sequences cannot pass.
"""


def cross_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    options = {**facts.options, "causal": False}
    width = MEMORY_WIDTH if "memory_width" in facts.built_with else WIDTH
    x, memory = numbers(BATCH, TOKENS, WIDTH, drawn=drawn), numbers(BATCH, SOURCE_TOKENS, width, drawn=drawn)
    cases = [Case("plain", options, {"x": x, "memory": memory, "mask": None})]
    if "mask" in facts.takes:
        real = ragged(BATCH, SOURCE_TOKENS)
        padded = memory.masked_fill(~real.unsqueeze(-1), LOUD)
        cases.append(Case("padded", options, {"x": x, "memory": padded, "mask": real}))
    return cases


def _everything(s: Scope) -> torch.Tensor:
    return torch.ones(1, 1, 1, 1, dtype=torch.bool)


CROSS_STEPS = {
    **STEPS,
    "keys": lambda s: mapped(s.memory, s.w_k, s.b_k),
    "values": lambda s: mapped(s.memory, s.w_v, s.b_v),
}
CROSS_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (
        "keys and values are made of x: they must be made of the memory (this is self-attention)",
        {
            "keys": lambda s: mapped(s.x, s.w_k, s.b_k),
            "values": lambda s: mapped(s.x, s.w_v, s.b_v),
            "_seen": _everything,
        },
    ),
    ("the memory itself is averaged, not its values", {"values": lambda s: s.memory}),
    ("the values are made by the keys' map", {"values": lambda s: s.keys}),
    ("the keys are made by the values' map", {"keys": lambda s: mapped(s.memory, s.w_v, s.b_v)}),
    ("the keys are made by the queries' map", {"keys": lambda s: mapped(s.memory, s.w_q, s.b_q)}),
    ("the values are made by the queries' map", {"values": lambda s: mapped(s.memory, s.w_q, s.b_q)}),
    *((hint, steps) for hint, steps in MISTAKES if not {"keys", "values"} & steps.keys() and "causal" not in hint),
]

CROSS_ATTENTION = Contract(
    name="cross-attention",
    signature="x B×T×d, memory B×S×d, mask B×S → B×T×d",
    pattern=r".*cross.*att.*|.*encoderdecoderatt.*|.*memoryatt.*|.*sourceatt.*",
    steps=CROSS_STEPS,
    mistakes=CROSS_MISTAKES,
    inputs=cross_cases,
    sizes={**SIZES, "memory_width": Offer(MEMORY_WIDTH, MEMORY_WIDTHS)},
    unnamed={"heads": 1},
    arguments={
        "x": ("query", "q", "queries", "input", "inputs", "hidden_states", "tgt", "target", "decoder_states"),
        "memory": ("key", "keys", "k", "value", "values", "v", *MEMORY_NAMES),
        "mask": (*MASK_NAMES, *(f"{name}_mask" for name in ("memory", *MEMORY_NAMES)), "memory_key_padding_mask"),
    },
    weights=ATTENTION.weights,
    sources=ATTENTION.sources,
    permutes="same",
    permuted=("memory",),
    masked="memory",
    learns=TOKENS,
)
CONTRACTS = [CROSS_ATTENTION]


def needs_memory(brick: Callable[..., Any]) -> bool:
    """Return whether the forward of a class cannot be called without a memory."""
    parameters = inspect.signature(brick.forward).parameters.values()  # type: ignore[attr-defined]
    return any(one.name.lower() in MEMORY_NAMES and one.default is one.empty for one in parameters)
