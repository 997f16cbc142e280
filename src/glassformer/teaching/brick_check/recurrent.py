"""Contracts of recurrent layers: Elman RNN, LSTM and GRU."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.teaching.brick_check.contract import Contract, Facts, contract, padded, tokens
from glassformer.teaching.brick_check.names import Bridge, Offer, clean, listed_weights, sizes, tokens_of
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Stages, Steps, mapped, run_along, with_x
from glassformer.teaching.exercise import StudentError

INPUT, WIDTH = 3, 7
GATES = {
    "lstm": {"i": "i|input", "f": "f|forget", "g": "g|c|cell|candidate", "o": "o|out|output"},
    "gru": {"r": "r|reset", "z": "z|update", "n": "n|new|h|g|candidate"},
    "rnn": {},
}
"""Patterns of gate names by cell kind and gate, in PyTorch's order."""


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x = tokens(INPUT if "input_width" in facts.built_with else WIDTH, drawn)
    options = {**facts.options, "width": WIDTH}
    states = 2 if options["kind"] == "lstm" else 1

    def first_state(x: Tensor) -> tuple[Tensor, ...]:
        return (x.new_zeros(1, len(x), WIDTH),) * states

    return padded(facts, Case("plain", options, {"x": x, "hidden": first_state}))


# --- formulas ---


def total(s: Scope, bias: float = 1.0) -> Tensor:
    """Return W x + U h + b for all gates, with b multiplied by `bias`."""
    out = mapped(s.x, s.w_x) + mapped(s.h, s.w_h)
    for one in (s.b_x, s.b_h):
        out = out if one is None else out + bias * one
    return out


def part(x: Tensor, place: int) -> Tensor:
    return x[:, place * WIDTH : (place + 1) * WIDTH]


RNN: Steps = {"_total": total, "state": lambda s: s._total.tanh()}
COMMON_MISTAKES: Mistakes = {
    "bias: twice": {"_total": lambda s: total(s, 2.0)},
    "bias: forgotten": {"_total": lambda s: total(s, 0.0)},
    "state: forgotten": {"_total": lambda s: total(s) - mapped(s.h, s.w_h)},
}
RNN_MISTAKES: Mistakes = {"rnn: no tanh": {"state": lambda s: s._total}, **COMMON_MISTAKES}


def lstm_gate(s: Scope, place: int, letter: str) -> Tensor:
    total = part(s._total, place)
    return total.tanh() if letter == "g" else total.sigmoid()


def lstm_gates(order: str) -> Steps:
    """Return the steps of the gates, whose weights are stored in this order."""
    return {letter: partial(lstm_gate, place=place, letter=letter) for place, letter in enumerate(order)}


LSTM: Steps = {
    "_total": total,
    **lstm_gates("ifgo"),
    "cell": lambda s: s.f * s.c + s.i * s.g,
    "state": lambda s: s.o * s.cell.tanh(),
}
LSTM_MISTAKES: Mistakes = {
    "lstm: i and f": {"cell": lambda s: s.i * s.c + s.f * s.g},
    "lstm: no tanh of c": {"state": lambda s: s.o * s.cell},
    "lstm: h for c": {"cell": lambda s: s.f * s.h + s.i * s.g},
    "lstm: sigmoid of g": {"g": lambda s: part(s._total, 2).sigmoid()},
    "lstm: no forget gate": {"cell": lambda s: s.c + s.i * s.g},
    **COMMON_MISTAKES,
    "lstm: order ifog": lstm_gates("ifog"),
}


def candidate(s: Scope, reset: Tensor | float) -> Tensor:
    if s.reset == "after":
        return (part(s._x, 2) + reset * part(s._h, 2)).tanh()
    bias = None if s.b_h is None else s.b_h[2 * WIDTH :]
    return (part(s._x, 2) + mapped(reset * s.h, s.w_h[2 * WIDTH :], bias)).tanh()


