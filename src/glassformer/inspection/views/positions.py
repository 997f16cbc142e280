"""What a Transformer is told of the order of its tokens."""

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.inspection.capture import numbers_of
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.inspection.views.word_vectors import COSINE, cosines
from glassformer.rendering.panels import Grid, Line, Lines, Panel
from glassformer.rendering.takeaways import course, leaders, three
from glassformer.rendering.view import View

SINE, HALVES, LEARNED, ONEHOT, ROTARY = "sine", "sine-halves", "learned", "onehot", "rotary"

FORMULAS = {
    SINE: "PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i+1) = cos(t / 10000^(2i/d))",
    HALVES: "PE(t, i) = sin(t / 10000^(2i/d)), PE(t, d/2 + i) = cos(t / 10000^(2i/d))",
    LEARNED: "row t of a learned table, added to the word vector at t",
    ONEHOT: "the columns of W that the one-hot vector of t picks out of W [x; onehot(t)]",
    ROTARY: "cos(t θᵢ)",
}

SHOWN = 64
"""Positions that are shown."""
NEARLY_ALL, FAR_LARGER = 0.99, 4
"""The share of learned positions' numbers that a scale is made for where some are so many times as large."""


@register_view("positions", texts="none", needs=lambda loaded: encoder_with_positions(loaded.model) is not None)
def positions(request: LookRequest) -> View:
    encoder = encoder_with_positions(request.model)
    assert encoder is not None
    return positions_view(*position_vectors(encoder, min(SHOWN, encoder.limit or SHOWN)))


def encoder_with_positions(model: nn.Module) -> Encoder | None:
    """The first part of a model, the model itself or its encoder or decoder, that is told positions."""
    for part in (model, getattr(model, "encoder", None), getattr(model, "decoder", None)):
        if isinstance(part, Encoder) and part.position_encoding() is not None:
            return part
    return None


@torch.inference_mode()
def position_vectors(model: nn.Module, count: int) -> tuple[str, Float[Array, "T d"]]:
    """The kind of positions that an encoder is told, or a model's encoder or decoder, and the first of them.

    What each adds to a vector; rotary: the cosine of the angle by which it turns each pair of numbers.
    """
    encoder = encoder_with_positions(model)
    encoding = None if encoder is None else encoder.position_encoding()
    if encoder is None or encoding is None:
        raise Misuse("this model is told no positions: to attention without them, a text is a bag of words")
    if count < 1:
        raise Misuse(f"{count} positions are none to look at")
    device = next(encoder.parameters(), torch.empty(0)).device
    if encoding.limit is not None and count > encoding.limit:
        raise Misuse(f"this model knows {encoding.limit:,} positions (model.context), not {count:,}")
    return encoding.kind, numbers_of(encoding.vectors(torch.arange(count, device=device), encoder.width))


def positions_view(kind: str, vectors: Float[Array, "T d"]) -> View:
    """The vectors of the positions, and how alike two positions are, by their distance."""
    names = [str(position) for position in range(len(vectors))]
    columns = [str(number) for number in range(vectors.shape[1])]
    most = _most(vectors)
    note = "" if most is None else f"A few numbers are beyond the scale's ends, up to {np.abs(vectors).max():.3g}."
    title = "How far each pair has turned: the cosine of its angle" if kind == ROTARY else "One row a position"
    panels: list[Panel] = [
        Grid(
            title=title,
            takeaway=_fastest(kind, vectors),
            values=vectors,
            rows=names,
            columns=columns,
            row_name="position",
            column_name="pair" if kind == ROTARY else "number",
            signed=True,
            high=most,
            formula=FORMULAS.get(kind, ""),
            note=note,
        )
    ]
    if kind == ROTARY:
        falls = vectors.mean(1)
        how = (
            "Of a query and a key that are equal, and all of whose pairs are equally long. Pairs that turn fast tell "
            "neighbours apart, slow ones what is near from what is far."
        )
    else:
        alike = cosines(vectors)
        panels.append(
            Grid(
                title="How alike two positions are",
                takeaway=_alike(alike),
                values=alike,
                rows=names,
                columns=names,
                row_name="position",
                column_name="position",
                signed=True,
                high=1.0,
                formula=COSINE,
            )
        )
        falls = np.array([alike.diagonal(distance).mean() for distance in range(len(alike))])
        how = "Mean over all pairs of positions that far apart"
    name = "score q·k, as a share of that at distance 0" if kind == ROTARY else "cosine"
    line = Line(name=name, x=[float(distance) for distance in range(len(falls))], y=falls.tolist())
    title = "The score of a query and a key by their distance" if kind == ROTARY else "By distance"
    what = "score" if kind == ROTARY else "cosine"
    told = f"From 1 token to {len(falls) - 1} the {what} {course(falls[1:].tolist())}" if len(falls) > 2 else ""
    by_distance = Lines(title=title, takeaway=told, series=[line], x_name="distance in tokens", y_name=name, note=how)
    panels.insert(0 if kind == ROTARY else len(panels), by_distance)
    return View(f"Positions: {kind}", panels, _in_words(kind, falls))


def _fastest(kind: str, vectors: Float[Array, "T d"]) -> str:
    """Which column changes most from one position to the next."""
    if len(vectors) < 2:
        return "One position: nothing changes"
    steps = np.abs(np.diff(vectors, axis=0)).mean(0)
    first = leaders(steps)
    if not first:
        return ""
    if len(first) == len(steps):
        return "All numbers change alike from one position to the next"
    name = "Pair" if kind == ROTARY else "Number"
    slow = int(steps.argmin())
    return f"{name} {first[0]} changes most from one position to the next, {name.lower()} {slow} least"


def _alike(alike: Float[Array, "T T"]) -> str:
    if len(alike) < 2:
        return "One position: there is nothing to compare it with"
    others = np.where(np.eye(len(alike), dtype=bool), np.nan, alike)
    first = leaders(others)
    if not first:
        return ""
    if len(first) == others.size - len(alike):
        return f"Any two positions are as alike as any others (cosine {three(float(np.nanmax(others)))})"
    one, other = divmod(first[0], len(alike))
    return f"Positions {one} and {other} are the most alike (cosine {three(float(others[one, other]))})"


def _most(vectors: Float[Array, "T d"]) -> float | None:
    """Where the scale ends: where nearly all numbers do, if a few are so large that the others would not be seen."""
    sizes = np.abs(vectors)
    nearly_all = float(np.quantile(sizes, NEARLY_ALL))
    return nearly_all if 0 < nearly_all < sizes.max() / FAR_LARGER else None


def _in_words(kind: str, falls: Float[Array, "T"]) -> str:
    if len(falls) < 3:
        return ""
    far = len(falls) // 2
    if kind == ROTARY:
        return (
            "Rotary positions add nothing to a vector. They turn each pair of numbers in a query or a key by an angle "
            "that grows with its position, so that the score q·k depends on how far apart the two stand, not on where. "
            f"Of two that are equal, {falls[1]:.0%} of the score is left at a distance of 1, {falls[far]:.0%} at {far}."
        )
    return f"Neighbouring positions have a cosine of {falls[1]:.2f} on average, those {far} apart of {falls[far]:.2f}."
