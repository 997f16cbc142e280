"""Pairs of texts, divided: what translating is learned from, and what is held out to see how well."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.aligned import SOURCE, TARGET, read_pairs
from glassformer.data.groups import digests_of
from glassformer.data.looks import existing
from glassformer.data.part import digest
from glassformer.data.parts import (
    asked_for,
    few_rows,
    fingerprint_of,
    given_tables,
    held_out,
    in_order,
    left_out,
    left_to_training,
    repeated,
    rows_in_words,
    seen_in_training,
    size_in_words,
    split_values,
)
from glassformer.data.table import Table


@dataclass(frozen=True, eq=False)
class Pairs:
    """One part: texts, and a translation of each."""

    name: str
    sources: list[str]
    targets: list[str]
    lines: list[int]
    """Where each row begins in its file."""
    source: str
    """The file or data set they come from."""

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, eq=False)
class PairCorpus:
    """Pairs of texts, divided."""

    fingerprint: str
    """Of all sources and targets, those of validation and test files among them."""
    parts: dict[str, Pairs]
    """`train`, and where asked for `validation` and `test`."""
    remarks: tuple[str, ...]

    def report(self) -> str:
        """What was divided and how, for a person to read."""
        return "; ".join(self.remarks)


def split_pairs(table: Table, source: str, target: str, settings: DataSettings) -> PairCorpus:
    """Files that were given are taken as they are; other parts are split off the table. `source`, `target`: columns.

    Pairs of one source stay together: a sentence with several translations is in one part alone.
    """
    whole, filled = _pairs(table, source, target)
    files, fractions = asked_for(settings)
    digests = digests_of(whole.sources)
    kinds = np.zeros(len(whole), dtype=np.int64)
    held, how = held_out(table, filled, digests, kinds, fractions, settings, alike="sources")
    in_train = left_to_training(len(whole), held)
    parts = {name: _part(whole, name, rows) for name, rows in {"train": in_train, **held}.items()}
    remarks = [
        size_in_words(len(whole), held),
        *table.remarks,
        *how,
        *left_out(len(table) - len(whole), "source or target"),
        *repeated(digests, "source"),
    ]
    for name in fractions:
        remarks += few_rows(name, len(parts[name]))
    fingerprint = fingerprint_of(whole.sources, whole.targets)
    if settings.split_by is not None:
        fingerprint = digest(fingerprint, *split_values(table, filled, settings.split_by))
    for name, given in given_tables(table, files, settings, read_pairs).items():
        parts[name] = _pairs(given, *_columns_of(given, source, target), name)[0]
        fingerprint = digest(fingerprint, name, fingerprint_of(parts[name].sources, parts[name].targets))
        remarks += [
            f"{name} from {given.name}: {rows_in_words(len(parts[name]))}",
            *given.remarks,
            *left_out(len(given) - len(parts[name]), "source or target"),
            *seen_in_training(name, parts[name].sources, digests[in_train]),
        ]
    return PairCorpus(fingerprint, {name: parts[name] for name in in_order(parts)}, tuple(remarks))


def whole_pairs(table: Table, source: str, target: str, name: str) -> Pairs:
    """All rows that have both texts, as one part."""
    return _pairs(table, *_columns_of(table, source, target), name)[0]


def _columns_of(given: Table, source: str, target: str) -> tuple[str, str]:
    """The same columns as in training; a file that has only the plain names, as a translation memory has, will do."""
    same = source in given.columns and target in given.columns
    plain = SOURCE in given.columns and TARGET in given.columns
    return (SOURCE, TARGET) if plain and not same else (source, target)


def _pairs(table: Table, source: str, target: str, name: str = "whole") -> tuple[Pairs, list[int]]:
    """The rows that have both texts, and which of the table's they are."""
    sources = table.columns[existing(table.name, source, table.columns, "--source")]
    targets = table.columns[existing(table.name, target, table.columns, "--target")]
    filled = [row for row, text in enumerate(sources) if text.strip() and targets[row].strip()]
    if not filled:
        raise DataError(f"{table.name}: no row has a text in both column '{source}' and column '{target}'")
    return _rows(Pairs(name, sources, targets, table.lines, table.name), name, filled), filled


def _part(whole: Pairs, name: str, rows: NDArray[np.bool_]) -> Pairs:
    return _rows(whole, name, np.flatnonzero(rows).tolist())


def _rows(pairs: Pairs, name: str, rows: list[int]) -> Pairs:
    """Some of them."""
    sources, targets = [pairs.sources[row] for row in rows], [pairs.targets[row] for row in rows]
    return Pairs(name, sources, targets, [pairs.lines[row] for row in rows], pairs.source)
