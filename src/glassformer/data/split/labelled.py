"""Labelled examples, divided: what is learned from, and what is held out to see how well."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASSIFICATION, IMAGE, MULTILABEL
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import existing, number_in
from glassformer.data.columns.inference import Columns, check_labels
from glassformer.data.columns.label_sets import kinds_of_sets, names_in, set_of, sets_in_words, sets_of
from glassformer.data.columns.labels import filled_rows
from glassformer.data.io.image_column import read_images
from glassformer.data.io.table import Table, read_table
from glassformer.data.mixing import Numbers
from glassformer.data.split.groups import digests_of
from glassformer.data.split.held_out import asked_for
from glassformer.data.split.part import digest
from glassformer.data.split.parts import (
    divided,
    few_rows,
    fingerprint_of,
    fingerprint_of_split,
    given_in_words,
    given_tables,
    in_order,
    left_out,
    repeated,
    size_in_words,
    with_validation,
)
from glassformer.data.wording import EXAMPLES, listed

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Labelled:
    """One part: examples, and a label for each."""

    name: str
    texts: list[str]
    """What each is known by: its text, or its values, or its file."""
    labels: list[str]
    lines: list[int]
    """Where each row begins in its file."""
    origin: str
    """The file or data set they come from."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """The values of number and category columns."""
    pixels: NDArray[np.uint8] | None = None
    """N×H×W×C, where there are images."""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def digests(self) -> Numbers:
        return digests_of(self.texts)

    @property
    def fingerprint(self) -> str:
        fingerprint = fingerprint_of(self.texts, self.labels)
        beside = [digest(name, *values) for name, values in self.columns.items()]
        if self.pixels is not None:
            beside.append(hashlib.sha256(self.pixels.tobytes()).hexdigest())
        return digest(fingerprint, *beside) if beside else fingerprint

    def some(self, name: str, rows: list[int]) -> Self:
        def of(values: list[T]) -> list[T]:
            return [values[row] for row in rows]

        columns = {column: of(values) for column, values in self.columns.items()}
        pixels = None if self.pixels is None else self.pixels[rows]
        return type(self)(name, of(self.texts), of(self.labels), of(self.lines), self.origin, columns, pixels)

    def joined(self, other: Self) -> Self:
        columns = {name: values + other.columns[name] for name, values in self.columns.items()}
        pixels = None
        if self.pixels is not None and other.pixels is not None:
            if self.pixels.shape[1:] != other.pixels.shape[1:]:
                raise DataError(
                    f"{other.origin}: images of another size than those of {self.origin}: bring all to one size with "
                    "--data.image_size"
                )
            pixels = np.concatenate([self.pixels, other.pixels])
        texts, labels, lines = self.texts + other.texts, self.labels + other.labels, self.lines + other.lines
        return type(self)(self.name, texts, labels, lines, self.origin, columns, pixels)


@dataclass(frozen=True, eq=False)
class LabelledCorpus:
    """Labelled data, divided."""

    fingerprint: str
    """Of all texts and labels, those of validation and test files among them."""
    parts: dict[str, Labelled]
    """`train`, and where asked for `validation` and `test`."""
    classes: tuple[str, ...] | None
    """Sorted, numbers as numbers; of several labels a row, these; None where the labels are amounts."""
    columns: Columns
    remarks: tuple[str, ...]

    def report(self) -> str:
        """What was divided and how, for a person to read."""
        return "; ".join(self.remarks)


def split_table(table: Table, columns: Columns, settings: DataSettings) -> LabelledCorpus:
    """Files that were given are taken as they are; other parts are split off the table."""
    whole, filled = _labelled(table, columns, settings)
    several = columns.task == MULTILABEL
    classes = classes_of(whole) if columns.task == CLASSIFICATION else None
    names = names_in(whole.labels, whole.origin) if several else classes
    files, fractions = asked_for(settings)
    what = "row" if columns.text is None else "text"
    kinds = kinds_of_sets(whole.labels, names or ()) if several else kinds_of(whole, classes or ())
    parts, how = divided(whole, table, filled, fractions, settings, alike=f"{what}s", kinds=kinds)
    remarks = [
        size_in_words(parts, len(whole)),
        _labels_in_words(whole, columns),
        *how,
        *table.remarks,
        *left_out(len(table) - len(whole), "text"),
        *repeated(whole, what),
        *(_single_in_words(whole) if classes and len(parts) > 1 else []),
        *thin(parts, [name for name in parts if name != "train"], whole if classes else None),
    ]
    fingerprint = fingerprint_of_split(whole, table, filled, settings.split_by)
    for name, given in given_tables(table, files, settings, read_table).items():
        part = parts[name] = _labelled(given, columns, settings, name)[0]
        fingerprint = digest(fingerprint, name, part.fingerprint)
        remarks += given_in_words(part, parts["train"], left_out(len(given) - len(part), "text"))
    remarks += with_validation(parts, settings)
    for part in in_order(parts).values() if names else ():
        refuse_unseen(part, columns, names if several and names else parts["train"].labels)
    if several:
        remarks += _never_learned(parts["train"], names or ())
    return LabelledCorpus(fingerprint, in_order(parts), names, columns, tuple(remarks))


def whole_table(
    table: Table, columns: Columns, name: str, classes: Collection[str] | None, settings: DataSettings | None = None
) -> Labelled:
    """All rows that have a text, as one part; a label that is none of the `classes` is refused."""
    part = _labelled(table, columns, settings or DataSettings(), name)[0]
    if classes is not None:
        refuse_unseen(part, columns, classes)
    return part


def _labelled(
    table: Table, columns: Columns, settings: DataSettings, name: str = "whole"
) -> tuple[Labelled, list[int]]:
    """The rows that have a text, and which of the table's they are."""
    if columns.label is None:
        raise DataError(f"{table.name}: there is no label column to learn: name it with --label")
    check_labels(table, columns)
    filled = filled_rows(table, columns.text)
    if not filled:
        raise DataError(f"{table.name}: column '{columns.text}' is empty: there is no text in it")
    if columns.task == MULTILABEL:
        labels = sets_of(table, columns.label, filled, columns.separator)
    else:
        labels = [table.columns[columns.label][row].strip() for row in filled]
    return rows_as_part(table, columns, settings, filled, name, labels), filled


