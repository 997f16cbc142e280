"""The rows of a file, some at a time, so that a file of any size can be read: of a table, or of a text file, line by
line.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

from glassformer.config.limits import refuse_beyond
from glassformer.data.io.reading import check_encoding, numbered_lines
from glassformer.data.io.rows import TYPED, NoRows, Row, is_table, kind_of, read_rows
from glassformer.data.io.table import Table, collect

ROWS_AT_ONCE = 2048
"""Rows of a chunk: enough to find some of like length for every batch, few enough for little memory."""
SAMPLE = 100
"""Rows at the beginning by which columns are recognised."""

LINE = "text"
"""The one column of a file that is no table."""

Item = TypeVar("Item")


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each made by a thread of its own while the one before it is in use."""
    coming = iter(items)
    with ThreadPoolExecutor(1) as thread:
        ahead = thread.submit(lambda: list(islice(coming, 1)))
        while item := ahead.result():
            ahead = thread.submit(lambda: list(islice(coming, 1)))
            yield item[0]


@dataclass(frozen=True, eq=False)
class RowFile:
    """A file that was read once from its beginning to its end, and so holds no fault, and can be read again."""

    name: str
    """The name, as the user gave it."""
    path: Path
    encoding: str
    sample: dict[str, list[str]]
    """The first rows' values, of every column that the file has."""
    count: int
    whole: Table | None = None
    """All rows, where they are held anyway."""

    @classmethod
    def scan(cls, name: str, path: Path, encoding: str) -> Self:
        check_encoding(encoding)
        sample: dict[str, list[str]] = {} if is_table(path) else {LINE: []}
        count = 0
        for line, row in _rows_or_none(path, encoding, sample):
            if row.keys() != sample.keys():
                sample |= {column: [""] * min(count, SAMPLE) for column in row if column not in sample}
                refuse_beyond("columns", len(sample), f"{path} has {{}} columns by line {line:,}")
            if count < SAMPLE:
                for column, values in sample.items():
                    values.append(row.get(column, ""))
            count += 1
        return cls(name, path, encoding, sample, count)

    @classmethod
    def of_table(cls, table: Table, path: Path, encoding: str) -> Self:
        """A table in memory, as a file that was read."""
        sample = {column: values[:SAMPLE] for column, values in table.columns.items()}
        return cls(table.name, path, encoding, sample, len(table), table)

    def tables(self) -> Iterator[Table]:
        """All rows, in tables of a few each that have every column of the file; at least one table."""
        if not self.count:
            yield Table(self.name, {column: [] for column in self.sample}, [])
            return
        if self.whole is not None:
            yield from (self.whole.rows(first, first + ROWS_AT_ONCE) for first in range(0, self.count, ROWS_AT_ONCE))
            return
        rows = _rows(self.path, self.encoding)
        while len(some := collect(self.name, self.path, islice(rows, ROWS_AT_ONCE))):
            columns = {column: some.columns.get(column) or [""] * len(some) for column in self.sample}
            yield Table(self.name, columns, some.lines, typed=kind_of(self.path) in TYPED)


def _rows_or_none(path: Path, encoding: str, columns: dict[str, list[str]]) -> Iterator[Row]:
    """The rows; of a table that has none, its `columns` are filled in."""
    try:
        yield from _rows(path, encoding)
    except NoRows as none:
        columns |= {column: [] for column in none.columns}


def _rows(path: Path, encoding: str) -> Iterator[Row]:
    """The rows of a table, or the lines of a text; a newline at its end begins no further line."""
    if is_table(path):
        yield from read_rows(path, encoding)
        return
    last: Row | None = None
    for line, text in numbered_lines(path, encoding):
        if last is not None:
            yield last
        last = (line, {LINE: text})
    if last is not None and last[1][LINE]:
        yield last
