"""Where text comes from: a file, a folder of files, a table's rows, or a data set by its name. Never held whole."""

import functools
import hashlib
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, Misuse
from glassformer.config.progress import progress_of, unheard
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import SAMPLE
from glassformer.data.columns.texts import text_column
from glassformer.data.datasets.dataset import HUB
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.place import PACKED, files_below, find
from glassformer.data.io.reading import byte_blocks, check_encoding, text_blocks
from glassformer.data.io.rows import Row, is_table, read_rows
from glassformer.data.io.table import join_texts, text_parts
from glassformer.data.mixing import Numbers
from glassformer.data.same_text import NormalDigest
from glassformer.data.wording import EXAMPLES, counted, listed

CHUNK = 2**20
"""Characters in a piece, at most."""

RUN_FILE = "glassformer.json"
"""A folder that holds this file is a run."""

SPLITS_FILE = "dataset_dict.json"
"""A folder that holds this file was written by save_to_disk of the hub's library."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a document, cut where a line ends if it can be."""

    text: str
    starts: bool
    """Whether it begins a document."""
    ends: bool
    """Whether it ends a document."""


@dataclass(frozen=True)
class Source:
    """Documents that can be read again and again, in the same order."""

    name: str
    documents: Callable[[], Iterator[Iterator[str]]]
    """Begins a new reading: each document as the blocks of its text."""
    note: str = ""
    """What was left out, in words for a person."""

    def chunks(self) -> Iterator[Chunk]:
        blank = True
        for document in self.documents():
            for chunk in chunks_of(document):
                blank = blank and not chunk.text.strip()
                yield chunk
        if blank:
            raise DataError(f"{self.name} is empty: there is no text in it")


def chunks_of(blocks: Iterable[str]) -> Iterator[Chunk]:
    """One document, given in blocks of any size, in pieces of at most CHUNK characters."""
    starts, held = True, ""
    for block in blocks:
        held += block
        at = 0
        while len(held) - at > CHUNK:
            cut = _border(held, at, at + CHUNK)
            yield Chunk(held[at:cut], starts, ends=False)
            at, starts = cut, False
        held = held[at:]
    yield Chunk(held, starts, ends=True)


def _border(text: str, start: int, stop: int) -> int:
    """The last place to cut where a line ends, else before a space, else anywhere.

    The newline or space begins the next piece and follows neither: no tokenizer joins a blank to the word before it,
    so that cutting there changes no token.
    """
    for blank in "\n ":
        cut = text.rfind(blank, start + 1, stop)
        while cut > start and text[cut - 1].isspace():
            cut = text.rfind(blank, start + 1, cut)
        if cut > start:
            return cut
    return stop


def open_source(path_or_name: str, settings: DataSettings) -> Source:
    """A path that exists, or else a data set: `add`, or `add:digits=3,rows=500`, or one of the hub, `hf:NAME`."""
    path = find(path_or_name)
    if path is None:
        return _embedded(path_or_name, settings)
    check_encoding(settings.encoding)
    if path.is_dir():
        return _folder(path_or_name, path, settings)
    return Source(path_or_name, functools.partial(_documents, [path], settings))


def _documents(files: list[Path], settings: DataSettings) -> Iterator[Iterator[str]]:
    """A table is a document a row; any other file is one document."""
    progress = progress_of("file") if len(files) > 1 else unheard
    for number, file in enumerate(files):
        progress(number, len(files))
        if is_table(file):
            yield from _texts(str(file), read_rows(file, settings.encoding), settings)
        else:
            yield text_blocks(file, settings.encoding)
    progress(len(files), len(files))


def _texts(name: str, rows: Iterator[Row], settings: DataSettings) -> Iterator[Iterator[str]]:
    """The text column of a table's rows, a document each; the first few of them show which it is."""
    first = list(itertools.islice(rows, SAMPLE))
    names = dict.fromkeys(column for _, row in first for column in row)
    sample = {column: [row.get(column, "") for _, row in first] for column in names}
    parts = text_parts(text_column(name, sample, settings.text), names)
    for line, row in itertools.chain(first, rows):
        if (lacking := next((part for part in parts if part not in row), None)) is not None:
            there = ", ".join(row) or "none"
            raise DataError(f"{name}, line {line:,}: no field '{lacking}'; name another with --text (fields: {there})")
        yield iter([row[parts[0]] if len(parts) == 1 else join_texts(row[part] for part in parts)])


