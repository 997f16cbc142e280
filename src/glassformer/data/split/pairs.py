"""Pairs of texts: which columns hold them, and what is learned from and held out to see how well."""

from collections.abc import Iterable
from dataclasses import replace

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import NAMES, by_name, only_column, require_column
from glassformer.data.io.aligned import SOURCE, TARGET, read_pairs
from glassformer.data.io.table import Table
from glassformer.data.split.base import Corpus
from glassformer.data.split.rows import NO_PAIR, RowPart, given_tables, skip_rows, split_rows
from glassformer.data.wording import listed


def pair_columns(where: str, names: Iterable[str], settings: DataSettings) -> tuple[str, str] | None:
    """The columns of a text and its translation: those that were named, or that have well-known names.

    None: nobody named one, and not both are found; or there is another text or label, named or of a well-known name.
    """
    names = list(names)
    if settings.source is None and settings.target is None:
        if len(names) == 2 and all(name.lower() in NAMES["language"] for name in names):
            return names[0], names[1]
        found = by_name(names, NAMES["source"]), by_name(names, NAMES["target"])
        if not all(found) or by_name(names, NAMES["text"]) or settings.text or settings.label:
            return None
    source, target = settings.source, settings.target
    if source is not None:
        source = require_column(where, source, names, "--source")
    if target is not None:
        target = require_column(where, target, names, "--target")
    source = source or _other_side(where, [name for name in names if name != target], "source")
    target = target or _other_side(where, [name for name in names if name != source], "target")
    if source == target:
        raise DataError(f"{where}: column '{source}' cannot be both the source (--source) and the target (--target)")
    return source, target


def _other_side(where: str, names: list[str], side: str) -> str:
    """The column of the other side, by its name, or because it is the only one left."""
    found = by_name(names, NAMES[side]) or (names if len(names) == 1 else [])
    if not found:
        others = f"name one of {listed(names)}" if names else "there is no other column: name one"
        raise DataError(f"{where}: no column looks like the {side}: {others} with --{side}")
    return only_column(where, found, f"the {side}", f"--{side}")


class Pairs(RowPart):
    """One part: texts, and a translation of each. A sentence with several translations is in one part alone."""

    @property
    def sources(self) -> list[str]:
        return self.texts

    @property
    def targets(self) -> list[str]:
        return self.labels


PairCorpus = Corpus[Pairs]


def split_pairs(table: Table, source: str, target: str, settings: DataSettings) -> PairCorpus:
    """Files that were given are taken as they are; other parts are split off the table. `source`, `target`: columns."""
    whole, filled = _pairs(table, source, target, settings)
    split = split_rows(whole, table, filled, settings, alike="source", facts=table.remarks)
    split.warn()
    given = given_tables(table, settings, read_pairs)
    parts = ((whole_pairs(other, source, target, name, settings), other.remarks) for name, other in given)
    return split.corpus((replace(part, remarks=(*said, *part.remarks)) for part, said in parts), settings)


def whole_pairs(table: Table, source: str, target: str, name: str, settings: DataSettings) -> Pairs:
    """Return all rows that have both texts as one part.

    The columns are those of training; if a file has only the plain names, as a translation memory has, these are read.
    """
    if not {source, target} <= table.columns.keys() and {SOURCE, TARGET} <= table.columns.keys():
        source, target = SOURCE, TARGET
    return _pairs(table, source, target, settings, name)[0]


def _pairs(
    table: Table, source: str, target: str, settings: DataSettings, name: str = "whole"
) -> tuple[Pairs, list[int]]:
    """The rows that have both texts, and which of the table's they are."""
    sources = table.columns[require_column(table.name, source, table.columns, "--source")]
    targets = table.columns[require_column(table.name, target, table.columns, "--target")]
    filled = [row for row, text in enumerate(sources) if text.strip() and targets[row].strip()]
    if not filled:
        raise DataError(f"{table.name}: no row has a text in both column '{source}' and column '{target}'")
    pairs = Pairs(name, sources, targets, table.lines, table.name).select(name, filled)
    skipped = skip_rows(table.name, len(table), {NO_PAIR: table.lines_but(filled)}, settings.bad_rows)
    return replace(pairs, skipped=skipped), filled
