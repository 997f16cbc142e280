"""Labelled texts, divided: what is learned from, and what is held out to see how well."""

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASSIFICATION
from glassformer.config.sections import DataSettings
from glassformer.data.columns import Columns, check_labels, existing, number_in
from glassformer.data.groups import OTHER_DATE, digests_of, grouped, held_by_chance, held_by_time, time_of
from glassformer.data.part import digest
from glassformer.data.split import PURPOSES
from glassformer.data.table import Table, read_table

LARGEST = 5
"""Classes that a report names."""

FEW_ROWS = 10
"""A part of fewer rows deserves a warning."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """One part: texts, and a label for each."""

    name: str
    texts: list[str]
    labels: list[str]
    lines: list[int]
    """Where each row begins in its file."""
    source: str
    """The file or data set they come from."""

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, eq=False)
class LabelledCorpus:
    """Labelled data, divided."""

    fingerprint: str
    """Of all texts and labels, those of validation and test files among them."""
    parts: dict[str, Labelled]
    """`train`, and where asked for `validation` and `test`."""
    classes: tuple[str, ...] | None
    """Sorted, numbers as numbers; None where the labels are amounts."""
    columns: Columns
    remarks: tuple[str, ...]

    def report(self) -> str:
        """What was divided and how, for a person to read."""
        return "; ".join(self.remarks)


def split_table(table: Table, columns: Columns, settings: DataSettings) -> LabelledCorpus:
    """Files that were given are taken as they are; other parts are split off the table."""
    whole, lost = _labelled(table, columns)
    classes = _classes(whole) if columns.task == CLASSIFICATION else None
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    fractions = {name: fraction for name, fraction in fractions.items() if fraction > 0}
    digests = digests_of(whole.texts)
    held, how = _held_out(table, whole, digests, fractions, classes, settings)
    in_train = ~np.any([np.zeros(len(whole), dtype=np.bool_), *held.values()], axis=0)
    parts = {name: _part(whole, name, rows) for name, rows in {"train": in_train, **held}.items()}
    shares = " and ".join(f"{_rows(len(parts[name]))} held out {PURPOSES[name]}" for name in fractions)
    remarks = [
        _rows(len(whole)) + (f": {shares}" if shares else ""),
        *([_classes_in_words(whole)] if classes else [_amounts_in_words(whole)]),
        *how,
        *_left_out(lost),
        *_repeated(digests),
        *([_single(whole)] if classes and fractions and 1 in Counter(whole.labels).values() else []),
        *_thin(parts, fractions, whole if classes else None),
    ]
    fingerprint = _fingerprint(whole)
    if settings.split_by is not None:
        fingerprint = digest(fingerprint, *_split_values(table, whole, settings.split_by))
    for name, given in _given(table, files, settings).items():
        parts[name], lost = _labelled(given, columns, name)
        fingerprint = digest(fingerprint, name, _fingerprint(parts[name]))
        remarks += [f"{name} from {given.name}: {_rows(len(parts[name]))}", *_left_out(lost)]
        seen = int(np.isin(digests_of(parts[name].texts), digests[in_train]).sum())
        if seen:
            remarks.append(f"warning: {seen:,} of {_rows(len(parts[name]))} of {name} also in training")
    parts = {name: parts[name] for name in ("train", *PURPOSES) if name in parts}
    if classes:
        for part in parts.values():
            _refuse_unseen(part, columns, parts["train"].labels)
    return LabelledCorpus(fingerprint, parts, classes, columns, tuple(remarks))


def whole_table(table: Table, columns: Columns, name: str, classes: Collection[str] | None) -> Labelled:
    """All rows that have a text, as one part; a label that is none of the `classes` is refused."""
    part = _labelled(table, columns, name)[0]
    if classes is not None:
        _refuse_unseen(part, columns, classes)
    return part


def _labelled(table: Table, columns: Columns, name: str = "whole") -> tuple[Labelled, int]:
    """The rows that have a text, and how many have none."""
    if columns.label is None:
        raise DataError(f"{table.name}: there is no label column to learn: name it with --label")
    check_labels(table, columns)
    texts, labels = table.columns[columns.text], table.columns[columns.label]
    filled = [row for row, text in enumerate(texts) if text.strip()]
    if not filled:
        raise DataError(f"{table.name}: column '{columns.text}' is empty: there is no text in it")
    part = Labelled(
        name,
        [texts[row] for row in filled],
        [labels[row].strip() for row in filled],
        [table.lines[row] for row in filled],
        table.name,
    )
    return part, len(table) - len(filled)


def _classes(whole: Labelled) -> tuple[str, ...]:
    different = set(whole.labels)
    if len(different) == 1:
        raise DataError(
            f"{whole.source}: all {len(whole):,} rows have the label '{whole.labels[0]}', so that there is nothing to "
            "tell apart: choose another column with --label"
        )
    numbers = {label: number_in(label) for label in different}
    if None in numbers.values():
        return tuple(sorted(different))
    return tuple(sorted(different, key=lambda label: (numbers[label], label)))


def _held_out(
    table: Table,
    whole: Labelled,
    digests: NDArray[np.uint64],
    fractions: dict[str, float],
    classes: tuple[str, ...] | None,
    settings: DataSettings,
) -> tuple[dict[str, NDArray[np.bool_]], list[str]]:
    """The rows of each part, and in words what held them together."""
    values, times = None, None
    if settings.split_by is not None:
        values = _split_values(table, whole, settings.split_by)
        times = [time for value in values if (time := time_of(value))]
        if times and len(times) < len(values):
            odd = next(row for row, value in enumerate(values) if time_of(value) is None)
            raise DataError(
                f"{table.name}, line {whole.lines[odd]:,}, column '{settings.split_by}': '{values[odd][:40]}' among "
                "dates: write it as 2024-05-31, or choose another column with --data.split_by"
            )
        if not times and values and all(OTHER_DATE.fullmatch(value) for value in values):
            raise DataError(
                f"{table.name}, column '{settings.split_by}': dates such as '{values[0]}' have no certain order: "
                "write them as 2024-05-31, or choose another column with --data.split_by"
            )
    if not fractions:
        return {}, []
    if times:
        held, how = held_by_time(digests, times, fractions), f"split by time, column '{settings.split_by}'"
    else:
        number = {label: place for place, label in enumerate(classes or ())}
        kinds = np.array([number.get(label, 0) for label in whole.labels], dtype=np.int64)
        held = held_by_chance(digests, grouped(digests, values), kinds, fractions, settings.split_seed)
        how = f"split by column '{settings.split_by}': rows alike in it stay together"
    if held is None or not all(rows.any() for rows in held.values()):
        alike = f" and column '{settings.split_by}'" if settings.split_by else ""
        raise DataError(
            f"{table.name} has {_rows(len(whole))}, {len(np.unique(digests)):,} of them different: too few for "
            f"{len(fractions) + 1} parts ({', '.join(['train', *fractions])}), since equal texts{alike} stay together "
            "and each class stays in training"
        )
    if times:
        begins = ", ".join(
            f"{name} from {min(time for time, inside in zip(times, rows, strict=True) if inside):%Y-%m-%d}"
            for name, rows in held.items()
        )
        how += f": {begins}"
    return held, [how] if values is not None else []


def _split_values(table: Table, whole: Labelled, column: str) -> list[str]:
    """Of the rows that have a text."""
    values = table.columns[existing(table.name, column, table.columns, "--data.split_by")]
    of_line = dict(zip(table.lines, values, strict=True))
    return [of_line[line].strip() for line in whole.lines]


def _part(whole: Labelled, name: str, rows: NDArray[np.bool_]) -> Labelled:
    chosen = np.flatnonzero(rows).tolist()
    texts, labels = [whole.texts[row] for row in chosen], [whole.labels[row] for row in chosen]
    return Labelled(name, texts, labels, [whole.lines[row] for row in chosen], whole.source)


def _given(table: Table, files: dict[str, str], settings: DataSettings) -> dict[str, Table]:
    """The files that were named, and a data set's own test rows where nothing else is the test."""
    given = {name: read_table(path, settings) for name, path in files.items()}
    if table.test is not None and settings.test is None and settings.test_fraction == 0:
        given["test"] = table.test()
    return given


