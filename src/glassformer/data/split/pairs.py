"""Pairs of texts, divided: what translating is learned from, and what is held out to see how well."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import require_column
from glassformer.data.io.aligned import SOURCE, TARGET, read_pairs
from glassformer.data.io.table import Table
from glassformer.data.mixing import Numbers
from glassformer.data.split.base import Corpus
from glassformer.data.split.groups import digests_of
from glassformer.data.split.rows import fingerprint_of, given_tables, left_out, split_rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """One part: texts, and a translation of each."""

    name: str
    sources: list[str]
    targets: list[str]
    lines: list[int]
    """Where each row begins in its file."""
    origin: str
    """The file or data set they come from."""

    noun: ClassVar[str] = "row"
    lacking: ClassVar[str] = "source or target"

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def digests(self) -> Numbers:
        """A sentence with several translations is in one part alone."""
        return digests_of(self.sources)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.sources, self.targets)

    def select(self, name: str, rows: list[int]) -> "Pairs":
        sources, targets = [self.sources[row] for row in rows], [self.targets[row] for row in rows]
        return Pairs(name, sources, targets, [self.lines[row] for row in rows], self.origin)

    def join(self, other: "Pairs") -> "Pairs":
        sources, targets = self.sources + other.sources, self.targets + other.targets
        return Pairs(self.name, sources, targets, self.lines + other.lines, self.origin)


class PairCorpus(Corpus[Pairs]):
    """Pairs of texts, divided."""


def split_pairs(table: Table, source: str, target: str, settings: DataSettings) -> PairCorpus:
    """Files that were given are taken as they are; other parts are split off the table. `source`, `target`: columns."""
    whole, filled = _pairs(table, source, target)
    split = split_rows(whole, table, filled, settings, alike="source")
    remarks = [split.size, *table.remarks, *split.how, *left_out(table, whole)]
    remarks += [*split.repeats("source"), *split.warnings()]
    given = (
        (part := whole_pairs(other, source, target, name), [*other.remarks, *left_out(other, part)])
        for name, other in given_tables(table, settings, read_pairs)
    )
    corpus = split.corpus(remarks, given, settings)
    return PairCorpus(corpus.fingerprint, corpus.parts, corpus.remarks)


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
