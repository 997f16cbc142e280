"""The header of a GGUF file: its metadata and the positions of its tensors.

Every count, length and offset is compared with the file size before anything is read or allocated for it, so that a
damaged file yields a one-line error. The optional package gguf knows the number formats.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError, MissingPackage

Item = TypeVar("Item")

VERSIONS = (2, 3)
ALIGNMENT = 32
"""Default alignment."""
MAX_NAME_BYTES, MAX_STRING_BYTES, MAX_ITEMS, MAX_DIMENSIONS = 1 << 16, 1 << 24, 1 << 24, 4
"""Maximum length of a name, a string and a list, and maximum number of dimensions."""

SCALARS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
TEXT, LIST = 8, 9
"""Types of values by number, besides SCALARS."""


class Kind(NamedTuple):
    """A number format, with `bytes` bytes per block of `block` numbers."""

    number: int
    name: str
    block: int
    bytes: int


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in the file: its shape in torch's order, number format, offset and size in bytes."""

    shape: tuple[int, ...]
    kind: Kind
    offset: int
    size: int


@dataclass(frozen=True)
class Header:
    path: Path
    values: Mapping[str, object]
    """Metadata: numbers, strings and lists of strings; lists of numbers are arrays."""
    tensors: Mapping[str, TensorInfo]


def read_header(path: Path) -> Header:
    """Return the header of a file after checking that all of it fits."""
    try:
        if not path.is_file():
            raise DataError(f"{path} is no file" if path.exists() else f"there is no file {path}")
        with open(path, "rb") as file:
            return _HeaderReader(file, path.stat().st_size, path).header()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def damaged(path: Path, why: str) -> NoReturn:
    raise DataError(f"{path} is a damaged GGUF file: {why}; download or convert it again")


