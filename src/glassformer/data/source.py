"""Where text comes from: a file, a folder of files, rows of JSON, or an embedded data set. Never held whole."""

import functools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.config.errors import DataError, Misuse
from glassformer.config.names import nearest
from glassformer.config.sections import DataSettings
from glassformer.data.embedded import DATASETS, open_dataset
from glassformer.data.reading import byte_blocks, check_encoding, json_texts, text_blocks

CHUNK = 2**20
"""Characters in a piece, at most."""

RUN_FILE = "glassformer.json"
"""A folder that holds this file is a run."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a document, cut where a line ends if it can be."""

    text: str
    starts: bool
    """It begins a document."""
    ends: bool
    """It ends a document."""


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
            for chunk in chunked(document):
                blank = blank and not chunk.text.strip()
                yield chunk
        if blank:
            raise DataError(f"{self.name} is empty: there is no text in it")


def chunked(blocks: Iterable[str]) -> Iterator[Chunk]:
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
    """A path that exists, or else an embedded data set: `add`, or `add:digits=3,rows=500`."""
    if not path_or_name.strip():
        raise DataError("no data given: name a text file, a folder, a .jsonl file or an embedded data set")
    path = Path(path_or_name).expanduser()
    try:
        mode = path.stat().st_mode
    except PermissionError:
        raise DataError(f"cannot read {path_or_name}: Permission denied") from None
    except (OSError, ValueError):  # no such file, or a name that no file could have
        return _embedded(path_or_name, path)
    check_encoding(settings.encoding)
    if stat.S_ISDIR(mode):
        return _folder(path_or_name, path, settings)
    if not stat.S_ISREG(mode):
        raise DataError(f"{path_or_name} is a pipe or a device, which can be read only once: save it as a file first")
    return Source(path_or_name, functools.partial(_documents, [path], settings))


def _documents(files: list[Path], settings: DataSettings) -> Iterator[Iterator[str]]:
    """A file of JSON lines is a document a row; any other is one document."""
    for file in files:
        if file.name.lower().removesuffix(".gz").endswith(".jsonl"):
            for text in json_texts(file, settings.encoding, settings.text):
                yield iter([text])
        else:
            yield text_blocks(file, settings.encoding)


def _folder(name: str, folder: Path, settings: DataSettings) -> Source:
    if (folder / RUN_FILE).exists():
        raise Misuse(f"{name} is a glassformer run (it holds {RUN_FILE}), and data is wanted here")
    reasons = {file: _why_left_out(file, settings.encoding) for file in _files_below(folder)}
    files = [file for file, reason in reasons.items() if not reason]
    left_out = sorted(Counter(filter(None, reasons.values())).items())
    note = "left out: " + ", ".join(f"{count:,} {reason}" for reason, count in left_out) if left_out else ""
    if not files:
        raise DataError(f"no text files in {name}" + (f" ({note})" if note else ""))
    return Source(name, functools.partial(_documents, files, settings), note)


def _files_below(folder: Path) -> list[Path]:
    """Every file below a folder, sorted; hidden folders are not entered."""

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot read {error.filename}: {error.strerror}")

    files = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names]
    return sorted(file for file in files if file.is_file())


def _why_left_out(file: Path, encoding: str) -> str:
    """In a word, or nothing when the file looks like text."""
    if file.name.startswith("."):
        return "hidden"
    block = next(byte_blocks(file), b"")
    if not block:
        return "empty"
    return "binary" if b"\0" in block and len("a".encode(encoding)) == 1 else ""


def _embedded(name: str, path: Path) -> Source:
    dataset = name.partition(":")[0]
    if dataset not in DATASETS:
        try:
            neighbours = [str(path.with_name(other)) for other in sorted(os.listdir(path.parent))]
        except (OSError, ValueError):
            neighbours = []
        meant = nearest(name, [*neighbours, *DATASETS]) or nearest(dataset, DATASETS)
        hint = f"; did you mean {meant}?" if meant else ""
        raise DataError(f"no file '{name}' and no data set of that name{hint} (data sets: {', '.join(DATASETS)})")
    rows = open_dataset(name)
    return Source(name, lambda: (iter([text]) for text in rows()))
