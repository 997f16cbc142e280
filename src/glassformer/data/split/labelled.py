"""Labelled examples, divided: what is learned from, and what is held out to see how well."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASS, IMAGE, LABEL_SET
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import number_in, require_column
from glassformer.data.columns.inference import Columns, check_labels
from glassformer.data.columns.label_sets import kinds_of_sets, names_in, set_of, sets_in_words, sets_of
from glassformer.data.columns.labels import filled_rows
from glassformer.data.io.pictures import read_images
from glassformer.data.io.table import Table, read_table
from glassformer.data.mixing import Numbers
from glassformer.data.split.base import Corpus, digest
from glassformer.data.split.groups import digests_of
from glassformer.data.split.rows import fingerprint_of, given_tables, left_out, split_rows
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

    noun: ClassVar[str] = "row"
    lacking: ClassVar[str] = "text"

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

    def select(self, name: str, rows: list[int]) -> Self:
        def of(values: list[T]) -> list[T]:
            return [values[row] for row in rows]

        columns = {column: of(values) for column, values in self.columns.items()}
        pixels = None if self.pixels is None else self.pixels[rows]
        return type(self)(name, of(self.texts), of(self.labels), of(self.lines), self.origin, columns, pixels)

    def join(self, other: Self) -> Self:
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
class LabelledCorpus(Corpus[Labelled]):
    """Labelled data, divided."""

    classes: tuple[str, ...] | None
    """Sorted, numbers as numbers; of several labels a row, these; None where the labels are amounts."""
    columns: Columns


def split_table(table: Table, columns: Columns, settings: DataSettings) -> LabelledCorpus:
    """Files that were given are taken as they are; other parts are split off the table."""
    whole, filled = _labelled(table, columns, settings)
    if columns.label_kind == LABEL_SET:
        classes: tuple[str, ...] | None = names_in(whole.labels, whole.origin)
        kinds = kinds_of_sets(whole.labels, classes or ())
    else:
        classes = classes_of(whole) if columns.label_kind == CLASS else None
        kinds = kinds_of(whole, classes or ())
    alike = "row" if columns.text is None else "text"
    split = split_rows(whole, table, filled, settings, alike=alike, kinds=kinds)
    remarks = [split.size, _labels_in_words(whole, columns), *split.how, *table.remarks, *left_out(table, whole)]
    remarks += split.repeats(alike)
    if columns.label_kind == CLASS:
        remarks += _single_in_words(whole) if len(split.parts) > 1 else []
        remarks += split.warnings(absent_labels(whole))
    else:
        remarks += split.warnings()
    given = (
        (part := _labelled(other, columns, settings, name)[0], left_out(other, part))
        for name, other in given_tables(table, settings, read_table)
    )
    return labelled_corpus(split.corpus(remarks, given, settings), classes, columns)


def labelled_corpus(corpus: Corpus[Labelled], classes: tuple[str, ...] | None, columns: Columns) -> LabelledCorpus:
    """A corpus with its classes, of which no part may have others than those that can be learned."""
    remarks, train = corpus.remarks, corpus.parts["train"]
    if classes is not None:
        several = columns.label_kind == LABEL_SET
        for part in corpus.parts.values():
            refuse_unseen(part, columns, classes if several else train.labels)
        remarks += tuple(_never_learned(train, classes)) if several else ()
    return LabelledCorpus(corpus.fingerprint, corpus.parts, remarks, classes, columns)


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
    if columns.label_kind == LABEL_SET:
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
    for column in columns.also:
        require_column(table.name, column, table.columns, "--extra-columns")
    values = {column: [table.columns[column][row] for row in rows] for column in columns.also}
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
        new = [name for name in (set_of(label) if columns.label_kind == LABEL_SET else [label]) if name not in known]
        if new:
            line = f"line {part.lines[row]:,}, {columns.labels}"
            where = part.texts[row] if columns.kind == IMAGE else line
            raise DataError(f"{part.origin}, {where}: the label '{new[0]}' does not occur in training")


def _labels_in_words(whole: Labelled, columns: Columns) -> str:
    if columns.label_kind == LABEL_SET:
        return sets_in_words(whole.labels)
    return classes_in_words(whole) if columns.label_kind == CLASS else _amounts_in_words(whole)


def _never_learned(train: Labelled, names: Sequence[str]) -> list[str]:
    """A warning of labels that no row of training has."""
    never = sorted(set(names).difference(name for label in train.labels for name in set_of(label)))
    labels = listed([f"'{name}'" for name in never], EXAMPLES)
    return [f"warning: no row of training has the label {labels}: it will never be said"] if never else []


def absent_labels(whole: Labelled) -> Callable[[Labelled], list[str]]:
    """Warns of a part in which some class is not, though it has several rows."""
    several = {label for label, count in Counter(whole.labels).items() if count > 1}

    def warning(part: Labelled) -> list[str]:
        absent = listed([f"'{label}'" for label in sorted(several.difference(part.labels))], EXAMPLES)
        return [f"warning: no row of {part.name} has the label {absent}"] if absent else []

    return warning


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
