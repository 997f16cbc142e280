"""Contracts of additive position encodings: sine-cosine and learned."""

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import TOKENS, Facts, contract, tokens
from glassformer.teaching.brick_check.names import Weight, sizes
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps

WIDTH, CONTEXT = 14, 16
PAIRS = torch.arange(0, WIDTH, 2)


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    inputs = {"x": tokens(WIDTH, drawn), "index": torch.arange(TOKENS)}
    out = [Case("plain", facts.options, inputs)]
    if "index" in facts.takes:
        out.append(Case("positions from 3", facts.options, {**inputs, "index": inputs["index"] + 3}))
    return out


def vector_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    return [Case("plain", facts.options, {"index": torch.arange(TOKENS), "length": TOKENS, "width": WIDTH})]


def angles(s: Scope, powers: Tensor = PAIRS, first: int = 0) -> Tensor:
    """Return the angles, T×(d/2)."""
    return (s.index + first).unsqueeze(-1) / 10_000 ** (powers / WIDTH)


def alternate(even: Tensor, odd: Tensor) -> Tensor:
    return torch.stack([even, odd], -1).flatten(-2)


SINE: Steps = {
    "angles": angles,
    "vectors": lambda s: alternate(s.angles.sin(), s.angles.cos()),
    "output": lambda s: s.x + s.vectors,
}
SINE_VECTORS: Steps = {"angles": angles, "output": SINE["vectors"]}
LEARNED: Steps = {"vectors": lambda s: s.table[s.index], "output": lambda s: s.x + s.vectors}

ADDED_MISTAKES: Mistakes = {
    "positions: multiplied": {"output": lambda s: s.x * s.vectors},
    "positions: not added": {"output": lambda s: s.vectors.expand_as(s.x)},
}
ANGLE_MISTAKES: Mistakes = {
    "sine: exponent i/d": {"angles": lambda s: angles(s, PAIRS / 2)},
    "positions: from 1": {"angles": lambda s: angles(s, first=1)},
}
WAVE_MISTAKES: Mistakes = {
    "sine: halves": {"vectors": lambda s: torch.cat([s.angles.sin(), s.angles.cos()], -1)},
    "sine: exchanged": {"vectors": lambda s: alternate(s.angles.cos(), s.angles.sin())},
}
SINE_MISTAKES: Mistakes = {
    **ANGLE_MISTAKES,
    **WAVE_MISTAKES,
    **ADDED_MISTAKES,
    "positions: index ignored": {"angles": lambda s: angles(s) - angles(s)[:1]},
}
LEARNED_MISTAKES: Mistakes = {
    "positions: from 1": {"vectors": lambda s: s.table[s.index + 1]},
    "positions: index ignored": {"vectors": lambda s: s.table[torch.arange(s.x.shape[1])]},
    **ADDED_MISTAKES,
}

TABLE_NAMES = "table|emb|embedding|wpe|weight|pe|pos|positions?|pos_emb|pos_embedding"
SIZES = sizes(width=WIDTH, context=CONTEXT, dropout=0.0)
CONTRACTS = [
    contract("sine-positions", steps=SINE, mistakes=SINE_MISTAKES, inputs=cases, sizes=SIZES),
    contract(
        "sine-positions function",
        steps=SINE_VECTORS,
        mistakes={**ANGLE_MISTAKES, **{name: {"output": steps["vectors"]} for name, steps in WAVE_MISTAKES.items()}},
        inputs=vector_cases,
        time=None,
        shape=lambda case: (TOKENS, WIDTH),
    ),
    contract(
        "learned-positions",
        steps=LEARNED,
        mistakes=LEARNED_MISTAKES,
        inputs=cases,
        sizes=SIZES,
        weights=[Weight("table", "table of positions", TABLE_NAMES, shape=(CONTEXT, WIDTH))],
    ),
]
