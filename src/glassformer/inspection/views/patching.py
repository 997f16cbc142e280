"""Activation patching: where in a model the answer to one text is held, and not that to another.

The vector that one text has after a layer, at one token, is put into the pass over the other. If the answer changes
with it, what decided was there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.requests import Example, ModelInput
from glassformer.inspection.capture import INPUT, capture, numbers_of
from glassformer.inspection.change import replace
from glassformer.inspection.intervene import intervene
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.models.modules import LanguageModel
from glassformer.rendering.panels import Grid, Table
from glassformer.rendering.view import View
from glassformer.text.display import chance, quoted

TOKENS_AT_ONCE = 2**14
"""Of the passes that are made together."""
MOST_NUMBERS = 24
"""Tokens up to which shares are written into the cells."""
LITTLE = 0.01
"""A share below this is none to speak of."""
NOTHING = 0.0005
"""A share below this is rounding."""
ROUNDING = 1e-5
"""Log-probabilities that differ by no more are equal."""


@register_view("patching", options=("versus",), needs=lambda loaded: isinstance(loaded.model, LanguageModel))
def patching(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view patching needs a second text: look RUN "A" --versus "B" --view patching')
    model, a, b = _model(request.loaded), request.example, request.encode(request.versus)
    before, there = chances_of(model, a.inputs), chances_of(model, b.inputs)
    allowed = there.clone()
    allowed[:, list(request.never)] = -torch.inf
    answer = int(allowed.argmax())
    layers, shares = restored(model, a, b, answer)
    return patching_view(
        a.tokens,
        b.tokens,
        layers,
        shares,
        answer=request.tokenizer.shown(answer),
        chances=(float(before[0, answer].exp()), float(there[0, answer].exp())),
    )


# --- the numbers ---


class Patched(NamedTuple):
    """The probabilities of the next token, as they are, and with what was put in."""

    before: Float[Array, "V"]
    after: Float[Array, "V"]


def patch(
    loaded: Loaded, text: Example, other_text: Example, layer: int | None, position: int | Sequence[int]
) -> Patched:
    """What a language model expects after `text`, and what it expects if after a layer (None: before the first) the
    tokens at some positions have the vectors that they have in `other_text`.
    """
    model, (a, b) = _model(loaded), [encode_example(loaded, one) for one in (text, other_text)]
    states = _states(model, a, b)
    number = 0 if layer is None else layer + 1
    if not 0 <= number < len(states):
        raise Misuse(f"there is no layer {layer}: this model has {len(states) - 1}, from 0 on")
    positions = [position] if isinstance(position, int) else list(position)
    if not all(0 <= one < len(a.tokens) for one in positions):
        raise Misuse(f"there is no position {max(positions)}: these texts have {len(a.tokens)} tokens, from 0 on")
    chosen = torch.zeros(1, len(a.tokens), dtype=torch.bool)
    chosen[0, positions] = True
    both = chances_of(model, a.inputs), _patched(model, a.inputs, states[number], chosen)
    return Patched(*(numbers_of(chances[0].exp()) for chances in both))


def restored(model: LanguageModel, a: ModelInput, b: ModelInput, answer: int) -> tuple[list[str], Float[Array, "L T"]]:
    """By layer and token: how much of the difference of the answer's log-probability after the two texts is there, if
    that token has the vector of `b` in the pass over `a`. All of it is 1.
    """
    states = _states(model, a, b)
    before, there = (chances_of(model, one.inputs)[0, answer] for one in (a, b))
    one_each = torch.eye(len(a.tokens), dtype=torch.bool)
    layers = [INPUT, *(f"layer {number}" for number in range(len(states) - 1))]
    gained = torch.stack([_patched(model, a.inputs, layer, one_each)[:, answer] - before for layer in states])
    if (there - before).abs() <= ROUNDING:
        return layers, np.zeros(gained.shape, np.float32)
    return layers, numbers_of(gained / (there - before))


@torch.inference_mode()
def chances_of(model: LanguageModel, inputs: Sequence[Any]) -> Float[Tensor, "B V"]:
    """The log-probabilities of what comes after the last token."""
    return model.head(model.features(*inputs)[:, -1]).float().log_softmax(-1)


@torch.inference_mode()
def _states(model: LanguageModel, a: ModelInput, b: ModelInput) -> list[dict[str, Tensor]]:
    """What `b` has before the first layer and after each, by the names that it is captured by."""
    if len(a.tokens) != len(b.tokens):
        raise Misuse(
            f"the two texts must have as many tokens, not {len(a.tokens)} and {len(b.tokens)}: what one has at a "
            "token is put into the other at the same place"
        )
    layers = [[f"encoder.{name}" for name in names] for names in model.encoder.layer_outputs()]
    with capture(model, [name for names in layers for name in names]) as seen:
        chances_of(model, b.inputs)
        return [{name: seen[name] for name in names} for names in layers]


@torch.inference_mode()
def _patched(
    model: LanguageModel, inputs: Sequence[Any], states: Mapping[str, Tensor], chosen: Bool[Tensor, "R T"]
) -> Float[Tensor, "R V"]:
    """For each row the log-probabilities of what comes next, if these tokens have those states."""
    found = []
    for some in torch.split(chosen, max(1, TOKENS_AT_ONCE // chosen.shape[1])):
        with intervene(model, {name: replace(other, positions=some) for name, other in states.items()}):
            found.append(chances_of(model, [one if one is None else one.expand(len(some), -1) for one in inputs]))
    return torch.cat(found)


def _model(loaded: Loaded) -> LanguageModel:
    if not isinstance(loaded.model, LanguageModel):
        raise Misuse(f"{loaded.run.path} is no language model: patching asks what comes next")
    return loaded.model


# --- the view ---


def patching_view(
    tokens: Sequence[str],
    others: Sequence[str],
    layers: Sequence[str],
    shares: Float[Array, "L T"],
    *,
    answer: str,
    chances: tuple[float, float],
    title: str = "Where the answer is held",
) -> View:
    """`chances`: the probability of the answer after the first text, and after the second."""
    columns = [one if one == other else f"{one} → {other}" for one, other in zip(tokens, others, strict=True)]
    shares = np.where(np.abs(shares) < NOTHING, 0, shares)
    first, second = chances
    note = (
        f"After the second text {quoted(answer)} is the likeliest token ({chance(second)}); after the first it has "
        f"{chance(first)}."
    )
    earlier = shares[:, :-1]  # at the last token all of it must arrive
    if not shares.any():
        note += " Nothing that is put in changes that."
    elif earlier.size and earlier.max() >= LITTLE:
        layer, place = divmod(int(earlier.argmax()), earlier.shape[1])
        where = "at the input" if layers[layer] == INPUT else f"after {layers[layer]}"
        note += (
            f" Of the vectors before the last token, the one {where} at {quoted(columns[place])} (position {place}) "
            f"brings most of the difference: {earlier[layer, place]:.0%}."
        )
    else:
        note += " All of the difference is in the last token: no vector before it brings any."
    answers = Table(
        title="the likeliest answer to the second text",
        columns=("answer", "first text", "second text"),
        rows=[(answer, *chances)],
        bars=("first text", "second text"),
    )
    grid = Grid(
        title="how much of the answer each vector brings along",
        values=shares,
        rows=list(layers),
        columns=columns,
        row_name="layer",
        column_name="token",
        signed=True,
        numbers=len(columns) <= MOST_NUMBERS,
        formula="(log p with the vector - log p of the first text) / (log p of the second - log p of the first)",
        note="1: the first text answers as the second does; 0: nothing changes; below 0: the answer is less likely",
    )
    return View(title, [grid, answers], note)
