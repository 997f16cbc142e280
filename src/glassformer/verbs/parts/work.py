"""What a verb does with one file of rows: a brick that folders, shards and workers are built on."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TextIO

from glassformer.config.errors import Misuse, Say, refuse_unknown
from glassformer.data.columns.inference import text_column
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.io.place import find
from glassformer.data.io.rows import is_table, kind_of
from glassformer.data.io.table import RowFile
from glassformer.families.base import Loaded
from glassformer.families.predict import InputCounts
from glassformer.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class FileWork(ABC):
    """A file in, a file with the answers out. Its fields are all that the answers depend on, beside the run."""

    verb: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """What can be written; a file of none of these kinds becomes one of the first."""

    format: str | None = None
    """The kind that is written; unset: what the name of the output ends with."""
    text: str | None = None
    """The text column; unset: the one that the run learned from."""
    encoding: str | None = None
    """Unset: that of the data that the run learned from."""

    @abstractmethod
    def check(self, run: Run) -> None:
        """Refuse a run that cannot do this, before its weights are read."""

    @abstractmethod
    def write(self, loaded: Any, file: str, out: str | TextIO, say: Say) -> InputCounts:
        """Answer every row of a file of any size, some rows at a time; return the counts."""

    def read_texts(self, loaded: Loaded, file: str, say: Say) -> tuple[RowFile, str]:
        """Return a file's rows and its text column; in a file that is not a table, each line is a text.

        A run without column names of its own reads the column that looks like text.
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

    def refuse_format(self) -> None:
        """Refuse a kind that is not written here."""
        if self.format is not None:
            refuse_unknown("format", self.format, self.kinds, Misuse)

    def output_name(self, part: str) -> str:
        """What the output of a part is called: as the part itself, if that is a kind that can be written."""
        path = PurePosixPath(part.removesuffix(".gz"))
        own = kind_of(Path(path))
        kind = self.format or (own if own in self.kinds else self.kinds[0])
        return str(path if own == kind else path.with_suffix(f".{kind}"))

    def options(self) -> dict[str, Any]:
        return asdict(self)
