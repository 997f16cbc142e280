"""Text → token ids, once: packed into one file that is mapped into memory, and kept for the next time."""

import hashlib
import json
import os
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import GlassformerError
from glassformer.data.part import Part
from glassformer.data.source import Chunk
from glassformer.text.tokenizer import Tokenizer

FORMAT = 1
"""Of the files below; a new one makes the old ones be built again."""

TOGETHER = 2**21
"""Characters given to the tokenizer at once: enough for all its threads, little enough for memory."""

Ids = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A part as the model reads it: every document as START … END, one after the other."""

    ids: Ids
    """Mapped from disk: only what is looked at is read."""
    bytes: int
    """Of the text as UTF-8, START and END not counted: what bits per byte divide by."""
    characters: int
    documents: int
    unknown: int
    """How many ids are UNK."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class _Entry:
    """What stands beside the ids, so that they need not be trusted blindly."""

    key: str
    dtype: str
    tokens: int
    checksum: int
    bytes: int
    characters: int
    documents: int
    unknown: int

    def write(self, path: Path) -> None:
        values = asdict(self)
        path.write_text(json.dumps({**values, "digest": _digest(json.dumps(values))}))

    @staticmethod
    def read(path: Path, key: str) -> "_Entry | None":
        """Nothing, if it is missing, damaged or another's."""
        try:
            values = json.loads(path.read_text())
            digest = values.pop("digest")
            entry = _Entry(**values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return entry if digest == _digest(json.dumps(values)) and entry.key == key else None


def pack(part: Part, tokenizer: Tokenizer, say: Callable[[str], None] = print) -> Tokens:
    """The tokens of a part: from the cache if they are there and whole, else made now and put there."""
    key = _digest(f"{FORMAT} {part.fingerprint} {tokenizer.hash}")[:32]
    folder = cache_folder() / "tokens"
    tokens = _load(folder, key)
    if tokens is not None:
        return tokens
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        say(f"cannot write to the cache {folder} ({error.strerror}): tokens go to a temporary folder, this time only")
        # The mapped file stays readable after its name is gone, so nothing is left behind.
        with tempfile.TemporaryDirectory(prefix="glassformer-") as temporary:
            return _build(part, tokenizer, Path(temporary), key)
    return _build(part, tokenizer, folder, key)


def cache_folder() -> Path:
    """$GLASSFORMER_CACHE, or where the system keeps caches."""
    if own := os.environ.get("GLASSFORMER_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


def _load(folder: Path, key: str) -> Tokens | None:
    entry = _Entry.read(folder / f"{key}.json", key)
    if entry is None:
        return None
    path = folder / f"{key}.ids"
    try:
        if path.stat().st_size != entry.tokens * np.dtype(entry.dtype).itemsize:
            return None
        ids = np.memmap(path, dtype=entry.dtype, mode="r")
    except (OSError, ValueError):
        return None
    if _checksum(ids) != entry.checksum:
        return None
    return Tokens(ids, entry.bytes, entry.characters, entry.documents, entry.unknown)


def _build(part: Part, tokenizer: Tokenizer, folder: Path, key: str) -> Tokens:
    """Aside first, then renamed: a file under its own name is whole, and the entry that vouches for it comes last."""
    aside = folder / f"{key}.{uuid.uuid4().hex}.part"
    try:
        try:
            with aside.open("wb") as file:
                entry = _write_ids(part, tokenizer, file, key)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(folder / f"{key}.ids")
            entry.write(aside)
            aside.replace(folder / f"{key}.json")
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise GlassformerError(
            f"cannot keep the tokens of the {part.name} part in {folder}: {error.strerror}"
        ) from None
    tokens = _load(folder, key)
    if tokens is None:
        raise GlassformerError(f"the tokens just written to {folder} cannot be read back: is the disk sound?")
    return tokens


def _write_ids(part: Part, tokenizer: Tokenizer, file: BinaryIO, key: str) -> _Entry:
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    count = checksum = unknown = 0
    for chunks in _together(part.chunks()):
        pieces: list[Sequence[int] | NDArray[np.int32]] = []
        for chunk, text_ids in zip(chunks, tokenizer.encode_batch([chunk.text for chunk in chunks]), strict=True):
            before = [tokenizer.start] if chunk.starts and tokenizer.start is not None else []
            after = [tokenizer.end] if chunk.ends and tokenizer.end is not None else []
            pieces += [before, text_ids, after]
        ids = np.concatenate([np.asarray(piece, dtype=dtype) for piece in pieces])
        file.write(ids.tobytes())
        count += len(ids)
        checksum = zlib.crc32(ids.tobytes(), checksum)
        unknown += int((ids == tokenizer.unk).sum()) if tokenizer.unk is not None else 0
    return _Entry(key, dtype.name, count, checksum, part.bytes, part.characters, part.documents, unknown)


def _together(chunks: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks in lists of about TOGETHER characters, since a tokenizer is faster on many texts at once."""
    held: list[Chunk] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk.text) + 1
        if size >= TOGETHER:
            yield held
            held, size = [], 0
    if held:
        yield held


def _checksum(ids: Ids) -> int:
    """Of the file's bytes, a few megabytes at a time."""
    checksum = 0
    for start in range(0, len(ids), TOGETHER):
        checksum = zlib.crc32(ids[start : start + TOGETHER].tobytes(), checksum)
    return checksum


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
