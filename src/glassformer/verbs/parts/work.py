"""What a verb does with one file of rows: a brick that folders, shards and workers are built on."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TextIO

from glassformer.config.errors import Misuse, Say, refuse_unknown
from glassformer.data.io.rows import kind_of
from glassformer.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class FileWork(ABC):
    """A file in, a file with the answers out. Its fields are all that the answers depend on, beside the run."""

    verb: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """What can be written; a file of none of these kinds becomes one of the first."""

    format: str | None = None
    """The kind that is written; unset: what the name of the output ends with."""

    @abstractmethod
    def check(self, run: Run) -> None:
        """Refuse a run that cannot do this, before its weights are read."""

    @abstractmethod
    def write(self, loaded: Any, file: str, out: str | TextIO, say: Say) -> int:
        """Answer every row of a file, some at a time, so that it may be of any size; gives their number."""

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
