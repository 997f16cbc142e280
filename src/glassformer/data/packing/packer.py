"""The tokens of a part into shards, each whole on the disk as soon as it is full.

Where a shard ends is told by counting characters. So it is known before anything is encoded, and processes that pack
the same part at the same time, those of torchrun or others, share its shards: whoever comes to one that nobody has
claimed packs it. The claim of a process that is killed falls, and another makes its shard.
"""

import contextlib
import json
import os
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import Say
from glassformer.config.parts import claimed, part_of, sweep
from glassformer.data.cache import free_bytes
from glassformer.data.io.source import Chunk
from glassformer.data.split.base import digest
from glassformer.data.split.documents import Part
from glassformer.text.pieces import grouped
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
    """One file of a part that may not be whole yet: of a part of one file, this is not written."""

    key: str
    number: int
    of: int
    """How many files the part has."""
    dtype: str
    first: int
    """The characters of the part that stand before it."""
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

SHARD, MOST_SHARDS = 2**26, 2**12
"""Characters of a shard at least, and how many of them a part has at most: each is a mapping of the process."""

LARGE = 50_000_000
"""Bytes of a part from which on it is said how far packing is."""

EVERY = 15.0
"""Seconds between two such words."""


class _Text:
    """The chunks of a part one after the other, and how many characters of it lie behind."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._chunks = part.chunks()
        self.characters = 0

    def until(self, border: int | None) -> Iterator[Chunk]:
        """The chunks up to so many characters of the part, or to its end."""
        while border is None or self.characters < border:
            if (chunk := next(self._chunks, None)) is None:
                return
            self.characters += len(chunk.text)
            yield chunk

    def pass_over(self, border: int | None) -> None:
        """Go on where `until` would end; files that lie before are not read."""
        if border is None:
            return
        place = self._part.place_before(border)
        if place.characters > self.characters:
            self._chunks, self.characters = self._part.chunks(place), place.characters
        deque(self.until(border), maxlen=0)


class Packing:
    """One part on its way into shards."""

    def __init__(self, part: Part, tokenizer: Tokenizer, folders: Sequence[Path], key: str, say: Say) -> None:
        """`folders`: those that shards may lie in; the one with the most room takes the next."""
        self.part, self.tokenizer, self.key, self.say = part, tokenizer, key, say
        self.folders, self.writable = folders, list(folders)
        self.count = min(MOST_SHARDS, max(1, part.characters // SHARD))
        self.dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
        self.shards: dict[int, ShardEntry] = {}
        self.paths: dict[int, Path] = {}
        """Where the ids of each of these lie."""
        self.firsts: list[int] = []
        """The characters before each shard, of those that this process has come to."""
        self._report = _progress(part, say)
        self._has_written = False

    def run(self) -> list[ShardEntry]:
        """All shards of the part; of those that are whole on the disk the text is passed over."""
        self._go_through()
        while not self._others_ended():
            self._go_through()
        return [self.shards[number] for number in range(self.count)]

    def _go_through(self) -> None:
        """Read the part, and make those shards that nobody has made or makes now."""
        text, self.firsts = _Text(self.part), []
        for number in range(self.count):
            last = number + 1 == self.count
            border = None if last else (number + 1) * self.part.characters // self.count
            self.firsts.append(text.characters)
            if not self._find(number):
                with self._claim(number) as mine:
                    if mine and not self._find(number):  # which another may have ended a moment ago
                        self._write(number, text, border)
            text.pass_over(border)

    def _others_ended(self) -> bool:
        """Whether all shards are whole, when those that others had claimed are made, or their makers gone."""
        lacking = [number for number in range(self.count) if number not in self.shards]
        for number in lacking:
            with self._claim(number, wait=True):
                if not self._find(number):
                    for folder in self.writable:
                        sweep(folder)  # what one that was killed left half written
                    return False
        return True

    def _claim(self, number: int, *, wait: bool = False) -> contextlib.AbstractContextManager[bool]:
        if self.count == 1:  # made sooner than waited for
            return contextlib.nullcontext(True)
        return claimed(self.folders[0] / claim_name(self.key, number), wait=wait)

    def _find(self, number: int) -> bool:
        """Whether a shard is there and whole, by whomever it was made."""
        if number not in self.shards and self.count > 1:
            expected = (number, self.count, self.firsts[number])
            for folder in self.folders:
                entry = read_entry(ShardEntry, _entry_path(folder, self.key, number), self.key)
                if entry is None or (entry.number, entry.of, entry.first) != expected:
                    continue
                path = path_of(folder, self.key, number)
                if map_ids(path, entry.dtype, entry.tokens, entry.checksum) is not None:
                    self.shards[number], self.paths[number] = entry, path
                    break
        return number in self.shards

    def _write(self, number: int, text: _Text, border: int | None) -> None:
        """A shard, into the folder with the most room; where that takes no more, it is made for another folder when the
        text is read again.
        """
        if self.shards and not self._has_written:
            tokens = sum(shard.tokens for shard in self.shards.values())
            whole = f"{len(self.shards):,} of its shards are whole, {tokens:,} tokens"
            self.say(f"packing of the {self.part.name} part goes on: {whole}")
        self._has_written = True
        folder = max(self.writable, key=free_bytes)
        try:
            self.shards[number] = self._write_to(folder, number, text, border)
        except OSError as error:
            self.writable.remove(folder)
            if not self.writable:
                raise
            self.say(f"{folder} takes no more tokens ({error.strerror}): the rest goes to the other folders")

    def _write_to(self, folder: Path, number: int, text: _Text, border: int | None) -> ShardEntry:
        first, before = text.characters, sum(shard.tokens for shard in self.shards.values())
        tokens = checksum = unknown = 0
        with part_of(folder / f"{self.key}.{uuid.uuid4().hex}") as aside:
            with aside.open("wb") as file:
                for group in _together(text.until(border)):
                    ids = _encode(group, self.tokenizer, self.dtype)
                    data = ids.tobytes()
                    file.write(data)
                    tokens += len(ids)
                    checksum = zlib.crc32(data, checksum)
                    unknown += int((ids == self.tokenizer.unk).sum()) if self.tokenizer.unk is not None else 0
                    self._report(text.characters, before + tokens)
                file.flush()
                os.fsync(file.fileno())
            path = path_of(folder, self.key, None if self.count == 1 else number)
            aside.replace(path)
        entry = ShardEntry(self.key, number, self.count, self.dtype.name, first, tokens, checksum, unknown)
        if self.count > 1:
            write_entry(entry, _entry_path(folder, self.key, number))
        self.paths[number] = path
        return entry


def claim_name(key: str, number: int | str) -> str:
    """The file that says that somebody makes a shard now."""
    return f".{key}.{number}.lock"


def _entry_path(folder: Path, key: str, number: int) -> Path:
    return folder / f"{key}.{number}.json"


def _encode(chunks: Sequence[Chunk], tokenizer: Tokenizer, dtype: np.dtype[Any]) -> NDArray[Any]:
    pieces: list[Sequence[int] | NDArray[np.int32]] = []
    for chunk, text_ids in zip(chunks, tokenizer.encode_batch([chunk.text for chunk in chunks]), strict=True):
        before = [tokenizer.start] if chunk.starts and tokenizer.start is not None else []
        after = [tokenizer.end] if chunk.ends and tokenizer.end is not None else []
        pieces += [before, text_ids, after]
    return np.concatenate([np.asarray(piece, dtype=dtype) for piece in pieces])


def _together(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Return chunks in lists of about TOGETHER characters, since a tokenizer is faster on many texts at once."""
    return grouped(chunks, lambda chunk: len(chunk.text) + 1, TOGETHER)


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
