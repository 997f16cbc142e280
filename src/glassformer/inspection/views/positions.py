"""View of the position encoding of a model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.bricks.capabilities import parts_with
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.inspection.capture import numbers_of
from glassformer.inspection.views.registry import LookRequest, register_view, sentence, wording
from glassformer.inspection.views.word_vectors import cosine_grid, cosines
from glassformer.rendering.panels import Grid, Line, Lines
from glassformer.rendering.takeaways import course
from glassformer.rendering.view import View

ROTARY = "rotary"
FORMULAS: Mapping[str, str] = wording("position formulas")
SCORE = "score q·k, as a share of that at distance 0"
SHOWN_POSITIONS = 64
"""Maximum number of positions that are shown."""
SCALED_SHARE, OUTLIER_FACTOR = 0.99, 4
"""If the largest magnitude exceeds this quantile by more than this factor, the colour scale ends at the quantile."""


@register_view("positions", texts="none", needs=lambda loaded: encoder_with_positions(loaded.model) is not None)
def positions(request: LookRequest) -> View:
    return positions_view(*position_vectors(request.model, SHOWN_POSITIONS))


def encoder_with_positions(model: nn.Module) -> Encoder | None:
    """Return the first encoder of a model (or the model, if it is an encoder) with positions; None if there is none."""
    encoders = (encoder for _, encoder in parts_with(model, Encoder))
    return next((encoder for encoder in encoders if encoder.position_encoding() is not None), None)


@torch.inference_mode()
def position_vectors(model: nn.Module, count: int) -> tuple[str, Float[Array, "T d"]]:
    """Return the kind of the position encoding of a model, and at most `count` of its vectors.

    They are the vectors that are added at each position. For rotary positions, they hold the cosines of the angles by
    which each pair of numbers is rotated.
    """
    encoder = encoder_with_positions(model)
    encoding = None if encoder is None else encoder.position_encoding()
    if encoder is None or encoding is None:
        raise Misuse("this model is told no positions: to attention without them, a text is a bag of words")
    device = next(encoder.parameters(), torch.empty(0)).device
    positions = torch.arange(min(count, encoding.limit or count), device=device)
    return encoding.kind, numbers_of(encoding.vectors(positions, encoder.width))


def positions_view(kind: str, vectors: Float[Array, "T d"]) -> View:
    """Return the vectors of the positions, and the similarity of two positions by distance."""
    rotary = kind == ROTARY
    high = _scale_end(vectors)
    grid = Grid(
        title="How far each pair has turned: the cosine of its angle" if rotary else "One row per position",
        values=vectors,
        rows=list(map(str, range(len(vectors)))),
        columns=list(map(str, range(vectors.shape[1]))),
        row_name="position",
        column_name="pair" if rotary else "number",
        signed=True,
        high=high,
        formula=FORMULAS.get(kind, ""),
        note="" if high is None else sentence("beyond the scale", largest=np.abs(vectors).max()),
    )
    title = f"Positions: {kind}"
    if rotary:
        by_score = _by_distance(vectors.mean(1), "The score of a query and a key by their distance", SCORE)
        return View(title, [replace(by_score, note=sentence("rotary score")), grid], sentence("rotary"))
    alike = cosines(vectors)
    falls = np.array([alike.diagonal(distance).mean() for distance in range(len(alike))])
    names: dict[str, Any] = {"row_name": "position", "column_name": "position", "numbers": False}
    by_pair = cosine_grid("How alike two positions are", grid.rows, vectors, **names)
    return View(title, [grid, by_pair, _by_distance(falls, "By distance: mean over all pairs", "cosine")])


def _by_distance(falls: Float[Array, "T"], title: str, name: str) -> Lines:
    """Return a chart of a value by the distance between two positions."""
    told = f"From 1 token to {len(falls) - 1} the {name.split()[0]} {course(falls[1:].tolist())}"
    line = Line(name=name, x=[float(distance) for distance in range(len(falls))], y=falls.tolist())
    takeaway = told if len(falls) > 2 else ""
    return Lines(title=title, takeaway=takeaway, series=[line], x_name="distance in tokens", y_name=name)


def _scale_end(vectors: Float[Array, "T d"]) -> float | None:
    """Return the end of the colour scale if a few outliers would hide the other numbers, else None."""
    sizes = np.abs(vectors)
    nearly_all = float(np.quantile(sizes, SCALED_SHARE))
    return nearly_all if 0 < nearly_all < sizes.max() / OUTLIER_FACTOR else None
