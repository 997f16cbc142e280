"""What a classifier takes for what."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.wording import counted
from glassformer.rendering.panels import Grid
from glassformer.rendering.view import View
from glassformer.text.display import cut, quoted

MOST_NUMBERS = 30
"""Classes up to which a number fits into every cell; of more, the cells are only shaded."""
MOST_CLASSES = 40
"""Classes of a confusion matrix; of more, those most often taken for others."""
MOST_LETTERS = 24
"""Letters of a class's name."""


def draw_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, path: Path, title: str) -> None:
    """Write a picture of the confusion matrix."""
    View(title, [confusion(labels, matrix)]).save(path)


def confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Grid:
    """True classes down, predicted ones across, with counts; of many classes those with most errors."""
    counts = np.array(matrix, dtype=np.float64)
    note = "Rows are what is true, columns what was predicted."
    chosen = list(range(len(labels)))
    if len(labels) > MOST_CLASSES:
        wrong = counts.sum(0) + counts.sum(1) - 2 * np.diag(counts)
        chosen = sorted(np.argsort(-wrong, kind="stable")[:MOST_CLASSES].tolist())
        note += f" Of {len(labels):,} classes, the {MOST_CLASSES} with most errors."
    names = [cut(labels[place], MOST_LETTERS) for place in chosen]
    return Grid(
        title="What was taken for what",
        takeaway=_most_often(labels, counts),
        values=counts[np.ix_(chosen, chosen)],
        rows=names,
        columns=names,
        row_name="true",
        column_name="predicted",
        numbers=len(names) <= MOST_NUMBERS,
        note=note,
    )


def _most_often(labels: Sequence[str], counts: NDArray[np.float64]) -> str:
    """Return the most frequent confusion; the first one of several."""
    wrong = counts - np.diag(np.diag(counts))
    if not wrong.any():
        return "Nothing was taken for anything else"
    true, predicted = divmod(int(wrong.argmax()), len(labels))
    pair = f"{quoted(labels[true])} is most often taken for {quoted(labels[predicted])}"
    return f"{pair}: {counted(int(wrong.max()), 'time')}"
