"""The weights of a student's recurrent layer by the names of ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.teaching.brick_check.weights import Bridge, clean, tokens_of
from glassformer.teaching.exercise import StudentError

INPUT, WIDTH = 3, 7
GATES = {
    "lstm": {
        "i": ("i", "input"),
        "f": ("f", "forget"),
        "g": ("g", "c", "cell", "candidate"),
        "o": ("o", "output", "out"),
    },
    "gru": {"r": ("r", "reset"), "z": ("z", "update"), "n": ("n", "candidate", "new", "h", "g")},
    "rnn": {},
}
"""The gates in torch's order, and what people call them."""


def _gate_of(name: str, gates: Mapping[str, Sequence[str]]) -> str | None:
    """The gate that a weight belongs to."""
    for token in tokens_of(name):
        for word in [token, *clean(token).split("_")]:
            for letter, names in gates.items():
                if word in names or (len(word) == 2 and word[0] in "ixhuw" and word[1] == letter):
                    return letter
    return None


def _goes_to_h(name: str) -> bool:
    return any(
        word in ("hh", "h", "u", "wh", "hidden", "recurrent", "wu")
        for token in tokens_of(name)
        for word in token.split("_")
    )


def read_weights(module: nn.Module, options: Mapping[str, Any], turned: set[str]) -> Bridge:
    """Of all gates at once or of each, of x and h or of both in one."""
    gates = GATES[options["kind"]]
    count, letters = max(1, len(gates)), list(gates) or [""]
    width = INPUT if options["input_width"] else WIDTH
    plan: list[tuple[str, str, str | None, bool]] = []
    owners: dict[str, str] = {}
    for name, weight in module.named_parameters():
        if weight.dim() != 2:
            continue
        for flip in (name in turned, name not in turned):
            rows, columns = weight.T.shape if flip else weight.shape
            fits = (
                {width: "x", WIDTH: "h", width + WIDTH: "both"}
                if width != WIDTH
                else {WIDTH: "h" if _goes_to_h(name) else "x", 2 * WIDTH: "both"}
            )
            if columns in fits and rows in (WIDTH, count * WIDTH):
                letter = None if rows == count * WIDTH else _gate_of(name, gates)
                plan.append((name, fits[columns], letter, flip))
                owners[name.removesuffix(".weight")] = fits[columns]
                break
    known = {name for name, *_ in plan}
    for name, weight in module.named_parameters():
        if weight.dim() == 1 and weight.shape[0] in (WIDTH, count * WIDTH):
            owner = owners.get(name.removesuffix(".bias"), "h" if _goes_to_h(name) else "x")
            letter = None if weight.shape[0] == count * WIDTH else _gate_of(name, gates)
            plan.append((name, "b_h" if owner == "h" else "b_x", letter, False))
            known.add(name)
    whole = {
        kind: sum(count if letter is None else 1 for _, one, letter, _ in plan if one == kind)
        for kind in ("x", "h", "both")
    }
    left = [name for name, _ in module.named_parameters() if name not in known]
    if left or not (whole["both"] == count or (whole["x"] == count and whole["h"] == count)):
        here = ", ".join(f"{name} {'×'.join(map(str, weight.shape))}" for name, weight in module.named_parameters())
        of = f" of the gates {', '.join(letters)}, together or each" if gates else ""
        expected = f"from x ({count * WIDTH}×{width}) and from h ({count * WIDTH}×{WIDTH}){of}"
        raise StudentError(f"weights expected: {expected}; found: {here or 'none'}")

    def read(tensors: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        parts: dict[str, dict[str, Tensor]] = {}
        for name, kind, letter, flip in plan:
            tensor = tensors[name].T if flip else tensors[name]
            split = [letter] if letter is not None else letters
            for one, part in zip(split, tensor.chunk(len(split)), strict=True):
                if kind == "both":
                    first, second = torch.split(part, [width, WIDTH] if options["cat"] == "x, h" else [WIDTH, width], 1)
                    x, h = (first, second) if options["cat"] == "x, h" else (second, first)
                    parts.setdefault("w_x", {})[one], parts.setdefault("w_h", {})[one] = x, h
                else:
                    parts.setdefault({"x": "w_x", "h": "w_h"}.get(kind, kind), {})[one] = part
        return {
            name: torch.cat([parts[name][one] for one in letters]) if name in parts else None
            for name in ("w_x", "w_h", "b_x", "b_h")
        }

    return Bridge(read)
