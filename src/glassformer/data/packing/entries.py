"""The files of packed tokens, and what vouches for them."""

import json
import uuid
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.parts import part_of
from glassformer.data.split.base import digest

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
