"""The label column, and the kind of its values: classes, sets of labels, or numbers."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL, CLASS, LABEL_SET, NUMBER, TASK_OF_LABELS
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import are_dates
from glassformer.data.columns.heuristics import (
    MAX_CLASSES,
    NAMES,
    are_few,
    are_numbers,
    by_name,
    is_id,
    named_columns,
    number_in,
    only_column,
    prefer_last,
)
from glassformer.data.io.table import EMPTY, Table
from glassformer.data.wording import EXAMPLES, counted, listed

# --- sets of labels, in the cells of a table and in a part of the data ---

SEPARATORS = (";", "|")
"""Separators between the labels of a cell."""
MIN_SEPARATED = 0.2
"""Minimum share of cells with a separator, below which it is an ordinary character."""
TRUTHS = {"0": False, "1": True, "false": False, "true": True}
"""Values of a column that stands for one label."""


def as_text(labels: Iterable[str]) -> str:
    """Return a set of labels as a part stores it: a sorted JSON list."""
    return json.dumps(sorted({label.strip() for label in labels} - {""}), ensure_ascii=False)


def set_of(text: str) -> list[str]:
    """Return the labels that `as_text` stored."""
    labels: list[str] = json.loads(text)
    return labels


def names_of(labels: Iterable[str], label_kind: str | None) -> list[list[str]]:
    """Return the labels of each row of a part."""
    return [set_of(label) if label_kind == LABEL_SET else [label] for label in labels]


def list_in(cell: str) -> list[str] | None:
    """Return the labels of a cell that is a JSON list of texts or numbers, else None."""
    try:
        labels = json.loads(cell) if cell.lstrip().startswith("[") else [None]
    except ValueError:
        return None
    are_labels = all(isinstance(label, str | int | float) for label in labels)
    return [label if isinstance(label, str) else json.dumps(label) for label in labels] if are_labels else None


def separator_in(cells: Sequence[str]) -> str | None:
    """Return the separator that most cells contain, lists aside; None if every cell is one label."""
    plain = [cell for cell in cells if list_in(cell) is None]
    counts = {separator: sum(separator in cell for cell in plain) for separator in SEPARATORS}
    best = max(SEPARATORS, key=counts.__getitem__)
    return best if counts[best] else None


def labels_in(cell: str, separator: str | None) -> list[str]:
    """Return the labels of a cell: those of a list, or the texts between separators. An empty cell has no label."""
    labels = list_in(cell)
    if labels is None:
        labels = cell.split(separator) if separator is not None else [cell]
    return [label.strip() for label in labels if label.strip()]


def look_like_sets(cells: Sequence[str]) -> bool:
    """Return whether cells hold several labels each: lists, or a separator between labels that are repeated."""
    filled = [cell for cell in cells if cell.strip()]
    lists = [list_in(cell) for cell in filled]
    if filled and all(one is not None for one in lists):
        return any(lists)
    separator = separator_in(filled)
    return separator is not None and _repeated_labels(filled, separator) is not None


def hold_comma_lists(cells: Sequence[str]) -> bool:
    """Return whether cells look like several labels with commas between them: fewer labels than different cells."""
    filled = [cell for cell in cells if cell.strip()]
    labels = _repeated_labels(filled, ",")
    return labels is not None and len(labels) < len(set(filled))


def _repeated_labels(cells: Sequence[str], separator: str) -> set[str] | None:
    """Return the labels of cells if they are short and repeated, and enough cells contain this separator, else None."""
    if sum(separator in cell for cell in cells) < MIN_SEPARATED * len(cells):
        return None
    counts = Counter(label for cell in cells for label in labels_in(cell, separator))
    are_labels = counts.total() >= 3 * len(counts) and all(len(label.split()) <= 4 for label in counts)
    return set(counts) if are_labels else None


def label_columns(where: str, label: str, names: Iterable[str]) -> list[str]:
    """Return the columns that --label names: one, or several with commas between them."""
    return named_columns(where, label, names, "--label")


def sets_of(table: Table, label: str, rows: Sequence[int], separator: str | None) -> list[str]:
    """Return the labels of these rows as a part stores them. `separator` None: detect it."""
    columns = label_columns(table.name, label, table.columns)
    if len(columns) > 1:
        return _true_columns(table, columns, rows)
    cells = table.columns[columns[0]]
    chosen = separator or separator_in([cells[row] for row in rows])
    for row in rows:
        if cells[row].lstrip().startswith("[") and list_in(cells[row]) is None:
            cell = cells[row].strip()[:40]
            raise DataError(f"{table.at(row, columns[0])}: not a list of labels: '{cell}' (write one;another)")
    return [as_text(labels_in(cells[row], chosen)) for row in rows]


def _true_columns(table: Table, columns: Sequence[str], rows: Sequence[int]) -> list[str]:
    """Return the labels of these rows from one column of 0 and 1 per label."""
    sets = []
    for row in rows:
        labels = []
        for column in columns:
            value = table.columns[column][row].strip()
            if value.lower() not in TRUTHS:
                raise DataError(f"{table.at(row, column)}: '{value[:40]}' where 0 or 1 is wanted (--label)")
            if TRUTHS[value.lower()]:
                labels.append(column)
        sets.append(as_text(labels))
    return sets


def names_in(labels: Sequence[str], where: str) -> tuple[str, ...]:
    """Return every label that occurs, sorted."""
    names = tuple(sorted(set().union(*map(set_of, labels))))
    if not names:
        raise DataError(f"{where}: no row has a label, so that there is nothing to learn: see --label")
    return names


def kinds_of(sets: Sequence[Sequence[str]], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each row's rarest label, to stratify the split; rows without labels have `len(names)`."""
    counts = Counter(chain.from_iterable(sets))
    number = {name: place for place, name in enumerate(names)}

    def rarest(labels: Sequence[str]) -> int:
        known = (number[name] for name in labels if name in number)
        return min(known, key=lambda place: (counts[names[place]], place), default=len(names))

    return np.array([rarest(labels) for labels in sets], dtype=np.int64)


