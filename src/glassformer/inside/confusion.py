"""What a classifier takes for what."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import Normalize

from glassformer.inside.drawing import save
from glassformer.inside.drawing.cells import MOST_WIDTH, Cells, cells
from glassformer.inside.drawing.colours import GREY, UP
from glassformer.inside.drawing.lettering import HEADING, SMALL, any_letter, shown
from glassformer.inside.drawing.sheet import Block, paragraph, picture, stack
from glassformer.inside.drawing.written import table
from glassformer.inside.panels import Table

MOST_NUMBERS = 30
"""Classes up to which a number fits into every cell; of more, the most frequent confusions stand in a table."""
MOST_NAMED = 12
"""Confusions in the table."""
LEAST_ROOM = 4.0
"""Inches for a title, however few classes there are."""


def draw_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, path: Path, title: str) -> None:
    """True classes down, predicted ones across; a cell's shade is its share of the true class, its number the count."""
    counts = np.array(matrix)
    few = len(labels) <= MOST_NUMBERS
    what = Cells(
        values=counts / np.maximum(counts.sum(1, keepdims=True), 1),
        rows=labels,
        columns=labels,
        row_name="true",
        column_name="predicted",
        scale=Normalize(0, 1),
        colours=UP,
        written=[[f"{count:,}" for count in row] for row in counts.tolist()] if few else None,
    )
    with any_letter():
        body = cells(what)
        room = max(body.width, LEAST_ROOM)
        blocks = [
            paragraph(title, room, HEADING, bold=True, lines=2),
            paragraph("the darker, the larger the share of the true class", room, SMALL, colour=GREY),
            body,
        ]
        save(picture(stack(blocks if few else [*blocks, _most_frequent(labels, counts)], 0.12)), path)


def _most_frequent(labels: Sequence[str], counts: np.ndarray) -> Block:
    """Which classes are most often taken for which others."""
    wrong = np.where(np.eye(len(labels), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_NAMED]
    pairs = [divmod(int(place), len(labels)) for place in order]
    rows: list[tuple[str, str, int]] = [
        (shown(labels[true]), shown(labels[said]), int(wrong[true, said])) for true, said in pairs if wrong[true, said]
    ]
    found = table(Table(columns=["true", "predicted", "times"], rows=rows), MOST_WIDTH)
    return stack([paragraph("the most frequent confusions", MOST_WIDTH, bold=True), found])
