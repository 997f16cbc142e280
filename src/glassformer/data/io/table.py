"""Tables (with every value as text) and pictures of one size in memory, for tasks that learn labels."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.limits import refuse_beyond
from glassformer.config.messages import keep_listener
from glassformer.config.progress import may_stop
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.place import files_of, find, short_name
from glassformer.data.io.reading import ESTIMATED_AT, HeldMemory, check_encoding, numbered_lines, times_first_lines
from glassformer.data.io.rows import TYPED, NoRows, Row, is_table, kind_of, read_rows
from glassformer.data.wording import line_in_words, listed

EMPTY = ("", "na", "n/a", "nan", "null", "none", "-", "?")
"""Texts in cells that stand for a missing value."""
MAX_EMPTY_CHARS = max(map(len, EMPTY))


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory, with every value as text."""

    name: str
    """The name, as the user gave it."""
    columns: dict[str, list[str]]
    lines: list[int]
    """Line on which each row begins in its file."""
    test: "Callable[[], Table] | None" = None
    """Reads the rows that an embedded data set always holds out for the test."""
    remarks: tuple[str, ...] = ()
    """Messages on what reading the table left out or chose."""
    typed: bool = False
    """Whether the file distinguishes numbers from texts; its numbers then have a decimal point."""

    def __len__(self) -> int:
        return len(self.lines)

    def at(self, row: int, column: str | None = None) -> str:
        """Return where a row, or a cell of it, is in its file."""
        cell = "" if column is None else f", column '{column}'"
        return f"{self.name}, {line_in_words(self.lines[row])}{cell}"

    def texts(self, name: str) -> list[str]:
        """Return the text of each row: one column, or several joined ones (title,body)."""
        parts = text_parts(name, self.columns)
        if len(parts) == 1:
            return self.columns[parts[0]]
        return [join_texts(values) for values in zip(*(self.columns[part] for part in parts), strict=True)]

    def lines_but(self, rows: Iterable[int]) -> list[int]:
        """Return the lines of all other rows."""
        taken = set(rows)
        return [line for row, line in enumerate(self.lines) if row not in taken]

    def rows(self, first: int, last: int) -> "Table":
        """Return the rows from `first` to before `last`."""
        columns = {name: values[first:last] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[first:last])


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of one size in memory, with a label for each."""

    name: str
    """The name, as the user gave it."""
    pixels: NDArray[np.uint8]
    """N×H×W×C; C is 1 if all pictures are grey, else 3."""
    labels: list[str]
    files: list[str]
    """Path of each picture in the folder; without files, `image 17`, counted from 0."""
    part: list[str] | None = None
    """The part of each picture (train, validation or test) if the data are already divided."""
    note: str = ""
    """Message on files that were left out, or on scaled pixels."""
    top: int | None = None
    """The value of white in arrays; None for image files."""

    def __len__(self) -> int:
        return len(self.labels)


def text_parts(name: str | None, names: Container[str]) -> list[str]:
    """Return the text columns of a table with these columns, which are joined; none if `name` is None."""
    if name is None:
        return []
    return [name] if name in names else [part.strip() for part in name.split(",")]


def require_columns(where: str, wanted: Iterable[str], names: Collection[str], advice: str = "") -> None:
    """Raise `DataError` if a table lacks a column that a run reads."""
    for name in wanted:
        if name not in names:
            raise DataError(f"{where}: no column '{name}', which this run reads (columns: {listed(names)}){advice}")


def join_texts(parts: Iterable[str]) -> str:
    """Join columns of a row, one per line, except blank ones."""
    return "\n".join(part for part in parts if part.strip())


LINE_CELLS = 5
"""Number of list items that need as much memory as a line number."""


def holds_table(path_or_name: str) -> bool:
    """Return whether data are rows with columns, without reading them."""
    path = find(path_or_name, several=True)
    if path is None:
        return len(open_dataset(path_or_name).columns) > 1
    return path.is_file() and all(map(is_table, files_of(path_or_name) or [path]))


def read_table(path_or_name: str, settings: DataSettings, *, most: int | None = None) -> Table:
    """Read a .csv, .tsv, .jsonl or .parquet file, or a data set. `most`: maximum number of rows."""
    path = find(path_or_name, several=True)
    if path is None:
        return _from_dataset(path_or_name, most if is_hub(path_or_name) else None)  # embedded data sets are small
    if (files := files_of(path_or_name)) is not None:
        return _from_files(short_name(path_or_name), files, settings, most)
    if not path.is_file() or not is_table(path):
        raise DataError(f"{path_or_name} is no table: labels come from a .csv, .tsv, .jsonl or .parquet file")
    check_encoding(settings.encoding)
    rows = islice(read_rows(path, settings.encoding), most)
    return replace(collect(path_or_name, path, rows, whole=most is None), typed=kind_of(path) in TYPED)


def _from_files(name: str, files: list[Path], settings: DataSettings, most: int | None) -> Table:
    """Return the rows of several tables as one table. Line numbers continue from one file to the next."""
    whole = read_table(str(files[0]), settings, most=most)
    for file in files[1:]:
        if most is not None and len(whole) >= most:
            break
        more = read_table(str(file), settings, most=None if most is None else most - len(whole))
        if (odd := min(set(whole.columns) ^ set(more.columns), default=None)) is not None:
            lacking, other = (file, files[0]) if odd in whole.columns else (files[0], file)
            raise DataError(f"{lacking} has no column '{odd}', which {other} has: several tables need the same columns")
        last = whole.lines[-1] if whole.lines else 0
        whole = replace(
            whole,
            columns={column: values + more.columns[column] for column, values in whole.columns.items()},
            lines=whole.lines + [last + line for line in more.lines],
            typed=whole.typed and more.typed,
        )
    return replace(whole, name=name)


def collect(name: str, path: Path, rows: Iterable[Row], *, whole: bool = False) -> Table:
    """Collect rows of a file in a table. `whole`: they are all its rows, so that the memory they take is estimated."""
    columns: dict[str, list[str]] = {}
    lines: list[int] = []
    held = HeldMemory(path, path.stat().st_size)
    to_estimate = whole and path.suffix.lower() == ".gz"  # other files take less memory than their size allows
    for line, row in rows:
        may_stop()
        if row.keys() != columns.keys():
            columns |= {name: [] for name in row if name not in columns}
            refuse_beyond("columns", len(columns), f"{path} has {{}} columns by line {line:,}")
        held.add(row.values(), cells=(len(columns) + LINE_CELLS) * len(lines))
        if to_estimate and held.now > ESTIMATED_AT * held.most:
            to_estimate = False
            held.refuse_early(times_first_lines(path, line))
        for column, value in row.items():
            values = columns[column]
            if len(values) < len(lines):
                values += [""] * (len(lines) - len(values))
            values.append(value)
        lines.append(line)
    for values in columns.values():
        values += [""] * (len(lines) - len(values))
    return Table(name, columns, lines)


def _from_dataset(name: str, most: int | None) -> Table:
    dataset = open_dataset(name)

    def table(name: str, rows: Iterable[tuple[str, ...]], test: Callable[[], Table] | None = None) -> Table:
        values = [list(column) for column in zip(*islice(rows, most), strict=True)]
        lines = list(range(1, len(values[0]) + 1))
        return Table(name, dict(zip(dataset.columns, values, strict=True)), lines, test, remarks)

    own, remarks = dataset.test, (dataset.note,) if dataset.note else ()
    return table(name, dataset.rows(), None if own is None else lambda: table(f"{name} (test rows)", own()))


def is_empty(value: str) -> bool:
    """Return whether a cell is blank or stands for a missing value."""
    value = value.strip()
    return len(value) <= MAX_EMPTY_CHARS and value.lower() in EMPTY


# --- files of any size, some rows at a time ---

ROWS_AT_ONCE = 2048
"""Rows of a chunk: enough to batch rows of similar length, few enough for little memory."""
SAMPLE_ROWS = 100
"""Number of rows by which columns are recognised."""

LINE = "text"
"""Name of the only column of a file that is not a table."""

Item = TypeVar("Item")


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the same items; a thread makes the next item while the current one is in use."""
    coming = keep_listener(items)
    with ThreadPoolExecutor(1) as thread:
        ahead = thread.submit(lambda: list(islice(coming, 1)))
        while item := ahead.result():
            ahead = thread.submit(lambda: list(islice(coming, 1)))
            yield item[0]


