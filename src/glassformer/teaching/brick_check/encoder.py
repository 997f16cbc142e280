"""An encoder of a user's own: there is no reference for its numbers, but much that must hold."""

import torch

from glassformer.teaching.brick_check.contract import Facts, contract, padded, tokens
from glassformer.teaching.brick_check.names import Offer, sizes
from glassformer.teaching.brick_check.steps import Case

WIDTH = 12


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x = tokens(WIDTH, drawn)
    kinds = (True, False) if "causal" in facts.built_with else (bool(getattr(facts.module, "causal", True)),)
    return [
        case for causal in kinds for case in padded(facts, Case("plain", {**facts.options, "causal": causal}, {"x": x}))
    ]


ENCODER = contract(
    "encoder",
    inputs=cases,
    sizes={
        "input_width": Offer(WIDTH, "input_size", always=False),
        **sizes(width=WIDTH, layers=2, heads=3, hidden=24, context=16, causal=True, dropout=0.0),
    },
)
CONTRACTS = [ENCODER]
