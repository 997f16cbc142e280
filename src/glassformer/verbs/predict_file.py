"""A table in, the same table with what a model says of each row out."""

import csv
import json
from functools import singledispatch
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.presets import MIXED, TABLE
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import SAMPLE, text_column
from glassformer.data.columns.labels import filled_rows
from glassformer.data.io.place import find
from glassformer.data.io.reading import check_encoding, held_lines, numbered_lines
from glassformer.data.io.rows import DELIMITERS, delimiter_of, is_table, kind_of
from glassformer.data.io.table import Table, read_table
from glassformer.data.wording import counted
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import ClassificationFamily, LoadedPredictor
from glassformer.families.predict import Prediction, needed, rows_of
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
    was read, else with commas. Gives the number of rows.
    """
    kind = kind or _kind_to_write(file, out)
    if isinstance(out, str) and Path(out).exists() and Path(out).samefile(file):
        raise Misuse(f"--out {out} is the file that is read: write to another")
    encoding = encoding or loaded.config.data.encoding
    if loaded.config.data.kind in (TABLE, MIXED):
        table, predictions = _of_rows(loaded, file, encoding, text, say)
    else:
        table, texts = read_texts(loaded, file, text=text, encoding=encoding, say=say)
        filled = [row for row, content in enumerate(texts) if content.strip()]
        predictions = dict(zip(filled, loaded.predict([texts[row] for row in filled], say=say), strict=True))
    if blank := len(table) - len(predictions):
        say(f"{file}: {counted(blank, 'row')} without text, and so without an answer")
    new = _free_names(loaded, table, probabilities)
    between = None if kind == "jsonl" else loaded.config.data.label_separator or ";"
    added = [_added(predictions[row], new, between) if row in predictions else {} for row in range(len(table))]
    path = Path(file).expanduser()
    rows = _rows(path, table, encoding if kind == "jsonl" else None)
    delimiter = delimiter_of(path, encoding) if kind_of(path) == kind in DELIMITERS else DELIMITERS.get(kind)
    _write(out, delimiter, [*table.columns, *new.values()], rows, added)
    return len(table)


def _of_rows(
    loaded: LoadedPredictor, file: str, encoding: str, text: str | None, say: Say
) -> tuple[Table, dict[int, Prediction]]:
    """A table, and what is said of each of its rows, but for those without text where texts are read."""
    config = loaded.config
    if text is not None and text != config.data.text:
        raise Misuse(f"--text {text}: this run reads the columns by the names that it learned them by")
    table = read_table(file, DataSettings(encoding=encoding))
    rows = filled_rows(table, needed(loaded.features, config, table).text)
    part = rows_of(loaded.features, config, table, rows)
    return table, dict(zip(rows, loaded.predict_part(part, say), strict=True))


def read_texts(
    loaded: Loaded, file: str, *, text: str | None = None, encoding: str | None = None, say: Say = silent
) -> tuple[Table, list[str]]:
    """A file as a table, and its texts: each line of a file that is no table; of a table the column that was named, the
    one that the run learned from, or the one that looks like text.
    """
    encoding = encoding or loaded.config.data.encoding
    check_encoding(encoding)
    path = find(file)
    if path is None or path.is_dir():
        raise Misuse(f"{file} is no file: --file wants a table, or a text a line")
    if is_table(path):
        table = read_table(file, DataSettings(encoding=encoding))
    else:
        lines = held_lines(path, encoding)
        table = Table(file, {"text": lines}, list(range(1, len(lines) + 1)))
    learned = loaded.config.data.text
    if text is None and learned in table.columns:
        return table, table.columns[learned]
    sample = {name: values[:SAMPLE] for name, values in table.columns.items()}
    name = text_column(table.name, sample, text)
    if text is None and learned is not None and is_table(path):
        say(f"{file}: no column '{learned}', which the run learned from, so '{name}' is read (--text names another)")
    return table, table.columns[name]


def _kind_to_write(file: str, out: str | TextIO) -> str:
    """csv, tsv or jsonl: as the name of `out` says, or else as the file is."""
    kind = kind_of(Path(out if isinstance(out, str) else file))
    writable = kind in (*DELIMITERS, "jsonl")
    if isinstance(out, str) and (not writable or out.endswith(".gz")):
        raise Misuse(f"--out {out}: its name should end in .csv, .tsv or .jsonl")
    return kind if writable else "csv"


def _rows(path: Path, table: Table, encoding: str | None) -> list[dict[str, Any]]:
    """The rows as they came: from JSON to JSON (then with the `encoding`), numbers stay numbers."""
    if encoding is not None and kind_of(path) == "jsonl":
        return [json.loads(line) for _, line in numbered_lines(path, encoding) if line.strip()]
    return [dict(zip(table.columns, values, strict=True)) for values in zip(*table.columns.values(), strict=True)]


def _free_names(loaded: LoadedPredictor, table: Table, probabilities: bool) -> dict[str, str]:
    """What comes after a row's own columns, and the name that is still free for it."""
    labels = [f"p_{label}" for label in getattr(loaded.answers, "names", ()) if probabilities]
    free: dict[str, str] = {}
    for name in ("predicted", *certainty_columns(loaded.family), *labels):
        free_name = name
        while free_name in table.columns or free_name in free.values():
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


def _write(
    out: str | TextIO, delimiter: str | None, names: list[str], rows: list[dict[str, Any]], added: list[dict[str, Any]]
) -> None:
    """`delimiter`: what stands between fields; None: a JSON object a line."""
    if isinstance(out, str):  # aside: it may be the very file that was read
        with aside(Path(out)) as part, open(part, "w", encoding="utf-8", newline="") as to:
            return _write(to, delimiter, names, rows, added)
    whole = ({**row, **more} for row, more in zip(rows, added, strict=True))
    if delimiter is None:
        return out.writelines(json_line(row, out.encoding) + "\n" for row in whole)
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, names))
    writer.writerows([spreadsheet_cell(row.get(name, "")) for name in names] for row in whole)
    return None
