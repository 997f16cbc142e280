"""Columns by which rows belong together: a split by chance would let a model know its test by heart (group leakage), or
judge the past by the future (time leakage)."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.config.presets import NUMBER
from glassformer.data.columns.heuristics import number_in
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.labels import label_columns
from glassformer.data.io.table import Table
from glassformer.data.split.base import Rows, number_values, time_of

FEWEST_ROWS = 50
"""Fewer rows tell nothing of groups."""
FEWEST_GROUPS = 10
"""Fewer groups are a property of rows, such as a category, and not where they come from."""
MORE_OFTEN = 0.1
"""Pairs of one group that agree so much more often than pairs at large deserve a word …"""
DEVIATIONS = 5.0
"""… if that is so many standard deviations more than with the labels shuffled …"""
SHUFFLES = 20
"""… so many times."""
PERIODS = 10
"""Stretches of time with as many rows each."""


def group_findings(table: Table, columns: Columns, labels: Sequence[str], rows: Sequence[int]) -> Iterator[str]:
    """One line for each column that is not read, but tells the label: by groups of rows, or by time. `labels`: those of
    `rows`."""
    if len(rows) < FEWEST_ROWS or not labels or columns.label is None:
        return
    answers = _answers(labels, columns.label_kind == NUMBER)
    read = {columns.text, *columns.also, *label_columns(table.name, columns.label, table.columns)}
    for name, cells in table.columns.items():
        values = [cells[row].strip() for row in rows]
        if name in read or not all(values):
            continue
        if (periods := _periods(values)) is not None:
            if _agreement(periods, answers) is not None:
                yield (
                    f"labels change with time (column '{name}'): --data.split_by {name} holds out the latest rows, as "
                    "in use"
                )
            continue
        groups = number_values(np.array(values))
        count = int(groups.max()) + 1
        if FEWEST_GROUPS <= count <= len(rows) / 2 and (shares := _agreement(groups, answers)) is not None:
            yield (
                f"rows alike in column '{name}' share their label more often than others ({shares[0]:.2f} against "
                f"{shares[1]:.2f}): if it says whose they are, --data.split_by {name} keeps them in one part"
            )


def _answers(labels: Sequence[str], are_numbers: bool) -> Rows:
    """The class of each label; of numbers, the quarter."""
    if not are_numbers:
        return number_values(np.array(labels))
    numbers = np.array([number_in(label) or 0.0 for label in labels])
    return np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers).astype(np.int64)


def _periods(values: Sequence[str]) -> Rows | None:
    """Which stretch of time each row is of; None, where the values are no dates."""
    if time_of(values[0]) is None:
        return None
    times = [time.timestamp() for value in values if (time := time_of(value)) is not None]
    if len(times) < len(values):
        return None
    ranks = number_values(np.array(times))
    return np.asarray(ranks * PERIODS // (int(ranks.max()) + 1))


def _agreement(groups: Rows, answers: Rows) -> tuple[float, float] | None:
    """How often two rows of one group have one answer, and two rows at large; None, where chance explains it."""

    def share(order: NDArray[np.int64]) -> float:
        together = np.unique(groups * (int(answers.max()) + 1) + answers[order], return_counts=True)[1]
        return float(_pairs(together) / _pairs(np.bincount(groups)))

    if not _pairs(np.bincount(groups)):
        return None
    chance = np.random.default_rng(0)
    inside, at_large = share(np.arange(len(answers))), _pairs(np.bincount(answers)) / _pairs(np.array([len(answers)]))
    shuffled = [share(chance.permutation(len(answers))) for _ in range(SHUFFLES)]
    if inside - at_large < MORE_OFTEN or inside - np.mean(shuffled) < DEVIATIONS * np.std(shuffled):
        return None
    return inside, float(at_large)


def _pairs(counts: NDArray[np.int64]) -> float:
    """Pairs within so many each."""
    return float((counts * (counts - 1.0)).sum())
