"""The tokens of a part into shards, each whole on the disk as soon as it is full, and what vouches for them."""

import itertools
import json
import os
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import Say
from glassformer.config.parts import part_of
from glassformer.data.io.source import Chunk
from glassformer.data.split.base import digest
from glassformer.data.split.documents import Part
from glassformer.text.tokenizer import Tokenizer

AT_ONCE = 2**21
"""Tokens whose checksum is made in one go."""

E = TypeVar("E", "PartEntry", "ShardEntry")


@dataclass(frozen=True)
class PartEntry:
    """A part that is whole: its files, in their order, and what they hold together."""

    key: str
    dtype: str
    tokens: list[int]
    """Tokens of each file."""
    checksums: list[int]
    changed: list[int]
    """When each file was last changed, in nanoseconds, when it was written or its checksum was last compared."""
    bytes: int
    characters: int
    documents: int
    unknown: int

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.checksums) == len(self.changed) > 0:
            raise ValueError("an entry names each of its files once")


@dataclass(frozen=True)
class ShardEntry:
    """One file of a part that may not be whole yet."""

    key: str
    number: int
    dtype: str
    first: int
    """The chunks of the part that stand before it."""
    chunks: int
    characters: int
    tokens: int
    checksum: int
    unknown: int


def write_entry(entry: PartEntry | ShardEntry, path: Path) -> None:
    """Whole, or not at all."""
    values = asdict(entry)
    with part_of(path.with_name(f"{entry.key}.{uuid.uuid4().hex}")) as aside:
        aside.write_text(json.dumps({**values, "digest": digest(json.dumps(values))}))
        aside.replace(path)


