"""Long texts in pieces: so that neither counting nor encoding ever needs memory for a whole corpus."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from glassformer.config.errors import DataError

T = TypeVar("T")

PIECE = 1 << 14
"""Characters in a piece. Rust keeps about 150 bytes for each token while it encodes, so pieces are small."""

BATCH = 1 << 20
"""Characters that Rust encodes in one call: enough to keep every core busy, few enough for little memory."""

MEGABYTE = 1_000_000

DISTINCT = 16 * MEGABYTE
"""Bytes of distinct words that BPE may learn from: it holds about 100 bytes in memory for each of them."""

_WORD = re.compile(r"\w+|[^\w\s]+")
_BLANK_AFTER_WORD = re.compile(r"(?<=\S)(?=[ \n])")


def pieces(text: str, slack: int) -> Iterator[str]:
    """The text in pieces of `PIECE` characters and at most `slack` more, cut before a blank that follows a non-blank.

    There no pipeline of ours looks across: words end at blanks, and byte-level BPE never joins a blank to what stands
    before it. So the tokens of the pieces are the tokens of the whole. Where the slack holds no blank, the cut is made
    anyway.
    """
    start = 0
    while start < len(text):
        end = start + PIECE
        if end < len(text):
            blank = _BLANK_AFTER_WORD.search(text, end, end + slack)
            end = blank.start() if blank else end + slack
        yield text[start:end]
        start = end


def batches(texts: Iterable[str], cut: Callable[[str], Iterable[str]]) -> Iterator[list[tuple[int, str]]]:
    """The texts, cut into pieces, each with the number of its text, `BATCH` characters together."""
    numbered = ((number, piece) for number, text in enumerate(texts) for piece in cut(text))
    for batch in grouped(numbered, lambda item: len(item[1]), BATCH):
        for _, piece in batch:
            utf8(piece)
        yield batch


def grouped(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Yield the items in lists, each of which ends as soon as its sizes add up to `enough`."""
    group: list[T] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= enough:
            yield group
            group, size = [], 0
    if group:
        yield group


def sampled(texts: Iterable[str], limit: int, total: int | None, say: Callable[[str], None]) -> Iterator[str]:
    """Pieces of the texts, `limit` bytes at most, without ever holding more than one text.

    With the `total` bytes known beforehand, the sample is spread evenly: a piece is taken whenever the sample has
    fallen behind its share of what went by. Unknown, the sample is the beginning. Either way `say` is told.
    """
    share = 1.0
    if total is not None and total > limit:
        share = limit / total
        sizes = f"{limit / MEGABYTE:.0f} of {total / MEGABYTE:.0f} MB"
        say(f"learning the tokens from {sizes}, spread evenly over the text")
    seen = taken = 0
    for piece in (piece for text in texts for piece in pieces(text, slack=PIECE)):
        size = len(utf8(piece))
        if taken + size > limit:
            if share == 1.0:
                say(f"learning the tokens from the first {limit / MEGABYTE:.0f} MB of the text")
            return
        if taken <= seen * share:
            taken += size
            yield piece
        seen += size


def few_distinct(texts: Iterable[str], limit: int, say: Callable[[str], None]) -> Iterator[str]:
    """The texts, up to the one that brings their distinct words to more than `limit` bytes.

    Where blanks separate words, hundreds of megabytes stay below. Chinese, or a genome, has a new "word" on each line,
    and would otherwise take a hundred times its size in memory.
    """
    known: set[str] = set()
    size = read = 0
    for text in texts:
        new = set(_WORD.findall(text)) - known
        known |= new
        size += sum(len(utf8(word)) for word in new)
        if size > limit:
            say(f"learning the merges from the first {read / MEGABYTE:.0f} MB: more would hold too many distinct words")
            return
        read += len(utf8(text))
        yield text


def utf8(text: str) -> bytes:
    """The text's bytes; half a surrogate pair, which JSON can smuggle in, has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text holds half a character, {text[error.start]!a}: it is no valid unicode") from None
