"""The work of a command on one file of rows, and the parts of a folder."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TextIO

from glassformer.config.errors import DataError, Misuse, read_failure, refuse_unknown
from glassformer.config.messages import listening, say
from glassformer.data.columns.inference import text_column
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.io.place import files_below, find
from glassformer.data.io.rows import is_table, kind_of
from glassformer.data.io.table import RowFile
from glassformer.data.wording import EXAMPLES, counted, listed
from glassformer.families.base import Loaded
from glassformer.families.predict import InputCounts
from glassformer.runs.folders import writing
from glassformer.runs.run import Run
from glassformer.verbs.added_columns import NO_TEXT
from glassformer.verbs.parts.manifest import FileState, PartEntry

READ = ("parquet", "jsonl", "csv", "tsv", "txt")
"""File formats that count as parts. All except the first may be gzipped."""


@dataclass(frozen=True, kw_only=True)
class FileWork(ABC):
    """Work that reads a file and writes a file with the answers.

    The answers depend only on the run and on the fields of this class.
    """

    verb: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """Formats that can be written. An input in another format is written in the first of these."""
    result: ClassVar[str]
    """Name of the result that a row without text does not have."""

    format: str | None = None
    """Output format; None: the format in the name of the output."""
    text: str | None = None
    """Text column; None: the column that the run learned from."""
    encoding: str | None = None
    """Encoding; None: the encoding of the run's own data."""

    @abstractmethod
    def check(self, run: Run) -> None:
        """Raise an error if a run cannot do this work, before its weights are read."""

    @abstractmethod
    def write(self, loaded: Any, file: str, out: str | TextIO) -> InputCounts:
        """Answer every row of a file of any size, some rows at a time; return the counts."""

    def read_texts(self, loaded: Loaded, file: str) -> tuple[RowFile, str]:
        """Return the rows of a file and its text column. Without a table, each line is a text.

        A run without column names reads the column that looks like text.
        """
        path = find(file)
        if path is None or path.is_dir():
            raise Misuse(f"{file} is no file: --file wants a table, or a text a line")
        data = loaded.config.data
        rows = RowFile.scan(file, path, self.encoding or data.encoding)
        if not is_table(path):
            return rows, text_column(file, rows.sample, self.text)
        text = loaded.schema.match(file, rows.sample, self.text, ": name another text column with --text")
        text = text or text_column(file, rows.sample, None)
        if line := ignored_in_words(file, loaded.schema.ignored(rows.sample, text)):
            say(line)
        return rows, text

    def tell_blank(self, file: str, counts: InputCounts) -> None:
        """Report the number of rows without text."""
        if blank := counts.unanswered.get(NO_TEXT):
            say(f"{file}: {counted(blank, 'row')} without text, and so without {self.result}")

    def refuse_format(self) -> None:
        """Raise `Misuse` if the format cannot be written."""
        if self.format is not None:
            refuse_unknown("format", self.format, self.kinds, Misuse)

    def output_name(self, part: str) -> str:
        """Return the output name of a part: its own name if its format can be written, else with another extension."""
        path = PurePosixPath(part.removesuffix(".gz"))
        own = kind_of(Path(path))
        kind = self.format or (own if own in self.kinds else self.kinds[0])
        return str(path if own == kind else path.with_suffix(f".{kind}"))

    def options(self) -> dict[str, Any]:
        return asdict(self)


# --- parts of a folder ---


@dataclass(frozen=True)
class Part:
    """A file in the input folder."""

    name: str
    """Path relative to the input folder, with / as separator."""
    path: Path
    output: Path
    """Path of the output file."""
    size: int


@dataclass(frozen=True)
class PartResult:
    """Result of a part: an entry for the manifest, or the reason why there is none."""

    part: str
    entry: PartEntry | None
    remarks: tuple[str, ...] = ()
    failure: str = ""
    counts: InputCounts = field(default_factory=InputCounts)


def parts_in(folder: Path, out: Path, work: FileWork) -> list[Part]:
    """Return all parts of a folder, sorted by name. By convention, names that start with . or _ are not data."""
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
    """Answer one part as a whole. If it cannot be read, the result has the reason."""
    remarks: list[str] = []
    try:
        read = _state(part.path)
        with writing(part.output):
            part.output.parent.mkdir(parents=True, exist_ok=True)
        with listening(remarks.append):
            counts = work.write(loaded, str(part.path), str(part.output))
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