@dataclass(frozen=True, eq=False)
class RowFile:
    """A file that was read once from beginning to end without an error, and can be read again."""

    name: str
    """The name, as the user gave it."""
    path: Path
    encoding: str
    sample: dict[str, list[str]]
    """Values of the first rows, for every column of the file."""
    count: int
    whole: Table | None = None
    """All rows, if they are in memory anyway."""

    @classmethod
    def scan(cls, name: str, path: Path, encoding: str) -> Self:
        check_encoding(encoding)
        sample: dict[str, list[str]] = {} if is_table(path) else {LINE: []}
        count = 0
        for line, row in _rows_or_none(path, encoding, sample):
            if row.keys() != sample.keys():
                sample |= {column: [""] * min(count, SAMPLE_ROWS) for column in row if column not in sample}
                refuse_beyond("columns", len(sample), f"{path} has {{}} columns by line {line:,}")
            if count < SAMPLE_ROWS:
                for column, values in sample.items():
                    values.append(row.get(column, ""))
            count += 1
        return cls(name, path, encoding, sample, count)

    @classmethod
    def of_table(cls, table: Table, path: Path, encoding: str) -> Self:
        """Return a table in memory as a file that was read."""
        sample = {column: values[:SAMPLE_ROWS] for column, values in table.columns.items()}
        return cls(table.name, path, encoding, sample, len(table), table)

    def tables(self) -> Iterator[Table]:
        """Yield all rows, in tables of a few rows with every column of the file; at least one table."""
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
    """Yield the rows; if a table has none, add its columns to `columns`."""
    try:
        yield from _rows(path, encoding)
    except NoRows as none:
        columns |= {column: [] for column in none.columns}


def _rows(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the rows of a table, or the lines of a text; a newline at its end does not begin another line."""
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