def update(s: Scope, gate: Tensor) -> Tensor:
    kept = gate if s.update == "kept" else 1 - gate
    return (1 - kept) * s.n + kept * s.h


GRU: Steps = {
    "_x": lambda s: mapped(s.x, s.w_x, s.b_x),
    "_h": lambda s: mapped(s.h, s.w_h, s.b_h),
    "r": lambda s: (part(s._x, 0) + part(s._h, 0)).sigmoid(),
    "z": lambda s: (part(s._x, 1) + part(s._h, 1)).sigmoid(),
    "n": lambda s: candidate(s, s.r),
    "state": lambda s: update(s, s.z),
}
GRU_MISTAKES: Mistakes = {
    "gru: r and z": {"n": lambda s: candidate(s, s.z), "state": lambda s: update(s, s.r)},
    "gru: no reset gate": {"n": lambda s: candidate(s, 1.0)},
    "bias: forgotten": {"_x": lambda s: mapped(s.x, s.w_x), "_h": lambda s: mapped(s.h, s.w_h)},
    "bias: twice": {"_x": lambda s: mapped(s.x, s.w_x, None if s.b_x is None else 2 * s.b_x)},
}

DIRECTION: Mistakes = {"direction: batch": {"_along": lambda s: s}}


def run(steps: Steps, case: Case) -> Stages:
    """Run the steps along the tokens, or along the batch if `steps` has the mistake `_along`."""
    if "_along" not in steps:
        return run_along(steps, case)
    rest = {name: step for name, step in steps.items() if name != "_along"}
    stages = run_along(rest, with_x(case, case.inputs["x"].transpose(0, 1)))
    return {name: stage.transpose(0, 1) for name, stage in stages.items()}


# --- weights ---


class Piece(NamedTuple):
    """Parameter and the part of the reference's weights that it holds."""

    parameter: str
    place: str
    """Weight, such as `w_x` or `b_h`; `w`: the matrices of x and h side by side."""
    gate: str | None
    """Gate; None if the parameter holds all gates."""
    is_turned: bool = False


def gate_of(name: str, gates: Mapping[str, str]) -> str | None:
    """Return the gate that a weight's name refers to; None if there is none."""
    for token in tokens_of(name):
        for word in [token, *clean(token).split("_")]:
            for letter, names in gates.items():
                if re.fullmatch(f"{names}|[ixhuw]{letter}", word):
                    return letter
    return None


def is_of_state(name: str) -> bool:
    """Return whether a weight's name says that it is applied to the state."""
    words = (word for token in tokens_of(name) for word in token.split("_"))
    return any(word in ("hh", "h", "u", "wh", "hidden", "recurrent", "wu") for word in words)


def find_pieces(module: nn.Module, gates: Mapping[str, str], width: int, turned: set[str]) -> list[Piece]:
    """Identify parameters by their shapes and names; parameters with other shapes are omitted."""
    heights = {WIDTH, max(1, len(gates)) * WIDTH}
    pieces, owners = list[Piece](), dict[str, str]()
    for name, one in sorted(module.named_parameters(), key=lambda item: -item[1].dim()):  # matrices before biases
        by_name = "h" if is_of_state(name) else "x"
        gate = None if len(gates) < 1 or max(heights) in one.shape else gate_of(name, gates)
        if one.dim() == 1 and len(one) in heights:
            pieces.append(Piece(name, f"b_{owners.get(name.removesuffix('.bias'), by_name)}", gate))
        for is_turned in (name in turned, name not in turned) if one.dim() == 2 else ():
            height, columns = one.T.shape if is_turned else one.shape
            sides = {width: "x", WIDTH: by_name if width == WIDTH else "h", width + WIDTH: "both"}
            if height in heights and columns in sides:
                side = sides[columns]
                owners[name.removesuffix(".weight")] = "x" if side == "both" else side
                pieces.append(Piece(name, "w" if side == "both" else f"w_{side}", gate, is_turned))
                break
    return pieces