def _refuse_unseen(part: Labelled, columns: Columns, classes: Collection[str]) -> None:
    known = set(classes)
    for label, line in zip(part.labels, part.lines, strict=True):
        if label not in known:
            raise DataError(
                f"{part.source}, line {line:,}, column '{columns.label}': the label '{label}' "
                "does not occur in training"
            )


def _thin(parts: dict[str, Labelled], fractions: Collection[str], whole: Labelled | None) -> list[str]:
    """Warnings of held-out parts that say little, in all or of some class. `whole`: all rows, if they have classes."""
    remarks = []
    several = [label for label, count in Counter(whole.labels if whole else ()).items() if count > 1]
    for name in fractions:
        if len(parts[name]) < FEW_ROWS:
            remarks.append(f"warning: a score over {_rows(len(parts[name]))} of {name} says little")
        absent = sorted(set(several).difference(parts[name].labels))
        if absent:
            listed = ", ".join(f"'{label}'" for label in absent[:LARGEST]) + (", …" if len(absent) > LARGEST else "")
            remarks.append(f"warning: no row of {name} has the label {listed}")
    return remarks


def _fingerprint(part: Labelled) -> str:
    whole = hashlib.sha256()
    for text, label in zip(part.texts, part.labels, strict=True):
        whole.update(f"{len(text)}:{len(label)}:{text}{label}".encode())
    return whole.hexdigest()


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _left_out(lost: int) -> list[str]:
    return [f"left out: {_rows(lost)} without text"] if lost else []


def _repeated(digests: NDArray[np.uint64]) -> list[str]:
    again = len(digests) - len(np.unique(digests))
    return [f"{_rows(again)} repeat{'s' if again == 1 else ''} an earlier text"] if again else []


def _classes_in_words(whole: Labelled) -> str:
    counts = sorted(Counter(whole.labels).items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{label} {count / len(whole):.1%}" for label, count in counts[:LARGEST])
    return f"{len(counts):,} classes: {listed}" + (", …" if len(counts) > LARGEST else "")


def _amounts_in_words(whole: Labelled) -> str:
    numbers = [float(label) for label in whole.labels]
    return f"numbers from {min(numbers):g} to {max(numbers):g}, {np.mean(numbers):.4g} on average"


def _single(whole: Labelled) -> str:
    single = sorted(label for label, count in Counter(whole.labels).items() if count == 1)
    listed = ", ".join(single[:LARGEST]) + (", …" if len(single) > LARGEST else "")
    return f"classes with a single example, which stays in training: {listed}"
