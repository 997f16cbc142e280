"""Positions that are added: sine and cosine, and learned ones."""

from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, Scope, Steps, numbers
from glassformer.teaching.brick_check.kinds.names import CONTEXTS, WIDTHS
from glassformer.teaching.brick_check.weights import Weight

BATCH, TOKENS, WIDTH, CONTEXT = 2, 5, 14, 16
SIZES = {
    "width": Offer(WIDTH, WIDTHS),
    "context": Offer(CONTEXT, CONTEXTS, always=False),
    "dropout": Offer(0.0, ("p", "drop")),
}


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x, index = numbers(BATCH, TOKENS, WIDTH, drawn=drawn), torch.arange(TOKENS)
    inputs = {"x": x, "index": index}
    plain = [Case("plain", facts.options, inputs)]
    if "index" in facts.takes:
        plain.append(Case("positions from 3", facts.options, {**inputs, "index": index + 3}))
    return plain


def angles(s: Scope, power: Any = None, first: int = 0) -> Tensor:
    """B… T×(d/2)."""
    pair = torch.arange(0, WIDTH, 2)
    power = pair / WIDTH if power is None else power(pair)
    return (s.index + first).unsqueeze(-1) / 10_000**power


def waves(angle: Tensor) -> Tensor:
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


SINE: Steps = {
    "angles": angles,
    "vectors": lambda s: waves(s.angles),
    "output": lambda s: s.x + s.vectors,
}
OUTPUTS: list[tuple[str, dict[str, Any]]] = [
    ("the positions are multiplied: they must be added", {"output": lambda s: s.x * s.vectors}),
    ("only the positions are given: they must be added to x", {"output": lambda s: s.vectors.expand_as(s.x)}),
    ("x is multiplied by √d first: that is the embedding's work", {"output": lambda s: s.x * WIDTH**0.5 + s.vectors}),
    ("all tokens get the same position", {"output": lambda s: s.x + s.vectors[..., :1, :]}),
    ("rows of the batch are counted, not tokens", {"output": lambda s: s.x + s.vectors[: s.x.shape[0], None]}),
]
SINE_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (
        "sines and cosines stand in two halves: they must alternate, sine at 2i and cosine at 2i + 1",
        {"vectors": lambda s: torch.cat([s.angles.sin(), s.angles.cos()], -1)},
    ),
    (
        "cosine and sine are exchanged: sine at 2i, cosine at 2i + 1",
        {"vectors": lambda s: torch.stack([s.angles.cos(), s.angles.sin()], -1).flatten(-2)},
    ),
    ("the exponent is i/d: it must be 2i/d", {"angles": lambda s: angles(s, lambda pair: pair / 2 / WIDTH)}),
    (
        "the exponent is 4i/d: 2i is multiplied by 2 once more",
        {"angles": lambda s: angles(s, lambda pair: 2 * pair / WIDTH)},
    ),
    ("sine and cosine of a pair have different angles: both have 10000^(2i/d)", {"vectors": lambda s: _each(s)}),
    (
        "the positions are multiplied by 10000^(2i/d): they must be divided",
        {"angles": lambda s: angles(s, lambda pair: -pair / WIDTH)},
    ),
    ("positions are counted from 1: the first is 0", {"angles": lambda s: angles(s, first=1)}),
    (
        "there are only sines: every second number is a cosine",
        {"vectors": lambda s: torch.stack([s.angles.sin(), s.angles.sin()], -1).flatten(-2)},
    ),
    *OUTPUTS,
]


def _each(s: Scope) -> Tensor:
    number = torch.arange(WIDTH)
    angle = s.index.unsqueeze(-1) / 10_000 ** (number / WIDTH)
    return torch.where(number % 2 == 0, angle.sin(), angle.cos())


LEARNED: Steps = {"vectors": lambda s: s.table[s.index], "output": lambda s: s.x + s.vectors}
LEARNED_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("positions are counted from 1: the first is 0", {"vectors": lambda s: s.table[s.index + 1]}),
    ("positions are counted from the end", {"vectors": lambda s: s.table[s.index.flip(-1)]}),
    (
        "the index is not looked at: positions always begin at 0",
        {"vectors": lambda s: s.table[torch.arange(s.x.shape[1])]},
    ),
    *OUTPUTS,
]
SINE_MISTAKES.append(
    ("the index is not looked at: positions always begin at 0", {"angles": lambda s: angles(s) - angles(s)[:1]})
)


def _contract(name: str, pattern: str, steps: Any, mistakes: Any, **more: Any) -> Contract:
    return Contract(
        name=name,
        group="positions",
        signature="x B×T×d, index T → B×T×d",
        pattern=pattern,
        steps=steps,
        mistakes=mistakes,
        inputs=cases,
        sizes=SIZES,
        arguments={"x": ("input", "embeddings", "emb"), "index": ("positions", "position", "pos", "idx", "t", "place")},
        causal="always",
        **more,
    )


def vector_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    inputs = {"index": torch.arange(TOKENS), "length": TOKENS, "width": WIDTH}
    return [Case("plain", facts.options, inputs)]


SINE_NAMES = r".*(sin|cos).*|.*position.*encoding.*|.*posenc.*|pe"
SINE_FUNCTION = Contract(
    name="sine-positions",
    group="positions",
    signature="length, width → T×d",
    pattern=SINE_NAMES,
    steps={"angles": angles, "output": lambda s: waves(s.angles)},
    mistakes=[
        (hint, {name.replace("vectors", "output"): step for name, step in steps.items()})
        for hint, steps in SINE_MISTAKES
        if "output" not in steps and "index is not" not in hint
    ],
    inputs=vector_cases,
    is_function=True,
    arguments={
        "index": ("positions", "position", "pos", "idx"),
        "length": (*CONTEXTS, "tokens", "context", "num_tokens"),
        "width": WIDTHS,
    },
    time=None,
    shape=lambda case: (TOKENS, WIDTH),
)
CONTRACTS = [
    _contract("sine-positions", SINE_NAMES, SINE, SINE_MISTAKES),
    SINE_FUNCTION,
    _contract(
        "learned-positions",
        r".*learned.*|.*position.*embedding.*|.*posemb.*",
        LEARNED,
        LEARNED_MISTAKES,
        weights=[
            Weight(
                "table",
                "table of positions",
                (
                    "table",
                    "embedding",
                    "emb",
                    "pos",
                    "position",
                    "positions",
                    "pe",
                    "pos_emb",
                    "wpe",
                    "weight",
                    "pos_embedding",
                ),
                shape=lambda options: (CONTEXT, WIDTH),
            )
        ],
        sources={"vectors": "table"},
        learns=3,
    ),
]
