"""Options for a folder of parts. This module does not import torch, so that wrong options are refused at once."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypedDict, TypeVar

from glassformer.config.errors import Misuse, refuse_unknown

ENGINES = ("local", "ray")

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """Every `of`-th part, starting with part `number`; by default all parts."""

    number: int = 1
    """Number of the first part, counted from 1."""
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `i/n`, such as `2/3`; raise `Misuse` if it is invalid."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip(), re.ASCII)
        if match is None:
            raise Misuse(f"--shard {text}: it wants i/n, such as 2/3, the second of three shards")
        number, of = map(int, match.groups())
        if not 1 <= number <= of:
            raise Misuse(f"--shard {text}: of {of} shards, i is from 1 to {of}" if of else f"--shard {text}: n is 0")
        return cls(number, of)

    def select(self, items: Sequence[Item]) -> Sequence[Item]:
        return items[self.number - 1 :: self.of]

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"


class PartArguments(TypedDict, total=False):
    """Arguments of the functions that read a folder of parts: the fields of `PartOptions`."""

    shard: str | None
    on: str
    jobs: int | None
    overwrite: bool
    device: str
    precision: str


@dataclass(frozen=True)
class PartOptions:
    """Hardware and parts to use for a folder of parts. Only `precision` affects the answers."""

    shard: str | None = None
    on: str = "local"
    jobs: int | None = None
    """Number of Ray workers; None: as many as the cluster has room for."""
    overwrite: bool = False
    device: str = "auto"
    precision: str = "fp32"

    @property
    def share(self) -> Shard:
        return Shard() if self.shard is None else Shard.parse(self.shard)

    def check(self, file: str) -> None:
        """Raise `Misuse` for options that do not fit together. `file`: the input, a file or a folder of parts."""
        refuse_unknown("engine", self.on, ENGINES, Misuse)
        shard, is_folder = self.share, os.path.isdir(file)
        if self.jobs is not None and self.jobs < 1:
            raise Misuse(f"--jobs {self.jobs}: there must be at least 1")
        if self.jobs is not None and self.on == "local":
            raise Misuse("--jobs is for --on ray; on one machine, give each process a --shard")
        if self.overwrite and shard.of > 1:
            raise Misuse("--overwrite would take away what other shards write: name another --out")
        for flag, is_given in (("--shard", self.shard), ("--on", self.on != "local"), ("--overwrite", self.overwrite)):
            if is_given and not is_folder:
                raise Misuse(f"{flag} is for a folder of parts, and {file} is one file: split it into parts")