def _folder(name: str, folder: Path, settings: DataSettings) -> Source:
    if (folder / RUN_FILE).exists():
        raise Misuse(f"{name} is a glassformer run (it holds {RUN_FILE}), and data is wanted here")
    if all((folder / file).exists() for file in ("state.json", "dataset_info.json")) or (folder / SPLITS_FILE).exists():
        raise Misuse(f"{name} is a data set that save_to_disk wrote: name it {HUB}{name}")
    reasons = {file: _why_left_out(file, settings.encoding) for file in files_below(folder) if file.is_file()}
    files = [file for file, reason in reasons.items() if not reason]
    left_out = sorted(Counter(filter(None, reasons.values())).items())
    note = "left out: " + ", ".join(f"{count:,} {reason}" for reason, count in left_out) if left_out else ""
    if not files:
        raise DataError(f"no text files in {name}" + (f" ({note})" if note else ""))
    notes = [_read_of_tables(folder, files), note]
    return Source(name, functools.partial(_documents, files, settings), "; ".join(filter(None, notes)))


def _read_of_tables(folder: Path, files: list[Path]) -> str:
    """What is read of a folder that holds tables; nothing, if it holds none."""
    tables = [str(file.relative_to(folder)) for file in files if is_table(file)]
    if not tables:
        return ""
    others = f"{counted(len(files) - len(tables), 'text file')}, and " if len(tables) < len(files) else ""
    which = f"{counted(len(tables), 'table')} ({listed(tables, EXAMPLES)})"
    return f"read: {others}of {which} the texts alone; name a table instead of its folder to learn labels"


def _why_left_out(file: Path, encoding: str) -> str:
    """The reason in a word, or nothing when the file looks like text."""
    if file.name.startswith("."):
        return "hidden"
    if file.suffix.lower() in PACKED:
        return f"packed as {file.suffix.lower()}"
    block = next(byte_blocks(file), b"")
    if not block:
        return "empty"
    if is_table(file) and file.suffix.lower() == ".parquet":
        return ""
    return "binary" if b"\0" in block and len("a".encode(encoding)) == 1 else ""


def _embedded(name: str, settings: DataSettings) -> Source:
    dataset = open_dataset(name)

    def documents() -> Iterator[Iterator[str]]:
        rows = ((number, dict(zip(dataset.columns, row, strict=True))) for number, row in enumerate(dataset.rows(), 1))
        return _texts(name, rows, settings)

    return Source(name, documents, dataset.note)


# --- one pass over a source: what it holds, without holding it ---


@dataclass(frozen=True, eq=False)
class Survey:
    """A few numbers a document, so that millions of them fit in memory."""

    source: Source
    fingerprint: str
    """The same for the same texts and borders between documents; blank documents do not count."""
    characters: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """Bytes of each document as UTF-8."""
    digests: Numbers
    """Equal documents have equal ones."""
    keys: Numbers
    """Documents of one normal form have equal ones."""
    sketches: list[Numbers]
    """What near-duplicates are found by, where they are looked for."""
    filled: NDArray[np.bool_]
    """A document of nothing but white space is not learned from."""


def survey(source: Source, *, near_duplicates: bool = False) -> Survey:
    """`near_duplicates`: whether to look for them."""
    characters, sizes, digests, keys, filled = array("q"), array("q"), array("Q"), array("Q"), array("b")
    sketches: list[Numbers] = []
    whole = hashlib.sha256()
    for chunk in source.chunks():
        if chunk.starts:
            one, normal = hashlib.sha256(), NormalDigest()
            for column in (characters, sizes, filled):
                column.append(0)
        text = chunk.text.encode()
        one.update(text)
        normal.update(chunk.text, sketch=near_duplicates)
        characters[-1] += len(chunk.text)
        sizes[-1] += len(text)
        filled[-1] |= bool(chunk.text.strip())
        if chunk.ends:
            digests.append(int.from_bytes(one.digest()[:8], "little"))
            keys.append(normal.number)
            sketches += [normal.sketch] if near_duplicates else []
            if filled[-1]:
                whole.update(one.digest())
    return Survey(
        source,
        whole.hexdigest(),
        np.array(characters, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
        np.array(digests, dtype=np.uint64),
        np.array(keys, dtype=np.uint64),
        sketches,
        np.array(filled, dtype=np.bool_),
    )
