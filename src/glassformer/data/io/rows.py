"""Rows of a table, one after the other and never held: .csv, .tsv, .jsonl (each of them .gz too) and .parquet."""

import csv
import datetime
import functools
import importlib
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError, first_line
from glassformer.data.io.reading import numbered_lines, text_blocks
from glassformer.data.wording import counted, listed

Row = tuple[int, dict[str, str]]
"""The line on which a row begins (of a .parquet file: the row's number), and its values as text."""

TOGETHER = 1024
"""Rows of a .parquet file unpacked at once."""


def is_table(path: Path) -> bool:
    """Whether it is a table, by its name alone."""
    return kind_of(path) in READERS


def kind_of(path: Path) -> str:
    name = path.name.lower()
    packed = name.removesuffix(".gz")
    kind = packed.rpartition(".")[2] if "." in packed else ""
    return "" if kind == "parquet" and packed != name else kind


def read_rows(path: Path, encoding: str) -> Iterator[Row]:
    """Every row, a missing value as "" (a row of JSON holds only the fields that it names)."""
    if is_table(path):
        return READERS[kind_of(path)](path, encoding)
    raise DataError(f"{path} is no table: its name should end in {', '.join(f'.{kind}' for kind in READERS)}")


def _json_rows(path: Path, encoding: str) -> Iterator[Row]:
    """A JSON object a line; empty lines are passed over."""
    empty = True
    for line, text in numbered_lines(text_blocks(path, encoding)):
        if text.strip():
            yield line, _json_row(text, f"{path}, line {line:,}")
            empty = False
    if empty:
        raise DataError(f"{path} is empty: there is no text in it")


def _json_row(row: str, where: str) -> dict[str, str]:
    try:
        values: Any = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f'{where}: a row must be an object such as {{"text": "…"}}, not {row.strip()[:40]}')
    if isinstance(pair := values.get("translation"), dict):  # {"translation": {"en": "…", "de": "…"}}: a column each
        values = {**{name: value for name, value in values.items() if name != "translation"}, **pair}
    texts = {name: as_text(value) for name, value in values.items()}
    for text in texts.values():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: half a character (a lone surrogate) at position {error.start:,}") from None
    return texts


def _parquet_rows(path: Path, encoding: str) -> Iterator[Row]:
    """`encoding`: of no use, since such a file says it itself."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        arrow_error: type[Exception] = importlib.import_module("pyarrow").ArrowException
    except ImportError:
        raise DataError(f"{path}: reading .parquet needs pyarrow: pip install 'glassformer[parquet]'") from None
    row = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=TOGETHER):
                for values in batch.to_pylist():
                    row += 1
                    yield row, {name: as_text(value) for name, value in values.items()}
    except arrow_error as error:
        raise DataError(f"{path}: not a sound .parquet file: {first_line(error)}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    if not row:
        raise DataError(f"{path} has no rows")


def as_text(value: Any) -> str:
    """Text as it is, but for its newlines; nothing as ""; dates as ISO writes them; all else as JSON writes it."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    if value is None:
        return ""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str).removeprefix('"').removesuffix('"')


# --- .csv and .tsv: a header that names the columns, then a row of fields for each example ---

FIELD = 2**27
"""Characters in a field, at most: a quote that is never closed would swallow the rest of a large file."""

Line = tuple[int, str]
Fields = tuple[int, list[str]]
"""The line on which a row begins, and its fields."""

SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def delimited_rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Every row under the header's names. A header without the delimiter may show that it is another one."""
    lines = numbered_lines(text_blocks(path, encoding))
    first = next(((line, text) for line, text in lines if text.strip()), None)
    if first is None:
        raise DataError(f"{path} is empty: there is no text in it")
    others = [sign for sign in SIGNS if sign in first[1]]
    if others and delimiter not in others:
        delimiter = max(others, key=first[1].count)
    lines = itertools.chain([first], lines)
    rows = _tab_rows(lines) if delimiter == "\t" else _quoted_rows(path, lines, delimiter)
    line, header = next(rows)
    names = _names(header, f"{path}, line {line:,}")
    count = 0
    for line, fields in rows:
        if len(fields) != len(names):
            hint = f": a text that holds {SIGNS[delimiter]} needs quotes around it" if len(fields) > len(names) else ""
            there = f"{counted(len(fields), 'field')}, but the header names {len(names)} ({listed(names, 8)})"
            raise DataError(f"{path}, line {line:,}: {there}{hint}")
        yield line, dict(zip(names, fields, strict=True))
        count += 1
    if not count:
        raise DataError(f"{path} has a header ({', '.join(names)}) and no rows below it")


