"""Apply a run to every row of a file: `gf.predict_file`, `gf.embed_file` and `gf.translate_file`."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO, Unpack

import numpy as np

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.presets import CLASS, LABEL_SET, MIXED, NUMBER, TABLE
from glassformer.config.progress import counting_on, progress_of
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import filled_rows
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.io.place import find
from glassformer.data.io.reading import check_encoding, held_lines
from glassformer.data.io.rows import DELIMITERS, is_table, kind_of
from glassformer.data.io.table import LINE, RowFile, Table, prefetch, read_table
from glassformer.data.split.labelled import Labelled
from glassformer.decoding.options import Search, SearchArguments
from glassformer.families.base import FAMILIES, AnyRun, Loaded
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.load import refuse_other_verb
from glassformer.families.predict import InputCounts, InputNotes, Prediction, add_to, part_of, rows_of
from glassformer.families.requests import Embedded
from glassformer.families.schema import table_in
from glassformer.families.translation import Translation
from glassformer.notebook.display import progress_bar
from glassformer.runs.files import aside, text_writer
from glassformer.runs.run import Run
from glassformer.text.escaping import TEXT, encodable, json_line, on_one_line, printable
from glassformer.verbs import added_columns
from glassformer.verbs.parts.folder import RowsWritten, write_rows
from glassformer.verbs.parts.options import PartArguments, PartOptions
from glassformer.verbs.parts.work import FileWork

ANSWER_COLUMNS: dict[str, dict[str, Any]] = {
    CLASS: {"predicted": str, "probability": float},
    LABEL_SET: {"predicted": list[str]},
    NUMBER: {"predicted": float},
}
"""Columns of a prediction with the types of their values, by kind of label."""
NO_LABELS = "--file is for runs that learned labels or numbers; a language model or a translator takes TEXT or stdin"
CHUNKS_TOGETHER = 2
"""Number of chunks that are embedded together. The next chunk is tokenized while the model computes."""
ARRAY = "npy"
LINES = "txt"
"""Format of an output that is not a table: one translation per line."""


@progress_bar()
@check_arguments
@takes_listener
def predict_file(
    run: AnyRun,
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    probabilities: bool = False,
    say: Say = say,
    **parts: Unpack[PartArguments],
) -> RowsWritten:
    """Write every row of a table with its prediction in added columns.

    The columns are `predicted` and, for classes, `probability`. With `probabilities`, there is also a column for each
    class.

    `file` may be a folder of parts. Each part is written to a file in the folder `out`, and finished parts are not
    computed again. `shard` 2/3 takes every third part, starting with the second. With `on` ray, `jobs` workers of a Ray
    cluster compute the parts.
    """
    work = PredictFile(text=text, encoding=encoding, format=format, probabilities=probabilities)
    return write_rows(run, work, file, out, PartOptions(**parts))


@progress_bar()
@check_arguments
@takes_listener
def embed_file(
    run: AnyRun,
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    tokens: bool = False,
    say: Say = say,
    **parts: Unpack[PartArguments],
) -> RowsWritten:
    """Write the vector of each text of a table or a text file as .npy or .jsonl.

    With `tokens`, write a vector for each token. A row without text has no vector: in .jsonl, `error` has the reason;
    in .npy, its values are NaN.

    `file` may be a folder of parts, as in `predict_file`.
    """
    work = EmbedFile(text=text, encoding=encoding, format=format, tokens=tokens)
    return write_rows(run, work, file, out, PartOptions(**parts))


class TranslateFileArguments(SearchArguments, PartArguments):
    """Options of `translate_file`: those of `LoadedTranslator.translate` and of a folder of parts."""


@progress_bar()
@check_arguments
@takes_listener
def translate_file(
    run: AnyRun,
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    say: Say = say,
    **options: Unpack[TranslateFileArguments],
) -> RowsWritten:
    """Translate every line of a text file, or every row of a table; rows keep their columns and get a `translation`.

    The name of `out` determines the format: .csv, .tsv, .jsonl or .parquet. Any other name means one translation per
    line.

    `file` may be a folder of parts, as in `predict_file`. The search options are those of `LoadedTranslator.translate`.
    """
    search: Any = {name: value for name, value in options.items() if name in SearchArguments.__annotations__}
    parts: Any = {name: value for name, value in options.items() if name not in search}
    Search.of(**search)  # refuse wrong options before any file is read
    work = TranslateFile(text=text, encoding=encoding, format=format, search=search)
    return write_rows(run, work, file, out, PartOptions(**parts))


# --- predictions ---


@dataclass(frozen=True, kw_only=True)
class PredictFile(FileWork):
    """Predictions for the rows of a file. All columns of the file are kept, and new columns are added after them.

    The new columns are `predicted` and `probability`; numbers and label sets have only `predicted`. A label set is in
    one cell. A row without text has no prediction, unless the run reads other columns too. A file that is not a table
    has one text per line. A .csv output has the delimiter of a .csv input, else commas.

    Tables have a column for each deviation from the training data that the run can detect (`unknown_text`,
    `outside_range`, `unseen_categories`). JSON lines contain only the deviations of their row, and the reason for a
    missing answer (`error`).
    """

    verb = "predict"
    kinds = added_columns.KINDS
    result = "an answer"

    probabilities: bool = False

    def check(self, run: Run) -> None:
        if FAMILIES[run.config().task].label_kind is None:
            raise Misuse(NO_LABELS)

    def write(self, loaded: Any, file: str, out: str | TextIO) -> InputCounts:
        kind = self.format or added_columns.kind_to_write(file, out)
        added_columns.refuse_itself(file, out)
        rows, column = self._read(loaded, file)
        notes = InputNotes(counts=InputCounts(rows.count, ignored_columns=loaded.schema.ignored(rows.sample, column)))
        types = dict(ANSWER_COLUMNS[loaded.family.label_kind])
        if self.probabilities:
            types |= {f"p_{label}": float for label in getattr(loaded.answers, "names", ())}
        marks = mark_columns(loaded)
        names = added_columns.free_names([*types, *marks], rows.sample)
        between = (loaded.config.data.label_separator or ";") if kind in DELIMITERS else None
        added = {names[name]: value for name, value in (types if kind == added_columns.JSON else types | marks).items()}
        new = _NewCells(names, tuple(types), None if kind == added_columns.JSON else tuple(marks), between)
        added_columns.write_answers(rows, added, _predicted_rows(loaded, rows, column, notes, new), out, kind)
        notes.tell(loaded.config)
        self.tell_blank(file, notes.counts)
        return notes.counts

    def _read(self, loaded: LoadedPredictor, file: str) -> tuple[RowFile, str | None]:
        """Return the rows of a file, and its text column if rows without text have no answer, else None."""
        config, path = loaded.config, find(file)
        if config.data.kind not in (TABLE, MIXED):
            return self.read_texts(loaded, file)
        if self.text is not None and self.text != config.data.text:
            raise Misuse(f"--text {self.text}: this run reads the columns by the names that it learned them by")
        encoding = self.encoding or config.data.encoding
        if path is None or not is_table(path):  # the name of a data set, or a file that is not a table
            rows = RowFile.of_table(read_table(file, DataSettings(encoding=encoding)), Path(file), encoding)
        else:
            rows = RowFile.scan(file, path, encoding)
        loaded.schema.match(file, rows.sample)
        if line := ignored_in_words(file, loaded.schema.ignored(rows.sample)):
            say(line)
        return rows, None


def _predicted_rows(
    loaded: LoadedPredictor, file: RowFile, column: str | None, notes: InputNotes, new: "_NewCells"
) -> Iterator[added_columns.Answered]:
    """Yield the rows of a file with the cells that are added to each."""
    waiting: list[tuple[Table, list[int]]] = []
    """Rows that wait for their predictions, and the indices of those that have an answer."""

    def parts() -> Iterator[Labelled]:
        for table in file.tables():
            rows = filled_rows(table, column)
            waiting.append((table, rows))
            if column is None:
                yield rows_of(loaded.features, loaded.config, table, rows)
            else:
                texts = table.texts(column)
                yield part_of(loaded.features, loaded.config, [texts[row] for row in rows], notes.remark)

    total, progress = file.count, progress_of("row")
    progress(0, total)
    for predictions in loaded.predict_parts(parts(), notes, total, "row"):
        table, rows = waiting.pop(0)
        by_row = dict(zip(rows, predictions, strict=True))
        if len(by_row) < len(table):
            add_to(notes.counts.unanswered, added_columns.NO_TEXT, len(table) - len(by_row))
        yield (
            table,
            [new.of(by_row[row]) if row in by_row else {"error": added_columns.NO_TEXT} for row in range(len(table))],
        )
    progress(total, total)


def mark_columns(loaded: LoadedPredictor) -> dict[str, Any]:
    """Return the columns for deviations from the training data, with the types of their values.

    They depend only on the run, so that all parts of a folder have the same columns.
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
    """Conversion of a prediction to the cells that are added to its row."""

    names: Mapping[str, str]
    """Names under which values are written, by their original names."""
    answers: tuple[str, ...]
    """Columns of `ANSWER_COLUMNS`, and the columns of the probabilities."""
    marks: tuple[str, ...] | None
    """Columns of `mark_columns`; None for JSON lines, which contain only the deviations of their row."""
    separator: str | None
    """Separator of several values in one cell; None if they remain a list."""

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
        """Return a value as it is written; in text formats, truth values are written as in JSON."""
        if self.separator is None:
            return value if isinstance(value, bool) else list(value)
        return json.dumps(value) if isinstance(value, bool) else self.separator.join(value)


