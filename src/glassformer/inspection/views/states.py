"""Hidden states after each token: states, cells and gates of recurrent layers, output vectors of other layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.bricks.capabilities import parts_with
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.inspection.capture import capture, numbers_of
from glassformer.inspection.views.registry import DECODING, LookRequest, leader, register_view, wording
from glassformer.rendering.panels import Frames, Grid, Line, Lines, Panel
from glassformer.rendering.takeaways import three
from glassformer.rendering.view import View
from glassformer.text.display import quoted

Units = Float[Array, "T d"]

MAX_UNITS = 48
"""Maximum number of units shown of a layer."""
STATE_NAMES: Mapping[str, str] = wording("states")
"""Name of the values that each letter denotes."""
GATES = set("ifozr")
"""Letters of the gates, whose values are between 0 and 1; all other values have a sign."""
BOUNDED = GATES | set("gn")
"""Letters of values whose magnitude is at most 1."""


@dataclass(frozen=True)
class LayerStates:
    """The values of one layer in one direction after every token, by letter."""

    name: str
    values: Mapping[str, Units]


@register_view("states", options=DECODING, quick=True, needs=lambda loaded: has_states(loaded.model))
def states(request: LookRequest) -> View:
    """Show the states of the encoder; for a translator, also those of the decoder."""
    example = request.example
    by_side = states_of(request.model, example.inputs)
    if not example.written:
        return states_view(example.tokens, by_side["encoder"])
    source = states_view(example.tokens, by_side["encoder"], side="Source · ")
    target = states_view(example.written, by_side["decoder"], side="Target · ")
    return View("States", [*source.panels, *target.panels])


@torch.inference_mode()
def states_of(model: nn.Module, inputs: Sequence[Any]) -> dict[str, list[LayerStates]]:
    """Return the states of each encoder of a model for the first example, by its path (`encoder`, `decoder`).

    Recurrent layers have h, and c and gates if the cell has them, for each direction separately. Other layers have
    their output vectors x.
    """
    encoders = {path: encoder.state_names() for path, encoder in parts_with(model, Encoder)}
    wanted = [
        f"{path}.{name}" for path, layers in encoders.items() for names in layers.values() for name in names.values()
    ]
    with capture(model, wanted) as seen:
        model(*inputs)
    return {
        path: [
            LayerStates(title, {letter: numbers_of(seen[f"{path}.{name}"][0]) for letter, name in names.items()})
            for title, names in layers.items()
        ]
        for path, layers in encoders.items()
    }


def has_states(model: nn.Module) -> bool:
    """Return whether a model has an encoder with states."""
    return any(encoder.has_states for _, encoder in parts_with(model, Encoder))


def states_view(tokens: Sequence[str], layers: Sequence[LayerStates], *, side: str = "", most: int = MAX_UNITS) -> View:
    """Return grids of units by tokens.

    Only the `most` units that vary most are shown of a wide layer. `side` is the prefix of all titles.
    """
    if not layers:
        raise Misuse("this model has no layers whose states could be looked at")
    pages = [_panels(tokens, layer.values, most, side) for layer in layers]
    if len(layers) == 1:
        return View(f"States: {layers[0].name}", pages[0])
    labels = [layer.name.removeprefix("layer ") for layer in layers]
    return View("States", [Frames(title=f"{side}layer by layer", name="layer", labels=labels, frames=pages)])


def most_varying(values: Units, most: int) -> list[int]:
    """Return the indices of the units whose values vary most over the tokens, in ascending order."""
    order = np.argsort(-values.astype(np.float64).var(0), kind="stable")[:most]
    return sorted(order.tolist())


def _panels(tokens: Sequence[str], values: Mapping[str, Units], most: int, side: str) -> list[Panel]:
    """Return a grid per letter and a chart of the gates; grids of the same width show the same units."""
    panels: list[Panel] = []
    chosen: dict[int, list[int]] = {}
    for letter, units in values.items():
        places = chosen.setdefault(units.shape[1], most_varying(units, most))
        panels.append(
            Grid(
                title=f"{side}{STATE_NAMES.get(letter, letter)}",
                takeaway=_takeaway(letter, tokens, units),
                values=units[:, places].T,
                rows=list(map(str, places)),
                columns=tokens,
                row_name="unit",
                column_name="token",
                signed=letter not in GATES,
                high=1.0 if letter in BOUNDED else None,
                note=f"{len(places)} of {units.shape[1]} units vary most" if len(places) < units.shape[1] else "",
            )
        )
    openness = {letter: units.mean(1).tolist() for letter, units in values.items() if letter in GATES}
    if openness:
        means = list(map(np.mean, openness.values()))
        takeaway = leader("most open gate", [f"Gate {letter}" for letter in openness], means)
        lines = [Line(name=name, x=list(range(len(y))), y=y, dots=True) for name, y in openness.items()]
        title, mean = f"{side}how open the gates are", "mean over all units"
        panels.append(Lines(title=title, takeaway=takeaway, series=lines, x_name="token", y_name=mean))
    return panels


def _takeaway(letter: str, tokens: Sequence[str], units: Units) -> str:
    """Return a sentence about the token at which a gate is most open, or about the unit that varies most."""
    if letter in GATES:
        return leader("most open token", list(map(quoted, tokens)), units.mean(1))
    reach = np.ptp(units, 0)
    if not reach.any():
        return "No unit changes from token to token"
    most = units[:, np.nan_to_num(reach).argmax()]
    names = [str(unit) for unit in range(units.shape[1])]
    return leader("most varying unit", names, reach, low=three(float(most.min())), high=three(float(most.max())))
