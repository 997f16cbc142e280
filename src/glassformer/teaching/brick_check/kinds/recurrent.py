"""Recurrent layers: Elman's, LSTM, GRU."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import (
    Case,
    Contract,
    Facts,
    Offer,
    Scope,
    Stages,
    Steps,
    mapped,
    numbers,
    ragged,
    run_along,
    with_x,
)
from glassformer.teaching.brick_check.kinds.names import MASK_NAMES
from glassformer.teaching.brick_check.kinds.recurrent_weights import INPUT, WIDTH, read_weights

BATCH, TOKENS = 2, 5


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    width = INPUT if "input_width" in facts.built_with else WIDTH
    x = numbers(BATCH, TOKENS, width, drawn=drawn)
    options = {**facts.options, "width": WIDTH}

    def zeros(x: Tensor) -> Tensor:
        return x.new_zeros(*((1,) if options["state"] == "1×B×d" else ()), len(x), WIDTH)

    def both(x: Tensor) -> Any:
        if options["kind"] == "lstm":
            return zeros(x), zeros(x)
        return (zeros(x),) if options["state"] == "1×B×d" else zeros(x)

    inputs: dict[str, Any] = {"x": x, "hidden": zeros if "cells" in facts.takes else both, "cells": zeros, "mask": None}
    out = [Case("plain", options, inputs)]
    if "mask" in facts.takes:
        real = ragged(BATCH, TOKENS)
        padded = {**inputs, "x": x.masked_fill(~real.unsqueeze(-1), 3.0), "mask": real}
        out.append(Case("padded", options, padded, real=real))
    return out


# --- formulas ---


def total(s: Scope, times: float = 1.0) -> Tensor:
    """W x + U h + b, of all gates."""
    out = mapped(s.x, s.w_x) + mapped(s.h, s.w_h)
    for bias in (s.b_x, s.b_h):
        out = out if bias is None else out + times * bias
    return out


def gate(s: Scope, place: int) -> Tensor:
    return s._total[:, place * WIDTH : (place + 1) * WIDTH]


RNN: Steps = {"_total": total, "state": lambda s: s._total.tanh()}
COMMON: list[tuple[str, dict[str, Any]]] = [
    ("the bias is added twice", {"_total": lambda s: total(s, 2.0)}),
    ("the bias is forgotten", {"_total": lambda s: total(s, 0.0)}),
    (
        "the state before is forgotten: h must go in beside x",
        {"_total": lambda s: mapped(s.x, s.w_x, _sum(s.b_x, s.b_h))},
    ),
]


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return one if other is None else other if one is None else one + other


RNN_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("tanh is forgotten", {"state": lambda s: s._total}),
    ("there is a sigmoid in the place of tanh", {"state": lambda s: s._total.sigmoid()}),
    ("there is a ReLU in the place of tanh", {"state": lambda s: s._total.relu()}),
    ("the state before is added once more, as a residual connection", {"state": lambda s: s._total.tanh() + s.h}),
    *COMMON,
]

LSTM: Steps = {
    "_total": total,
    "i": lambda s: gate(s, 0).sigmoid(),
    "f": lambda s: gate(s, 1).sigmoid(),
    "g": lambda s: gate(s, 2).tanh(),
    "o": lambda s: gate(s, 3).sigmoid(),
    "cell": lambda s: s.f * s.c + s.i * s.g,
    "state": lambda s: s.o * s.cell.tanh(),
}
SQUASHED = {letter: (torch.tanh if letter == "g" else torch.sigmoid) for letter in "ifgo"}


def _order(letters: Sequence[str]) -> dict[str, Any]:
    """The gates as one reads them who takes their weights to stand in this order."""
    return {
        letter: lambda s, place=place, letter=letter: SQUASHED[letter](gate(s, place))
        for place, letter in enumerate(letters)
    }


ORDERS = [order for order in itertools.permutations("ifgo") if order != tuple("ifgo")]
LSTM_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (
        "input and forget gate are exchanged: c = f ⊙ c + i ⊙ g, and with these weights i comes before f",
        {"cell": lambda s: s.i * s.c + s.f * s.g},
    ),
    ("tanh is forgotten on the cell: h = o ⊙ tanh(c)", {"state": lambda s: s.o * s.cell}),
    ("the output gate comes before tanh: h = o ⊙ tanh(c), not tanh(o ⊙ c)", {"state": lambda s: (s.o * s.cell).tanh()}),
    ("the state h is used where the cell c belongs: c = f ⊙ c + i ⊙ g", {"cell": lambda s: s.f * s.h + s.i * s.g}),
    ("the cell is given, not the state: h = o ⊙ tanh(c)", {"state": lambda s: s.cell}),
    ("the candidate g has a sigmoid: it needs tanh", {"g": lambda s: gate(s, 2).sigmoid()}),
    ("the candidate g has no tanh", {"g": lambda s: gate(s, 2)}),
    ("the forget gate is forgotten: c = f ⊙ c + i ⊙ g", {"cell": lambda s: s.c + s.i * s.g}),
    ("the input gate is forgotten: c = f ⊙ c + i ⊙ g", {"cell": lambda s: s.f * s.c + s.g}),
    ("the output gate is forgotten: h = o ⊙ tanh(c)", {"state": lambda s: s.cell.tanh()}),
    ("1 − f stands in the place of f, or of i", {"cell": lambda s: s.f * s.c + (1 - s.f) * s.g}),
    *COMMON,
    *(
        (f"the gates stand in the order {', '.join(order)}: with these weights it is i, f, g, o", _order(order))
        for order in ORDERS
    ),
]

GRU: Steps = {
    "_x": lambda s: mapped(s.x, s.w_x, s.b_x),
    "_h": lambda s: mapped(s.h, s.w_h, s.b_h),
    "r": lambda s: (_part(s._x, 0) + _part(s._h, 0)).sigmoid(),
    "z": lambda s: (_part(s._x, 1) + _part(s._h, 1)).sigmoid(),
    "n": lambda s: candidate(s, s.r),
    "state": lambda s: updated(s, s.z),
}


def _part(x: Tensor, place: int) -> Tensor:
    return x[:, place * WIDTH : (place + 1) * WIDTH]


def candidate(s: Scope, r: Tensor | float) -> Tensor:
    if s.reset == "after":
        return (_part(s._x, 2) + r * _part(s._h, 2)).tanh()
    rest = s.w_h[2 * WIDTH :], None if s.b_h is None else s.b_h[2 * WIDTH :]
    return (_part(s._x, 2) + mapped(r * s.h, *rest)).tanh()


def updated(s: Scope, z: Tensor) -> Tensor:
    kept = z if s.update == "kept" else 1 - z
    return (1 - kept) * s.n + kept * s.h


GRU_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("reset and update gate are exchanged", {"n": lambda s: candidate(s, s.z), "state": lambda s: updated(s, s.r)}),
    ("the reset gate is forgotten", {"n": lambda s: candidate(s, 1.0)}),
    ("the candidate n has a sigmoid: it needs tanh", {"n": lambda s: torch.sigmoid(candidate(s, s.r).atanh())}),
    ("the candidate n has no tanh", {"n": lambda s: candidate(s, s.r).atanh()}),
    ("nothing is forgotten: h = (1 − z) ⊙ n + z ⊙ h", {"state": lambda s: s.h + s.z * s.n}),
    ("the bias is forgotten", {"_x": lambda s: mapped(s.x, s.w_x), "_h": lambda s: mapped(s.h, s.w_h)}),
    ("the bias is added twice", {"_x": lambda s: mapped(s.x, s.w_x, None if s.b_x is None else 2 * s.b_x)}),
]


# --- ways along the tokens ---


def run(steps: Steps, case: Case) -> Stages:
    """Along the tokens; `_along` among the steps says which way, for mistakes."""
    if "_along" not in steps:
        return run_along(steps, case)
    along = steps["_along"]
    rest = {name: step for name, step in steps.items() if name != "_along"}
    return {name: along(stage) for name, stage in run_along(rest, with_x(case, along(case.inputs["x"]))).items()}


ALONG: list[tuple[str, dict[str, Any]]] = [
    (
        "time and batch are exchanged: it goes along the rows of the batch, not along the tokens (the axis 1)",
        {"_along": lambda x: x.transpose(0, 1)},
    ),
    ("it goes from the last token to the first", {"_along": lambda x: x.flip(1)}),
]


def _contract(kind: str, pattern: str, steps: Any, mistakes: Any, **more: Any) -> Contract:
    facts = [{"cat": cat, "state": state} for state in ("1×B×d", "B×d") for cat in ("x, h", "h, x")]
    if kind == "gru":
        choices = itertools.product(("kept", "new"), ("after", "before"), facts)
        facts = [{**fact, "reset": reset, "update": update} for update, reset, fact in choices]
    return Contract(
        name=kind,
        group="recurrent",
        signature="x B×T×i → states B×T×d",
        pattern=pattern,
        steps=steps,
        mistakes=[*mistakes, *ALONG],
        run=run,
        inputs=cases,
        sizes={
            "input_width": Offer(
                INPUT,
                (
                    "input_size",
                    "input_dim",
                    "in_features",
                    "n_in",
                    "d_in",
                    "i",
                    "in_dim",
                    "embed_dim",
                    "emb_dim",
                    "d_model",
                    "embedding_dim",
                    "x_size",
                ),
            ),
            "width": Offer(
                WIDTH,
                (
                    "hidden_size",
                    "hidden_dim",
                    "hidden",
                    "units",
                    "d_hidden",
                    "n_hidden",
                    "d_h",
                    "hidden_units",
                    "state_size",
                    "h",
                    "d",
                    "dim",
                    "out_dim",
                    "size",
                    "d_out",
                    "hidden_width",
                ),
            ),
            "kind": Offer(kind, ("cell", "mode", "rnn_type"), always=False),
            "batch_first": Offer(True),
            "bias": Offer(True, ("use_bias",)),
            "initial": Offer(False),
            "dropout": Offer(0.0),
        },
        unnamed={
            "kind": kind,
            "input_width": None,
            "cat": "x, h",
            "state": "1×B×d",
            "reset": "after",
            "update": "kept",
        },
        arguments={
            "x": ("input", "inputs", "sequence", "seq", "xs", "embedded"),
            "hidden": (
                "h0",
                "hx",
                "state",
                "h",
                "hidden_state",
                "initial_state",
                "init_state",
                "init_states",
                "h_0",
                "states",
            ),
            "cells": ("c0", "c", "cx", "cell", "c_0"),
            "mask": MASK_NAMES,
        },
        optional=("hidden", "cells"),
        variants=facts,
        says={"reset": "the reset gate works {} the map of h", "update": "z says what is {}"},
        searched=("i", "f", "g", "o", "r", "z", "n", "cell"),
        causal="always",
        learns=TOKENS,
        shape=lambda case: (*case.inputs["x"].shape[:2], WIDTH),
        read_weights=read_weights,
        **more,
    )


CONTRACTS = [
    _contract("lstm", r".*lstm.*", LSTM, LSTM_MISTAKES),
    _contract("gru", r".*gru.*", GRU, GRU_MISTAKES),
    _contract("rnn", r".*rnn.*|.*elman.*|.*recurrent.*", RNN, RNN_MISTAKES),
]