# --- vectors ---


@dataclass(frozen=True, kw_only=True)
class EmbedFile(FileWork):
    """Vectors of texts, as a row of an array or a line of JSON per text."""

    verb = "embed"
    kinds = (added_columns.JSON, ARRAY)
    result = "a vector"

    tokens: bool = False

    def check(self, run: Run) -> None:
        """Accept every run: a run without vectors raises its own error when it embeds."""

    def write(self, loaded: Any, file: str, out: str | TextIO) -> InputCounts:
        rows, column = self.read_texts(loaded, file)
        chunks = (table.texts(column) for table in prefetch(rows.tables()))
        counts = write_vectors(loaded, chunks, rows.count, out, tokens=self.tokens)
        counts.ignored_columns = loaded.schema.ignored(rows.sample, column)
        self.tell_blank(file, counts)
        return counts


_Row = tuple[str, Embedded | None]
"""A text with its vectors; None if the text is empty."""


def _vectors_json(text: str, found: Embedded | None) -> dict[str, Any]:
    if found is None:
        return {"text": text, "error": added_columns.NO_TEXT}
    if found.vectors is not None:
        return {"text": text, "tokens": found.tokens, "vectors": found.vectors.tolist()}
    return {"text": text, "vector": found.vector.tolist()}


def write_vectors(
    loaded: Any, chunks: Iterator[list[str]], count: int, out: str | TextIO, *, tokens: bool = False
) -> InputCounts:
    """Write the vectors of `count` texts; return the number of texts, and the number of texts without a vector."""
    is_array = isinstance(out, str) and kind_of(Path(out)) == ARRAY
    if is_array and tokens and count > 1:
        raise Misuse(f"{count} texts of different lengths make no array: with --per-token, use .jsonl")
    counts = InputCounts(count)
    rows = _embedded(loaded, chunks, counts, tokens=tokens)
    if isinstance(out, str) and is_array:
        with aside(Path(out)) as part:
            if tokens and count:
                _write_tokens(part, next(rows)[1])
            else:
                _write_array(part, (found for _, found in rows), loaded, count)
        return counts
    with text_writer(Path(out)) if isinstance(out, str) else nullcontext(out) as to:
        to.writelines(json_line(_vectors_json(*row), to.encoding) + "\n" for row in rows)
    return counts


