"""The tokens of a part into shards, each whole on the disk as soon as it is full."""

import itertools
import os
import time
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import Say
from glassformer.data.io.source import Chunk
from glassformer.data.packing.manifest import ShardEntry, map_ids, path_of, read_entry, write_entry
from glassformer.data.split.part import Part
from glassformer.text.tokenizer import Tokenizer

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
    progress = _Progress(part, say)
    shards: list[ShardEntry] = []
    first = 0
    while chunks.upcoming is not None:
        number = len(shards)
        shard = _find_shard(folder, key, number, first)
        if shard is None:
            shard = _write_shard(chunks, tokenizer, folder, key, number, first, progress)
        else:
            deque(itertools.islice(chunks, shard.chunks), maxlen=0)
            progress.passed(shard)
        shards.append(shard)
        first += shard.chunks
    return shards


def _find_shard(folder: Path, key: str, number: int, first: int) -> ShardEntry | None:
    """A shard that an earlier packing wrote, if it is whole."""
    entry = read_entry(ShardEntry, folder / f"{key}.{number}.json", key)
    if entry is None or (entry.number, entry.first) != (number, first):
        return None
    whole = map_ids(path_of(folder, key, number), entry.dtype, entry.tokens, entry.checksum)
    return None if whole is None else entry


def _write_shard(
    chunks: _Ahead, tokenizer: Tokenizer, folder: Path, key: str, number: int, first: int, progress: "_Progress"
) -> ShardEntry:
    """The next shard. One that holds the whole part has no entry of its own."""
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    count = characters = tokens = checksum = unknown = 0
    aside = folder / f"{key}.{uuid.uuid4().hex}.part"
    try:
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
                progress.encoded(group, len(ids))
                if tokens >= SHARD:
                    break
            file.flush()
            os.fsync(file.fileno())
        alone = number == 0 and chunks.upcoming is None
        aside.replace(path_of(folder, key, None if alone else number))
    finally:
        aside.unlink(missing_ok=True)
    entry = ShardEntry(key, number, dtype.name, first, count, characters, tokens, checksum, unknown)
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


class _Progress:
    """Says now and then how far the packing of a large part is."""

    def __init__(self, part: Part, say: Say) -> None:
        self._part = part
        self._say = say
        self._characters = self._tokens = self._whole = 0
        self._last = time.monotonic()

    def passed(self, shard: ShardEntry) -> None:
        self._characters += shard.characters
        self._tokens += shard.tokens
        self._whole += 1

    def encoded(self, chunks: Sequence[Chunk], tokens: int) -> None:
        if self._whole:
            self._say(
                f"packing of the {self._part.name} part goes on: {self._whole:,} of its shards are whole, "
                f"{self._tokens:,} tokens"
            )
            self._whole = 0
        self._characters += sum(len(chunk.text) for chunk in chunks)
        self._tokens += tokens
        if self._part.bytes >= LARGE and time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            share = self._characters / self._part.characters
            megabytes = self._part.bytes / 1e6
            self._say(
                f"packing the {self._part.name} part: {share:.0%} of {megabytes:,.0f} MB, {self._tokens:,} tokens"
            )
