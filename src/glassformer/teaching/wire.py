"""Messages between grader and submission: plain data and tensors, as JSON and raw bytes.

Nothing in a message is executed. Reader and writer refuse messages that are too large or malformed.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

HEAD = struct.Struct(">QQ")
"""Header of a message: number of bytes of JSON, number of bytes of tensors."""
MOST_JSON = 2**22
MOST_BYTES = 2**26
"""Maximum number of bytes of all tensors in a message."""
DEEPEST = 20
MAX_TENSORS = 10_000
"""Maximum number of tensors in a message."""
MAX_OTHER_KEYS = 1000
"""Maximum number of dict keys in a message that are not strings.

Python hashes numbers and tuples without a secret. Thousands of them can have the same hash, and a dict with such keys
takes minutes to build.
"""
MAX_KEY_PARTS = 16
"""Maximum number of parts of a tuple that is a dict key."""
MAX_EMPTY_ROWS = 10_000
"""Maximum number of rows of a tensor without elements, because each row takes memory in a list."""
TOO_MUCH = "more than can be compared"
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool,
    )
}  # fmt: skip


class Unsendable(ValueError):
    """Raised for a value that is too large or not plain data; the message is the object of a sentence with `gives`."""


def pack(value: Any) -> bytes:
    """Encode a value as a message; raise `Unsendable` if that is not possible."""
    writer = _Writer()
    try:
        text = json.dumps(writer.plain(value)).encode()
    except RecursionError:
        raise Unsendable("lists within lists, too deep") from None
    blob = b"".join(writer.tensors)
    if len(text) > MOST_JSON or len(blob) > MOST_BYTES:
        raise Unsendable(TOO_MUCH)
    return HEAD.pack(len(text), len(blob)) + text + blob


class _Writer:
    def __init__(self) -> None:
        self.tensors = list[bytes]()
        self.other_keys = 0

    def plain(self, value: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise Unsendable("lists within lists, too deep")
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(np.ascontiguousarray(value))
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Tensor):
            return {"x": self._tensor(value)}
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, bool | int):
            if abs(int(value)) >= 2**63:
                raise Unsendable("a number that is too large")
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, list | tuple):
            parts = [self.plain(part, depth + 1) for part in list(value)]
            return {"t" if isinstance(value, tuple) else "l": parts}
        if isinstance(value, Mapping):
            return {"d": [[self._key(name), self.plain(part, depth + 1)] for name, part in value.items()]}
        raise Unsendable(f"{type(value).__name__}, which is neither a tensor nor plain data")

    def _key(self, key: Any) -> Any:
        plain = self.plain(key)
        if not isinstance(plain, str):
            self.other_keys += 1
            if self.other_keys > MAX_OTHER_KEYS:
                raise Unsendable(f"a dict with more than {MAX_OTHER_KEYS:,} keys that are not texts")
            if not _is_small_key(plain):
                raise Unsendable("a dict with a long tuple, or a tuple of tuples, as a key")
        return plain

    def _tensor(self, value: Tensor) -> list[Any]:
        if len(self.tensors) >= MAX_TENSORS:
            raise Unsendable(TOO_MUCH)
        if value.numel() * value.element_size() > MOST_BYTES:
            raise Unsendable(f"a tensor of {value.numel():,} numbers, more than can be compared")
        if _has_many_empty_rows(value.shape):
            raise Unsendable(f"a tensor of the shape {'×'.join(map(str, value.shape))}, more than can be compared")
        plain = value.detach().as_subclass(Tensor).cpu()
        plain = (plain.to_dense() if plain.layout != torch.strided else plain).contiguous()
        dtype = str(plain.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise Unsendable(f"a tensor of {dtype}")
        self.tensors.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        return [dtype, list(plain.shape)]


def _is_small_key(plain: Any) -> bool:
    parts = [part for parts in plain.values() for part in parts] if isinstance(plain, dict) else []
    return len(parts) <= MAX_KEY_PARTS and not any(isinstance(part, dict) for part in parts)


def _has_many_empty_rows(shape: Sequence[int]) -> bool:
    return 0 in shape and math.prod(size for size in shape if size) > MAX_EMPTY_ROWS


class Malformed(ValueError):
    """Raised for bytes that are not a valid message."""


def sizes(head: bytes) -> tuple[int, int]:
    """Return the number of bytes of JSON and of tensors that follow a header."""
    text, blob = HEAD.unpack(head)
    if text > MOST_JSON or blob > MOST_BYTES:
        raise Malformed
    return text, blob


def unpack(text: bytes, blob: bytes) -> Any:
    """Decode the JSON and the tensors of a message; raise `Malformed` if they are not valid."""
    try:
        reader = _Reader(blob)
        value = reader.read(json.loads(text))
    except (ValueError, TypeError, KeyError, RuntimeError, RecursionError, OverflowError):
        raise Malformed from None
    if reader.place != len(blob):
        raise Malformed
    return value


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.place = 0
        self.tensors = 0
        self.other_keys = 0

    def read(self, plain: Any, depth: int = 0) -> Any:
        if isinstance(plain, int) and abs(plain) >= 2**63:
            raise ValueError
        if plain is None or isinstance(plain, bool | int | float | str):
            return plain
        if depth > DEEPEST or not isinstance(plain, dict) or len(plain) != 1:
            raise ValueError
        [(kind, parts)] = plain.items()
        if kind == "x":
            return self._tensor(*parts)
        if kind == "d":
            pairs = [(self._key(name), self.read(part, depth + 1)) for name, part in parts]
            return dict(pairs)
        return {"l": list, "t": tuple}[kind](self.read(part, depth + 1) for part in parts)

    def _key(self, plain: Any) -> Any:
        if not isinstance(plain, str):
            self.other_keys += 1
            if self.other_keys > MAX_OTHER_KEYS or not _is_small_key(plain):
                raise ValueError
        return self.read(plain)

    def _tensor(self, name: str, shape: list[int]) -> Tensor:
        dtype = DTYPES[name]
        self.tensors += 1
        if self.tensors > MAX_TENSORS or len(shape) > 16 or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError
        if _has_many_empty_rows(shape):
            raise ValueError
        length = math.prod(shape) * dtype.itemsize
        piece = self.blob[self.place : self.place + length]
        if len(piece) != length:
            raise ValueError
        self.place += length
        raw = torch.frombuffer(bytearray(piece), dtype=torch.uint8) if piece else torch.empty(0, dtype=torch.uint8)
        return (raw != 0 if dtype is torch.bool else raw.view(dtype)).reshape(shape)
