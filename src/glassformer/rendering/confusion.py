"""What a classifier takes for what."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from glassformer.data.wording import counted
from glassformer.rendering.panels import Grid, Panel, Table
from glassformer.rendering.takeaways import leading
from glassformer.rendering.view import View
from glassformer.text.display import cut, quoted

MOST_NUMBERS = 30
"""Classes up to which a number fits into every cell; of more, the most frequent confusions stand in a table."""
MOST_CLASSES = 40
"""Classes of a confusion matrix; of more, those most often taken for others."""
MOST_NAMED = 12
"""Confusions in the table."""
MOST_LETTERS = 24
"""Letters of a class's name."""
NO_ERROR = "Nothing was taken for anything else"
MOST_OFTEN = {"one": "{name}: {times}", "several": "{leaders} confusions are the most frequent: {times} each"}


def draw_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, path: Path, title: str) -> None:
    """A picture of the confusion matrix; of many classes also which are most often taken for which others."""
    panels: list[Panel] = [confusion(labels, matrix)]
    if len(labels) > MOST_NUMBERS:
        panels.append(most_frequent(labels, matrix))
    View(title, panels).save(path)


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
        takeaway=_most_often(labels, matrix),
        values=counts[np.ix_(chosen, chosen)],
        rows=names,
        columns=names,
        row_name="true",
        column_name="predicted",
        numbers=len(names) <= MOST_NUMBERS,
        note=note,
    )


def _most_often(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> str:
    wrong = np.where(np.eye(len(labels), dtype=bool), 0, np.array(matrix))
    pairs = [f"{quoted(true)} is most often taken for {quoted(said)}" for true in labels for said in labels]
    return leading(pairs, wrong, MOST_OFTEN, times=counted(int(wrong.max()), "time")) if wrong.any() else NO_ERROR


def most_frequent(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Table:
    """Which classes are most often taken for which others."""
    names = [cut(label, MOST_LETTERS) for label in labels]
    wrong = np.where(np.eye(len(labels), dtype=bool), 0, np.array(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_NAMED]
    pairs = [divmod(int(place), len(labels)) for place in order]
    rows = [(names[true], names[said], int(wrong[true, said])) for true, said in pairs if wrong[true, said]]
    taken = _most_often(labels, matrix)
    return Table(
        title="The most frequent confusions", takeaway=taken, columns=["true", "predicted", "times"], rows=rows
    )
