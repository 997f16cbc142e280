"""Read the rows of a table one by one: .csv, .tsv, .jsonl (all also .gz) and .parquet."""

import csv
import datetime
import functools
import importlib
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.config.errors import DataError, MissingPackage, read_failure
from glassformer.config.limits import limits, most_of, parse_json, refuse_beyond, refuse_bomb
from glassformer.config.progress import BYTE, progress_of
from glassformer.data.io.reading import numbered_lines
from glassformer.data.wording import counted, listed

Row = tuple[int, dict[str, str]]
"""The line on which a row begins (in a .parquet file, the number of the row), and its values as text."""


class NoRows(DataError):
    """Error for a table with columns and no rows, which cannot be learned from but can be predicted."""

    def __init__(self, line: str, columns: Sequence[str]) -> None:
        super().__init__(line)
        self.columns = columns


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by its name alone."""
    return kind_of(path) in READERS


def kind_of(path: Path) -> str:
    """Return a file's format by its ending, such as csv; empty without an ending."""
    name = path.name.lower()
    packed = name.removesuffix(".gz")
    kind = packed.rpartition(".")[2] if "." in packed else ""
    return "" if kind == "parquet" and packed != name else kind


def read_rows(path: Path, encoding: str) -> Iterator[Row]:
    """Yield every row, with "" for missing values; a row of JSON has only the fields that it names."""
    if is_table(path):
        return READERS[kind_of(path)](path, encoding)
    raise DataError(f"{path} is no table: its name should end in {', '.join(f'.{kind}' for kind in READERS)}")


def _json_rows(path: Path, encoding: str) -> Iterator[Row]:
    """Yield a row per line of JSON; blank lines are skipped."""
    empty = True
    for line, text in numbered_lines(path, encoding):
        if text.strip():
            yield line, _json_row(text, f"{path}, line {line:,}")
            empty = False
    if empty:
        raise DataError(f"{path} is empty: there is no text in it")


def _json_row(row: str, where: str) -> dict[str, str]:
    try:
        values: Any = parse_json(row, where)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: mend the line, or take it out ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f'{where}: a row must be an object such as {{"text": "…"}}, not {row.strip()[:40]}')
    if isinstance(
        pair := values.get("translation"), dict
    ):  # {"translation": {"en": "…", "de": "…"}}: a column per language
        values = {**{name: value for name, value in values.items() if name != "translation"}, **pair}
    texts = {name: as_text(value) for name, value in values.items()}
    for text in texts.values():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: half a character (a lone surrogate) at position {error.start:,}") from None
    return texts


def _parquet_rows(path: Path, encoding: str) -> Iterator[Row]:
    row = 0
    for batch in record_batches(path):
        for values in zip(*(map(as_text, column) for column in values_of(batch, path, row)), strict=True):
            row += 1
            yield row, dict(zip(batch.schema.names, values, strict=True))
    if not row:
        raise NoRows(f"{path} has no rows", record_schema(path).names)


def as_text(value: object) -> str:
    """Return a text with normalised newlines, "" for None, ISO dates, and JSON for other values."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    if value is None:
        return ""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str).removeprefix('"').removesuffix('"')


# --- .csv and .tsv: a header with the names of the columns, then rows of fields ---

Line = tuple[int, str]
Fields = tuple[int, list[str]]
"""Line on which a row begins, and its fields."""

DELIMITERS = {"csv": ",", "tsv": "\t"}
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def delimited_rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield every row below the header. If the header does not contain the delimiter, it may show another one."""
    lines = numbered_lines(path, encoding)
    first = next(((line, text) for line, text in lines if text.strip()), None)
    if first is None:
        raise DataError(f"{path} is empty: there is no text in it")
    delimiter = _delimiter(first[1], delimiter)
    lines = itertools.chain([first], lines)
    rows = _tab_rows(lines) if delimiter == "\t" else _quoted_rows(path, lines, delimiter)
    line, header = next(rows)
    refuse_beyond("columns", len(header), f"{path} has {{}} columns")
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
        raise NoRows(f"{path} has a header ({listed(names)}) and no rows below it", names)


def delimiter_of(path: Path, encoding: str) -> str:
    """Return the delimiter of a .csv or .tsv file."""
    header = next((text for _, text in numbered_lines(path, encoding) if text.strip()), "")
    return _delimiter(header, DELIMITERS[kind_of(path)])


def _delimiter(header: str, usual: str) -> str:
    others = [sign for sign in SIGNS if sign in header]
    return max(others, key=header.count) if others and usual not in others else usual


