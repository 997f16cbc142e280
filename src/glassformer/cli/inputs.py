"""Texts that a person gives: as arguments, a line each from stdin, or in a file."""

import sys
from collections.abc import Iterator
from pathlib import Path

from glassformer.config.errors import Misuse


def check_out(out: str | None, endings: tuple[str, ...]) -> None:
    """Before anything is computed: a file of a kind that can be written, in a folder that is there."""
    if out is None:
        return
    if not out.endswith(endings):
        raise Misuse(f"--out {out}: its name should end in {', '.join(endings[:-1])} or {endings[-1]}")
    if not Path(out).parent.is_dir():
        raise Misuse(f"--out {out}: there is no folder {Path(out).parent}")


def lines_of(file: str) -> list[str]:
    """The lines of a text file, without their ends."""
    try:
        with open(file, encoding="utf-8") as lines:
            return [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError:
        raise Misuse(f"{file} is not UTF-8") from None
    except OSError as error:
        raise Misuse(f"cannot read {file}: {error.strerror}") from None


def texts_of(arguments: list[str]) -> Iterator[str]:
    """The arguments, or where there are none (or only `-`) each line of stdin, as it comes."""
    if arguments and arguments != ["-"]:
        yield from arguments
        return
    if sys.stdin.isatty():
        print("a text a line; Ctrl-D ends", file=sys.stderr)
    try:
        for line in sys.stdin:
            yield line.rstrip("\n")
    except UnicodeDecodeError:
        raise Misuse("what comes from stdin is not UTF-8") from None
