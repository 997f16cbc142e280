"""Labelled rows or pictures, divided into parts."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.config.data_section import ERROR
from glassformer.config.errors import DataError
from glassformer.config.presets import CLASS, IMAGE, LABEL_SET, NUMBER
from glassformer.config.sections import DataSettings
from glassformer.data.check.groups import group_findings
from glassformer.data.columns.heuristics import number_in, require_column
from glassformer.data.columns.inference import Columns, labelled_rows
from glassformer.data.columns.labels import kinds_of, names_in, names_of, odd_labels
from glassformer.data.columns.numbers import spelled_with
from glassformer.data.io.pictures import read_images, read_pictures
from glassformer.data.io.table import Pictures, Table, read_table, text_parts
from glassformer.data.order import UInts
from glassformer.data.same_text import digests_of
from glassformer.data.split.base import PURPOSES, requested_parts
from glassformer.data.split.rows import NO_LABEL, NO_TEXT, RowCorpus, RowPart, given_tables, skip_rows, split_rows
from glassformer.data.wording import EXAMPLES, counted, line_in_words, lines_in_words, listed


class Labelled(RowPart):
    """One part of the rows, with a label for each."""


class TableRows(Labelled):
    """One part of rows without a text, with a label for each."""

    has_text: ClassVar[bool] = False


@dataclass(eq=False)
class LabelledCorpus(RowCorpus[Labelled]):
    """Labelled data divided into parts."""

    classes: tuple[str, ...] | None = field(kw_only=True)
    """Classes or labels, sorted (numbers by size); None if the labels are amounts."""
    columns: Columns = field(kw_only=True)


def split_table(table: Table, columns: Columns, settings: DataSettings) -> LabelledCorpus:
    """Divide a table, and add the files of parts."""
    whole, filled = _labelled(table, columns, settings)
    classes = None
    if columns.label_kind == LABEL_SET:
        classes = names_in(whole.labels, whole.origin)
    elif columns.label_kind == CLASS:
        classes = classes_of(whole)
    alike, facts = "row" if columns.text is None else "text", [labels_in_words(whole, columns.label_kind)]
    kinds = kinds_of(names_of(whole.labels, columns.label_kind), classes or ())
    corpus = split_rows(whole, table, filled, settings, alike=alike, facts=facts, notes=table.remarks, kinds=kinds)
    if settings.split_by is None and len(corpus.parts) > 1:
        corpus.remarks += [f"warning: {line}" for line in group_findings(table, columns, whole.labels, filled)]
    if columns.label_kind == CLASS:
        corpus.remarks += odd_labels(Counter(whole.labels))
        corpus.warn(lambda part: absent_labels(part, _repeated(whole.labels)))
    else:
        corpus.warn()
    given = ((name, spelled_with(other, columns.decimals)) for name, other in given_tables(table, settings, read_table))
    corpus.take_files((_labelled(other, columns, settings, name)[0] for name, other in given), settings)
    return labelled_corpus(corpus, classes, columns, settings)


def labelled_corpus(
    corpus: RowCorpus[Labelled], classes: tuple[str, ...] | None, columns: Columns, settings: DataSettings
) -> LabelledCorpus:
    """Return the corpus with its classes, and a remark for each part with labels not seen in training."""
    train = corpus.parts["train"]
    if classes is not None:
        several = columns.label_kind == LABEL_SET
        for name, part in corpus.parts.items():
            known = check_labels(part, columns, classes if several else train.labels, settings)
            corpus.remarks += [f"{name}: {remark}" for remark in known]
        corpus.remarks += absent_labels(train, classes, LABEL_SET) if several else []
        classes = classes if several else classes_of(train)
    return LabelledCorpus(**vars(corpus), classes=classes, columns=columns)


def whole_table(
    table: Table, columns: Columns, name: str, classes: Collection[str] | None, settings: DataSettings | None = None
) -> Labelled:
    """Return all rows that have a text and a label as one part. `classes`: the labels that are known."""
    settings = settings or DataSettings()
    part = _labelled(table, columns, settings, name)[0]
    unknown = [] if classes is None else check_labels(part, columns, classes, settings)
    return replace(part, remarks=(*part.remarks, *unknown))


def _labelled(
    table: Table, columns: Columns, settings: DataSettings, name: str = "whole"
) -> tuple[Labelled, list[int]]:
    """Return the rows that have a text and a label, and their positions in the table."""
    if columns.label is None:
        raise DataError(f"{table.name}: there is no label column to learn: name it with --label")
    for text in text_parts(columns.text, table.columns):
        require_column(table.name, text, table.columns, "--text")
    filled = columns.readable_rows(table)
    if not filled:
        raise DataError(f"{table.name}: column '{columns.text}' is empty: there is no text in it")
    found = labelled_rows(table, columns, filled, settings)
    part = rows_as_part(table, columns, settings, found.rows, name, found.labels)
    labelled = set(found.rows)
    without_label = [table.lines[row] for row in filled if row not in labelled]
    skipped = {NO_TEXT: table.lines_but(filled), NO_LABEL: without_label}
    skipped = skip_rows(table.name, len(table), skipped, settings.bad_rows)
    return replace(part, remarks=tuple(found.remarks), skipped=skipped), found.rows


def rows_as_part(
    table: Table,
    columns: Columns,
    settings: DataSettings,
    rows: list[int],
    name: str = "given",
    labels: list[str] | None = None,
) -> Labelled:
    """Return these rows of a table as a part; without labels, for predictions."""
    for column in columns.also:
        require_column(table.name, column, table.columns, "--extra-columns")
    values = {column: [table.columns[column][row] for row in rows] for column in columns.also}
    if columns.text is not None:
        whole = table.texts(columns.text)
        texts = [whole[row] for row in rows]
    else:
        read = [column for column in (columns.image, *columns.also) if column is not None]
        texts = [", ".join(f"{column}={table.columns[column][row].strip()}" for column in read) for row in rows]
    lines = [table.lines[row] for row in rows]
    pixels = None if columns.image is None else read_images(table, columns.image, rows, settings)
    kind = Labelled if columns.text is not None else TableRows
    return kind(name, texts, labels or [""] * len(rows), lines, table.name, values, pixels)


def classes_of(whole: Labelled) -> tuple[str, ...]:
    """Return the classes, sorted (numbers by size); raise `DataError` if there is only one."""
    different = set(whole.labels)
    if len(different) == 1:
        raise DataError(
            f"{whole.origin}: all {counted(len(whole), 'row')} have the label '{whole.labels[0]}', so that there is "
            "nothing to tell apart: choose another column with --label"
        )
    numbers = {label: number_in(label) for label in different}
    if None in numbers.values():
        return tuple(sorted(different))
    return tuple(sorted(different, key=lambda label: (numbers[label], label)))


def check_labels(part: Labelled, columns: Columns, classes: Collection[str], settings: DataSettings) -> list[str]:
    """Return a line on labels that are not among the classes, which count as wrong.

    Raise `DataError` if no row has a known label, or with `--bad-rows error` if any label is unknown.
    """
    known = set(classes)
    new = {
        row: unknown[0]
        for row, names in enumerate(names_of(part.labels, columns.label_kind))
        if (unknown := [name for name in names if name not in known])
    }
    if not new:
        return []
    first, label = next(iter(new.items()))
    if settings.bad_rows == ERROR or len(new) == len(part):
        where = part.texts[first] if columns.kind == IMAGE else f"{line_in_words(part.lines[first])}, {columns.labels}"
        raise DataError(f"{part.origin}, {where}: the label '{label}' does not occur in training")
    labels = listed([f"'{name}'" for name in dict.fromkeys(new.values())], EXAMPLES)
    lines = lines_in_words([part.lines[row] for row in new], "number" if part.noun == "picture" else "line")
    some = counted(len(new), f"{part.noun} has", f"{part.noun}s have")
    return [f"{some} a label that does not occur in training ({labels}), {lines}: counted as wrong"]


def absent_labels(part: Labelled, names: Iterable[str], label_kind: str | None = CLASS) -> list[str]:
    """Return a warning of the labels among these that no row of a part has."""
    absent = sorted(set(names).difference(*names_of(part.labels, label_kind)))
    labels = listed([f"'{name}'" for name in absent], EXAMPLES)
    return [f"warning: no row of {part.name} has the label {labels}"] if absent else []


def _repeated(labels: Iterable[str]) -> list[str]:
    return [label for label, count in Counter(labels).items() if count > 1]


def labels_in_words(whole: Labelled, label_kind: str | None) -> str:
    """Return a remark on the number of labels and their shares, or on the range of the numbers."""
    if label_kind == NUMBER:
        numbers = [float(label) for label in whole.labels]
        return f"numbers from {min(numbers):g} to {max(numbers):g}, {np.mean(numbers):.4g} on average"
    sets = names_of(whole.labels, label_kind)
    counts = Counter(sorted(chain.from_iterable(sets))).most_common()
    shares = listed([f"{name} {count / len(whole):.1%}" for name, count in counts], EXAMPLES)
    if label_kind == CLASS:
        return f"{len(counts):,} classes: {shares}"
    some = f"{sum(map(len, sets)) / len(sets):.2f} a row on average, {sets.count([]):,} rows without any"
    return f"{len(counts):,} labels: {shares}; {some}"


# --- pictures with a class ---

PICTURE_COLUMNS = Columns(None, "the name of its folder", CLASS, "a class for each image", IMAGE)


class PicturePart(Labelled):
    """One part of the pictures, with a class for each. Equal pictures are never in two parts."""

    noun: ClassVar[str] = "picture"
    has_text: ClassVar[bool] = False

    @cached_property
    def digests(self) -> UInts:
        assert self.pixels is not None
        return digests_of(picture.tobytes() for picture in self.pixels)


def split_pictures(pictures: Pictures, settings: DataSettings) -> LabelledCorpus:
    """Divide pictures, and add the parts that have their own folders or files."""
    whole = _picture_part(pictures)
    classes = classes_of(whole)
    files, _ = requested_parts(settings)
    names = np.array(pictures.part or [])
    given = {
        name: whole.select(name, np.flatnonzero(names == name).tolist())
        for name in ("train", *PURPOSES)
        if name in names
    }
    if (both := next((name for name in files if name in given), None)) is not None:
        raise DataError(f"{pictures.name} has {both} pictures of its own: take them out, or leave --{both} unset")
    if "validation" in given and settings.folds is not None:
        raise DataError(f"{pictures.name} has validation pictures of its own: leave --data.folds away")
    ours: Labelled = given.pop("train", whole)
    own: dict[str, Any] = {f"{name}_fraction": 0.0 for name in given}
    table, facts = Table(pictures.name, {}, ours.lines), [labels_in_words(ours, CLASS)]
    notes, kinds = [pictures.note] if pictures.note else [], kinds_of(names_of(ours.labels, CLASS), classes)
    how = replace(settings, **own)
    corpus = split_rows(ours, table, range(len(ours)), how, alike="picture", facts=facts, notes=notes, kinds=kinds)
    corpus.fingerprint = whole.fingerprint
    corpus.warn(lambda part: absent_labels(part, _repeated(ours.labels)))
    for part in given.values():
        corpus.take(part)
    read = ((name, read_pictures(path, settings.size_of_images())) for name, path in files.items())
    corpus.take_files((_picture_part(other, name) for name, other in read), settings)
    return labelled_corpus(corpus, classes, PICTURE_COLUMNS, settings)


def whole_pictures(pictures: Pictures, name: str, classes: Collection[str], settings: DataSettings) -> Labelled:
    """Return all pictures as one part. `classes`: the labels that are known."""
    part = _picture_part(pictures, name)
    return replace(part, remarks=tuple(check_labels(part, PICTURE_COLUMNS, classes, settings)))


def as_table(pictures: Pictures) -> tuple[Table, Columns]:
    """Return pictures as a table of their digests and labels, for `data check`."""
    part = _picture_part(pictures)
    columns = {"picture": [f"{number:x}" for number in part.digests.tolist()], "label": pictures.labels}
    return Table(pictures.name, columns, part.lines), replace(PICTURE_COLUMNS, label="label", also=("picture",))


def _picture_part(pictures: Pictures, name: str = "whole") -> PicturePart:
    lines = list(range(1, len(pictures) + 1))
    return PicturePart(
        name, pictures.files, pictures.labels, lines, pictures.name, pixels=pictures.pixels, top=pictures.top
    )
