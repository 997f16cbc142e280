"""The wire format of protocol buffers, as far as reading goes: numbered fields, nested in fields."""

import struct
from collections.abc import Iterator
from typing import NoReturn

from glassformer.config.errors import DataError

VARINT, EIGHT, BLOCK, FOUR = 0, 1, 2, 5
"""The kinds of values: a number of any length, eight bytes, a counted block, four bytes."""
LONGEST = 10
"""Bytes of the longest number."""
Value = int | memoryview


def damaged(name: str, why: str) -> NoReturn:
    raise DataError(f"{name} is damaged, or no SentencePiece file: {why}") from None


def fields(data: memoryview, name: str) -> Iterator[tuple[int, Value]]:
    """The fields of a message, one after the other: their number, and a number or their bytes.

    Nothing is copied, and no length is believed that leads out of the message. `name` is what an error calls the file.
    """
    place = 0
    while place < len(data):
        key, place = _number(data, place, name)
        kind, field = key & 7, key >> 3
        if kind == VARINT:
            value, place = _number(data, place, name)
            yield field, value
            continue
        if kind == BLOCK:
            size, place = _number(data, place, name)
        elif kind in (EIGHT, FOUR):
            size = 8 if kind == EIGHT else 4
        else:
            damaged(name, f"a field of kind {kind}")
        if size > len(data) - place:
            damaged(name, f"a field of {size} bytes ends outside it")
        yield field, data[place : place + size]
        place += size


def _number(data: memoryview, place: int, name: str) -> tuple[int, int]:
    value = 0
    for step in range(LONGEST):
        if place + step >= len(data):
            damaged(name, "it ends within a number")
        byte = data[place + step]
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return value, place + step + 1
    damaged(name, "a number is too long")


def whole(value: Value, name: str) -> int:
    """A field that must be a number."""
    if not isinstance(value, int):
        damaged(name, "bytes where a number belongs")
    return value


def block(value: Value, name: str) -> memoryview:
    """A field that must be bytes."""
    if isinstance(value, int):
        damaged(name, "a number where bytes belong")
    return value


def text(value: Value, name: str) -> str:
    """A field that must be text."""
    try:
        return bytes(block(value, name)).decode()
    except UnicodeDecodeError:
        damaged(name, "a piece is no text")


def real(value: Value, name: str) -> float:
    """A field that must be a number in single precision."""
    data = block(value, name)
    if len(data) != 4:
        damaged(name, f"a score of {len(data)} bytes")
    return float(struct.unpack("<f", data)[0])
