"""Survey a source: read it once and keep a few numbers per document.

Surveys of large files are cached under the names, sizes and modification times of the files. A resumed training run
then need not read the corpus again, and processes that survey the same corpus share its files.
"""

import contextlib
import hashlib
import time
import zipfile
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.parts import claimed, part_of, sweep_claims
from glassformer.data.cache import cache_folders, why_unwritable
from glassformer.data.io import source as reading
from glassformer.data.io.source import FileGroup, Source
from glassformer.data.order import UInts
from glassformer.data.same_text import NormalDigest

FORMAT = 4
"""Version of the cached format; other versions are not read."""
MIN_CACHED_BYTES = 2**26
"""Size of a group of files from which its survey is cached; smaller ones are read quickly."""
SETTLED = 2.0
"""Seconds after which another change of a file changes its modification time, on any disk."""


@dataclass(frozen=True, eq=False)
class Survey:
    """The documents of a source: a few numbers per document, so that millions of them fit in memory."""

    characters: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """Bytes of each document as UTF-8."""
    digests: UInts
    """Digests of the documents."""
    keys: UInts
    """Digests of the normal forms of the documents."""
    filled: NDArray[np.bool_]
    """False for blank documents, which are not learned from."""
    sketches: list[UInts]
    """Sketches to find near-duplicates, if requested."""
    source: Source
    fingerprint: str
    """Digest of the texts and the borders between them, except blank documents."""
    groups: list[int]
    """Number of the first document of each group of files."""


RECORDS = {"characters": "i8", "bytes": "i8", "digests": "V32", "keys": "u8", "filled": "?"}
"""Cached arrays with an item per document of a group of files. Digests are SHA-256."""
Records = dict[str, NDArray[Any]]


def survey(source: Source, *, near_duplicates: bool = False) -> Survey:
    """Read a source once. `near_duplicates`: whether to make sketches."""
    if not near_duplicates:
        for group in source.groups if len(source.groups) > 1 else ():
            _records_of(group)  # groups that no other process surveys now
    whole, pieces, sketches, groups = hashlib.sha256(), list[Records](), list[UInts](), [0]
    for group in source.groups:
        if near_duplicates:
            found, more = _survey_group(group, near_duplicates=True)
            sketches += more
        else:
            kept = _records_of(group, wait=True)
            assert kept is not None
            found = kept
        whole.update(found["digests"][found["filled"]].tobytes())
        groups.append(groups[-1] + len(found["keys"]))
        # only the fingerprint needs whole digests
        pieces.append({**found, "digests": np.frombuffer(found["digests"].tobytes(), "<u8")[::4].astype(np.uint64)})
    if not any(piece["filled"].any() for piece in pieces):
        raise source.empty()
    columns: dict[str, Any] = {name: np.concatenate([piece[name] for piece in pieces]) for name in RECORDS}
    return Survey(**columns, sketches=sketches, source=source, fingerprint=whole.hexdigest(), groups=groups[:-1])


def _survey_group(group: FileGroup, *, near_duplicates: bool = False) -> tuple[Records, list[UInts]]:
    """Return the records of a group of files, and the sketches of its documents if requested."""
    characters, sizes, keys, filled = array("q"), array("q"), array("Q"), array("b")
    digests, sketches = bytearray(), list[UInts]()
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
    found = zip(RECORDS.items(), (characters, sizes, digests, keys, filled), strict=True)
    return {name: np.frombuffer(bytes(values), kind) for (name, kind), values in found}, sketches


# --- the cache ---


def _records_of(group: FileGroup, *, wait: bool = False) -> Records | None:
    """Return the records of a group of files from the cache, or make and cache them.

    Without `wait`, return None if another process makes them now, or if they are too small for the cache.
    """
    path = _cache_file(group)
    if path is None:
        return _survey_group(group)[0] if wait else None
    if (kept := _load(path)) is not None:
        sweep_claims(path.parent, f"{path.stem}.lock")
        return kept
    with claimed(path.with_suffix(".lock"), wait=wait) as mine:
        if not (mine or wait):
            return None
        if (kept := _load(path)) is not None:
            return kept
        found, _ = _survey_group(group)
        if _cache_file(group) == path:  # no file has changed meanwhile
            with contextlib.suppress(OSError), part_of(path) as aside:
                with aside.open("wb") as file:
                    np.savez(file, allow_pickle=False, **found)
                aside.replace(path)
        return found


def _cache_file(group: FileGroup) -> Path | None:
    """Return the cache file of a group; None if it is not cached."""
    try:
        stats = [file.stat() for file in group.files]
    except OSError:
        return None
    changed = max((max(stat.st_mtime, stat.st_ctime) for stat in stats), default=0.0)
    if sum(stat.st_size for stat in stats) < MIN_CACHED_BYTES or time.time() - changed < SETTLED:
        return None
    files = [
        f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
        for file, stat in zip(group.files, stats, strict=True)
    ]
    name = hashlib.sha256("\n".join([f"{FORMAT} {reading.CHUNK} {group.reading}", *files]).encode()).hexdigest()[:32]
    folder = next((folder / "surveys" for folder in cache_folders()), None)
    return None if folder is None or why_unwritable(folder) else folder / f"{name}.npz"


def _load(path: Path) -> Records | None:
    """Return cached records; None if they are missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            found = {name: kept[name] for name in RECORDS}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return found if len({len(values) for values in found.values()}) == 1 else None
