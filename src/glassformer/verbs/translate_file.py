"""A text file in, its translation line by line out; or a table in, the same table with a translation of each row."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.progress import counting_on
from glassformer.data.columns.labels import filled_rows
from glassformer.data.io.reading import check_encoding, held_lines
from glassformer.data.io.rows import is_table, kind_of
from glassformer.data.io.table import LINE, RowFile, Table
from glassformer.data.wording import counted
from glassformer.decoding.options import SEARCH_OPTIONS, Search
from glassformer.families.base import Loaded
from glassformer.families.load import refuse_other_verb
from glassformer.families.predict import InputCounts, add_to
from glassformer.families.translation import Translation
from glassformer.notebook.display import progress_bar
from glassformer.runs.files import text_writer
from glassformer.runs.run import Run
from glassformer.text.escaping import TEXT, encodable, json_line, on_one_line, printable
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

LINES = "txt"
"""What is no table: a translation a line."""


@progress_bar()
@check_arguments
def translate_file(
    run: "str | os.PathLike[str] | Run | Loaded",
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    beam: int | None = None,
    length_penalty: float = 1.0,
    nbest: int = 1,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    shard: str | None = None,
    on: str = "local",
    jobs: int | None = None,
    overwrite: bool = False,
    device: str = "auto",
    precision: str = "fp32",
    say: Say = silent,
) -> RowsWritten:
    """Translate every line of a text file, or every row of a table; rows keep their columns and get a `translation`.

    The name of `out` decides the format: .csv, .tsv, .jsonl or .parquet; anything else has one translation per line.

    `file` may be a folder of parts, each of which becomes a part of the folder `out`, as in `predict_file`. The search
    options are those of `LoadedTranslator.translate`.
    """
    work = TranslateFile(
        text=text,
        encoding=encoding,
        format=format,
        beam=beam,
        length_penalty=length_penalty,
        nbest=nbest,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    Search.of(**work.search)  # refuse wrong options before any file is read
    return write_rows(run, work, file, out, PartOptions(shard, on, jobs, overwrite, device, precision), say)


@dataclass(frozen=True, kw_only=True)
class TranslateFile(FileWork):
    """Blank lines stay blank; a row without text has no translation."""

    verb = "translate"
    kinds = (LINES, *KINDS)

    encoding: str = "utf-8"
    beam: int | None = None
    length_penalty: float = 1.0
    nbest: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    @property
    def search(self) -> dict[str, Any]:
        """Options of `LoadedTranslator.translate`."""
        return {name: getattr(self, name) for name in SEARCH_OPTIONS}

    def check(self, run: Run) -> None:
        refuse_other_verb(self.verb, run)

    def write(self, loaded: Any, file: str, out: str | TextIO, say: Say) -> InputCounts:
        refuse_itself(file, out)
        rows, column = self._read(loaded, file, say)
        kind = self._kind(file, out)
        if kind == LINES or (kind == JSON and not is_table(Path(file))):
            counts = InputCounts(rows.count)
            self._write_lines(out, kind, self._translations(loaded, rows, column, "line", counts, say))
            return counts
        if self.nbest > 1 and is_table(Path(file)):
            raise Misuse(f"--nbest is for text files: of {file}, which is a table, each row has one translation")
        if self.nbest > 1:
            raise Misuse(f"--nbest {self.nbest}: a row of a table has one translation; write to .txt or .jsonl")
        ignored = loaded.schema.ignored(rows.sample, column) if is_table(Path(file)) else []
        counts = InputCounts(rows.count, ignored_columns=ignored)

        def answered() -> Iterator[Answered]:
            for table, translations in self._translations(loaded, rows, column, "row", counts, say):
                filled = set(filled_rows(table, column))
                empty = {"error": NO_TEXT}
                yield table, [{name: one.text} if row in filled else empty for row, one in enumerate(translations)]

        (name,) = free_names(["translation"], rows.sample).values()
        write_answers(rows, {name: str}, answered(), out, kind)
        if blank := counts.unanswered.get(NO_TEXT):
            say(f"{file}: {counted(blank, 'row')} without text, and so without a translation")
        return counts

    def _read(self, loaded: Loaded, file: str, say: Say) -> tuple[RowFile, str]:
        path = Path(file)
        if not path.exists() or path.is_file() or path.is_dir():
            return self.read_texts(loaded, file, say)
        check_encoding(self.encoding)  # what the shell pipes in can be read once: it is held
        lines = held_lines(path, self.encoding)
        return RowFile.of_table(Table(file, {LINE: lines}, list(range(len(lines)))), path, self.encoding), LINE

    def _kind(self, file: str, out: str | TextIO) -> str:
        if self.format is not None:
            return self.format
        ending = kind_of(Path(out)) if isinstance(out, str) else LINES
        as_lines = ending not in KINDS if not is_table(Path(file)) else isinstance(out, str) and ending == LINES
        return LINES if as_lines else kind_to_write(file, out)

    def _translations(
        self, loaded: Any, rows: RowFile, column: str, unit: str, counts: InputCounts, say: Say
    ) -> Iterator[tuple[Table, list[Translation]]]:
        """Yield some rows at a time with their translations, and count the rows without text.

        Among so many rows, some have similar lengths, so that little is padded.
        """
        done = 0
        for table in rows.tables():
            with counting_on(done, rows.count, unit):
                yield table, loaded.translate(table.texts(column), **self.search, say=say)
            if blank := len(table) - len(filled_rows(table, column)):
                add_to(counts.unanswered, NO_TEXT, blank)
            done += len(table)

    def _write_lines(self, out: str | TextIO, kind: str, translated: Iterator[tuple[Table, list[Translation]]]) -> None:
        with text_writer(Path(out)) if isinstance(out, str) else nullcontext(out) as to:
            before = 0
            for _, translations in translated:
                to.writelines(translation_lines(translations, to, before, self.nbest, as_json=kind == JSON))
                to.flush()
                before += len(translations)


def translation_lines(
    translations: list[Translation], to: TextIO, before: int, nbest: int, *, as_json: bool
) -> Iterator[str]:
    """A line for each text, or one for each of its best few, with the number of the text."""
    for number, translation in enumerate(translations, before + 1):
        if as_json:
            lines = [json_line(translation.to_dict(), to.encoding)]
        elif nbest == 1:
            lines = [on_one_line(translation.text)]
        else:
            lines = [f"{number}\t{best.score:.4f}\t{on_one_line(best.text)}" for best in translation.best]
        yield from (encodable(printable(line, TEXT), to.encoding) + "\n" for line in lines)
