"""Bytes of a file → text, block by block, so that a file of any size can be read. Every way it can fail is one line."""

import codecs
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.config.errors import DataError

BLOCK = 2**18
"""Bytes read at once."""


def check_encoding(encoding: str) -> None:
    """Refuse an encoding that Python does not know, or that makes something else than text."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except (LookupError, ValueError):
        raise DataError(f"unknown encoding '{encoding}': try --data.encoding utf-8, latin-1 or utf-16") from None


def byte_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is gzip."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def text_blocks(path: Path, encoding: str) -> Iterator[str]:
    """The text of a file: decoded, its byte-order mark dropped, every kind of newline turned into \\n."""
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"  # the mark is dropped below, and positions in errors stay right
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    may_hold_nul = len("a".encode(encoding)) > 1
    size, line = 0, 1  # bytes read, line reached
    for block in itertools.chain(byte_blocks(path), [b""]):  # nothing more: what was kept must be whole
        if not may_hold_nul and (nul := block.find(b"\0")) >= 0:
            looks = (
                "looks like UTF-16, try --data.encoding utf-16" if _has_utf16_mark(path) else "binary data, not text"
            )
            line += block.count(b"\n", 0, nul)
            raise DataError(f"{path} holds a NUL byte at position {size + nul:,} (line {line:,}): {looks}")
        size += len(block)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeError as error:
            raise _undecodable(path, encoding, error, size, line, newlines) from None
        text = newlines.decode(text, final=not block)
        line += text.count("\n")
        yield text.removeprefix("\ufeff") if size == len(block) else text


def _has_utf16_mark(path: Path) -> bool:
    return next(byte_blocks(path), b"").startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _undecodable(
    path: Path, encoding: str, error: UnicodeError, size: int, line: int, newlines: io.IncrementalNewlineDecoder
) -> DataError:
    """Where decoding stopped: the decoder's own position counts from bytes that it kept from the block before."""
    if not isinstance(error, UnicodeDecodeError):  # a missing UTF-16 mark and the like
        return DataError(f"{path} is not {encoding}: {error}")
    at = size - len(error.object) + error.start
    good = newlines.decode(error.object[: error.start].decode(encoding, "replace"), final=True)
    other = "latin-1" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else "utf-8"
    return DataError(
        f"{path} is not {encoding}: byte 0x{error.object[error.start]:02X} at position {at:,} "
        f"(line {line + good.count(chr(10)):,}); try --data.encoding {other}"
    )


def numbered_lines(blocks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines without their ends, counted from 1; only a newline ends one, since a text may hold other separators."""
    held: list[str] = []
    line = 1
    for block in blocks:
        *whole, rest = block.split("\n")
        for end in whole:
            yield line, "".join([*held, end])
            held, line = [], line + 1
        held.append(rest)
    yield line, "".join(held)
