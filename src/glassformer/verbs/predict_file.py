"""A table in, the same table with what a model says of each row out."""

import csv
import json
from collections.abc import Iterable, Iterator
from functools import singledispatch
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.presets import MIXED, TABLE
from glassformer.config.progress import progress_of
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import filled_rows
from glassformer.data.columns.texts import text_column
from glassformer.data.io.chunks import RowFile
from glassformer.data.io.place import find
from glassformer.data.io.reading import numbered_lines
from glassformer.data.io.rows import DELIMITERS, delimiter_of, is_table, kind_of
from glassformer.data.io.table import Table, read_table, require_columns, text_parts
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted
from glassformer.families.base import Family, Loaded
from glassformer.families.label_kinds import ClassificationFamily
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.predict import InputNotes, Prediction, needed, part_of, rows_of
from glassformer.runs.files import aside
from glassformer.text.escaping import json_line, spreadsheet_cell


def predict_file(
    loaded: LoadedPredictor,
    file: str,
    out: str | TextIO,
    *,
    text: str | None = None,
    encoding: str | None = None,
    kind: str | None = None,
    probabilities: bool = False,
    say: Say = silent,
) -> int:
    """Every column of the file stays; `predicted` and `probability` (of numbers and of several labels, which stand in
    one cell, `predicted` alone) come after them.

    A row without text gets neither. A file that is no table is a text a line. `kind`: csv, tsv or jsonl; unset, what
    the name of `out` ends with, else the file's own. A .csv is written with the delimiter of the .csv that
    was read, else with commas. Rows are read, judged and written some at a time, so that the file may be of any size.
    Gives the number of rows.
    """
    kind = kind or _kind_to_write(file, out)
    if isinstance(out, str) and Path(out).exists() and Path(out).samefile(file):
        raise Misuse(f"--out {out} is the file that is read: write to another")
    judge = _Judge(loaded, file, text, encoding or loaded.config.data.encoding, say)
    rows = judge.file
    new = _free_names(loaded, rows.sample, probabilities)
    between = None if kind == "jsonl" else loaded.config.data.label_separator or ";"
    judged = judge.rows(new, between, as_json=kind == "jsonl")
    same_kind = kind_of(rows.path) == kind in DELIMITERS
    delimiter = delimiter_of(rows.path, rows.encoding) if same_kind else DELIMITERS.get(kind)
    first = list(islice(judged, 1))  # what cannot be judged is told before anything is written
    _write(out, delimiter, [*rows.sample, *new.values()], chain(first, judged))
    judge.tell(say)
    return rows.count


class _Judge:
    """A model and a file: what it says of each row."""

    def __init__(self, loaded: LoadedPredictor, file: str, text: str | None, encoding: str, say: Say) -> None:
        self.loaded = loaded
        self.reads_columns = loaded.config.data.kind in (TABLE, MIXED)
        self.notes = InputNotes()
        self.blank = 0
        if self.reads_columns:
            self.file = self._columns(file, text, encoding)
        else:
            self.file, self.column = read_texts(loaded, file, text=text, encoding=encoding, say=say)

    def _columns(self, file: str, text: str | None, encoding: str) -> RowFile:
        config, path = self.loaded.config, find(file)
        if text is not None and text != config.data.text:
            raise Misuse(f"--text {text}: this run reads the columns by the names that it learned them by")
        if path is None or not is_table(path):  # a data set by its name, or nothing that can be read
            return RowFile.of_table(read_table(file, DataSettings(encoding=encoding)), Path(file), encoding)
        return RowFile.scan(file, path, encoding)

    def rows(self, new: dict[str, str], between: str | None, *, as_json: bool) -> Iterator[dict[str, Any]]:
        """Each row with what is said of it. `as_json`: from JSON to JSON, numbers stay numbers."""
        tables, filled = list[Table](), list[list[int]]()  # those that wait for what the model says of them

        def parts() -> Iterator[Labelled]:
            for table in self.file.tables():
                rows, part = self._part(table)
                tables.append(table)
                filled.append(rows)
                yield part

        written = _json_objects(self.file) if as_json and kind_of(self.file.path) == "jsonl" else None
        total, progress = self.file.count, progress_of("row")
        progress(0, total)
        for predictions in self.loaded.predict_parts(parts(), self.notes, total, "row"):
            table, by_row = tables.pop(0), dict(zip(filled.pop(0), predictions, strict=True))
            self.blank += len(table) - len(by_row)
            cells = islice(written, len(table)) if written is not None else _rows(table)
            for row, own in enumerate(cells):
                yield {**own, **(_added(by_row[row], new, between) if row in by_row else {})}
        progress(total, total)

    def _part(self, table: Table) -> tuple[list[int], Labelled]:
        """The rows that something can be said of, and what the model reads of them."""
        features, config = self.loaded.features, self.loaded.config
        if self.reads_columns:
            rows = filled_rows(table, needed(features, config, table).text)
            return rows, rows_of(features, config, table, rows)
        texts = table.texts(self.column)
        rows = filled_rows(table, self.column)
        return rows, part_of(features, config, [texts[row] for row in rows], self.notes.remark)

    def tell(self, say: Say) -> None:
        """What was cut, odd or blank, once all rows are read."""
        self.notes.tell(self.loaded.config, say, say)
        if self.blank:
            say(f"{self.file.name}: {counted(self.blank, 'row')} without text, and so without an answer")