def _embedded(loaded: Any, chunks: Iterator[list[str]], counts: InputCounts, *, tokens: bool) -> Iterator[_Row]:
    """Yield each text with its vectors, and count the empty texts. Only a few chunks are in memory at a time."""
    done = 0
    while texts := list(chain.from_iterable(islice(chunks, CHUNKS_TOGETHER))):
        filled = [text for text in texts if text.strip()]
        if len(filled) < len(texts):
            add_to(counts.unanswered, added_columns.NO_TEXT, len(texts) - len(filled))
        with counting_on(done, counts.rows, "text"):
            embedded = iter(loaded.embed(filled, tokens=tokens) if filled else ())
        for text in texts:
            yield text, next(embedded) if text.strip() else None
        done += len(texts)


def _write_array(part: Path, embedded: Iterator[Embedded | None], loaded: Any, count: int) -> None:
    """Write one vector per row as it arrives, NaN for a row without a vector."""
    sample = loaded.embed("none").vector
    missing = np.full_like(sample, np.nan)
    vectors = (missing if one is None else one.vector for one in embedded)
    _write_npy(part, sample.dtype, (count, *sample.shape), vectors)


def _write_tokens(part: Path, found: Embedded | None) -> None:
    """Write the vectors of a text's tokens."""
    if found is None or found.vectors is None:
        raise DataError(f"{added_columns.NO_TEXT}: it has no tokens, and so no vectors")
    _write_npy(part, found.vectors.dtype, found.vectors.shape, [found.vectors])


def _write_npy(part: Path, dtype: Any, shape: tuple[int, ...], arrays: Iterable[Any]) -> None:
    """Write an array of this shape from its pieces in order."""
    with part.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.writelines(np.ascontiguousarray(array).tobytes() for array in arrays)


