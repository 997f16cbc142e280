"""One pass over a source: what it holds, without holding it.

What was found of large files is kept, and told by the files' names, sizes and times of change: so a training that goes
on need not read a large corpus again, and processes that survey the same one at the same time share its files.
"""

import contextlib
import hashlib
import time
import zipfile
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.config.parts import claimed, part_of, sweep_claims
from glassformer.data.cache import cache_folders, why_unwritable
from glassformer.data.io import source as reading
from glassformer.data.io.source import FileGroup, Source
from glassformer.data.mixing import Numbers
from glassformer.data.same_text import NormalDigest

FORMAT = 3
"""The format of what is kept; a new one makes files be surveyed again."""
KEPT_FROM = 2**26
"""Bytes of a group of files from which on its survey is kept: reading less takes no time."""
SETTLED = 2.0
"""Seconds after which a file that is changed once more has another time of change, on any disk."""


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
    groups: list[int]
    """The first document of each group of files."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """What is found of each document of a group of files."""

    characters: NDArray[np.int64]
    bytes: NDArray[np.int64]
    digests: NDArray[np.uint8]
    """N×32: SHA-256."""
    keys: Numbers
    filled: NDArray[np.bool_]
    sketches: list[Numbers] = field(default_factory=list)

    KEPT = ("characters", "bytes", "digests", "keys", "filled")


def survey(source: Source, *, near_duplicates: bool = False) -> Survey:
    """`near_duplicates`: whether to look for them."""
    if not near_duplicates:
        for group in source.groups if len(source.groups) > 1 else ():
            _keep(group)  # of those that nobody surveys now
    whole, pieces, groups = hashlib.sha256(), list[_Columns](), [0]
    digests = []
    for group in source.groups:
        found = _survey_group(group, near_duplicates=True) if near_duplicates else _keep(group, wait=True)
        assert found is not None
        whole.update(found.digests[found.filled].tobytes())
        digests.append(found.digests[:, :8].copy().view("<u8")[:, 0].astype(np.uint64))
        groups.append(groups[-1] + len(found.keys))
        pieces.append(_without_digests(found))
    if not any(piece.filled.any() for piece in pieces):
        raise source.empty()
    return Survey(
        source,
        whole.hexdigest(),
        np.concatenate([piece.characters for piece in pieces]),
        np.concatenate([piece.bytes for piece in pieces]),
        np.concatenate(digests),
        np.concatenate([piece.keys for piece in pieces]),
        [sketch for piece in pieces for sketch in piece.sketches],
        np.concatenate([piece.filled for piece in pieces]),
        groups[:-1],
    )


def _without_digests(found: _Columns) -> _Columns:
    """Of which the fingerprint needs all, and all else only the beginning."""
    return _Columns(
        found.characters, found.bytes, np.empty((0, 32), np.uint8), found.keys, found.filled, found.sketches
    )


def _survey_group(group: FileGroup, *, near_duplicates: bool = False) -> _Columns:
    characters, sizes, keys, filled = array("q"), array("q"), array("Q"), array("b")
    digests, sketches = bytearray(), list[Numbers]()
    for chunk in group.chunks():
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
            digests += one.digest()
            keys.append(normal.number)
            sketches += [normal.sketch] if near_duplicates else []
    return _Columns(
        np.array(characters, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
        np.frombuffer(bytes(digests), np.uint8).reshape(-1, 32),
        np.array(keys, dtype=np.uint64),
        np.array(filled, dtype=np.bool_),
        sketches,
    )


# --- what is kept ---


def _keep(group: FileGroup, *, wait: bool = False) -> _Columns | None:
    """What is found of a group of files: kept from before, or found now and kept. Nothing, where another process is
    about to find it, unless that is waited for; or where it is too little to be kept, and nobody waits.
    """
    path = _kept_at(group)
    if path is None:
        return _survey_group(group) if wait else None
    if (kept := _load(path)) is not None:
        sweep_claims(path.parent, f"{path.stem}.lock")
        return kept
    with claimed(path.with_suffix(".lock"), wait=wait) as mine:
        if not (mine or wait):
            return None
        if (kept := _load(path)) is not None:
            return kept
        found = _survey_group(group)
        if _kept_at(group) == path:  # no file has changed meanwhile
            with contextlib.suppress(OSError), part_of(path) as aside:
                with aside.open("wb") as file:
                    np.savez(file, **{name: getattr(found, name) for name in _Columns.KEPT})
                aside.replace(path)
        return found


def _kept_at(group: FileGroup) -> Path | None:
    """The file for what is found of a group; None, where it is not kept."""
    try:
        stats = [file.stat() for file in group.files]
    except OSError:
        return None
    changed = max((max(stat.st_mtime, stat.st_ctime) for stat in stats), default=0.0)
    if sum(stat.st_size for stat in stats) < KEPT_FROM or time.time() - changed < SETTLED:
        return None
    files = [
        f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
        for file, stat in zip(group.files, stats, strict=True)
    ]
    name = hashlib.sha256("\n".join([f"{FORMAT} {reading.CHUNK} {group.reading}", *files]).encode()).hexdigest()[:32]
    folder = next((folder / "surveys" for folder in cache_folders()), None)
    return None if folder is None or why_unwritable(folder) else folder / f"{name}.npz"


def _load(path: Path) -> _Columns | None:
    """Nothing, if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            found = _Columns(**{name: kept[name] for name in _Columns.KEPT})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return found if len({len(getattr(found, name)) for name in _Columns.KEPT}) == 1 else None
