"""A table in, the same table with what a model says of each row out."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.presets import MIXED, TABLE
from glassformer.config.progress import progress_of
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import filled_rows
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.io.place import find
from glassformer.data.io.rows import DELIMITERS, is_table
from glassformer.data.io.table import RowFile, Table, read_table
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted
from glassformer.families.base import FAMILIES, Family, Loaded
from glassformer.families.label_kinds import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.predict import InputCounts, InputNotes, Prediction, add_to, part_of, rows_of
from glassformer.families.schema import table_in
from glassformer.notebook.display import progress_bar
from glassformer.runs.run import Run
from glassformer.verbs.added_columns import (
    JSON,
    KINDS,
    NO_TEXT,
    Answered,
    free_names,
    kind_to_write,
    refuse_itself,
    write_answers,
)
from glassformer.verbs.parts.folder import RowsWritten, write_rows
from glassformer.verbs.parts.options import PartOptions
from glassformer.verbs.parts.work import FileWork

NO_LABELS = "--file is for runs that learned labels or numbers; a language model or a translator takes TEXT or stdin"


@progress_bar()
@check_arguments
def predict_file(
    run: "str | os.PathLike[str] | Run | Loaded",
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    probabilities: bool = False,
    shard: str | None = None,
    on: str = "local",
    jobs: int | None = None,
    overwrite: bool = False,
    device: str = "auto",
    say: Say = silent,
) -> RowsWritten:
    """Every row of a table with what a run says of it: `predicted`, and of classes its `probability`, after its own
    columns; with `probabilities`, that of every class.

    `file` may be a folder of parts, each of which becomes a part of the folder `out`. What is done there is not done
    again; `shard` 2/3 takes every third part, from the second on; `on` ray, workers of a cluster do (so many `jobs`).
    """
    work = PredictFile(text=text, encoding=encoding, format=format, probabilities=probabilities)
    options = PartOptions(shard, on, jobs, overwrite, device)
    return write_rows(run, work, file, out, options, say)


@dataclass(frozen=True, kw_only=True)
class PredictFile(FileWork):
    """Every column of a file stays; `predicted` and `probability` (of numbers and of several labels, which stand in one
    cell, `predicted` alone) come after them.

    A row without text gets neither, unless the run reads other columns too. A file that is not a table has one text per
    line. A .csv output has the delimiter of a .csv input, else commas. Tables have a column for each deviation from the
    training data that the run can detect (`unknown_text`, `outside_range`, `unseen_categories`). JSON lines contain
    only the deviations of their row, and the reason for a missing answer (`error`).
    """

    verb = "predict"
    kinds = KINDS

    probabilities: bool = False

    def check(self, run: Run) -> None:
        if FAMILIES[run.config().task].label_kind is None:
            raise Misuse(NO_LABELS)

    def write(self, loaded: Any, file: str, out: str | TextIO, say: Say) -> InputCounts:
        kind = self.format or kind_to_write(file, out)
        refuse_itself(file, out)
        judge = _Judge(loaded, self, file, say)
        types = answer_columns(loaded.family)
        if self.probabilities:
            types |= {f"p_{label}": float for label in getattr(loaded.answers, "names", ())}
        marks = mark_columns(loaded)
        names = free_names([*types, *marks], judge.file.sample)
        between = (loaded.config.data.label_separator or ";") if kind in DELIMITERS else None
        added = {names[name]: value for name, value in (types if kind == JSON else types | marks).items()}
        new = _NewCells(names, tuple(types), None if kind == JSON else tuple(marks), between)
        write_answers(judge.file, added, judge.rows(new), out, kind)
        judge.tell(say)
        return judge.notes.counts


class _Judge:
    """A model and a file: what it says of each row."""

    def __init__(self, loaded: LoadedPredictor, work: FileWork, file: str, say: Say) -> None:
        self.loaded = loaded
        self.reads_columns = loaded.config.data.kind in (TABLE, MIXED)
        self.notes = InputNotes()
        self.column: str | None = None
        """The text column, if rows without a text get no answer."""
        if self.reads_columns:
            self.file = self._columns(file, work.text, work.encoding or loaded.config.data.encoding)
            loaded.schema.match(file, self.file.sample)
            if line := ignored_in_words(file, loaded.schema.ignored(self.file.sample)):
                say(line)
        else:
            self.file, self.column = work.read_texts(loaded, file, say)
        self.notes.counts.rows = self.file.count
        self.notes.counts.ignored_columns = loaded.schema.ignored(self.file.sample, self.column)

    def _columns(self, file: str, text: str | None, encoding: str) -> RowFile:
        config, path = self.loaded.config, find(file)
        if text is not None and text != config.data.text:
            raise Misuse(f"--text {text}: this run reads the columns by the names that it learned them by")
        if path is None or not is_table(path):  # a data set by its name, or nothing that can be read
            return RowFile.of_table(read_table(file, DataSettings(encoding=encoding)), Path(file), encoding)
        return RowFile.scan(file, path, encoding)

    def rows(self, new: "_NewCells") -> Iterator[Answered]:
        """Yield the rows with the cells that are added to each."""
        tables, filled = list[Table](), list[list[int]]()  # those that wait for what the model says of them

        def parts() -> Iterator[Labelled]:
            for table in self.file.tables():
                rows, part = self._part(table)
                tables.append(table)
                filled.append(rows)
                yield part

        total, progress = self.file.count, progress_of("row")
        progress(0, total)
        for predictions in self.loaded.predict_parts(parts(), self.notes, total, "row"):
            table, by_row = tables.pop(0), dict(zip(filled.pop(0), predictions, strict=True))
            if len(by_row) < len(table):
                add_to(self.notes.counts.unanswered, NO_TEXT, len(table) - len(by_row))
            yield (
                table,
                [new.of(by_row[row]) if row in by_row else {"error": NO_TEXT} for row in range(len(table))],
            )
        progress(total, total)

    def _part(self, table: Table) -> tuple[list[int], Labelled]:
        """The rows that have an answer, and what the model reads of them."""
        features, config = self.loaded.features, self.loaded.config
        rows = filled_rows(table, self.column)
        if self.column is None:
            return rows, rows_of(features, config, table, rows)
        texts = table.texts(self.column)
        return rows, part_of(features, config, [texts[row] for row in rows], self.notes.remark)

    def tell(self, say: Say) -> None:
        """What was cut, odd or blank, once all rows are read."""
        self.notes.tell(self.loaded.config, say, say)
        if blank := self.notes.counts.unanswered.get(NO_TEXT):
            say(f"{self.file.name}: {counted(blank, 'row')} without text, and so without an answer")


@singledispatch
def answer_columns(family: Family) -> dict[str, Any]:
    """The columns that a prediction fills, and the types of their values."""
    return {"predicted": str}


@answer_columns.register
def _(family: ClassificationFamily) -> dict[str, Any]:
    return {"predicted": str, "probability": float}


@answer_columns.register
def _(family: MultilabelFamily) -> dict[str, Any]:
    return {"predicted": list[str]}


@answer_columns.register
def _(family: RegressionFamily) -> dict[str, Any]:
    return {"predicted": float}


def mark_columns(loaded: LoadedPredictor) -> dict[str, Any]:
    """Return the columns for deviations from the training data, and the types of their values.

    They depend on the run alone, so that all parts of a folder have the same columns.
    """
    table = table_in(loaded.features)
    marks: dict[str, Any] = {} if loaded.tokenizer is None else {"unknown_text": bool}
    if table is not None and table.numbers:
        marks["outside_range"] = list[str]
    if table is not None and table.categories:
        marks["unseen_categories"] = list[str]
    return marks


@dataclass(frozen=True)
class _NewCells:
    """How a prediction becomes the cells that are added to its row."""

    names: Mapping[str, str]
    """The names under which values are written, by their own names."""
    answers: tuple[str, ...]
    """Columns of `answer_columns`, with those of the probabilities."""
    marks: tuple[str, ...] | None
    """Columns of `mark_columns`; None for JSON lines, which contain only the marks of their row."""
    separator: str | None
    """What separates several values in one cell; None if they stay a list."""

    def of(self, prediction: Prediction) -> dict[str, Any]:
        """Return the cells by the names under which they are written."""
        cells: dict[str, Any] = {"predicted": prediction.label if prediction.value is None else prediction.value}
        if prediction.labels is not None:
            cells["predicted"] = self._cell(prediction.labels)
        cells["probability"] = prediction.probability
        cells |= {f"p_{label}": value for label, value in (prediction.probabilities or {}).items()}
        if self.marks is None:
            cells |= prediction.marks
            return {self.names.get(name, name): cells[name] for name in (*prediction.marks, *self.answers)}
        cells |= {name: self._cell(getattr(prediction, name)) for name in self.marks}
        return {self.names[name]: cells[name] for name in (*self.answers, *self.marks)}

    def _cell(self, value: bool | Sequence[str]) -> Any:
        """Return a value as it is written; where a cell is text, truths are written as in JSON."""
        if self.separator is None:
            return value if isinstance(value, bool) else list(value)
        return json.dumps(value) if isinstance(value, bool) else self.separator.join(value)