def _names(header: list[str], where: str) -> list[str]:
    """Return the names of the columns; one without a name is named by its position, as in pandas."""
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(header)]
    before = set[str]()
    for name in names:
        if name in before:
            raise DataError(f"{where}: two columns are named '{name}': rename one of them in the header")
        before.add(name)
    return names


CLOSED_BADLY = "a quote is not closed, or text follows a closing quote; within quotes, a quote is written twice"


def _quoted_rows(path: Path, lines: Iterable[Line], delimiter: str) -> Iterator[Fields]:
    """Yield rows by the rules of CSV: a quoted field may contain delimiters, newlines and doubled quotes."""
    held: list[Line] = []  # the lines of the row being read
    most = limits().field_bytes

    def with_ends() -> Iterator[str]:
        length = 0
        for line in lines:
            length = len(line[1]) + (length + 1 if held else 0)
            if length > most:  # a quote that is never closed would swallow the rest of a large file
                what = "a quote opens in this row and is not closed for" if held else "a line of"
                refuse_beyond("field_bytes", length, f"{path}, line {held[0][0] if held else line[0]:,}: {what} {{}}")
            held.append(line)
            yield line[1] + "\n"

    csv.field_size_limit(most)
    rows = csv.reader(with_ends(), delimiter=delimiter, strict=True)
    names = 0
    while True:
        held.clear()
        try:
            fields = next(rows, None)
        except csv.Error as error:
            where = f"{path}, line {held[0][0]:,}" if held else path
            raise DataError(f"{where}: {'not a table' if not held else CLOSED_BADLY} ({error})") from None
        if fields is None:
            return
        names = names or len(fields)
        if fields and (names == 1 or len(fields) > 1 or fields[0].strip()):  # skip blank lines
            yield held[0][0], fields


TAB_FIELD = re.compile(r'(?:^|\t)(?:"((?:[^"]|"")*+)"(?=\t|\Z)|([^\t]*))')
WITHIN_QUOTES = re.compile(r'(?:[^"]|"")*+')
LINES_TOGETHER = 1000
"""Maximum number of lines in a quoted field between tabs."""


def _tab_rows(lines: Iterable[Line]) -> Iterator[Fields]:
    """Yield rows of fields between tabs. Many such files quote nothing: only a field quoted as a whole loses quotes.

    A field that begins with a quote may continue over several lines, if one of them closes it. The quote is an ordinary
    character if its line and a later line before the closing quote are both rows by themselves.
    """
    coming, ahead, names = iter(lines), deque[Line](), 0
    while line := ahead.popleft() if ahead else next(coming, None):
        number, text = line
        fields, is_open = _tab_fields(text)
        names = names or len(fields)
        if is_open and _stays_quoted(text, within=False):
            more = _lines_to_close(coming, ahead, names=names, alone=len(fields) == names)
            if more:
                fields, _ = _tab_fields("\n".join([text, *(ahead.popleft()[1] for _ in range(more))]))
        if len(fields) > 1 or fields[0].strip():  # a blank line is not a row
            yield number, fields


def _lines_to_close(coming: Iterator[Line], ahead: deque[Line], *, names: int, alone: bool) -> int:
    """Return how many of the lines ahead an open quote continues over; 0 if it is an ordinary character.

    `names`: the number of columns; `alone`: the line with the quote is a row by itself.
    """
    for place in range(LINES_TOGETHER):
        if place == len(ahead):
            if (line := next(coming, None)) is None:
                return 0
            ahead.append(line)
        text = ahead[place][1]
        if alone and len(_tab_fields(text)[0]) == names:
            return 0
        if not (state := _stays_quoted(text, within=True)):
            return place + 1 if state is False else 0
    return 0


def _stays_quoted(line: str, *, within: bool) -> bool | None:
    """Return whether a quoted field is open after a line; None if a quote closes inside a field.

    `within`: whether a field was open before the line.
    """
    at = 0
    if not within:
        within, at = line.startswith('"'), 1 if line.startswith('"') else 0
    while within or (at := line.find('\t"', at) + 2) > 1:
        found = WITHIN_QUOTES.match(line, at)
        assert found is not None
        at, within = found.end() + 1, False
        if at > len(line):
            return True
        if at < len(line) and line[at] != "\t":
            return None
    return False


