"""Activation patching: where in a model the answer to one text is held, and not that to another."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.capture import INPUT
from glassformer.inspection.patching import chances_of, classes_of, has_patches, reading_place, restored
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.rendering.panels import Grid, Table
from glassformer.rendering.takeaways import leaders, listed, three
from glassformer.rendering.view import View
from glassformer.text.display import chance, quoted

MOST_NUMBERS = 24
"""Tokens up to which shares are written into the cells."""
NOTICEABLE = 0.05
"""Probabilities that differ by less are as good as the same."""
LITTLE, MUCH = 0.01, 0.5
"""A share below this is none to speak of; from this on a vector carries the answer."""
NOTHING = 0.0005
"""A share below this is rounding."""


@register_view("patching", options=("versus",), needs=has_patches)
def patching(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view patching needs a second text: look RUN "A" --versus "B" --view patching')
    loaded, a, b = request.loaded, request.example, request.encode(request.versus)
    before, there = chances_of(loaded, a.inputs), chances_of(loaded, b.inputs)
    classes = classes_of(loaded)
    allowed = there.clone()
    if classes is None:
        allowed[:, list(request.never)] = -torch.inf
    answer = int(allowed.argmax())
    layers, shares = restored(loaded, a, b, answer)
    return patching_view(
        a.tokens,
        b.tokens,
        layers,
        shares,
        answer=request.tokenizer.shown(answer) if classes is None else classes.names[answer],
        chances=(float(before[0, answer].exp()), float(there[0, answer].exp())),
        reads=reading_place(loaded.model, len(a.tokens)),
        said=f"the likeliest {'token' if classes is None else 'class'}",
    )


def patching_view(
    tokens: Sequence[str],
    others: Sequence[str],
    layers: Sequence[str],
    shares: Float[Array, "L T"],
    *,
    answer: str,
    chances: tuple[float, float],
    reads: int | None = None,
    said: str = "the likeliest token",
    title: str = "Where the answer is held",
) -> View:
    """`chances`: the probability of the answer to the first text, and to the second; `reads`: the place of the one
    token that the answer is read from; `said`: what the answer is to the second text.
    """
    columns = [one if one == other else f"{one} → {other}" for one, other in zip(tokens, others, strict=True)]
    shares = np.where(np.abs(shares) < NOTHING, 0, shares)
    first, second = chances
    note = f"For the second text {quoted(answer)} is {said} ({chance(second)}); for the first it has {chance(first)}."
    elsewhere = shares.copy()
    if reads is not None:
        elsewhere[:, reads] = 0.0  # there all of it must arrive
    if not shares.any():
        note += " Nothing that is put in changes that."
    elif elsewhere.max() >= LITTLE:
        layer, place = divmod(int(elsewhere.argmax()), elsewhere.shape[1])
        where = _after(layers[layer]).lower()
        of = "Of all vectors" if reads is None else "Of the vectors at other tokens than the one that is read"
        note += (
            f" {of}, the one {where} at {quoted(columns[place])} (position {place}) brings most of the difference: "
            f"{elsewhere[layer, place]:.0%}."
        )
    elif reads is None:
        note += " No one vector brings any of the difference."
    else:
        note += f" All of the difference is in {quoted(columns[reads])}: no vector elsewhere brings any."
    answers = Table(
        title="the likeliest answer to the second text",
        takeaway=f"{quoted(answer)} has {three(first)} in the first text, {three(second)} in the second",
        columns=("answer", "first text", "second text"),
        rows=[(answer, *chances)],
        bars=("first text", "second text"),
    )
    grid = Grid(
        title="how much of the answer each vector brings along",
        takeaway=_carries(shares, elsewhere, columns, layers, reads)
        if abs(first - second) >= NOTICEABLE or not shares.any()
        else f"The two answers hardly differ ({three(first)} and {three(second)}): there is little to bring along",
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


def _carries(
    shares: Float[Array, "L T"],
    others: Float[Array, "L T"],
    columns: Sequence[str],
    layers: Sequence[str],
    reads: int | None,
) -> str:
    """The last layer after which a token other than the one that is read still carries the answer."""
    if not shares.any():
        return "Nothing that is put in changes the answer"
    inside = others[1:] if len(layers) > 1 else others
    names = list(layers[1:] if len(layers) > 1 else layers)
    if inside.max() < LITTLE:
        where = (
            "No one vector brings the answer" if reads is None else f"all of the answer is at {quoted(columns[reads])}"
        )
        return where if reads is None else f"{_after(names[0])} {where}"
    still = [number for number, row in enumerate(inside) if row.max() >= MUCH]
    at = still[-1] if still else int(inside.max(1).argmax())
    first = leaders(inside[at])
    verb = (
        ("carries" if len(first) == 1 else "each carry") if still else ("brings" if len(first) == 1 else "each bring")
    )
    what = "the answer" if still else "most of it"
    return (
        f"{_after(names[at])} {listed([quoted(columns[one]) for one in first])} {verb} {what} ({inside[at].max():.0%})"
    )


def _after(layer: str) -> str:
    return "At the input" if layer == INPUT else f"After {layer}"
