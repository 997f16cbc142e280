"""Word vectors that others learned: files in GloVe's or word2vec's text format, read line by line.

A line is a word and its numbers. word2vec's first line says how many words there are and how wide their vectors are.
"""

import gzip
import itertools
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import limits, refuse_beyond, refuse_endless

Line = tuple[int, bytes, bytes]
"""A line of a file: its number, its first word, and what follows it."""


def vectors_width(path: str | os.PathLike[str]) -> int:
    """How many numbers each word has; only the first lines are read."""
    with _open(Path(path)) as (width, _):
        return width


def read_vectors(
    path: str | os.PathLike[str], words: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The ids of those words that the file has, in order, and a row of numbers for each. Others are not kept.

    A word takes the vector of a word that is written the same; failing that, of the first that differs only in upper
    and lower case.
    """
    alike: dict[str, list[str]] = {}
    for word in words:
        alike.setdefault(word.casefold(), []).append(word)
    exact: dict[str, NDArray[np.float32]] = {}
    folded: dict[str, NDArray[np.float32]] = {}
    with _open(Path(path)) as (width, lines):
        for number, raw, rest in lines:
            if rest.count(b" ") != width - 1 and (count := len(rest.split())) != width:
                if count < width:
                    raise DataError(f"{path}, line {number:,}: {count} numbers after the word, not {width} as before")
                continue  # a word with blanks in it, which no tokenizer of ours would ask for
            word = raw.decode(errors="replace")
            fold = word.casefold()
            if fold not in alike:
                continue
            wanted = word in words and word not in exact
            if wanted or fold not in folded:
                vector = _numbers(rest, f"{path}, line {number:,}")
                folded.setdefault(fold, vector)
                if wanted:
                    exact[word] = vector
    chosen = {words[word]: exact.get(word, vector) for fold, vector in folded.items() for word in alike[fold]}
    ids = np.array(sorted(chosen), np.int64)
    return ids, np.stack([chosen[id] for id in ids.tolist()]) if chosen else np.empty((0, width), np.float32)


@contextmanager
def _open(path: Path) -> Iterator[tuple[int, Iterator[Line]]]:
    """The width of a file's vectors, and its lines that hold one. What goes wrong while they are read is one line."""
    try:
        refuse_endless(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            lines = _lines(path, file)
            first = next(lines, None)
            declared = None
            if first is not None and first[1].isdigit() and first[2].isdigit():  # how many words, how wide
                declared, first = int(first[2]), next(lines, None)
            if first is None:
                raise DataError(f"{path} holds no word vectors")
            where = f"{path}, line {first[0]:,}"
            width = len(_numbers(first[2], where))
            if declared not in (None, width):
                raise DataError(f"{where}: {width} numbers after the word, where the first line says {declared}")
            yield width, itertools.chain([first], lines)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(read_failure(path, error, "gzip file")) from None


def _lines(path: Path, file: IO[bytes] | gzip.GzipFile) -> Iterator[Line]:
    """Numbered lines, cut after the word; empty ones are passed over."""
    most = limits().field_bytes
    for number, line in enumerate(iter(lambda: file.readline(most + 1), b""), 1):
        refuse_beyond("field_bytes", len(line), f"{path}, line {number:,}: {{}} and more without a line's end")
        parts = line.rstrip().split(None, 1)
        if len(parts) == 2:
            yield number, parts[0], parts[1]
        elif parts:
            excerpt = parts[0][:40].decode(errors="replace")
            raise DataError(f"{path}, line {number:,}: no numbers after '{excerpt}'; a line is a word and its numbers")


def _numbers(rest: bytes, where: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # a number too large is found below
            vector = np.array(rest.split(), np.float32)
    except ValueError:
        excerpt = rest[:40].decode(errors="replace")
        raise DataError(f"{where}: not numbers after the word: {excerpt!r}; word vectors come as text") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number that is not finite")
    return vector
