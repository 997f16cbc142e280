"""Read the text of a file block by block, so that a file of any size can be read. Every failure is a one-line error."""

import codecs
import functools
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import Limits, limits, most_of, refuse_beyond, refuse_bomb, refuse_endless
from glassformer.config.progress import BYTE, may_stop, progress_of, unheard, watched

BLOCK = 2**18
"""Number of bytes read at once."""
LARGE = 2**22
"""Size in bytes from which reading a file shows progress."""
TEXT_BYTES, CELL_BYTES = 49, 8
"""Memory that Python uses for a text besides its characters, and for an item of a list."""

ESTIMATED_AT = 1 / 32
"""Share of the memory limit that the rows of a compressed file take when the memory of all its rows is estimated."""
FAR_BEYOND = 2
"""Multiple of the memory limit beyond which an estimate refuses a file: its first rows may differ from the others."""
SCANNED_BYTES = 2**22
"""Compressed files up to this size are scanned once before reading, which takes at most a second."""


def check_encoding(encoding: str) -> None:
    """Raise `DataError` for an encoding that Python does not know, or that does not decode to text."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except (LookupError, ValueError):
        raise DataError(f"unknown encoding '{encoding}': try --data.encoding utf-8, latin-1 or utf-16") from None


def byte_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked if it is a gzip file."""
    try:
        packed, unpacked = refuse_endless(path, streams=True), 0
        progress = progress_of(BYTE) if packed >= LARGE else unheard
        is_packed = path.suffix.lower() == ".gz"
        if is_packed and packed <= SCANNED_BYTES:
            _scan(path, path.stat().st_mtime_ns, packed, limits())
        with path.open("rb") as raw, gzip.open(raw) if is_packed else raw as file:
            while block := file.read(BLOCK):
                progress(raw.tell() if packed else 0, packed)
                may_stop()
                unpacked += len(block)
                if is_packed:
                    refuse_bomb(path, unpacked, packed)
                    refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}} and more", file_bytes=packed)
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(read_failure(path, error, "gzip file")) from None


@functools.lru_cache(maxsize=64)
def _scan(path: Path, changed: int, packed: int, limit: Limits) -> None:
    """Refuse a small compressed file with an excessive compression ratio before reading its rows.

    Reading rows takes a hundred times as long as unpacking them. `changed` and `limit` are part of the cache key, so
    that a changed file or limit is scanned again.
    """
    unpacked = 0
    with gzip.open(path) as file:
        while block := file.read(BLOCK):
            may_stop()
            unpacked += len(block)
            refuse_bomb(path, unpacked, packed)


def text_blocks(path: Path, encoding: str) -> Iterator[str]:
    r"""Yield the text of a file, decoded, without a byte-order mark and with every newline as \n."""
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"  # the mark is removed below, and positions in errors stay right
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    may_hold_nul = len("a".encode(encoding)) > 1
    size, line = 0, 1  # bytes read, line reached
    for block in itertools.chain(byte_blocks(path), [b""]):  # the empty block flushes the decoder
        if not may_hold_nul and (nul := block.find(b"\0")) >= 0:
            line += block.count(b"\n", 0, nul)
            where = f"position {size + nul:,} (line {line:,})"
            raise DataError(f"{path} holds a NUL byte at {where}: binary data, or UTF-16 (--data.encoding utf-16)")
        size += len(block)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeError as error:
            raise _undecodable(path, encoding, error, size, line, newlines) from None
        text = newlines.decode(text, final=not block)
        line += text.count("\n")
        yield text.removeprefix("\ufeff") if size == len(block) else text


def _undecodable(
    path: Path, encoding: str, error: UnicodeError, size: int, line: int, newlines: io.IncrementalNewlineDecoder
) -> DataError:
    """Return the error for undecodable bytes. The decoder counts positions from bytes kept of the preceding block."""
    if not isinstance(error, UnicodeDecodeError):  # a missing UTF-16 mark and the like
        return DataError(f"{path} is not {encoding}: {error}")
    at = size - len(error.object) + error.start
    good = newlines.decode(error.object[: error.start].decode(encoding, "replace"), final=True)
    other = "latin-1" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else "utf-8"
    return DataError(
        f"{path} is not {encoding}: byte 0x{error.object[error.start]:02X} at position {at:,} "
        f"(line {line + good.count(chr(10)):,}); try --data.encoding {other}"
    )


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield lines and their numbers from 1. Only a newline ends a line, since texts may contain other separators."""
    held: list[str] = []
    line, length = 1, 0
    for block in text_blocks(path, encoding):
        *whole, rest = block.split("\n")
        for end in whole:
            yield line, "".join([*held, end])
            held, line, length = [], line + 1, 0
        held.append(rest)
        length += len(rest)
        refuse_beyond("field_bytes", length, f"{path}, line {line:,}: {{}} and more without a line's end")
    yield line, "".join(held)


def held_lines(path: Path, encoding: str) -> list[str]:
    """Return all lines of a file; a newline at its end does not begin another line."""
    lines, held = list[str](), HeldMemory(path, path.stat().st_size if path.exists() else 0)
    for _, line in numbered_lines(path, encoding):
        lines.append(line)
        held.add([line], cells=len(lines))
    return lines if lines[-1] else lines[:-1]


def times_first_lines(path: Path, line: int) -> float:
    """Return how many times as large as its first lines a file is, in lines or in bytes, whichever is less."""
    size = lines = first = 0
    with watched(None):  # the reader of the rows reports the progress
        for block in byte_blocks(path):
            size += len(block)
            if lines < line:
                first = size
            lines += block.count(b"\n")
    return min(lines / max(1, line), size / max(1, first))


class HeldMemory:
    """Counter of the memory of texts, which can far exceed the size of their file; it enforces the limit."""

    def __init__(self, name: object, file_bytes: int = 0) -> None:
        self.name = name
        self.file_bytes = file_bytes
        self.most = most_of("unpacked_bytes", file_bytes)
        self.texts = self.now = 0

    def add(self, texts: Iterable[str], *, cells: int) -> None:
        """Count further texts. `cells`: total number of items in lists so far."""
        self.texts += sum(
            [TEXT_BYTES + len(text) for text in texts if len(text) > 1]
        )  # Python stores each shorter text only once
        self.now = self.texts + CELL_BYTES * cells
        if self.now > self.most:
            what = f"{self.name} would take {{}} of memory and more"
            refuse_beyond("unpacked_bytes", self.now, what, file_bytes=self.file_bytes)

    def refuse_early(self, times: float) -> None:
        """Refuse a file of `times` what was read so far if it would take far more than the limit, by an estimate."""
        estimate = times * self.now
        if estimate > FAR_BEYOND * self.most:
            what = f"{self.name} would take about {{}} of memory"
            refuse_beyond("unpacked_bytes", estimate, what, file_bytes=self.file_bytes)
