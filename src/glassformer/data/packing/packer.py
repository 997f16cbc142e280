"""Pack the tokens of a part into shards, each of which is complete on disk as soon as it is full.

The borders of shards are counted in characters and therefore known before encoding. Processes that pack the same part
at the same time share its shards: each packs shards that no other process has claimed. If a process is killed, its
claim ends and another process packs the shard.
"""

import contextlib
import json
import os
import time
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.messages import say
from glassformer.config.parts import claimed, part_of, sweep
from glassformer.data.cache import free_bytes
from glassformer.data.io.source import Chunk
from glassformer.data.split.base import digest
from glassformer.data.split.documents import TextPart
from glassformer.text.pieces import grouped
from glassformer.text.tokenizer import Tokenizer

CHECKED_TOKENS = 2**21
"""Tokens whose checksum is computed at once."""


@dataclass(frozen=True)
class ShardEntry:
    """Facts about a complete file of token ids, written after the file."""

    key: str
    number: int
    dtype: str
    tokens: int
    checksum: int
    unknown: int
    changed: int
    """Modification time of the file in nanoseconds, when it was written or its checksum was last compared."""


def find_shard(
    folders: Sequence[Path], key: str, number: int, *, compare: bool
) -> tuple[ShardEntry, NDArray[Any]] | None:
    """Return the entry and the ids of a shard that is complete in one of the folders, else None.

    `compare`: compare the checksum even if the file was not changed.
    """
    for folder in folders:
        path = folder / f"{key}.{number}.ids"
        try:
            entry, changed = _read_entry(path), path.stat().st_mtime_ns
            ids: NDArray[Any] = np.memmap(path, entry.dtype, "r") if entry.tokens else np.empty(0, entry.dtype)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if (entry.key, entry.number, entry.tokens) != (key, number, len(ids)):
            continue
        if (compare or changed != entry.changed) and _checksum(ids) != entry.checksum:
            continue
        if changed != entry.changed:
            with contextlib.suppress(OSError):  # compared again the next time
                _write_entry(replace(entry, changed=changed), path)
        return entry, ids
    return None


def _write_entry(entry: ShardEntry, path: Path) -> None:
    """Write the entry of a file of ids beside it, atomically."""
    values = asdict(entry)
    with part_of(path.with_name(f"{entry.key}.{uuid.uuid4().hex}")) as aside:
        aside.write_text(json.dumps({**values, "digest": digest(json.dumps(values))}))
        aside.replace(path.with_suffix(".json"))


def _read_entry(path: Path) -> ShardEntry:
    """Return the entry of a file of ids; raise an error if it is missing or damaged."""
    values: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    if values.pop("digest") != digest(json.dumps(values)):
        raise ValueError("damaged")
    return ShardEntry(**values)


def _checksum(ids: NDArray[Any]) -> int:
    """Return the checksum of a file's bytes, computed a few megabytes at a time."""
    checksum = 0
    for start in range(0, len(ids), CHECKED_TOKENS):
        checksum = zlib.crc32(ids[start : start + CHECKED_TOKENS].tobytes(), checksum)
    return checksum


TOGETHER = 2**21
"""Characters that are tokenized at once: enough for all threads, few enough for memory."""

SHARD, MAX_SHARDS = 2**26, 2**12
"""Minimum characters of a shard, and maximum shards of a part: each is a memory mapping of the process."""

LARGE = 50_000_000
"""Size of a part in bytes from which packing reports its progress."""
REPORT_SECONDS = 15.0
"""Seconds between two such lines."""


class _Text:
    """The chunks of a part, and the number of characters that were read."""

    def __init__(self, part: TextPart) -> None:
        self._part = part
        self._chunks = part.chunks()
        self.characters = 0

    def until(self, border: int | None) -> Iterator[Chunk]:
        """Yield the chunks up to this number of characters of the part, or to its end."""
        while border is None or self.characters < border:
            if (chunk := next(self._chunks, None)) is None:
                return
            self.characters += len(chunk.text)
            yield chunk

    def pass_over(self, border: int | None) -> None:
        """Skip the chunks of `until`, without reading whole files that end before the border."""
        if border is None:
            return
        place = self._part.position_before(border)
        if place.characters > self.characters:
            self._chunks, self.characters = self._part.chunks(place), place.characters
        deque(self.until(border), maxlen=0)


