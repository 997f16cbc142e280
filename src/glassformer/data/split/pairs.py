"""Pairs of texts: their columns, and their division into parts."""

from collections.abc import Iterable
from dataclasses import replace

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import NAMES, by_name, only_column, require_column
from glassformer.data.io.aligned import SOURCE, TARGET, read_pairs
from glassformer.data.io.table import Table
from glassformer.data.split.rows import NO_PAIR, RowCorpus, RowPart, given_tables, skip_rows, split_rows
from glassformer.data.wording import listed


def pair_columns(where: str, names: Iterable[str], settings: DataSettings) -> tuple[str, str] | None:
    """Return the columns of a text and its translation, by --source and --target or by well-known names.

    None: the table does not look like pairs, or it has another text or label.
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
    """Return the column of the other side, by its name or because no other is left."""
    found = by_name(names, NAMES[side]) or (names if len(names) == 1 else [])
    if not found:
        others = f"name one of {listed(names)}" if names else "there is no other column: name one"
        raise DataError(f"{where}: no column looks like the {side}: {others} with --{side}")
    return only_column(where, found, f"the {side}", f"--{side}")


class Pairs(RowPart):
    """One part of the pairs. A sentence with several translations is in one part only."""

    @property
    def sources(self) -> list[str]:
        return self.texts

    @property
    def targets(self) -> list[str]:
        return self.labels


PairCorpus = RowCorpus[Pairs]


def split_pairs(table: Table, source: str, target: str, settings: DataSettings) -> PairCorpus:
    """Divide a table of pairs, and add the files of parts. `source`, `target`: columns."""
    whole, filled = _pairs(table, source, target, settings)
    corpus = split_rows(whole, table, filled, settings, alike="source", facts=table.remarks)
    corpus.warn()
    given = given_tables(table, settings, read_pairs)
    parts = ((whole_pairs(other, source, target, name, settings), other.remarks) for name, other in given)
    corpus.take_files((replace(part, remarks=(*notes, *part.remarks)) for part, notes in parts), settings)
    return corpus


def whole_pairs(table: Table, source: str, target: str, name: str, settings: DataSettings) -> Pairs:
    """Return all rows that have both texts as one part.

    The columns are those of training. If a file has only columns named source and target, as a translation memory has,
    these are read.
    """
    if not {source, target} <= table.columns.keys() and {SOURCE, TARGET} <= table.columns.keys():
        source, target = SOURCE, TARGET
    return _pairs(table, source, target, settings, name)[0]


def _pairs(
    table: Table, source: str, target: str, settings: DataSettings, name: str = "whole"
) -> tuple[Pairs, list[int]]:
    """Return the rows that have both texts, and their positions in the table."""
    sources = table.columns[require_column(table.name, source, table.columns, "--source")]
    targets = table.columns[require_column(table.name, target, table.columns, "--target")]
    filled = [row for row, text in enumerate(sources) if text.strip() and targets[row].strip()]
    if not filled:
        raise DataError(f"{table.name}: no row has a text in both column '{source}' and column '{target}'")
    pairs = Pairs(name, sources, targets, table.lines, table.name).select(name, filled)
    skipped = skip_rows(table.name, len(table), {NO_PAIR: table.lines_but(filled)}, settings.bad_rows)
    return replace(pairs, skipped=skipped), filled