def read_texts(
    loaded: Loaded, file: str, *, text: str | None = None, encoding: str | None = None, say: Say = silent
) -> tuple[RowFile, str]:
    """A file's rows, and the column of its texts: each line of a file that is no table; of a table the column that was
    named, the one that the run learned from, or the one that looks like text.
    """
    path = find(file)
    if path is None or path.is_dir():
        raise Misuse(f"{file} is no file: --file wants a table, or a text a line")
    rows = RowFile.scan(file, path, encoding or loaded.config.data.encoding)
    learned = loaded.config.data.text
    if text is None and learned is not None and is_table(path):
        parts = text_parts(learned, rows.sample)
        if all(part in rows.sample for part in parts):
            return rows, learned
        if len(parts) > 1:
            require_columns(file, parts, rows.sample)
    name = text_column(file, rows.sample, text)
    if text is None and learned is not None and is_table(path):
        say(f"{file}: no column '{learned}', which the run learned from, so '{name}' is read (--text names another)")
    return rows, name


def _kind_to_write(file: str, out: str | TextIO) -> str:
    """csv, tsv or jsonl: as the name of `out` says, or else as the file is."""
    kind = kind_of(Path(out if isinstance(out, str) else file))
    writable = kind in (*DELIMITERS, "jsonl")
    if isinstance(out, str) and (not writable or out.endswith(".gz")):
        raise Misuse(f"--out {out}: its name should end in .csv, .tsv or .jsonl")
    return kind if writable else "csv"


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    return (dict(zip(table.columns, values, strict=True)) for values in zip(*table.columns.values(), strict=True))


def _json_objects(file: RowFile) -> Iterator[dict[str, Any]]:
    """The rows as they came."""
    return (json.loads(line) for _, line in numbered_lines(file.path, file.encoding) if line.strip())


def _free_names(loaded: LoadedPredictor, columns: Iterable[str], probabilities: bool) -> dict[str, str]:
    """What comes after a row's own columns, and the name that is still free for it."""
    columns = set(columns)
    labels = [f"p_{label}" for label in getattr(loaded.answers, "names", ()) if probabilities]
    free: dict[str, str] = {}
    for name in ("predicted", *certainty_columns(loaded.family), *labels):
        free_name = name
        while free_name in columns or free_name in free.values():
            free_name += "_by_model"
        free[name] = free_name
    return free


@singledispatch
def certainty_columns(family: Family) -> tuple[str, ...]:
    """The columns that say how sure a prediction is."""
    return ()


@certainty_columns.register
def _(family: ClassificationFamily) -> tuple[str, ...]:
    return ("probability",)


def _added(prediction: Prediction, new: dict[str, str], between: str | None) -> dict[str, Any]:
    """`between`: what parts several labels in one cell; None: they are a list."""
    cells: dict[str, Any] = {"predicted": prediction.label if prediction.value is None else prediction.value}
    if prediction.labels is not None:
        cells["predicted"] = prediction.labels if between is None else between.join(prediction.labels)
    cells["probability"] = prediction.probability
    cells |= {f"p_{label}": value for label, value in (prediction.probabilities or {}).items()}
    return {free: cells[name] for name, free in new.items()}


def _write(out: str | TextIO, delimiter: str | None, names: list[str], rows: Iterable[dict[str, Any]]) -> None:
    """`delimiter`: what stands between fields; None: a JSON object a line."""
    if isinstance(out, str):  # aside: it may be the very file that was read
        with aside(Path(out)) as part, open(part, "w", encoding="utf-8", newline="") as to:
            return _write(to, delimiter, names, rows)
    if delimiter is None:
        return out.writelines(json_line(row, out.encoding) + "\n" for row in rows)
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, names))
    writer.writerows([spreadsheet_cell(row.get(name, "")) for name in names] for row in rows)
    return None
