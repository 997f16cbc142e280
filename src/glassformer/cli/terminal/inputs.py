"""Texts from arguments, stdin or a file, and the outputs of commands."""

import argparse
import contextlib
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from glassformer.cli.terminal.show import is_quiet, print_json
from glassformer.config.errors import Misuse
from glassformer.config.limits import limits, refuse_beyond
from glassformer.data.io.reading import HeldMemory, check_encoding, held_lines
from glassformer.runs.folders import check_writable

PAIR_FILES = frozenset({"data.source_file", "data.target_file"})
"""Settings that replace DATA."""


def check_out(out: str | None, endings: tuple[str, ...] = ()) -> None:
    """Raise `Misuse` unless --out has an allowed ending and can be written, before anything is computed."""
    if out is None:
        return
    if endings and not out.endswith(endings):
        raise Misuse(f"--out {out}: its name should end in {', '.join(endings[:-1])} or {endings[-1]}")
    if not Path(out).parent.is_dir():
        raise Misuse(f"--out {out}: there is no folder {Path(out).parent}")
    if Path(out).is_dir():
        raise Misuse(f"--out {out} is a folder: name a file")
    if Path(out).is_file() or not Path(out).exists():  # not a pipe that the shell made of >(…)
        check_writable(out)


def check_folder(out: str) -> None:
    """Raise `Misuse` unless --out is a folder or can be created, before anything is computed."""
    there = next(place for place in (Path(out), *Path(out).parents) if place.exists())
    if not there.is_dir():
        raise Misuse(f"{there} is a file: name a folder with --out")


@contextlib.contextmanager
def writer_to(out: str | None) -> Iterator[TextIO]:
    """Yield stdout or a file. A file replaces an earlier one only when it is complete."""
    from glassformer.runs.files import text_writer

    with contextlib.nullcontext(sys.stdout) if out is None else text_writer(Path(out)) as to:
        yield to


def show_result(
    result: Any, options: argparse.Namespace, *, out: str | None = None, show: Callable[[], object] | None = None
) -> None:
    """Save a result to `out`, if set, and print it as one JSON object or with `show` (default: as its view)."""
    if out is not None:
        result.save(out)
    if options.json:
        print_json(result.to_dict())
    elif show is not None:
        show()
    else:
        from glassformer.cli.terminal.view import show_view

        show_view(result.view())


def lines_of(file: str, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a text file without line ends."""
    check_encoding(encoding)
    return held_lines(Path(file), encoding)


def check_lines(file: str) -> None:
    """Raise an error if a text file does not exist, before torch is imported."""
    if not Path(file).expanduser().exists():
        lines_of(file)


def check_rows(file: str) -> None:
    """Raise an error unless `file` is a file or the name of a data set, before torch is imported."""
    if not Path(file).expanduser().exists():
        from glassformer.data.io.place import find

        find(file)


def refuse_files(texts: list[str]) -> None:
    """Raise `Misuse` if a text looks like a file name, because the user probably means the contents of the file."""
    from glassformer.data.io.place import looks_like_file_name

    for text in texts:
        if looks_like_file_name(text):
            raise Misuse(f"{text} is a file's name and would be taken as the text itself: --file {text} reads the file")


TOGETHER = 256
"""Maximum number of lines that are processed together."""


def blocks_of(arguments: list[str]) -> Iterator[list[str]]:
    """Yield the arguments, or the lines of stdin, in groups.

    A group of stdin contains the lines that have arrived so far, at most `TOGETHER`. A program that writes one line and
    waits thus gets its answer.
    """
    return blocks(arguments, TOGETHER) if arguments and arguments != ["-"] else _blocks_of_stdin()


def blocks(lines: list[str], together: int) -> Iterator[list[str]]:
    return (lines[first : first + together] for first in range(0, len(lines), together))


def _blocks_of_stdin() -> Iterator[list[str]]:
    if sys.stdin.isatty() and not is_quiet():
        print("a text a line; Ctrl-D ends", file=sys.stderr)
    try:
        for lines in _lines_of_stdin():
            yield from blocks(lines, TOGETHER)
    except UnicodeDecodeError:
        raise Misuse("what comes from stdin is not UTF-8") from None


def _lines_of_stdin() -> Iterator[list[str]]:
    """Yield the complete lines that have arrived since the last group."""
    try:
        stdin = sys.stdin.fileno()
    except io.UnsupportedOperation:  # replaced by another object, as in a notebook
        yield from ([line.rstrip("\r\n")] for line in sys.stdin)
        return
    held, length = list[bytes](), 0  # start of a line whose end has not arrived
    while piece := os.read(stdin, 2**16):
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*held, lines[0]])
            yield [line.decode().rstrip("\r") for line in lines]
            held, length = [], 0
        held.append(rest)
        length += len(rest)
        refuse_beyond("field_bytes", length, "stdin: {} and more without a line's end")
    if length:
        yield [b"".join(held).decode().rstrip("\r")]


def texts_of(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments; without arguments (or with only `-`) each line of stdin as it arrives."""
    return itertools.chain.from_iterable(blocks_of(arguments))


def held_texts(arguments: list[str]) -> list[str]:
    """Return all texts from arguments or stdin, within the memory limit."""
    texts, held = list[str](), HeldMemory("what comes from stdin")
    for text in texts_of(arguments):
        texts.append(text)
        held.add([text], cells=len(texts))
    return texts


def text_of_stdin() -> str:
    """Return all of stdin as one text."""
    try:
        text = sys.stdin.read(limits().field_bytes + 1)
    except UnicodeDecodeError:
        raise Misuse("what comes from stdin is not UTF-8") from None
    refuse_beyond("field_bytes", len(text), "stdin: a text of {} and more")
    return text
