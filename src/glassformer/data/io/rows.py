"""Rows of a table, one after the other and never held: .csv, .tsv, .jsonl (each of them .gz too) and .parquet."""

import datetime
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError
from glassformer.data.io.delimited import delimited_rows
from glassformer.data.io.reading import numbered_lines, text_blocks

Row = tuple[int, dict[str, str]]
"""The line on which a row begins (of a .parquet file: the row's number), and its values as text."""

KINDS = ("csv", "tsv", "jsonl", "parquet")

TOGETHER = 1024
"""Rows of a .parquet file unpacked at once."""


def is_table(path: Path) -> bool:
    """Whether it is a table, by its name alone."""
    return kind_of(path) in KINDS


def kind_of(path: Path) -> str:
    name = path.name.lower()
    packed = name.removesuffix(".gz")
    kind = packed.rpartition(".")[2] if "." in packed else ""
    return "" if kind == "parquet" and packed != name else kind


def read_rows(path: Path, encoding: str) -> Iterator[Row]:
    """Every row, a missing value as "" (a row of JSON holds only the fields that it names)."""
    match kind_of(path):
        case "csv":
            return delimited_rows(path, encoding, ",")
        case "tsv":
            return delimited_rows(path, encoding, "\t")
        case "jsonl":
            return _json_rows(path, encoding)
        case "parquet":
            return _parquet_rows(path)
    raise DataError(f"{path} is no table: its name should end in {', '.join(f'.{kind}' for kind in KINDS)}")


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


def _parquet_rows(path: Path) -> Iterator[Row]:
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
        raise DataError(f"{path}: not a sound .parquet file: {str(error).splitlines()[0]}") from None
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
