"""A .parquet file, some rows at a time: never more of it in memory than these, and a few pages."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.config.errors import DataError, MissingPackage, read_failure
from glassformer.config.limits import most_of, refuse_beyond, refuse_bomb
from glassformer.config.progress import BYTE, progress_of

TOGETHER = 1024
"""Rows that are unpacked at once."""
BUFFER_BYTES = 2**20
"""What is read at once of a column: Arrow would read all that a row group has of it, which may be the whole file."""


def arrow(module: str, path: object, work: str = "reading") -> Any:
    """A module of pyarrow's, which the `work` on a file needs."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingPackage.needed(f"{path}: {work} .parquet", "pyarrow", "parquet") from None


def record_batches(path: Path) -> Iterator[Any]:
    """All rows, as Arrow holds them; what cannot be read is one line."""
    parquet, arrow_error = arrow("pyarrow.parquet", path), arrow("pyarrow", path).ArrowException
    row = 0
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            together, packed, unpacked = _rows_together(path, file), path.stat().st_size, 0
            progress = progress_of(BYTE)
            for batch in file.iter_batches(batch_size=together):
                unpacked += batch.nbytes
                refuse_bomb(path, unpacked, packed)
                refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}} and more", file_bytes=packed)
                progress(packed * row // file.metadata.num_rows, packed)
                yield batch
                row += batch.num_rows
    except (arrow_error, OSError, UnicodeDecodeError) as error:  # the last: a column's name
        raise DataError(read_failure(path, error, ".parquet file")) from None


def values_of(batch: Any, path: Path, row: int) -> list[list[Any]]:
    """The values of a batch, column by column. `row`: how many rows of the file come before it."""
    try:
        return [column.to_pylist() for column in batch.columns]
    except UnicodeDecodeError:
        raise DataError(f"{path} is damaged: save it again (after row {row:,}, a text is not UTF-8)") from None
    except arrow("pyarrow", path).ArrowException as error:
        raise DataError(read_failure(path, error, ".parquet file")) from None


def record_schema(path: Path) -> Any:
    """The columns of a file that can be read, and their types."""
    return arrow("pyarrow.parquet", path).read_schema(path)


def _rows_together(path: Path, file: Any) -> int:
    """How many rows of a .parquet file to unpack at once; one that holds too much is refused by what it says of itself.

    A value that stands in many rows is written once: a few bytes can make much memory.
    """
    told, packed = file.metadata, path.stat().st_size
    refuse_beyond("columns", told.num_columns, f"{path} has {{}} columns")
    groups = [told.row_group(place) for place in range(told.num_row_groups)]
    parts = [group.column(place) for group in groups for place in range(group.num_columns)]
    least = 8 * told.num_rows * told.num_columns
    unpacked = max(least, sum(part.total_uncompressed_size for part in parts))
    refuse_bomb(path, unpacked, packed)
    refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}} and more", file_bytes=packed)
    with path.open("rb") as pages:
        largest = max((_shared_bytes(pages, part) for part in parts), default=0)
    return int(min(TOGETHER, max(1, most_of("unpacked_bytes", packed) / 4 // max(1, largest))))


def _shared_bytes(pages: BinaryIO, part: Any) -> int:
    """The bytes of a value that rows of a column's part may share, at most."""
    shares = {"RLE_DICTIONARY", "PLAIN_DICTIONARY", "DELTA_BYTE_ARRAY"}.intersection(part.encodings)
    if not shares:
        return 0
    if "DELTA_BYTE_ARRAY" in shares or part.dictionary_page_offset is None:
        return int(part.total_uncompressed_size)
    pages.seek(part.dictionary_page_offset)  # Thrift's compact form: the page's kind, then its size unpacked
    head = re.match(rb"\x15[\x80-\xff]*[\x00-\x7f]\x15([\x80-\xff]*[\x00-\x7f])", pages.read(32), re.DOTALL)
    if head is None:
        return int(part.total_uncompressed_size)
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(head[1])) >> 1
