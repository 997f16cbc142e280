"""glassformer embed"""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import DEVICE, ENCODING, RUN, TEXT_COLUMN, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_out, check_rows, held_texts, refuse_files, writer_to
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.config.progress import counting_on
from glassformer.data.wording import counted
from glassformer.text.escaping import json_line

if TYPE_CHECKING:
    from glassformer.families.requests import Embedded

CHUNKS_TOGETHER = 2
"""Chunks of a file that are embedded at once: while the model computes one, the tokens of the next are made."""

PARSER = Parser(
    "embed",
    "RUN [TEXT …]",
    "Texts as vectors: what the run's head sees of each (of a linear bag, its scores); of a language model or "
    "translator, the mean over its tokens.",
    'glassformer embed last "the soup was good" "the soup was bad" --out vectors.npy',
    [
        RUN,
        Option("texts", nargs="*", default=[], metavar="TEXT", help="what to embed (default: each line of stdin)"),
        Option("--file", metavar="FILE", help="embed the texts of a table (.csv, .tsv, .jsonl, .parquet), or every "
               "line of a text file", check=check_rows),
        TEXT_COLUMN,
        ENCODING,
        flag("--tokens", "a vector for each token, instead of one for the text"),
        Option("--out", metavar="FILE", help="a .npy or .jsonl file (default: JSON lines on stdout)"),
        DEVICE,
    ],
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    check_out(options.out, (".npy", ".jsonl"))

    from glassformer.cli.terminal.rows import RowProgress
    from glassformer.data.io.chunks import prefetch
    from glassformer.families.load import load
    from glassformer.verbs.predict_file import read_texts

    loaded = load(options.run, options.device, say=say)
    if loaded.config.data.kind == TEXT:
        refuse_files(options.texts)
    array = options.out is not None and options.out.endswith(".npy")
    with RowProgress(printed=options.out is None):
        if options.file is None:
            texts = held_texts(options.texts)
            count, chunks = len(texts), iter([texts])
        else:
            file, column = read_texts(loaded, options.file, text=options.text, encoding=options.encoding, say=say)
            count, chunks = file.count, (table.texts(column) for table in prefetch(file.tables()))
        if not count:
            raise Misuse("there is no text to embed")
        if array and options.tokens and count > 1:
            raise Misuse(f"{count} texts of different lengths make no array: with --tokens, use .jsonl")
        embedded = _embedded(loaded, chunks, count, tokens=options.tokens)
        if array:
            _write_array(options.out, embedded, count)
        else:
            with writer_to(options.out) as to:
                to.writelines(json_line(_row(text), to.encoding) + "\n" for text in embedded)
    if options.out is not None and not array:
        say(f"{options.out}: {counted(count, 'text')}")


def _embedded(loaded: Any, chunks: Iterator[list[str]], count: int, *, tokens: bool) -> "Iterator[Embedded]":
    """The vectors of each text; those of some at a time are held."""
    done = 0
    while texts := list(chain.from_iterable(islice(chunks, CHUNKS_TOGETHER))):
        with counting_on(done, count, "text"):
            embedded = loaded.embed(texts, tokens=tokens)
        yield from embedded
        done += len(texts)


def _write_array(out: str, embedded: "Iterator[Embedded]", count: int) -> None:
    """A vector a row, or the vectors of the one text's tokens; on disk as they come."""
    import numpy as np

    from glassformer.runs.files import aside

    first = next(embedded)
    with aside(Path(out)) as part:
        if first.vectors is not None:
            shape = first.vectors.shape
            with open(part, "wb") as file:
                np.save(file, first.vectors)
        else:
            shape = (count, *first.vector.shape)
            vectors = np.lib.format.open_memmap(part, mode="w+", dtype=first.vector.dtype, shape=shape)
            for row, text in enumerate(chain([first], embedded)):
                vectors[row] = text.vector
            vectors.flush()
    say(f"{out}: {' × '.join(map(str, shape))} numbers")


def _row(embedded: "Embedded") -> dict[str, Any]:
    if embedded.vectors is not None:
        return {"text": embedded.text, "tokens": embedded.tokens, "vectors": embedded.vectors.tolist()}
    return {"text": embedded.text, "vector": embedded.vector.tolist()}
