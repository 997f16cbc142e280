"""Pretrained word vectors in GloVe's or word2vec's text format, read line by line.

A line is a word and its numbers. The first line of word2vec has the number of words and the width of the vectors.
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
"""Number of a line, its first word, and the rest of the line."""


def vectors_width(path: str | os.PathLike[str]) -> int:
    """Return the width of the vectors; only the first lines are read."""
    with _open(Path(path)) as (width, _):
        return width


def read_vectors(
    path: str | os.PathLike[str], words: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids of the words in the file, in ascending order, and a vector (row) for each.

    A word gets the vector of the word with the same spelling; otherwise that of the first word that differs only in
    case.
    """
    by_fold: dict[str, list[str]] = {}
    for word in words:
        by_fold.setdefault(word.casefold(), []).append(word)
    exact: dict[str, NDArray[np.float32]] = {}
    folded: dict[str, NDArray[np.float32]] = {}
    with _open(Path(path)) as (width, lines):
        for number, raw, rest in lines:
            if rest.count(b" ") != width - 1 and (count := len(rest.split())) != width:
                if count < width:
                    raise DataError(f"{path}, line {number:,}: {count} numbers after the word, not {width} as before")
                continue  # a word with blanks, which our tokenizers never produce
            word = raw.decode(errors="replace")
            fold = word.casefold()
            if fold not in by_fold:
                continue
            is_first_match = word in words and word not in exact
            if is_first_match or fold not in folded:
                vector = _numbers(rest, f"{path}, line {number:,}")
                folded.setdefault(fold, vector)
                if is_first_match:
                    exact[word] = vector
    chosen = {words[word]: exact.get(word, vector) for fold, vector in folded.items() for word in by_fold[fold]}
    ids = np.array(sorted(chosen), np.int64)
    return ids, np.stack([chosen[id] for id in ids.tolist()]) if chosen else np.empty((0, width), np.float32)


@contextmanager
def _open(path: Path) -> Iterator[tuple[int, Iterator[Line]]]:
    """Yield the width of a file's vectors and its lines; raise `DataError` for a file that cannot be read."""
    try:
        refuse_endless(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            lines = _lines(path, file)
            first = next(lines, None)
            declared = None
            if first is not None and first[1].isdigit() and first[2].isdigit():  # word2vec's number of words and width
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
    """Yield the lines with their numbers, split after the word; skip empty lines."""
    max_bytes = limits().field_bytes
    for number, line in enumerate(iter(lambda: file.readline(max_bytes + 1), b""), 1):
        refuse_beyond("field_bytes", len(line), f"{path}, line {number:,}: {{}} and more without a line's end")
        parts = line.rstrip().split(None, 1)
        if len(parts) == 2:
            yield number, parts[0], parts[1]
        elif parts:
            excerpt = parts[0][:40].decode(errors="replace")
            raise DataError(f"{path}, line {number:,}: no numbers after '{excerpt}'; a line is a word and its numbers")


def _numbers(rest: bytes, where: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # `isfinite` below refuses too large numbers
            vector = np.array(rest.split(), np.float32)
    except ValueError:
        excerpt = rest[:40].decode(errors="replace")
        raise DataError(f"{where}: not numbers after the word: {excerpt!r}; word vectors come as text") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number that is not finite")
    return vector