# --- remarks of `train` and `data check` on labels ---

MISSING = (*EMPTY, "nil", "unknown", "missing")
"""Texts that people write instead of a missing label."""
SYNONYMS = ({"yes", "y", "true", "t", "1", "1.0"}, {"no", "n", "false", "f", "0", "0.0"})
"""Labels with the same meaning."""


def odd_labels(counts: Mapping[str, int]) -> list[str]:
    """Return a remark on classes that look like other classes or like missing labels. `counts`: rows per class."""
    folded = Counter(name.casefold() for name in counts)
    synonyms = [sorted(words.intersection(folded)) for words in SYNONYMS]
    odd = {
        "labels that differ only in their letters' case count as different": sorted(
            (name for name in counts if folded[name.casefold()] > 1), key=lambda name: (name.casefold(), name)
        ),
        "labels that may mean the same count as different": [
            name for same in synonyms if len(same) > 1 for name in same
        ],
        "labels that may stand for a missing one, and count as classes": [
            name for name in counts if name.lower() in MISSING
        ],
        "classes with a single example, which stays in training": sorted(
            name for name, count in counts.items() if count == 1
        ),
    }
    return [f"{remark}: {listed(names, EXAMPLES)}" for remark, names in odd.items() if names]


# --- choice of the label column ---

CLASS_NAMES = NAMES["label"] + NAMES["topic"]


