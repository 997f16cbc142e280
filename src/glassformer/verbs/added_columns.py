"""Write a table with added columns as .csv, .tsv, .jsonl or .parquet, a few rows at a time."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.errors import Misuse
from glassformer.data.io.reading import numbered_lines
from glassformer.data.io.rows import DELIMITERS, arrow, delimiter_of, kind_of, record_batches, record_schema
from glassformer.data.io.table import RowFile, Table
from glassformer.runs.files import aside, text_writer
from glassformer.text.escaping import json_line, spreadsheet_cell

PARQUET, JSON = "parquet", "jsonl"
PRINTED = (*DELIMITERS, JSON)
"""Table formats that are text and can be written to stdout."""
KINDS = (*PRINTED, PARQUET)
GROUP_BYTES = 2**24
"""Approximate number of bytes in a row group of a .parquet file; a whole group is in memory at once."""

NO_TEXT = "the text is empty"
"""Reason for a row without an answer."""

Cells = Mapping[str, Any]
"""Values added to a row, by column. JSON lines may also have values under other names, such as `error`."""
Answered = tuple[Table, Sequence[Cells]]
"""Some rows of a file, with the values added to each."""


def kind_to_write(file: str, out: str | TextIO) -> str:
    """Return the output format: that of the name of `out`; for stdout that of the input if it is text, else csv."""
    if not isinstance(out, str):
        return kind if (kind := kind_of(Path(file))) in PRINTED else "csv"
    if (kind := kind_of(Path(out))) not in KINDS or out.endswith(".gz"):
        raise Misuse(f"--out {out}: its name should end in .csv, .tsv, .jsonl or .parquet")
    return kind


def refuse_itself(file: str, out: str | TextIO) -> None:
    """Raise `Misuse` if the output file is the input file."""
    if isinstance(out, str) and Path(out).exists() and Path(out).samefile(file):
        raise Misuse(f"--out {out} is the file that is read: write to another")


def free_names(wanted: Iterable[str], columns: Iterable[str]) -> dict[str, str]:
    """Return a free column name for each wanted name; `_by_model` is appended to names that the table has already."""
    taken = set(columns)
    free: dict[str, str] = {}
    for name in wanted:
        free_name = name
        while free_name in taken or free_name in free.values():
            free_name += "_by_model"
        free[name] = free_name
    return free


def write_answers(
    file: RowFile, added: Mapping[str, Any], answered: Iterable[Answered], out: str | TextIO, kind: str
) -> None:
    """Write every row of a file in order, with its added values.

    `added`: type of each added column (str, float, bool or list[str]).
    """
    coming = iter(answered)
    first = list(islice(coming, 1))  # an error in the first rows is raised before anything is written
    answered = chain(first, coming)
    if not isinstance(out, str):
        return _write_text(out, file, added, answered, kind)
    if kind == PARQUET:
        with aside(Path(out)) as part:
            return _write_parquet(part, file, added, answered)
    with text_writer(Path(out)) as to:
        return _write_text(to, file, added, answered, kind)


def _write_text(to: TextIO, file: RowFile, added: Mapping[str, Any], answered: Iterable[Answered], kind: str) -> None:
    if kind == JSON:
        return to.writelines(json_line(row, to.encoding) + "\n" for row in _json_rows(file, added, answered))
    names = [*file.sample, *added]
    same = kind_of(file.path) == kind
    writer = csv.writer(
        to, delimiter=delimiter_of(file.path, file.encoding) if same else DELIMITERS[kind], lineterminator="\n"
    )
    writer.writerow(map(spreadsheet_cell, names))
    for table, cells in answered:
        for own, new in zip(_rows(table), cells, strict=True):
            writer.writerow([spreadsheet_cell(new.get(name, own.get(name, ""))) for name in names])
    return None


def _json_rows(file: RowFile, added: Collection[str], answered: Iterable[Answered]) -> Iterator[dict[str, Any]]:
    """Yield rows for JSON output. Rows that come from JSON keep their types."""
    lines = (line for _, line in numbered_lines(file.path, file.encoding) if line.strip())
    as_written = map(json.loads, lines) if kind_of(file.path) == JSON else None
    for table, cells in answered:
        rows = _rows(table) if as_written is None else islice(as_written, len(table))
        for own, new in zip(rows, cells, strict=True):
            yield {**own, **{name: value for name, value in new.items() if name in added or name not in own}}


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    return (dict(zip(table.columns, values, strict=True)) for values in zip(*table.columns.values(), strict=True))


# --- .parquet ---


def _write_parquet(part: Path, file: RowFile, added: Mapping[str, Any], answered: Iterable[Answered]) -> None:
    """Write a .parquet file. Columns of a .parquet input keep their types; columns of other inputs are strings."""
    pyarrow, parquet = (arrow(module, part, "writing") for module in ("pyarrow", "pyarrow.parquet"))
    texts = pyarrow.string()
    types = {str: texts, float: pyarrow.float64(), bool: pyarrow.bool_(), list[str]: pyarrow.list_(texts)}
    is_parquet = kind_of(file.path) == PARQUET
    own = record_schema(file.path) if is_parquet else pyarrow.schema([(name, texts) for name in file.sample])
    rows = _ArrowRows(file.path, own, pyarrow) if is_parquet else None
    new = pyarrow.schema([(name, types[kind]) for name, kind in added.items()])
    schema = pyarrow.schema([*own, *new], own.metadata)
    held: list[Any] = []
    with parquet.ParquetWriter(part, schema) as writer:
        for table, cells in answered:
            columns = list(table.columns.values()) if rows is None else rows.take(len(table))
            columns += [[row.get(name) for row in cells] for name in added]
            arrays = [
                pyarrow.array(column, field.type) if isinstance(column, list) else column
                for column, field in zip(columns, schema, strict=True)
            ]
            held.append(pyarrow.Table.from_arrays(arrays, schema=schema))
            if sum(some.nbytes for some in held) >= GROUP_BYTES:
                writer.write_table(pyarrow.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(pyarrow.concat_tables(held))


class _ArrowRows:
    """Reader of a .parquet file with the original types, any number of rows at a time."""

    def __init__(self, path: Path, schema: Any, pyarrow: Any) -> None:
        self.batches = record_batches(path)
        self.schema = schema
        self.pyarrow = pyarrow
        self.ahead: list[Any] = []

    def take(self, count: int) -> list[Any]:
        """Return the columns of the next `count` rows."""
        while sum(batch.num_rows for batch in self.ahead) < count:
            self.ahead.append(next(self.batches))
        table = self.pyarrow.Table.from_batches(self.ahead, self.schema)
        self.ahead = table.slice(count).to_batches()
        return list(table.slice(0, count).columns)