def read_entry(kind: type[E], path: Path, key: str) -> E | None:
    """Nothing, if it is missing, damaged or another's."""
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        written = values.pop("digest")
        entry = kind(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if written == digest(json.dumps(values)) and entry.key == key else None


# --- the ids themselves ---


def path_of(folder: Path, key: str, number: int | None) -> Path:
    """The file of a shard's ids; None: there is only one."""
    return folder / (f"{key}.ids" if number is None else f"{key}.{number}.ids")


def map_ids(path: Path, dtype: str, tokens: int, checksum: int | None) -> NDArray[Any] | None:
    """The ids of a file, if it has as many and, where a checksum is given, these very ones."""
    try:
        if path.stat().st_size != tokens * np.dtype(dtype).itemsize:
            return None
        ids: NDArray[Any] = np.memmap(path, dtype=dtype, mode="r") if tokens else np.empty(0, dtype)
    except (OSError, ValueError, TypeError):
        return None
    return ids if checksum is None or _checksum(ids) == checksum else None


def _checksum(ids: NDArray[Any]) -> int:
    """The checksum of the file's bytes, made a few megabytes at a time."""
    checksum = 0
    for start in range(0, len(ids), AT_ONCE):
        checksum = zlib.crc32(ids[start : start + AT_ONCE].tobytes(), checksum)
    return checksum


TOGETHER = 2**21
"""Characters given to the tokenizer at once: enough for all its threads, little enough for memory."""

SHARD = 2**26
"""Tokens of a shard: it is full with the texts that bring it there, so that it may hold a few more."""

LARGE = 50_000_000
"""Bytes of a part from which on it is said how far packing is."""

EVERY = 15.0
"""Seconds between two such words."""


class _Ahead(Iterator[Chunk]):
    """Chunks, of which the next can be seen before it is taken."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self.upcoming = next(chunks, None)

    def __next__(self) -> Chunk:
        if self.upcoming is None:
            raise StopIteration
        taken, self.upcoming = self.upcoming, next(self._chunks, None)
        return taken


def pack_shards(part: Part, tokenizer: Tokenizer, folder: Path, key: str, say: Say) -> list[ShardEntry]:
    """All shards of a part; of those that are whole on the disk the text is passed over."""
    chunks = _Ahead(part.chunks())
    report = _progress(part, say)
    shards: list[ShardEntry] = []
    passed = 0
    while chunks.upcoming is not None:
        shard = _find_shard(folder, key, shards)
        if shard is not None:
            deque(itertools.islice(chunks, shard.chunks), maxlen=0)
            passed += 1
        else:
            if passed:
                tokens = sum(shard.tokens for shard in shards)
                whole = f"{passed:,} of its shards are whole, {tokens:,} tokens"
                say(f"packing of the {part.name} part goes on: {whole}")
                passed = 0
            shard = _write_shard(chunks, tokenizer, folder, key, shards, report)
        shards.append(shard)
    return shards


def _find_shard(folder: Path, key: str, shards: Sequence[ShardEntry]) -> ShardEntry | None:
    """The shard after these, if an earlier packing wrote it and it is whole."""
    number = len(shards)
    entry = read_entry(ShardEntry, folder / f"{key}.{number}.json", key)
    if entry is None or (entry.number, entry.first) != (number, sum(shard.chunks for shard in shards)):
        return None
    whole = map_ids(path_of(folder, key, number), entry.dtype, entry.tokens, entry.checksum)
    return None if whole is None else entry


def _write_shard(
    chunks: _Ahead,
    tokenizer: Tokenizer,
    folder: Path,
    key: str,
    shards: Sequence[ShardEntry],
    report: Callable[[int, int], None],
) -> ShardEntry:
    """The shard after these. One that holds the whole part has no entry of its own."""
    number = len(shards)
    before = {name: sum(getattr(shard, name) for shard in shards) for name in ("chunks", "characters", "tokens")}
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    count = characters = tokens = checksum = unknown = 0
    with part_of(folder / f"{key}.{uuid.uuid4().hex}") as aside:
        with aside.open("wb") as file:
            for group in _together(chunks):
                ids = _encode(group, tokenizer, dtype)
                data = ids.tobytes()
                file.write(data)
                count += len(group)
                characters += sum(len(chunk.text) for chunk in group)
                tokens += len(ids)
                checksum = zlib.crc32(data, checksum)
                unknown += int((ids == tokenizer.unk).sum()) if tokenizer.unk is not None else 0
                report(before["characters"] + characters, before["tokens"] + tokens)
                if tokens >= SHARD:
                    break
            file.flush()
            os.fsync(file.fileno())
        alone = number == 0 and chunks.upcoming is None
        aside.replace(path_of(folder, key, None if alone else number))
    entry = ShardEntry(key, number, dtype.name, before["chunks"], count, characters, tokens, checksum, unknown)
    if not alone:
        write_entry(entry, folder / f"{key}.{number}.json")
    return entry


def _encode(chunks: Sequence[Chunk], tokenizer: Tokenizer, dtype: np.dtype[Any]) -> NDArray[Any]:
    pieces: list[Sequence[int] | NDArray[np.int32]] = []
    for chunk, text_ids in zip(chunks, tokenizer.encode_batch([chunk.text for chunk in chunks]), strict=True):
        before = [tokenizer.start] if chunk.starts and tokenizer.start is not None else []
        after = [tokenizer.end] if chunk.ends and tokenizer.end is not None else []
        pieces += [before, text_ids, after]
    return np.concatenate([np.asarray(piece, dtype=dtype) for piece in pieces])


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


def _progress(part: Part, say: Say) -> Callable[[int, int], None]:
    """Says now and then how far the packing of a large part is, told how many characters made how many tokens."""
    last = time.monotonic()

    def report(characters: int, tokens: int) -> None:
        nonlocal last
        if part.bytes >= LARGE and time.monotonic() - last >= EVERY:
            last = time.monotonic()
            share = f"{characters / part.characters:.0%} of {part.bytes / 1e6:,.0f} MB"
            say(f"packing the {part.name} part: {share}, {tokens:,} tokens")

    return report
