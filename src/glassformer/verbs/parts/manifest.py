"""Manifests of the finished parts of a folder, one per shard, so that no two processes write the same file.

A part is finished when a manifest lists it with its digest. Files that a killed process left behind do not count.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from glassformer.config.errors import Misuse, RunError
from glassformer.config.messages import say
from glassformer.config.parts import remove
from glassformer.runs.files import digest, read_json, write_json
from glassformer.runs.folders import contents, locked
from glassformer.runs.json_shape import WrongShape, from_json
from glassformer.verbs.parts.options import Shard

FORMAT = 1
NAME = re.compile(r"manifest-\d+-of-\d+\.json")
LOCKS = ".shard-"
"""Prefix of the lock folders that keep a second process out of a shard."""
SHOWN = 12
"""Number of digits shown of a digest."""
REMEDY = "restore it from a copy, or name another --out"


@dataclass(frozen=True)
class FileState:
    """Size, modification time and digest of a file."""

    size: int
    changed: int
    """Modification time in nanoseconds."""
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileState":
        stat = path.stat()
        return cls(stat.st_size, stat.st_mtime_ns, digest(path))

    def is_still(self, path: Path, *, read: bool) -> bool:
        """Return whether a file is unchanged.

        `read`: always compare the contents. Otherwise they are compared only if the modification time differs, as for a
        copy.
        """
        with contextlib.suppress(OSError):
            stat = path.stat()
            if stat.st_size != self.size:
                return False
            return (not read and stat.st_mtime_ns == self.changed) or digest(path) == self.sha256
        return False


@dataclass(frozen=True)
class PartEntry:
    """A finished part."""

    part: str
    """Name in the input folder."""
    output: str
    """Name in the output folder."""
    rows: int
    size: int
    sha256: str
    """Digest of the output."""
    read: FileState


@dataclass(frozen=True)
class Identity:
    """Command, run and options that all answers in a folder share."""

    verb: str
    run: str
    """Path of the run's folder, for messages."""
    weights: str
    """Digest of the run's weights."""
    options: dict[str, Any]

    def difference(self, other: "Identity") -> str:
        """Return how the answers of another identity differ from these; empty if they are the same."""
        if other.verb != self.verb:
            return f"was written by {other.verb}"
        if other.weights != self.weights:
            return f"was written with other weights ({other.run}, {other.weights[:SHOWN]}…)"
        names = sorted({*self.options, *other.options})
        before = {name: other.options.get(name) for name in names if self.options.get(name) != other.options.get(name)}
        return "was written with " + ", ".join(f"{name} {value}" for name, value in before.items()) if before else ""


class Manifest:
    """Manifest of one shard, with the entries of all other shards."""

    def __init__(self, folder: Path, shard: Shard, identity: Identity) -> None:
        self.folder = folder
        self.path = folder / f"manifest-{shard}.json"
        self.identity = identity
        self.entries: dict[str, PartEntry] = {}
        """Entries of this shard, by part."""
        self.others: dict[str, list[PartEntry]] = {}
        """Entries of all other shards, with any number of shards, by part."""

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path, shard: Shard, identity: Identity, *, overwrite: bool) -> "Iterator[Manifest]":
        """Yield the manifest, locked for this process.

        Raise `Misuse` if the folder contains other files, or answers of another run or with other options. With
        `overwrite`, such answers are replaced.
        """
        manifest = cls(folder, shard, identity)
        filled = folder.is_dir() and any(not path.name.startswith(LOCKS) for path in contents(folder))
        if filled and not manifest._read_all():
            raise Misuse(f"{folder} is not empty and holds no answers of ours: name another --out")
        place = folder / f"{LOCKS}{shard}"
        try:
            with locked(place, identity.verb):
                if overwrite:
                    manifest._clear()
                manifest._join()
                yield manifest
        finally:
            with contextlib.suppress(OSError):  # a killed process may have left it
                place.rmdir()

    def _read_all(self) -> dict[Path, tuple[Identity, list[PartEntry]]]:
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return {path: _read(path) for path in paths if NAME.fullmatch(path.name)}

    def _clear(self) -> None:
        """Delete the earlier answers, each manifest after its parts.

        The new manifest is written before the other manifests are deleted.
        """
        before = self._read_all()
        for _, entries in before.values():
            for entry in entries:
                remove(self.folder / entry.output)
        self._write()
        for path in before:
            if path != self.path:
                remove(path)

    def _join(self) -> None:
        """Write this shard's identity before any work, and read the entries of all shards.

        A process that starts at the same time can thus detect a conflict.
        """
        self._refuse_other()
        is_new = not self.path.exists()
        if is_new:
            self._write()
        try:
            self._refuse_other()
        except Misuse:
            if is_new:
                remove(self.path)
            raise
        for path, (_, entries) in self._read_all().items():
            for entry in entries:
                if path == self.path:
                    self.entries[entry.part] = entry
                else:
                    self.others.setdefault(entry.part, []).append(entry)

    def _refuse_other(self) -> None:
        for path, (identity, _) in self._read_all().items():
            if difference := self.identity.difference(identity):
                remedy = "name another --out, or replace it with --overwrite"
                raise Misuse(f"{self.folder} {difference}, as {path.name} says: {remedy}")

    def _write(self) -> None:
        entries = [asdict(self.entries[part]) for part in sorted(self.entries)]
        write_json(self.path, {"format": FORMAT, **asdict(self.identity), "parts": entries})

    def commit(self, entry: PartEntry) -> None:
        """Record a part as finished."""
        self.entries[entry.part] = entry
        self._write()

    def find(self, part: str, read: Path, output: str) -> PartEntry | None:
        """Return the entry of a finished part of any shard; None if it is unfinished or its files have changed."""
        entries = [*filter(None, [self.entries.get(part)]), *self.others.get(part, ())]
        entries = [entry for entry in entries if entry.output == output]
        for entry in entries:
            if not entry.read.is_still(read, read=False):
                continue
            written = FileState(entry.size, 0, entry.sha256)
            if written.is_still(self.folder / output, read=True):
                return entry
        if entries:
            say(f"{part}: it, or what was written of it, has changed since: it is done again")
        return None


@dataclass(frozen=True)
class _Written(Identity):
    """Contents of a manifest file."""

    format: int
    parts: list[PartEntry]


def _read(path: Path) -> tuple[Identity, list[PartEntry]]:
    value = read_json(path, remedy=REMEDY)
    try:
        if value.get("format") != FORMAT:
            raise WrongShape(f"its format is {value.get('format')!r}, but this glassformer reads {FORMAT}")
        written = from_json(value, _Written)
        for entry in written.parts:
            if (name := PurePosixPath(entry.output)).is_absolute() or ".." in name.parts or "\0" in entry.output:
                raise WrongShape(f"{entry.output!r} is outside of its folder")
    except WrongShape as error:
        raise RunError(f"{path} is damaged: {REMEDY} ({error})") from None
    return Identity(written.verb, written.run, written.weights, written.options), written.parts
