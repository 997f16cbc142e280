"""A part of a folder, and what becomes of it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.config.errors import DataError, Misuse, Say, read_failure
from glassformer.data.io.place import files_below
from glassformer.data.io.rows import kind_of
from glassformer.data.wording import EXAMPLES, counted, listed
from glassformer.families.base import Loaded
from glassformer.families.predict import InputCounts
from glassformer.runs.folders import writing
from glassformer.verbs.parts.manifest import FileState, PartEntry
from glassformer.verbs.parts.work import FileWork

READ = ("parquet", "jsonl", "csv", "tsv", "txt")
"""The kinds of files that are parts; each but the first may be gzipped."""


@dataclass(frozen=True)
class Part:
    """A file of the folder that is read."""

    name: str
    """Its path in there, with / between folders."""
    path: Path
    output: Path
    """What becomes of it."""
    size: int


@dataclass(frozen=True)
class PartResult:
    """What came of a part: an entry, or why there is none."""

    part: str
    entry: PartEntry | None
    remarks: tuple[str, ...] = ()
    failure: str = ""
    counts: InputCounts = field(default_factory=InputCounts)


def parts_in(folder: Path, out: Path, work: FileWork, say: Say) -> list[Part]:
    """Every part of a folder, sorted by name. Names that begin with . or _ are not data, as elsewhere in the field."""
    if out.resolve() == folder.resolve() or folder.resolve() in out.resolve().parents:
        raise Misuse(f"--out {out} is in the folder that is read: write to another")
    files = {file.relative_to(folder): file for file in files_below(folder)}
    shown = {name: file for name, file in files.items() if not any(word.startswith((".", "_")) for word in name.parts)}
    parts = [
        Part(name.as_posix(), file, out / work.output_name(name.as_posix()), file.stat().st_size)
        for name, file in shown.items()
        if kind_of(file) in READ
    ]
    if not parts:
        raise Misuse(f"{folder} holds no parts: their names end in {', '.join(f'.{kind}' for kind in READ)}")
    if len(parts) < len(shown):
        others = [str(name) for name, file in shown.items() if kind_of(file) not in READ]
        say(f"left out: {counted(len(others), 'file')} of other kinds ({listed(others, EXAMPLES)})")
    output, count = Counter(part.output for part in parts).most_common(1)[0]
    if count > 1:
        same = listed([part.name for part in parts if part.output == output], EXAMPLES)
        raise Misuse(f"{same} would all be written as {output.name}: rename them, or give them folders of their own")
    return parts


def write_part(loaded: Loaded, work: FileWork, part: Part) -> PartResult:
    """One part from its beginning to its end; what cannot be read of it is told."""
    remarks: list[str] = []
    try:
        read = _state(part.path)
        with writing(part.output):
            part.output.parent.mkdir(parents=True, exist_ok=True)
        counts = work.write(loaded, str(part.path), str(part.output), remarks.append)
        if not read.is_still(part.path, read=False):
            raise DataError(f"{part.path} has changed while it was read: give the same command again")
    except Misuse as error:
        return PartResult(part.name, None, tuple(remarks), str(error))
    written = _state(part.output)
    name = part.name
    entry = PartEntry(name, work.output_name(name), counts.rows, written.size, written.sha256, read)
    return PartResult(name, entry, tuple(remarks), counts=counts)


def _state(path: Path) -> FileState:
    try:
        return FileState.of(path)
    except OSError as error:
        raise DataError(read_failure(path, error)) from None
