"""Read texts piece by piece from a file, a folder of files, the rows of a table, or a data set."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.config.errors import DataError, Misuse
from glassformer.config.progress import may_stop, progress_of, unheard
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import text_column
from glassformer.data.datasets.dataset import HUB
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.place import PACKED, files_below, files_of, find, short_name
from glassformer.data.io.reading import byte_blocks, check_encoding, text_blocks
from glassformer.data.io.rows import Row, is_table, read_rows
from glassformer.data.io.table import SAMPLE_ROWS, join_texts, text_parts
from glassformer.data.wording import EXAMPLES, counted, listed

CHUNK = 2**20
"""Maximum number of characters in a chunk."""

GROUP = 2**26
"""Minimum size of a group of files in bytes."""

RUN_FILE = "glassformer.json"
"""A folder that holds this file is a run."""

SPLITS_FILE = "dataset_dict.json"
"""A folder that holds this file was written by save_to_disk of the hub's library."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a document, cut at the end of a line if possible."""

    text: str
    starts: bool
    """Whether it begins a document."""
    ends: bool
    """Whether it ends a document."""


Documents = Callable[[], Iterator[Iterator[str]]]
"""Starts reading again: yields each document as blocks of text."""


@dataclass(frozen=True)
class FileGroup:
    """Files that are read one after the other. Processes share groups of files, and reading can begin at any group."""

    documents: Documents
    files: tuple[Path, ...] = ()
    """The files; empty for documents that do not come from files."""
    reading: str = ""
    """The settings that affect reading."""

    def chunks(self) -> Iterator[Chunk]:
        for document in self.documents():
            may_stop()
            yield from chunks_of(document)


@dataclass(frozen=True)
class Source:
    """Documents that can be read repeatedly, in the same order."""

    name: str
    documents: Documents
    note: str = ""
    """Message on files that were left out."""
    file_groups: tuple[FileGroup, ...] = ()

    @property
    def groups(self) -> tuple[FileGroup, ...]:
        """Documents, grouped by file."""
        return self.file_groups or (FileGroup(self.documents),)

    def chunks(self) -> Iterator[Chunk]:
        blank = True
        for chunk in FileGroup(self.documents).chunks():
            blank = blank and not chunk.text.strip()
            yield chunk
        if blank:
            raise self.empty()

    def empty(self) -> DataError:
        return DataError(f"{self.name} is empty: there is no text in it")


def chunks_of(blocks: Iterable[str]) -> Iterator[Chunk]:
    """Cut one document, given in blocks of any size, into chunks of at most CHUNK characters."""
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
    """Return the last position to cut: at the end of a line, else before a space, else anywhere.

    The newline or space begins the next chunk and follows a character that is not white space. No tokenizer joins white
    space to the word before it, so cutting there changes no token.
    """
    for blank in "\n ":
        cut = text.rfind(blank, start + 1, stop)
        while cut > start and text[cut - 1].isspace():
            cut = text.rfind(blank, start + 1, cut)
        if cut > start:
            return cut
    return stop


def open_source(path_or_name: str, settings: DataSettings) -> Source:
    """Return the texts at a path, or of a data set: `add`, `add:digits=3,rows=500`, or `hf:NAME` of the hub."""
    path = find(path_or_name, several=True)
    if path is None:
        return _embedded(path_or_name, settings)
    check_encoding(settings.encoding)
    if (files := files_of(path_or_name)) is not None:
        return _source(short_name(path_or_name), files, settings)
    if path.is_dir():
        return _folder(path_or_name, path, settings)
    return _source(path_or_name, [path], settings)


def _source(name: str, files: list[Path], settings: DataSettings, note: str = "") -> Source:
    read = functools.partial(_documents, files, settings)
    borders, size = [0], 0
    for number, file in enumerate(files):
        if size >= GROUP:
            borders.append(number)
            size = 0
        size += file.stat().st_size
    reading = f"{settings.encoding} {settings.text}"
    groups = [
        FileGroup(functools.partial(read, first, stop), tuple(files[first:stop]), reading)
        for first, stop in itertools.pairwise([*borders, len(files)])
    ]
    return Source(name, read, note, tuple(groups))


def _documents(
    files: list[Path], settings: DataSettings, first: int = 0, stop: int | None = None
) -> Iterator[Iterator[str]]:
    """Yield the documents of some files. Each row of a table is a document; any other file is one document."""
    progress = progress_of("file") if len(files) > 1 else unheard
    for number, file in enumerate(files[first:stop], first):
        progress(number, len(files))
        if is_table(file):
            yield from _texts(str(file), read_rows(file, settings.encoding), settings)
        else:
            yield text_blocks(file, settings.encoding)
    progress(len(files[:stop]), len(files))


def _texts(name: str, rows: Iterator[Row], settings: DataSettings) -> Iterator[Iterator[str]]:
    """Yield the text of each row as a document; the first rows show which column is the text."""
    first = list(itertools.islice(rows, SAMPLE_ROWS))
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
        raise Misuse(f"{name} is a glassformer run (it holds {RUN_FILE}), not data")
    if all((folder / file).exists() for file in ("state.json", "dataset_info.json")) or (folder / SPLITS_FILE).exists():
        raise Misuse(f"{name} is a data set that save_to_disk wrote: name it {HUB}{name}")
    reasons = {file: _why_left_out(file, settings.encoding) for file in files_below(folder) if file.is_file()}
    files = [file for file, reason in reasons.items() if not reason]
    left_out = sorted(Counter(filter(None, reasons.values())).items())
    note = "left out: " + ", ".join(f"{count:,} {reason}" for reason, count in left_out) if left_out else ""
    if not files:
        raise DataError(f"no text files in {name}" + (f" ({note})" if note else ""))
    notes = [note] if note else []
    if tables := [str(file.relative_to(folder)) for file in files if is_table(file)]:
        which = f"{counted(len(tables), 'table')} ({listed(tables, EXAMPLES)})"
        notes.insert(0, f"read: only the texts of {which}; name a table instead of its folder to learn labels")
    return _source(name, files, settings, "; ".join(notes))


def _why_left_out(file: Path, encoding: str) -> str:
    """Return the reason in a word; empty if the file looks like text."""
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
