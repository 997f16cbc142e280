"""A table or a text file in, a vector for each of its texts out."""

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import DataError, Misuse, Say, silent
from glassformer.config.progress import counting_on
from glassformer.data.io.rows import kind_of
from glassformer.data.io.table import prefetch
from glassformer.data.wording import counted
from glassformer.families.base import Loaded
from glassformer.families.predict import InputCounts, add_to
from glassformer.families.requests import Embedded
from glassformer.notebook.display import progress_bar
from glassformer.runs.files import aside, text_writer
from glassformer.runs.run import Run
from glassformer.text.escaping import json_line
from glassformer.verbs.added_columns import NO_TEXT
from glassformer.verbs.parts.folder import RowsWritten, write_rows
from glassformer.verbs.parts.options import PartOptions
from glassformer.verbs.parts.work import FileWork

CHUNKS_TOGETHER = 2
"""Chunks of a file that are embedded at once: while the model computes one, the tokens of the next are made."""
ARRAY, JSON = "npy", "jsonl"


@progress_bar()
@check_arguments
def embed_file(
    run: "str | os.PathLike[str] | Run | Loaded",
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    *,
    text: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    tokens: bool = False,
    shard: str | None = None,
    on: str = "local",
    jobs: int | None = None,
    overwrite: bool = False,
    device: str = "auto",
    say: Say = silent,
) -> RowsWritten:
    """The vector of each text of a table or a text file, as .npy or .jsonl; with `tokens`, those of its tokens.

    A row without text has no vector: `error` gives the reason in .jsonl, and its numbers are NaN in .npy.

    `file` may be a folder of parts, each of which becomes a part of the folder `out`, as `predict_file` has it.
    """
    work = EmbedFile(text=text, encoding=encoding, format=format, tokens=tokens)
    return write_rows(run, work, file, out, PartOptions(shard, on, jobs, overwrite, device), say)


@dataclass(frozen=True, kw_only=True)
class EmbedFile(FileWork):
    """A row of the array, or a line of JSON, for each text."""

    verb = "embed"
    kinds = (JSON, ARRAY)

    tokens: bool = False

    def check(self, run: Run) -> None:
        """Every run that reads texts has vectors; what does not says so itself."""

    def write(self, loaded: Any, file: str, out: str | TextIO, say: Say) -> InputCounts:
        rows, column = self.read_texts(loaded, file, say)
        chunks = (table.texts(column) for table in prefetch(rows.tables()))
        counts = write_vectors(loaded, chunks, rows.count, out, tokens=self.tokens)
        counts.ignored_columns = loaded.schema.ignored(rows.sample, column)
        if blank := counts.unanswered.get(NO_TEXT):
            say(f"{file}: {counted(blank, 'row')} without text, and so without a vector")
        return counts


@dataclass(frozen=True)
class _Row:
    """A text with its vectors, which are None if the text is empty."""

    text: str
    embedded: Embedded | None

    def to_dict(self) -> dict[str, Any]:
        found = self.embedded
        if found is None:
            return {"text": self.text, "error": NO_TEXT}
        if found.vectors is not None:
            return {"text": self.text, "tokens": found.tokens, "vectors": found.vectors.tolist()}
        return {"text": self.text, "vector": found.vector.tolist()}


def write_vectors(
    loaded: Any, chunks: Iterator[list[str]], count: int, out: str | TextIO, *, tokens: bool = False
) -> InputCounts:
    """Write the vectors of `count` texts; return how many texts there are, and how many have no vector."""
    is_array = isinstance(out, str) and kind_of(Path(out)) == ARRAY
    if is_array and tokens and count > 1:
        raise Misuse(f"{count} texts of different lengths make no array: with --tokens, use .jsonl")
    counts = InputCounts(count)
    rows = _embedded(loaded, chunks, counts, tokens=tokens)
    if isinstance(out, str) and is_array:
        with aside(Path(out)) as part:
            if tokens and count:
                _write_tokens(part, next(rows))
            else:
                _write_array(part, rows, loaded, count)
        return counts
    with text_writer(Path(out)) if isinstance(out, str) else nullcontext(out) as to:
        to.writelines(json_line(row.to_dict(), to.encoding) + "\n" for row in rows)
    return counts


def _embedded(loaded: Any, chunks: Iterator[list[str]], counts: InputCounts, *, tokens: bool) -> Iterator[_Row]:
    """Yield each text with its vectors, and count the empty texts. Only a few chunks are in memory at a time."""
    done = 0
    while texts := list(chain.from_iterable(islice(chunks, CHUNKS_TOGETHER))):
        filled = [text for text in texts if text.strip()]
        if len(filled) < len(texts):
            add_to(counts.unanswered, NO_TEXT, len(texts) - len(filled))
        with counting_on(done, counts.rows, "text"):
            embedded = iter(loaded.embed(filled, tokens=tokens) if filled else ())
        for text in texts:
            yield _Row(text, next(embedded) if text.strip() else None)
        done += len(texts)


def _write_array(part: Path, rows: Iterator[_Row], loaded: Any, count: int) -> None:
    """Write one vector per row as it comes, NaN for a row without one.

    The first vector determines the width. If there is none, the vector of any text does.
    """
    blank, first = 0, next(rows, None)
    while first is not None and first.embedded is None:
        blank, first = blank + 1, next(rows, None)
    sample: Embedded = loaded.embed("none") if first is None or first.embedded is None else first.embedded
    missing = np.full_like(sample.vector, np.nan)
    found = (missing if row.embedded is None else row.embedded.vector for row in rows)
    vectors = chain([missing] * blank, [] if first is None else [sample.vector], found)
    _write_npy(part, sample.vector.dtype, (count, *sample.vector.shape), vectors)


def _write_tokens(part: Path, row: _Row) -> None:
    """Write the vectors of a text's tokens."""
    if row.embedded is None or row.embedded.vectors is None:
        raise DataError(f"{NO_TEXT}: it has no tokens, and so no vectors")
    vectors = row.embedded.vectors
    _write_npy(part, vectors.dtype, vectors.shape, [vectors])


def _write_npy(part: Path, dtype: Any, shape: tuple[int, ...], arrays: Iterable[Any]) -> None:
    """Write an array of this shape from its pieces in order."""
    with part.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.writelines(np.ascontiguousarray(array).tobytes() for array in arrays)