def shard_count(part: TextPart) -> int:
    return min(MAX_SHARDS, max(1, part.characters // SHARD))


class Packing:
    """The packing of one part into shards."""

    def __init__(self, part: TextPart, tokenizer: Tokenizer, folders: Sequence[Path], key: str) -> None:
        """Prepare to pack a part. `folders`: may hold shards; the one with the most free space gets the next shard."""
        self.part, self.tokenizer, self.key = part, tokenizer, key
        self.folders, self.writable = folders, list(folders)
        self.count = shard_count(part)
        self.dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
        self.shards: dict[int, ShardEntry] = {}
        self._reported = time.monotonic()

    def run(self) -> None:
        """Write the shards that are missing or damaged, and wait for those that other processes write."""
        whole = sum(map(self._find, range(self.count)))
        if 0 < whole < self.count:
            say(f"packing of the {self.part.name} part continues: {whole:,} of {self.count:,} shards are whole")
        self._go_through()
        while not self._others_ended():
            self._go_through()

    def _go_through(self) -> None:
        """Read the part, and write the shards that are missing and that no other process writes now."""
        text = _Text(self.part)
        for number in range(self.count):
            last = number + 1 == self.count
            border = None if last else (number + 1) * self.part.characters // self.count
            if not self._find(number):
                with self._claim(number) as mine:
                    if mine and not self._find(number):  # another process may have written it a moment ago
                        self._write(number, text, border)
            text.pass_over(border)

    def _others_ended(self) -> bool:
        """Wait for the shards of other processes; return False if one of them was not written."""
        for number in range(self.count):
            if number in self.shards:
                continue
            with self._claim(number, wait=True):
                if not self._find(number):
                    for folder in self.writable:
                        sweep(folder)  # half-written files of a killed process
                    return False
        return True

    def _claim(self, number: int, *, wait: bool = False) -> contextlib.AbstractContextManager[bool]:
        return claimed(self.folders[0] / claim_name(self.key, number), wait=wait)

    def _find(self, number: int) -> bool:
        """Return whether a shard is complete, whichever process wrote it."""
        if number not in self.shards and (found := find_shard(self.folders, self.key, number, compare=True)):
            self.shards[number] = found[0]
        return number in self.shards

    def _write(self, number: int, text: _Text, border: int | None) -> None:
        """Write a shard to the folder with the most free space. If that fails, the next pass tries another folder."""
        folder = max(self.writable, key=free_bytes)
        try:
            self.shards[number] = self._write_to(folder, number, text, border)
        except OSError as error:
            self.writable.remove(folder)
            if not self.writable:
                raise
            say(f"{folder} takes no more tokens ({error.strerror}): the rest goes to the other folders")

    def _write_to(self, folder: Path, number: int, text: _Text, border: int | None) -> ShardEntry:
        tokens = checksum = unknown = 0
        path = folder / f"{self.key}.{number}.ids"
        with part_of(folder / f"{self.key}.{uuid.uuid4().hex}") as aside:
            with aside.open("wb") as file:
                for group in grouped(text.until(border), lambda chunk: len(chunk.text) + 1, TOGETHER):
                    ids = _encode(group, self.tokenizer, self.dtype)
                    data = ids.tobytes()
                    file.write(data)
                    tokens += len(ids)
                    checksum = zlib.crc32(data, checksum)
                    unknown += int((ids == self.tokenizer.unk).sum()) if self.tokenizer.unk is not None else 0
                    self._report(text.characters)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        changed = path.stat().st_mtime_ns
        entry = ShardEntry(self.key, number, self.dtype.name, tokens, checksum, unknown, changed)
        _write_entry(entry, path)
        return entry

    def _report(self, characters: int) -> None:
        """Report the progress of packing a large part from time to time."""
        if self.part.bytes >= LARGE and time.monotonic() - self._reported >= REPORT_SECONDS:
            self._reported = time.monotonic()
            share = f"{characters / self.part.characters:.0%} of {self.part.bytes / 1e6:,.0f} MB"
            say(f"packing the {self.part.name} part: {share}")


def claim_name(key: str, number: int | str) -> str:
    """Return the name of the file by which a process claims a shard."""
    return f".{key}.{number}.lock"


def _encode(chunks: Sequence[Chunk], tokenizer: Tokenizer, dtype: np.dtype[Any]) -> NDArray[Any]:
    pieces: list[Sequence[int] | NDArray[np.int32]] = []
    for chunk, text_ids in zip(chunks, tokenizer.encode_batch([chunk.text for chunk in chunks]), strict=True):
        before = [tokenizer.start] if chunk.starts and tokenizer.start is not None else []
        after = [tokenizer.end] if chunk.ends and tokenizer.end is not None else []
        pieces += [before, text_ids, after]
    return np.concatenate([np.asarray(piece, dtype=dtype) for piece in pieces])