def read_weights(module: nn.Module, options: Mapping[str, Any], turned: set[str]) -> Bridge:
    """Find the weights by their shapes and names.

    The gates may share a parameter or have one each. The matrices of x and h may be separate or side by side.
    """
    gates = GATES[options["kind"]]
    letters = list(gates) or [""]
    width = INPUT if options["input_width"] else WIDTH
    pieces = find_pieces(module, gates, width, turned)
    count = Counter[str]()
    for piece in pieces:
        count[piece.place] += len(letters) if piece.gate is None else 1
    complete = len(letters) in (count["w"], min(count["w_x"], count["w_h"]))
    if len(pieces) < len(list(module.parameters())) or not complete:
        height, of_gates = len(letters) * WIDTH, ", ".join(letters) or "one"
        expected = f"from x ({height}×{width}) and from h ({height}×{WIDTH}), of all gates ({of_gates}) or of each"
        raise StudentError(f"weights expected: {expected}; found: {listed_weights(module)}")
    sides = {"w_x": width, "w_h": WIDTH} if options["cat"] == "x, h" else {"w_h": WIDTH, "w_x": width}

    def read(tensors: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        parts: dict[str, dict[str, Tensor]] = {}
        for piece in pieces:
            whole = tensors[piece.parameter].T if piece.is_turned else tensors[piece.parameter]
            owners = letters if piece.gate is None else [piece.gate]
            columns = zip(sides, torch.split(whole, list(sides.values()), 1), strict=True) if piece.place == "w" else ()
            for place, side in columns or [(piece.place, whole)]:
                parts.setdefault(place, {}).update(zip(owners, side.chunk(len(owners)), strict=True))
        return {
            name: torch.cat([parts[name][letter] for letter in letters]) if name in parts else None
            for name in ("w_x", "w_h", "b_x", "b_h")
        }

    return Bridge(read)


# --- contracts ---

INPUT_NAMES = "i|n_in|d_in|d_model|x_size|in_(dim|features)|input_(dim|size)|emb(ed|edding)?_dim"
WIDTH_NAMES = "h|d|dim|size|units|state_size|(hidden|out)_dim|[dn]_hidden|d_(h|out)|hidden(_size|_units|_width)?"
VARIANTS = [{"cat": "x, h"}, {"cat": "h, x"}]
GRU_VARIANTS = [
    {**variant, "reset": reset, "update": update}
    for update, reset, variant in itertools.product(("kept", "new"), ("after", "before"), VARIANTS)
]


def of_kind(
    kind: str, pattern: str, steps: Steps, mistakes: Mistakes, variants: Sequence[Mapping[str, str]] = VARIANTS
) -> Contract:
    return contract(
        "recurrent",
        name=kind,
        pattern=pattern,
        steps=steps,
        mistakes={**mistakes, **DIRECTION},
        run=run,
        inputs=cases,
        sizes={
            "input_width": Offer(INPUT, INPUT_NAMES),
            "width": Offer(WIDTH, WIDTH_NAMES),
            "kind": Offer(kind, "cell|mode|rnn_type", always=False),
            "initial": Offer(False),
            **sizes(bias=True, dropout=0.0, batch_first=True),
        },
        unnamed={"kind": kind, "input_width": None, "cat": "x, h", "reset": "after", "update": "kept"},
        variants=variants,
        shape=lambda case: (*case.inputs["x"].shape[:2], WIDTH),
        read_weights=read_weights,
    )


CONTRACTS = [
    of_kind("lstm", r".*lstm.*", LSTM, LSTM_MISTAKES),
    of_kind("gru", r".*gru.*", GRU, GRU_MISTAKES, GRU_VARIANTS),
    of_kind("rnn", r".*rnn.*|.*elman.*|.*recurrent.*", RNN, RNN_MISTAKES),
]