def label_column(table: Table, text: Iterable[str], settings: DataSettings, label_kind: str) -> str | None:
    """Return the column that --label names, that has a well-known name, or that looks like labels of this kind.

    None: there is no such column. `text`: the text columns.
    """
    if settings.label is not None:
        several = label_columns(table.name, settings.label, table.columns)
        if len(several) > 1 and label_kind not in (ANY_LABEL, LABEL_SET):
            task = TASK_OF_LABELS[label_kind]
            raise DataError(f"{table.name}: --label {settings.label} names several columns: {task} learns one of them")
        return ",".join(several)
    taken = (*text, settings.split_by, settings.image, *settings.beside)
    others = {name: values for name, values in table.columns.items() if name not in taken}
    if label_kind == LABEL_SET and (named := by_name(others, NAMES["label_set"])):
        return only_column(table.name, named, "the labels", "--label")
    candidates = by_name(others, CLASS_NAMES + NAMES["amount"])
    if candidates and label_kind != LABEL_SET:
        candidates = prefer_last(candidates, others)
    if not candidates and label_kind in (ANY_LABEL, LABEL_SET):
        candidates = [name for name, values in others.items() if look_like_sets(values)]
    if not candidates:
        shown = {name: values for name, values in others.items() if not is_id(name, values) and not are_dates(values)}
        numbers = [name for name, values in shown.items() if are_numbers(values)]
        candidates = numbers if label_kind == NUMBER else [name for name, values in shown.items() if are_few(values)]
        if not candidates and label_kind == ANY_LABEL and len(numbers) == 1:
            candidates = numbers
    return only_column(table.name, candidates, "the label", "--label") if candidates else None


class LabelValues(NamedTuple):
    """The kind of the values of a label column."""

    kind: str | None
    separator: str | None
    """Separator between the labels of a cell; None if a cell holds one label."""
    words: str
    """Description such as "3 classes"."""


def label_values(
    table: Table, text: str | None, label: str, label_kind: str | None, settings: DataSettings
) -> LabelValues:
    """Return the kind of the labels, which is `label_kind` unless that is `ANY_LABEL`."""
    names, rows = label_columns(table.name, label, table.columns), filled_rows(table, text)
    cells = [table.columns[names[0]][row] for row in rows]
    values = [cell.strip() for cell in cells if cell.strip()]
    if label_kind == ANY_LABEL:
        label_kind = LABEL_SET if len(names) > 1 else _kind_of(table.name, label, values)
    if label_kind != LABEL_SET:
        classes = counted(len(set(values)), "class", "classes")
        if label_kind == CLASS and hold_comma_lists(values):
            advice = "--task multilabel --data.label_separator , splits them"
            classes += f", which look like several labels per cell: {advice}"
        return LabelValues(label_kind, None, classes if label_kind == CLASS else "numbers")
    separator = settings.label_separator or separator_in(cells) if len(names) == 1 else None
    different = set(chain.from_iterable(names_of(sets_of(table, label, rows, separator), LABEL_SET)))
    how = f", several of a row parted by '{separator}' (--data.label_separator)" if separator else ""
    return LabelValues(LABEL_SET, separator, f"{counted(len(different), 'label')}{how}")


def _kind_of(where: str, label: str, values: Sequence[str]) -> str:
    """Return the kind of labels.

    Numbers are amounts, unless they are whole and few, or number classes from 0 or 1. Texts are classes or label sets.
    """
    if look_like_sets(values):
        return LABEL_SET
    different = set(values)
    numbers = [number for value in different if (number := number_in(value)) is not None]
    if different and len(numbers) == len(different):
        whole = sorted(int(number) for number in numbers if number.is_integer())
        if len(whole) < len(numbers):
            return NUMBER
        in_a_row = whole[0] in (0, 1) and whole == list(range(whole[0], whole[-1] + 1))
        numbered = label.lower() in CLASS_NAMES and in_a_row and len(values) >= 5 * len(different)
        few = len(different) <= MAX_CLASSES and len(values) >= 2 * len(different)
        return CLASS if few or numbered else NUMBER
    if len(different) > 2 and len(different) > 0.8 * len(values):
        if len(numbers) > len(different) / 2:  # amounts with some texts among them, which are reported later
            return NUMBER
        some = f"{len(different):,} different values in {len(values):,} rows"
        raise DataError(f"{where}: column '{label}' has {some}, a name or an id and no label: --label names another")
    return CLASS


def filled_rows(table: Table, text: str | None) -> list[int]:
    """Return the rows that have a text; without a text column, all rows."""
    if text is None:
        return list(range(len(table)))
    return [row for row, words in enumerate(table.texts(text)) if words.strip()]