class _HeaderReader:
    """Sequential reader of a header."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self.file, self.size, self.path, self.at = file, size, path, 0

    def header(self) -> Header:
        self.check_start()
        tensors, values = self.number("<u8", "the number of tensors"), self.number("<u8", "the number of values")
        self.room(values * 13 + tensors * 24, f"{values:,} values and {tensors:,} tensors")
        settings = self.named(values, "value", lambda name: self.value(self.number("<u4", f"the type of {name}"), name))
        infos = self.named(tensors, "tensor", self.tensor)
        alignment = settings.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            damaged(self.path, f"general.alignment is {str(alignment)[:40]!r}, no power of two")
        start = -(-self.at // alignment) * alignment
        placed = {name: replace(info, offset=start + info.offset) for name, info in infos.items()}
        self.check_places(placed, alignment)
        return Header(self.path, settings, placed)

    def check_start(self) -> None:
        if self.take(4, "its first four bytes") != b"GGUF":
            raise DataError(f"{self.path} is no GGUF file: it does not begin with the letters GGUF")
        version = self.number("<u4", "the version")
        if version not in VERSIONS:
            what = f"is of GGUF version {version}" if version & 0xFFFF else "is a big-endian GGUF file"
            raise DataError(f"{self.path} {what}; little-endian files of versions 2 and 3 can be read")

    def room(self, size: int, what: str) -> None:
        if size > self.size - self.at:
            damaged(self.path, f"{what} at byte {self.at:,} do not fit its {self.size:,} bytes")

    def take(self, size: int, what: str) -> bytes:
        self.room(size, what)
        read = self.file.read(size)
        if len(read) != size:
            damaged(self.path, f"it ends within {what}")
        self.at += size
        return read

    def numbers(self, code: str, count: int, what: str) -> Array:
        return np.frombuffer(self.take(count * np.dtype(code).itemsize, what), code)

    def number(self, code: str, what: str) -> int:
        return int(self.numbers(code, 1, what)[0])

    def text(self, what: str, longest: int = MAX_STRING_BYTES) -> str:
        length = self.number("<u8", f"the length of {what}")
        if length > longest:
            damaged(self.path, f"{what} is said to be {length:,} bytes long")
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError:
            damaged(self.path, f"{what} is not text in UTF-8")

    def named(self, count: int, what: str, read: Callable[[str], Item]) -> dict[str, Item]:
        items: dict[str, Item] = {}
        for number in range(count):
            name = self.text(f"the name of {what} {number + 1:,} of {count:,}", MAX_NAME_BYTES)
            if not name or not name.isprintable():
                damaged(self.path, f"{name[:80]!r} is no name of a {what}")
            if name in items:
                damaged(self.path, f"two {what}s are called {name[:80]!r}")
            items[name] = read(name[:80])
        return items

    def value(self, type: int, name: str) -> Any:
        if type == TEXT:
            return self.text(name)
        if type == LIST:
            return self.list(name)
        if type not in SCALARS:
            damaged(self.path, f"{name} is of type {type}, which does not exist")
        value = self.numbers(SCALARS[type], 1, name)[0]
        # the shortest decimal of a float32, as it was once written
        return float(str(value)) if isinstance(value, np.float32) else value.item()

    def list(self, name: str) -> Any:
        type, count = self.number("<u4", f"the type of {name}"), self.number("<u8", f"the length of {name}")
        if type not in SCALARS and type != TEXT:
            damaged(self.path, f"{name} is a list of type {type}, which cannot be read")
        if count > MAX_ITEMS:
            damaged(self.path, f"{name} is said to hold {count:,} items")
        self.room(count * (8 if type == TEXT else np.dtype(SCALARS[type]).itemsize), f"{count:,} items of {name}")
        if type == TEXT:
            return [self.text(name) for _ in range(count)]
        return self.numbers(SCALARS[type], count, name)

    def tensor(self, name: str) -> TensorInfo:
        """Return a tensor, with an offset relative to the end of the header."""
        count = self.number("<u4", f"the dimensions of {name}")
        if not 1 <= count <= MAX_DIMENSIONS:
            damaged(self.path, f"tensor {name} has {count} dimensions")
        shape = tuple(self.number("<u8", f"the dimensions of {name}") for _ in range(count))[::-1]
        number, offset = self.number("<u4", f"the kind of {name}"), self.number("<u8", f"the place of {name}")
        kind = kind_of(number)
        if kind is None:
            damaged(self.path, f"tensor {name} is of kind {number}, which does not exist in the package gguf")
        if not all(shape) or shape[-1] % kind.block:
            damaged(self.path, f"tensor {name} has the shape {shape}, which {kind.name} cannot have")
        return TensorInfo(shape, kind, offset, math.prod(shape) // kind.block * kind.bytes)

    def check_places(self, tensors: Mapping[str, TensorInfo], alignment: int) -> None:
        """Refuse tensors outside the file or overlapping, with which a small file could use much memory."""
        end = 0
        for name, tensor in sorted(tensors.items(), key=lambda item: item[1].offset):
            if tensor.offset % alignment or tensor.offset + tensor.size > self.size:
                place = f"{tensor.size:,} bytes from {tensor.offset:,} on"
                damaged(self.path, f"tensor {name[:80]}, {place}, does not fit {self.size:,} bytes")
            if tensor.offset < end:
                damaged(self.path, f"tensor {name[:80]} begins within another")
            end = tensor.offset + tensor.size


@cache
def _package() -> Any:
    try:
        return importlib.import_module("gguf")
    except ImportError:
        raise MissingPackage.needed("reading .gguf files", "gguf", "gguf") from None


def kind_of(number: int) -> Kind | None:
    """Return the format with this number; None if the package does not know it."""
    package = _package()
    try:
        kind = package.GGMLQuantizationType(number)
    except ValueError:
        return None
    return Kind(number, kind.name, *package.GGML_QUANT_SIZES[kind])


@cache
def readable(kind: Kind) -> bool:
    """Return whether the package can dequantise a format; it tells only when called."""
    try:
        dequantise(np.zeros((1, kind.bytes), np.uint8), kind)
    except (NotImplementedError, ValueError):
        return False
    return True


def dequantise(rows: NDArray[np.uint8], kind: Kind) -> NDArray[np.float32]:
    """Return the bytes of rows as single-precision numbers, which changes the last dimension."""
    package = _package()
    with np.errstate(all="ignore"):  # no warnings for damaged scales: NaN is detected on use
        numbers: NDArray[np.float32] = package.dequantize(rows, package.GGMLQuantizationType(kind.number))
    return numbers
