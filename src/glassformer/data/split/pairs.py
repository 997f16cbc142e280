"""Pairs of texts, divided: what translating is learned from, and what is held out to see how well."""

from typing import ClassVar

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import require_column
from glassformer.data.io.aligned import SOURCE, TARGET, read_pairs
from glassformer.data.io.table import Table
from glassformer.data.split.base import Corpus
from glassformer.data.split.rows import RowPart, given_tables, left_out, split_rows


class Pairs(RowPart):
    """One part: texts, and a translation of each. A sentence with several translations is in one part alone."""

    lacking: ClassVar[str] = "source or target"

    @property
    def sources(self) -> list[str]:
        return self.texts

    @property
    def targets(self) -> list[str]:
        return self.labels


PairCorpus = Corpus[Pairs]


def split_pairs(table: Table, source: str, target: str, settings: DataSettings) -> PairCorpus:
    """Files that were given are taken as they are; other parts are split off the table. `source`, `target`: columns."""
    whole, filled = _pairs(table, source, target)
    split = split_rows(whole, table, filled, settings, alike="source", facts=table.remarks)
    split.warn()
    given = (
        (part := whole_pairs(other, source, target, name), [*other.remarks, *left_out(other, part)])
        for name, other in given_tables(table, settings, read_pairs)
    )
    return split.corpus(given, settings)


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
    sources = table.columns[require_column(table.name, source, table.columns, "--source")]
    targets = table.columns[require_column(table.name, target, table.columns, "--target")]
    filled = [row for row, text in enumerate(sources) if text.strip() and targets[row].strip()]
    if not filled:
        raise DataError(f"{table.name}: no row has a text in both column '{source}' and column '{target}'")
    return Pairs(name, sources, targets, table.lines, table.name).select(name, filled), filled