def _names(header: list[str], where: str) -> list[str]:
    names = [name.strip() for name in header]
    for place, name in enumerate(names, 1):
        if not name:
            raise DataError(f"{where}: column {place} has no name: give it one in the header, or take it out")
        if names.index(name) < place - 1:
            raise DataError(f"{where}: two columns are named '{name}': rename one of them in the header")
    return names


def _quoted_rows(path: Path, lines: Iterable[Line], delimiter: str) -> Iterator[Fields]:
    """Rows by the rules of CSV: a quoted field may hold delimiters, newlines, and quotes that are doubled."""
    held: list[Line] = []  # the lines of the row being read

    def with_ends() -> Iterator[str]:
        for line in lines:
            held.append(line)
            yield line[1] + "\n"

    csv.field_size_limit(max(FIELD, csv.field_size_limit()))
    rows = csv.reader(with_ends(), delimiter=delimiter, strict=True)
    names = 0
    while True:
        held.clear()
        try:
            fields = next(rows, None)
        except csv.Error as error:
            raise _bad_quotes(path, held, delimiter, error) from None
        if fields is None:
            return
        names = names or len(fields)
        if fields and (names == 1 or len(fields) > 1 or fields[0].strip()):  # a blank line is no row
            yield held[0][0], fields


def _bad_quotes(path: Path, held: list[Line], delimiter: str, error: csv.Error) -> DataError:
    if not held:
        return DataError(f"{path}: not a table: {error}")
    opened = held[0][0] + _lines_before_open_quote("\n".join(text for _, text in held), delimiter)
    if "expected after" not in str(error):
        return DataError(f"{path}, line {opened:,}: a quote opens here and is never closed")
    return DataError(
        f"{path}, line {held[-1][0]:,}: text follows a closing quote (the quote opened on line {opened:,}): "
        "a quote inside quotes is written twice"
    )


def _lines_before_open_quote(row: str, delimiter: str) -> int:
    """How many of a row's lines end before the quote that is not closed as it should be."""
    field = re.compile(rf'"(?:[^"]|"")*+"(?={delimiter}|\n|\Z)|(?!")[^{delimiter}]*')
    at = 0
    while (found := field.match(row, at)) and found.end() < len(row):
        at = found.end() + 1
    return row.count("\n", 0, at)


TAB_FIELD = re.compile(r'(?:^|\t)(?:"((?:[^"]|"")*+)"(?=\t|\Z)|([^\t]*))')
LINES_TOGETHER = 1000
"""Lines that a quoted field between tabs may take, at most."""


def _tab_rows(lines: Iterable[Line]) -> Iterator[Fields]:
    """Rows of fields between tabs. Many such files quote nothing: only a field quoted as a whole loses its quotes.

    A field that begins with a quote may go on over several lines, if one of them closes it; but where a line and the
    next are both rows by themselves, the quote is a plain one.
    """
    coming = iter(lines)
    ahead: deque[Line] = deque()
    names = 0
    while line := ahead.popleft() if ahead else next(coming, None):
        number, text = line
        fields, is_open = _tab_fields(text)
        names = names or len(fields)
        taken = 0
        while is_open and taken < LINES_TOGETHER:
            if taken == len(ahead):
                ahead.extend(itertools.islice(coming, 1))
            if taken == len(ahead) or (len(fields) == names == len(_tab_fields(ahead[taken][1])[0])):
                break
            text += "\n" + ahead[taken][1]
            taken += 1
            joined, is_open = _tab_fields(text)
            if not is_open:
                fields = joined
                for _ in range(taken):
                    ahead.popleft()
        if len(fields) > 1 or fields[0].strip():  # a blank line is no row
            yield number, fields


def _tab_fields(text: str) -> tuple[list[str], bool]:
    """The fields, and whether one of them begins with a quote that does not end it."""
    if '"' not in text:
        return text.split("\t"), False
    fields: list[str] = []
    is_open = False
    for quoted, plain in (found.groups() for found in TAB_FIELD.finditer(text)):
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        is_open = is_open or (quoted is None and plain.startswith('"'))
    return fields, is_open


READERS: dict[str, Callable[[Path, str], Iterator[Row]]] = {
    "csv": functools.partial(delimited_rows, delimiter=","),
    "tsv": functools.partial(delimited_rows, delimiter="\t"),
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
}
"""What reads the rows of a file, by how its name ends."""

TYPED = ("jsonl", "parquet")
"""The files that tell numbers from texts."""
