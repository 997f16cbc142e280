"""Chunking of long texts, so that counting and encoding never need memory for a whole corpus."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from glassformer.config.errors import DataError
from glassformer.config.messages import say

T = TypeVar("T")

PIECE = 1 << 14
"""Characters per chunk. Rust needs about 150 bytes per token while encoding, so chunks are small."""

BATCH = 1 << 20
"""Characters that Rust encodes per call: enough to use every core, few enough to need little memory."""

MEGABYTE = 1_000_000

DISTINCT = 16 * MEGABYTE
"""Maximum bytes of distinct words for BPE training, which needs about 100 bytes of memory for each of them."""

_WORD = re.compile(r"\w+|[^\w\s]+")
_BLANK_AFTER_WORD = re.compile(r"(?<=\S)(?=[ \n])")


def pieces(text: str, slack: int) -> Iterator[str]:
    """Yield chunks of `PIECE` characters plus at most `slack`, cut before a blank that follows a non-blank.

    Our pipelines never join characters across such a cut: words end at blanks, and byte-level BPE never joins a blank
    to the character before it. So the tokens of the chunks are the tokens of the text. If there is no blank within
    `slack` characters, the chunk ends there anyway.
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
    """Yield lists of (number of the text, chunk), with about `BATCH` characters per list."""
    numbered = ((number, piece) for number, text in enumerate(texts) for piece in cut(text))
    for batch in grouped(numbered, lambda item: len(item[1]), BATCH):
        for _, piece in batch:
            utf8(piece)
        yield batch


def grouped(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Yield the items in lists; a list ends as soon as its sizes add up to `enough`."""
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


def sampled(texts: Iterable[str], limit: int, total: int | None) -> Iterator[str]:
    """Yield chunks of the texts, `limit` bytes at most, while holding one text at a time.

    If the `total` number of bytes is known, the sample is spread evenly: a chunk is taken whenever the sample is below
    its share of the bytes read so far. Otherwise the sample is the beginning. `say` reports a sample smaller than the
    text.
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


def few_distinct(texts: Iterable[str], limit: int) -> Iterator[str]:
    """Yield the texts up to the one that brings their distinct words to more than `limit` bytes.

    Hundreds of megabytes stay below it if blanks separate words. Chinese or a genome has a new "word" on each line,
    which would need a hundred times its size in memory.
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
    """Return the text as UTF-8; raise `DataError` for a lone surrogate, which JSON can contain."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text holds half a character, {text[error.start]!a}: it is no valid unicode") from None