def rows_as_part(
    table: Table,
    columns: Columns,
    settings: DataSettings,
    rows: list[int],
    name: str = "given",
    labels: list[str] | None = None,
) -> Labelled:
    """These rows of a table as a part; without labels, for a model to say something of."""
    values = {
        column: [table.columns[existing(table.name, column, table.columns, "--extra-columns")][row] for row in rows]
        for column in columns.also
    }
    if columns.text is not None:
        texts = [table.columns[columns.text][row] for row in rows]
    else:
        read = [column for column in (columns.image, *columns.also) if column is not None]
        texts = [", ".join(f"{column}={table.columns[column][row].strip()}" for column in read) for row in rows]
    lines = [table.lines[row] for row in rows]
    pixels = None if columns.image is None else read_images(table, columns.image, rows, settings)
    return Labelled(name, texts, labels or [""] * len(rows), lines, table.name, values, pixels)


def classes_of(whole: Labelled) -> tuple[str, ...]:
    different = set(whole.labels)
    if len(different) == 1:
        raise DataError(
            f"{whole.origin}: all {len(whole):,} rows have the label '{whole.labels[0]}', so that there is nothing to "
            "tell apart: choose another column with --label"
        )
    numbers = {label: number_in(label) for label in different}
    if None in numbers.values():
        return tuple(sorted(different))
    return tuple(sorted(different, key=lambda label: (numbers[label], label)))


def kinds_of(part: Labelled, classes: Sequence[str]) -> NDArray[np.int64]:
    """The number of each example's class; 0 where there are none."""
    number = {label: place for place, label in enumerate(classes)}
    return np.array([number.get(label, 0) for label in part.labels], dtype=np.int64)


def refuse_unseen(part: Labelled, columns: Columns, classes: Collection[str]) -> None:
    known = set(classes)
    for row, label in enumerate(part.labels):
        new = [name for name in (set_of(label) if columns.task == MULTILABEL else [label]) if name not in known]
        if new:
            line = f"line {part.lines[row]:,}, {columns.labels}"
            where = part.texts[row] if columns.kind == IMAGE else line
            raise DataError(f"{part.origin}, {where}: the label '{new[0]}' does not occur in training")


def _labels_in_words(whole: Labelled, columns: Columns) -> str:
    if columns.task == MULTILABEL:
        return sets_in_words(whole.labels)
    return classes_in_words(whole) if columns.task == CLASSIFICATION else _amounts_in_words(whole)


def _never_learned(train: Labelled, names: Sequence[str]) -> list[str]:
    """A warning of labels that no row of training has."""
    never = sorted(set(names).difference(name for label in train.labels for name in set_of(label)))
    labels = listed([f"'{name}'" for name in never], EXAMPLES)
    return [f"warning: no row of training has the label {labels}: it will never be said"] if never else []


def thin(parts: Mapping[str, Labelled], fractions: Collection[str], whole: Labelled | None) -> list[str]:
    """Warnings of held-out parts that say little, in all or of some class. `whole`: all rows, if they have classes."""
    remarks: list[str] = []
    several = [label for label, count in Counter(whole.labels if whole else ()).items() if count > 1]
    for name in fractions:
        remarks += few_rows(name, len(parts[name]))
        absent = sorted(set(several).difference(parts[name].labels))
        if absent:
            labels = listed([f"'{label}'" for label in absent], EXAMPLES)
            remarks.append(f"warning: no row of {name} has the label {labels}")
    return remarks


def classes_in_words(whole: Labelled) -> str:
    counts = sorted(Counter(whole.labels).items(), key=lambda item: (-item[1], item[0]))
    shares = listed([f"{label} {count / len(whole):.1%}" for label, count in counts], EXAMPLES)
    return f"{len(counts):,} classes: {shares}"


def _amounts_in_words(whole: Labelled) -> str:
    numbers = [float(label) for label in whole.labels]
    return f"numbers from {min(numbers):g} to {max(numbers):g}, {np.mean(numbers):.4g} on average"


def _single_in_words(whole: Labelled) -> list[str]:
    single = sorted(label for label, count in Counter(whole.labels).items() if count == 1)
    said = f"classes with a single example, which stays in training: {listed(single, EXAMPLES)}"
    return [said] if single else []
