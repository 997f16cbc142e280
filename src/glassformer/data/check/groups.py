"""Columns that link rows: with a random split by row, groups leak into the test set, or the future into training."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glassformer.config.presets import NUMBER
from glassformer.config.sentences import sentence
from glassformer.data.columns.dates import are_other_dates, times_of
from glassformer.data.columns.heuristics import number_in
from glassformer.data.columns.inference import Columns, lacks_label
from glassformer.data.columns.schema import LIKE_NAMES
from glassformer.data.io.table import Table, text_parts
from glassformer.data.order import Ints

MIN_ROWS = 50
"""Minimum number of rows for findings on groups."""
MIN_GROUPS = 10
"""Minimum number of groups; fewer are a category of rows, not their origin."""
MIN_EXCESS = 0.1
"""Minimum agreement of rows of one group above that of any two rows."""
MIN_DEVIATIONS = 5.0
"""Minimum agreement above that with shuffled labels, in standard deviations of the shuffles."""
SHUFFLES = 20
"""Number of shuffles."""
OWNER_NAMES = ("customer", "client", "user", "patient", "person", "subject", "author", "speaker", "account", "student")
"""Names of columns that identify the owner of a row; reported even if the run reads the column."""
MAX_ROWS = 50_000
"""Maximum number of rows to examine."""
PERIODS = 10
"""Number of periods with equally many rows."""


def group_findings(table: Table, columns: Columns, labels: Sequence[str], rows: Sequence[int]) -> Iterator[str]:
    """Yield a finding for each column that predicts the label: by groups of rows, if it is not read, or by time.

    `labels`: the labels of `rows`.
    """
    if columns.label is None:
        return
    labelled = [place for place, label in enumerate(labels) if not lacks_label(label, columns.label_kind)][:MAX_ROWS]
    rows, labels = [rows[place] for place in labelled], [labels[place] for place in labelled]
    if len(rows) < MIN_ROWS:
        return
    if columns.label_kind == NUMBER:
        agreement = partial(_number_agreement, ranks=_ranks(labels))
    else:
        agreement = partial(_agreement, answers=_numbered(labels))
    names = table.columns.keys()
    read = {*text_parts(columns.text, names), *columns.also, *text_parts(columns.label, names)}
    for name, cells in table.columns.items():
        is_read = name in read and name.lower() not in OWNER_NAMES
        is_text = columns.unread.get(name, "").endswith(LIKE_NAMES)
        if is_text or (is_read and name not in columns.dates):
            continue
        values = [cells[row].strip() for row in rows]
        if not all(values):
            continue
        if (periods := _periods(values)) is not None:
            if agreement(periods) is not None:
                yield sentence(__name__, "labels in time", name=name)
            continue
        if is_read or are_other_dates(values):
            continue
        groups = _numbered(values)
        count = int(groups.max()) + 1
        if MIN_GROUPS <= count <= len(rows) / 2 and (shares := agreement(groups)) is not None:
            how = "correlated labels" if columns.label_kind == NUMBER else "share labels"
            alike = sentence(__name__, how, inside=shares[0], at_large=shares[1])
            yield sentence(__name__, "group", name=name, alike=alike)


def _ranks(labels: Sequence[str]) -> NDArray[np.float64]:
    """Return the rank of each number, with mean 0 and variance 1."""
    numbers = np.array([number_in(label) or 0.0 for label in labels])
    ranks = np.searchsorted(np.sort(numbers), numbers).astype(float)
    spread = ranks.std()
    return (ranks - ranks.mean()) / spread if spread else ranks - ranks.mean()


def _periods(values: Sequence[str]) -> Ints | None:
    """Return the period of each row; None if the values are not dates."""
    times = np.array([time.timestamp() for time in times_of(values) if time is not None])
    if len(times) < len(values):
        return None
    ranks = np.searchsorted(np.sort(times), times)
    return np.asarray(ranks * PERIODS // len(times))


def _numbered(values: Sequence[str]) -> Ints:
    """Return a number for each value, from 0. In an array of texts, each would need the memory of the longest text."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def _agreement(groups: Ints, answers: Ints) -> tuple[float, float] | None:
    """Return how often two rows of one group, and any two rows, have the same answer; None if it is not significant."""

    def share(order: NDArray[np.int64]) -> float:
        together = np.unique(groups * (int(answers.max()) + 1) + answers[order], return_counts=True)[1]
        return float(_pairs(together) / _pairs(np.bincount(groups)))

    return _beyond_chance(share, groups, _pairs(np.bincount(answers)) / _pairs(np.array([len(answers)])))


def _number_agreement(groups: Ints, ranks: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the correlation of two rows of one group, and of any two rows; None if it is not significant."""

    def correlation(order: NDArray[np.int64]) -> float:
        sums, squares = (np.bincount(groups, ranks[order] ** power) for power in (1, 2))
        return float((sums**2 - squares).sum() / _pairs(np.bincount(groups)))

    return _beyond_chance(correlation, groups, -1 / (len(groups) - 1))


def _beyond_chance(
    measure: Callable[[NDArray[np.int64]], float], groups: Ints, at_large: float
) -> tuple[float, float] | None:
    """Return the agreement of rows of one group, and of any rows (`at_large`); None if it is not significant."""
    if not _pairs(np.bincount(groups)):
        return None
    chance, rows = np.random.default_rng(0), len(groups)
    inside = measure(np.arange(rows))
    shuffled = [measure(chance.permutation(rows)) for _ in range(SHUFFLES)]
    if inside - at_large < MIN_EXCESS or inside - np.mean(shuffled) < MIN_DEVIATIONS * np.std(shuffled):
        return None
    return inside, float(at_large)


def _pairs(counts: NDArray[np.int64]) -> float:
    """Return the number of ordered pairs within groups of these sizes."""
    return float((counts * (counts - 1.0)).sum())
