"""What of a folder of parts is done: a manifest for each shard, so that no two processes write the same file.

A part counts once its manifest names it with its digest: what a killed process left beside it does not.
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
"""How the folders begin that keep a second process out of a shard."""
SHOWN = 12
"""Digits of a digest that a person is shown."""
REMEDY = "restore it from a copy, or name another --out"


@dataclass(frozen=True)
class FileState:
    """A file as it was."""

    size: int
    changed: int
    """When, in nanoseconds."""
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileState":
        stat = path.stat()
        return cls(stat.st_size, stat.st_mtime_ns, digest(path))

    def is_still(self, path: Path, *, read: bool) -> bool:
        """Whether a file is what it was. `read`: its bytes tell, else its time does, and its bytes where that differs:
        a copy has another.
        """
        with contextlib.suppress(OSError):
            stat = path.stat()
            if stat.st_size != self.size:
                return False
            return (not read and stat.st_mtime_ns == self.changed) or digest(path) == self.sha256
        return False


@dataclass(frozen=True)
class PartEntry:
    """A part that is done."""

    part: str
    """Its name in the folder that was read."""
    output: str
    """Its name in the folder that was written."""
    rows: int
    size: int
    sha256: str
    """The digest of the output."""
    read: FileState


@dataclass(frozen=True)
class Identity:
    """What all answers in a folder have in common: who gave them, and how."""

    verb: str
    run: str
    """The run's folder, for people."""
    weights: str
    """The digest of its weights."""
    options: dict[str, Any]

    def difference(self, other: "Identity") -> str:
        """What makes the answers of another differ from these, in words; nothing, if they are the same."""
        if other.verb != self.verb:
            return f"was written by {other.verb}"
        if other.weights != self.weights:
            return f"was written with other weights ({other.run}, {other.weights[:SHOWN]}…)"
        names = sorted({*self.options, *other.options})
        before = {name: other.options.get(name) for name in names if self.options.get(name) != other.options.get(name)}
        return "was written with " + ", ".join(f"{name} {value}" for name, value in before.items()) if before else ""


class Manifest:
    """The manifest of one shard, beside those of all others."""

    def __init__(self, folder: Path, shard: Shard, identity: Identity) -> None:
        self.folder = folder
        self.path = folder / f"manifest-{shard}.json"
        self.identity = identity
        self.entries: dict[str, PartEntry] = {}
        """Of this shard, by part."""
        self.others: dict[str, list[PartEntry]] = {}
        """Of all other shards, whatever their number, by part."""

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path, shard: Shard, identity: Identity, *, overwrite: bool) -> "Iterator[Manifest]":
        """For this process alone. A folder that holds anything else, or answers of another run or of other options, is
        refused; with `overwrite`, these are replaced.
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
            with contextlib.suppress(OSError):  # which one who was killed may have left
                place.rmdir()

    def _read_all(self) -> dict[Path, tuple[Identity, list[PartEntry]]]:
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return {path: _read(path) for path in paths if NAME.fullmatch(path.name)}

    def _clear(self) -> None:
        """Throw away what was answered before; a manifest goes after its parts, and this one is there before the others
        go.
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
        """Say with what this shard is answered, before any work, so that one who begins at the same time can tell."""
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
        """From here on, a part is done."""
        self.entries[entry.part] = entry
        self._write()

    def find(self, part: str, read: Path, output: str) -> PartEntry | None:
        """A part that is done, and still as it was left, whichever shard did it."""
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
    """The file of a manifest."""

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