def _tab_fields(text: str) -> tuple[list[str], bool]:
    """Return the fields, and whether one begins with a quote that does not end it."""
    if '"' not in text:
        return text.split("\t"), False
    fields: list[str] = []
    is_open = False
    for quoted, plain in (found.groups() for found in TAB_FIELD.finditer(text)):
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        is_open = is_open or (quoted is None and plain.startswith('"'))
    return fields, is_open


READERS: dict[str, Callable[[Path, str], Iterator[Row]]] = {
    **{kind: functools.partial(delimited_rows, delimiter=sign) for kind, sign in DELIMITERS.items()},
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
}
"""Functions that read the rows of a file, by its ending."""

TYPED = ("jsonl", "parquet")
"""Formats that distinguish numbers from texts."""

# --- .parquet: only some rows and a few pages of a file are in memory ---

MAX_BATCH_ROWS = 1024
"""Maximum number of rows that are unpacked at once."""
BUFFER_BYTES = 2**20
"""Bytes of a column that are read at once; Arrow's default is a row group, which may be the whole file."""


def arrow(module: str, path: object, work: str = "reading") -> Any:
    """Import a module of pyarrow; raise `MissingPackage` if it is missing for this `work` on a file."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingPackage.needed(f"{path}: {work} .parquet", "pyarrow", "parquet") from None


def record_batches(path: Path) -> Iterator[Any]:
    """Yield all rows as Arrow batches; raise `DataError` for a file that cannot be read."""
    parquet, arrow_error = arrow("pyarrow.parquet", path), arrow("pyarrow", path).ArrowException
    row = 0
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            together, packed, unpacked = _rows_together(path, file), path.stat().st_size, 0
            progress = progress_of(BYTE)
            for batch in file.iter_batches(batch_size=together):
                unpacked += batch.nbytes
                refuse_bomb(path, unpacked, packed)
                refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}} and more", file_bytes=packed)
                progress(packed * row // file.metadata.num_rows, packed)
                yield batch
                row += batch.num_rows
    except (arrow_error, OSError, UnicodeDecodeError) as error:  # UnicodeDecodeError: in the name of a column
        raise DataError(read_failure(path, error, ".parquet file")) from None


def values_of(batch: Any, path: Path, row: int) -> list[list[Any]]:
    """Return the values of a batch by column. `row`: number of rows before it in the file."""
    try:
        return [column.to_pylist() for column in batch.columns]
    except UnicodeDecodeError:
        raise DataError(f"{path} is damaged: save it again (after row {row:,}, a text is not UTF-8)") from None
    except arrow("pyarrow", path).ArrowException as error:
        raise DataError(read_failure(path, error, ".parquet file")) from None


def record_schema(path: Path) -> Any:
    """Return the columns of a file and their types."""
    return arrow("pyarrow.parquet", path).read_schema(path)


def _rows_together(path: Path, file: Any) -> int:
    """Return how many rows of a .parquet file to unpack at once; raise `DataError` if its metadata exceed a limit.

    A value in many rows is stored once, so a few bytes can need much memory.
    """
    facts, packed = file.metadata, path.stat().st_size
    refuse_beyond("columns", facts.num_columns, f"{path} has {{}} columns")
    groups = [facts.row_group(place) for place in range(facts.num_row_groups)]
    parts = [group.column(place) for group in groups for place in range(group.num_columns)]
    least = 8 * facts.num_rows * facts.num_columns
    unpacked = max(least, sum(part.total_uncompressed_size for part in parts))
    refuse_bomb(path, unpacked, packed)
    refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}} and more", file_bytes=packed)
    with path.open("rb") as pages:
        largest = max((_shared_bytes(pages, part) for part in parts), default=0)
    return int(min(MAX_BATCH_ROWS, max(1, most_of("unpacked_bytes", packed) / 4 // max(1, largest))))


def _shared_bytes(pages: BinaryIO, part: Any) -> int:
    """Return the maximum bytes of a value that rows of a column chunk may share."""
    shares = {"RLE_DICTIONARY", "PLAIN_DICTIONARY", "DELTA_BYTE_ARRAY"}.intersection(part.encodings)
    if not shares:
        return 0
    if "DELTA_BYTE_ARRAY" in shares or part.dictionary_page_offset is None:
        return int(part.total_uncompressed_size)
    pages.seek(part.dictionary_page_offset)  # Thrift's compact protocol: type of the page, then its unpacked size
    head = re.match(rb"\x15[\x80-\xff]*[\x00-\x7f]\x15([\x80-\xff]*[\x00-\x7f])", pages.read(32), re.DOTALL)
    if head is None:
        return int(part.total_uncompressed_size)
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(head[1])) >> 1
