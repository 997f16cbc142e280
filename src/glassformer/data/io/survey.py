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
"""The format of what is kept; a new one makes files be surveyed again."""
KEPT_FROM = 2**26
"""Bytes of a group of files from which on its survey is kept: reading less takes no time."""
SETTLED = 2.0
"""Seconds after which a file that is changed once more has another time of change, on any disk."""


@dataclass(frozen=True, eq=False)
class Survey:
    """The documents of a source: a few numbers per document, so that millions of them fit in memory."""

    characters: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """Bytes of each document as UTF-8."""
    digests: UInts
    """Equal documents have equal ones."""
    keys: UInts
    """Documents of one normal form have equal ones."""
    filled: NDArray[np.bool_]
    """A document of nothing but white space is not learned from."""
    sketches: list[UInts]
    """What near-duplicates are found by, where they are looked for."""
    source: Source
    fingerprint: str
    """The same for the same texts and borders between documents; blank documents do not count."""
    groups: list[int]
    """The first document of each group of files."""


KEPT = {"characters": "i8", "bytes": "i8", "digests": "V32", "keys": "u8", "filled": "?"}
"""What is kept of each document of a group of files. Its digest is SHA-256."""
Kept = dict[str, NDArray[Any]]


def survey(source: Source, *, near_duplicates: bool = False) -> Survey:
    """Read a source once. `near_duplicates`: whether to look for them."""
    if not near_duplicates:
        for group in source.groups if len(source.groups) > 1 else ():
            _keep(group)  # groups that no process surveys now
    whole, pieces, sketches, groups = hashlib.sha256(), list[Kept](), list[UInts](), [0]
    for group in source.groups:
        if near_duplicates:
            found, more = _survey_group(group, near_duplicates=True)
            sketches += more
        else:
            kept = _keep(group, wait=True)
            assert kept is not None
            found = kept
        whole.update(found["digests"][found["filled"]].tobytes())
        groups.append(groups[-1] + len(found["keys"]))
        # the fingerprint needs whole digests, and all else only their beginning
        pieces.append({**found, "digests": np.frombuffer(found["digests"].tobytes(), "<u8")[::4].astype(np.uint64)})
    if not any(piece["filled"].any() for piece in pieces):
        raise source.empty()
    columns: dict[str, Any] = {name: np.concatenate([piece[name] for piece in pieces]) for name in KEPT}
    return Survey(**columns, sketches=sketches, source=source, fingerprint=whole.hexdigest(), groups=groups[:-1])


def _survey_group(group: FileGroup, *, near_duplicates: bool = False) -> tuple[Kept, list[UInts]]:
    """Return what is found of each document of a group of files, and its sketch where near-duplicates are wanted."""
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
    found = zip(KEPT.items(), (characters, sizes, digests, keys, filled), strict=True)
    return {name: np.frombuffer(bytes(values), kind) for (name, kind), values in found}, sketches


# --- what is kept ---


def _keep(group: FileGroup, *, wait: bool = False) -> Kept | None:
    """What is found of a group of files: kept from before, or found now and kept. Nothing, where another process is
    about to find it, unless that is waited for; or where it is too little to be kept, and nobody waits.
    """
    path = _kept_at(group)
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
        if _kept_at(group) == path:  # no file has changed meanwhile
            with contextlib.suppress(OSError), part_of(path) as aside:
                with aside.open("wb") as file:
                    np.savez(file, allow_pickle=False, **found)
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


def _load(path: Path) -> Kept | None:
    """Nothing, if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            found = {name: kept[name] for name in KEPT}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return found if len({len(values) for values in found.values()}) == 1 else None
