"""Texts that a person gives, as arguments, a line each from stdin, or in a file; and where answers are written."""

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
"""Settings that stand for DATA."""


def check_out(out: str | None, endings: tuple[str, ...] = ()) -> None:
    """Before anything is computed: a file of a kind that can be written, in a folder that is there."""
    if out is None:
        return
    if endings and not out.endswith(endings):
        raise Misuse(f"--out {out}: its name should end in {', '.join(endings[:-1])} or {endings[-1]}")
    if not Path(out).parent.is_dir():
        raise Misuse(f"--out {out}: there is no folder {Path(out).parent}")
    if Path(out).is_dir():
        raise Misuse(f"--out {out} is a folder: name a file")
    if Path(out).is_file() or not Path(out).exists():  # not what the shell made of >(…)
        check_writable(out)


def check_folder(out: str) -> None:
    """Before anything is computed: a folder that is there, or can be made."""
    there = next(place for place in (Path(out), *Path(out).parents) if place.exists())
    if not there.is_dir():
        raise Misuse(f"{there} is a file: name a folder with --out")


@contextlib.contextmanager
def writer_to(out: str | None) -> Iterator[TextIO]:
    """stdout, or a file, which is there once all is written; until then, the one of before stays."""
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
    """The lines of a text file, without their ends."""
    check_encoding(encoding)
    return held_lines(Path(file), encoding)


def check_lines(file: str) -> None:
    """Before torch is there: a text file that is not there is refused as it would be later."""
    if not Path(file).expanduser().exists():
        lines_of(file)


def check_rows(file: str) -> None:
    """Before torch is there: what is neither a file nor the name of a data set is refused as it would be later."""
    if not Path(file).expanduser().exists():
        from glassformer.data.io.place import find

        find(file)


def refuse_files(texts: list[str]) -> None:
    """Raise `Misuse` if a text looks like the name of a file: the user means the contents of the file."""
    from glassformer.data.io.place import looks_like_file_name

    for text in texts:
        if looks_like_file_name(text):
            raise Misuse(f"{text} is a file's name and would be taken as the text itself: --file {text} reads the file")


TOGETHER = 256
"""Lines that are handed on at once, where so many are there."""


def blocks_of(arguments: list[str]) -> Iterator[list[str]]:
    """The arguments, or the lines of stdin, some at a time.

    Of stdin, all lines that have come so far, up to a few hundred: who writes one and waits gets its answer.
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
    """All lines that are there, each time."""
    try:
        stdin = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not a real one, as in a notebook
        yield from ([line.rstrip("\r\n")] for line in sys.stdin)
        return
    held, length = list[bytes](), 0  # of a line that has no end yet
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
    """The arguments, or where there are none (or only `-`) each line of stdin, as it comes."""
    return itertools.chain.from_iterable(blocks_of(arguments))


def held_texts(arguments: list[str]) -> list[str]:
    """All texts that a person gives, within the limit on memory."""
    texts, held = list[str](), HeldMemory("what comes from stdin")
    for text in texts_of(arguments):
        texts.append(text)
        held.add([text], cells=len(texts))
    return texts


def text_of_stdin() -> str:
    """All of stdin, as one text."""
    try:
        text = sys.stdin.read(limits().field_bytes + 1)
    except UnicodeDecodeError:
        raise Misuse("what comes from stdin is not UTF-8") from None
    refuse_beyond("field_bytes", len(text), "stdin: a text of {} and more")
    return text
