"""A table or a text file in, a vector for each of its texts out."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.progress import counting_on
from glassformer.data.io.chunks import prefetch
from glassformer.data.io.rows import kind_of
from glassformer.families.base import Loaded
from glassformer.families.predict import InputCounts
from glassformer.families.requests import Embedded
from glassformer.notebook.display import progress_bar
from glassformer.runs.files import aside, text_writer
from glassformer.runs.run import Run
from glassformer.text.escaping import json_line
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
        ignored = loaded.schema.ignored(rows.sample, column)
        return InputCounts(write_vectors(loaded, chunks, rows.count, out, tokens=self.tokens), ignored_columns=ignored)


def write_vectors(
    loaded: Any, chunks: Iterator[list[str]], count: int, out: str | TextIO, *, tokens: bool = False
) -> int:
    """The vectors of so many texts, written as they come."""
    is_array = isinstance(out, str) and kind_of(Path(out)) == ARRAY
    if is_array and tokens and count > 1:
        raise Misuse(f"{count} texts of different lengths make no array: with --tokens, use .jsonl")
    embedded = _embedded(loaded, chunks, count, tokens=tokens)
    if isinstance(out, str) and is_array:
        with aside(Path(out)) as part:
            _write_array(part, embedded if count else iter(loaded.embed(["none"])), count)
        return count
    with text_writer(Path(out)) if isinstance(out, str) else nullcontext(out) as to:
        to.writelines(json_line(_row(one), to.encoding) + "\n" for one in embedded)
    return count


def _embedded(loaded: Any, chunks: Iterator[list[str]], count: int, *, tokens: bool) -> Iterator[Embedded]:
    """The vectors of each text; those of some at a time are held."""
    done = 0
    while texts := list(chain.from_iterable(islice(chunks, CHUNKS_TOGETHER))):
        with counting_on(done, count, "text"):
            embedded = loaded.embed(texts, tokens=tokens)
        yield from embedded
        done += len(texts)


def _write_array(part: Path, embedded: Iterator[Embedded], count: int) -> None:
    """A vector a row, or the vectors of the one text's tokens; on disk as they come. Of no texts, any vector tells how
    many numbers theirs would have.
    """
    first = next(embedded)
    rows = first.vector[None] if first.vectors is None else first.vectors
    shape = (count, *first.vector.shape) if first.vectors is None else first.vectors.shape
    with part.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(rows.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(rows[:count] if first.vectors is None else rows).tobytes())
        file.writelines(np.ascontiguousarray(one.vector).tobytes() for one in embedded)


def _row(embedded: Embedded) -> dict[str, Any]:
    if embedded.vectors is not None:
        return {"text": embedded.text, "tokens": embedded.tokens, "vectors": embedded.vectors.tolist()}
    return {"text": embedded.text, "vector": embedded.vector.tolist()}