# --- translations ---


@dataclass(frozen=True, kw_only=True)
class TranslateFile(FileWork):
    """Translations for the rows of a file. Blank lines stay blank; a row without text has no translation."""

    verb = "translate"
    kinds = (LINES, *added_columns.KINDS)
    result = "a translation"

    encoding: str = "utf-8"
    search: SearchArguments = field(default_factory=SearchArguments)
    """Options of `LoadedTranslator.translate`."""

    @property
    def nbest(self) -> int:
        return self.search.get("nbest", 1)

    def options(self) -> dict[str, Any]:
        options = super().options()
        del options["search"]
        return options | asdict(Search.of(**self.search))

    def check(self, run: Run) -> None:
        refuse_other_verb(self.verb, run)

    def write(self, loaded: Any, file: str, out: str | TextIO) -> InputCounts:
        added_columns.refuse_itself(file, out)
        rows, column = self._read(loaded, file)
        kind = self._kind(file, out)
        if kind == LINES or (kind == added_columns.JSON and not is_table(Path(file))):
            counts = InputCounts(rows.count)
            self._write_lines(out, kind, self._translations(loaded, rows, column, "line", counts))
            return counts
        if self.nbest > 1:
            raise Misuse(
                f"--nbest {self.nbest}: a row of a table has one translation; translate text to .txt or .jsonl"
            )
        ignored = loaded.schema.ignored(rows.sample, column) if is_table(Path(file)) else []
        counts = InputCounts(rows.count, ignored_columns=ignored)

        def answered() -> Iterator[added_columns.Answered]:
            for table, translations in self._translations(loaded, rows, column, "row", counts):
                filled = set(filled_rows(table, column))
                empty = {"error": added_columns.NO_TEXT}
                yield table, [{name: one.text} if row in filled else empty for row, one in enumerate(translations)]

        (name,) = added_columns.free_names(["translation"], rows.sample).values()
        added_columns.write_answers(rows, {name: str}, answered(), out, kind)
        self.tell_blank(file, counts)
        return counts

    def _read(self, loaded: Loaded, file: str) -> tuple[RowFile, str]:
        path = Path(file)
        if not path.exists() or path.is_file() or path.is_dir():
            return self.read_texts(loaded, file)
        check_encoding(self.encoding)  # a pipe can be read only once, so its lines are kept in memory
        lines = held_lines(path, self.encoding)
        return RowFile.of_table(Table(file, {LINE: lines}, list(range(len(lines)))), path, self.encoding), LINE

    def _kind(self, file: str, out: str | TextIO) -> str:
        if self.format is not None:
            return self.format
        ending = kind_of(Path(out)) if isinstance(out, str) else LINES
        as_lines = (
            ending not in added_columns.KINDS if not is_table(Path(file)) else isinstance(out, str) and ending == LINES
        )
        return LINES if as_lines else added_columns.kind_to_write(file, out)

    def _translations(
        self, loaded: Any, rows: RowFile, column: str, unit: str, counts: InputCounts
    ) -> Iterator[tuple[Table, list[Translation]]]:
        """Yield some rows at a time with their translations, and count the rows without text.

        Each group is large enough to batch texts of similar length, which keeps padding low.
        """
        done = 0
        for table in rows.tables():
            with counting_on(done, rows.count, unit):
                yield table, loaded.translate(table.texts(column), **self.search)
            if blank := len(table) - len(filled_rows(table, column)):
                add_to(counts.unanswered, added_columns.NO_TEXT, blank)
            done += len(table)

    def _write_lines(self, out: str | TextIO, kind: str, translated: Iterator[tuple[Table, list[Translation]]]) -> None:
        with text_writer(Path(out)) if isinstance(out, str) else nullcontext(out) as to:
            before = 0
            for _, translations in translated:
                to.writelines(
                    translation_lines(translations, to, before, self.nbest, as_json=kind == added_columns.JSON)
                )
                to.flush()
                before += len(translations)


def translation_lines(
    translations: list[Translation], to: TextIO, before: int, nbest: int, *, as_json: bool
) -> Iterator[str]:
    """Yield a line for each text; with `nbest` above 1, a line with number and score for each translation."""
    for number, translation in enumerate(translations, before + 1):
        if as_json:
            lines = [json_line(translation.to_dict(), to.encoding)]
        elif nbest == 1:
            lines = [on_one_line(translation.text)]
        else:
            lines = [f"{number}\t{best.score:.4f}\t{on_one_line(best.text)}" for best in translation.best]
        yield from (encodable(printable(line, TEXT), to.encoding) + "\n" for line in lines)
