"""What a network holds while it reads: states, cells and gates of recurrent layers, the vectors that others give."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.arrays import numbers_of
from glassformer.rendering.panels import Frames, Grid, Line, Lines, Panel
from glassformer.rendering.view import View

Units = Float[Array, "T d"]

SEEN = (
    "*.layers.*.states", "*.layers.*.cells", "*.layers.*.gates.*", "*.around.*.output", "*.blocks.*.output",
    "encoder.output", "decoder.output",
)  # fmt: skip
"""What to capture for `states_of`."""
MOST = 48
"""Units shown of a layer."""
NAMES = {
    "h": "state h",
    "c": "cell c",
    "i": "gate i: what is let in",
    "f": "gate f: what is kept",
    "g": "candidate g",
    "o": "gate o: what is let out",
    "r": "gate r: what of the past is read",
    "z": "gate z: what of the past is kept",
    "n": "candidate n",
    "x": "vectors",
}
GATES = "ifozr"
"""From 0 to 1; all else has a sign."""


@dataclass(frozen=True)
class LayerStates:
    """One layer, one way, after every token: by letter, T×d."""

    name: str
    values: Mapping[str, Units]


def states_of(seen: Mapping[str, Tensor], prefix: str = "encoder") -> list[LayerStates]:
    """Layer by layer what was captured of an encoder, for the first example.

    Recurrent layers: h, with c and gates where they have them, each way by itself; others: the vectors x they give.
    Empty: this model has no such part.
    """
    layers: dict[str, dict[str, Units]] = {}
    start = re.escape(prefix)
    for name, tensor in _named(seen, rf"{start}\.layers\.(\d+)(\.back)?\.(states|cells|gates\.\w)"):
        number, back, what = name.groups()
        letter = {"states": "h", "cells": "c"}.get(what, what[-1])
        layers.setdefault(f"layer {number}{', backwards' if back else ''}", {})[letter] = numbers_of(tensor[0])
    for name, tensor in _named(seen, rf"{start}\.(?:around|blocks)\.(\d+)\.output"):
        layers[f"layer {name[1]}"] = {"x": numbers_of(tensor[0])}
    if not layers and f"{prefix}.output" in seen:
        layers["output"] = {"x": numbers_of(seen[f"{prefix}.output"][0])}
    return [LayerStates(name, values) for name, values in layers.items()]


def states_view(
    tokens: Sequence[str], layers: Sequence[LayerStates], *, title: str = "States", side: str = "", most: int = MOST
) -> View:
    """Units down, tokens across; of a wide layer those units that change most from token to token.

    `side`: of a translator, Source or Target: what its panels' titles and the note begin with.
    """
    if not layers:
        raise Misuse("this model has no layers whose states could be looked at")
    of = f"{side} · " if side else ""
    pages = [_panels(tokens, layer.values, most, of) for layer in layers]
    widest = max(values.shape[1] for layer in layers for values in layer.values.values())
    said = f"{side}: {len(tokens)} tokens" if side else f"{len(tokens)} tokens"
    if widest > most:
        said += f"; of up to {widest} units in a layer, those {most} whose values vary most over the tokens"
    if len(layers) == 1:
        return View(f"{title}: {of}{layers[0].name}", pages[0], f"{said}.")
    frames = Frames(
        title=f"{of}layer by layer" if side else "",
        name="layer",
        labels=[layer.name.removeprefix("layer ") for layer in layers],
        frames=pages,
    )
    return View(f"{title}: {side}" if side else title, [frames], f"{said}.")


def most_varying(values: Units, most: int) -> list[int]:
    """The units whose values vary most over the tokens, in their own order."""
    order = np.argsort(-values.astype(np.float64).var(0), kind="stable")[:most]
    return sorted(order.tolist())


def _panels(tokens: Sequence[str], values: Mapping[str, Units], most: int, of: str) -> list[Panel]:
    """A grid for each letter; units of one width are the same ones in all of them, chosen by what comes first."""
    panels: list[Panel] = []
    chosen: dict[int, list[int]] = {}
    for letter, units in values.items():
        places = chosen.setdefault(units.shape[1], most_varying(units, most))
        gate = letter in GATES
        high = 1.0 if gate or letter in "gn" else None
        panels.append(
            Grid(
                title=f"{of}{NAMES[letter]}",
                values=units[:, places].T,
                rows=[str(place) for place in places],
                columns=tokens,
                row_name="unit",
                column_name="token",
                signed=not gate,
                high=high,
                note=f"{len(places)} of {units.shape[1]} units" if len(places) < units.shape[1] else "",
            )
        )
    gates = [letter for letter in values if letter in GATES]
    if gates:
        panels.append(
            Lines(
                title=f"{of}how open the gates are",
                series=[_mean(letter, values[letter]) for letter in gates],
                x_name="token",
                y_name="mean over all units",
            )
        )
    return panels


def _mean(letter: str, units: Units) -> Line:
    return Line(name=letter, x=list(range(len(units))), y=units.mean(1).tolist(), dots=True)


def _named(seen: Mapping[str, Tensor], pattern: str) -> list[tuple[re.Match[str], Tensor]]:
    found = ((re.fullmatch(pattern, name), name) for name in seen)
    return [(match, seen[name]) for match, name in found if match is not None]
