"""Confusion matrix of a classifier."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.wording import counted
from glassformer.rendering.panels import Grid
from glassformer.rendering.view import View
from glassformer.text.display import cut, quoted

MAX_NUMBERED_CLASSES = 30
"""Maximum number of classes with a number in every cell; larger matrices are only shaded."""
MAX_CLASSES = 40
"""Maximum number of classes of a confusion matrix; of more, those with the most errors."""
MAX_NAME_CHARS = 24
"""Maximum length of a class name."""


def draw_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, path: Path, title: str) -> None:
    """Write a picture of the confusion matrix."""
    View(title, [confusion(labels, matrix)]).save(path)


def confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Grid:
    """Return the confusion matrix with true classes as rows and predicted classes as columns.

    Of many classes it has those with the most errors.
    """
    counts = np.array(matrix, dtype=np.float64)
    note = "Rows are what is true, columns what was predicted."
    chosen = list(range(len(labels)))
    if len(labels) > MAX_CLASSES:
        wrong = counts.sum(0) + counts.sum(1) - 2 * np.diag(counts)
        chosen = sorted(np.argsort(-wrong, kind="stable")[:MAX_CLASSES].tolist())
        note += f" Of {len(labels):,} classes, the {MAX_CLASSES} with most errors."
    names = [cut(labels[index], MAX_NAME_CHARS) for index in chosen]
    return Grid(
        title="What was taken for what",
        takeaway=_most_often(labels, counts),
        values=counts[np.ix_(chosen, chosen)],
        rows=names,
        columns=names,
        row_name="true",
        column_name="predicted",
        numbers=len(names) <= MAX_NUMBERED_CLASSES,
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
