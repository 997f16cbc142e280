"""Tensors in safetensors files, whole or divided by rows among several files.

A tensor or some of its rows are read when accessed. The files state the offsets of their rows in the format of
`torch.distributed.checkpoint`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from glassformer.config.json_types import JsonObject
from glassformer.runs.files import reading

OFFSETS = "DCP_SHARDING_INFO"
"""Metadata entry with the offsets of a file's rows in whole tensors: name → {"saved_offsets": [row, 0, …]}."""
CHUNK_BYTES = 2**24
"""Maximum number of bytes per write."""


DTYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class Rows(NamedTuple):
    """Consecutive rows of a tensor, starting at row `first`."""

    tensor: Tensor
    first: int = 0


def write_rows(path: Path, rows: Mapping[str, Rows]) -> str:
    """Write rows of many tensors to one file and return its digest.

    Equal tensors give equal files, whatever their order in `rows`: they are sorted by the width of their numbers, the
    widest first, then by name. The writers of `safetensors` and of torch are not used, because they copy each tensor
    into a Python object first. Other threads wait for that, so training that continues meanwhile would stall for
    seconds.
    """
    rows = dict(sorted(rows.items(), key=lambda item: (-item[1].tensor.element_size(), item[0])))
    header: dict[str, object] = {}
    end = 0
    for name, (tensor, _) in rows.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    places = {
        name: {"saved_offsets": [first, *[0] * tensor.dim()][: tensor.dim()]} for name, (tensor, first) in rows.items()
    }
    header["__metadata__"] = {OFFSETS: json.dumps(places)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        start = memoryview(len(text).to_bytes(8, "little") + text)
        for piece in (start, *(_bytes(tensor) for tensor, _ in rows.values())):
            for first in range(0, len(piece), CHUNK_BYTES):
                chunk = piece[first : first + CHUNK_BYTES]
                digest.update(chunk)
                while chunk:
                    chunk = chunk[file.write(chunk) :]
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data


@dataclass(frozen=True)
class _Piece:
    """Rows of a tensor in a file."""

    file: Path
    key: str
    first: int
    shape: tuple[int, ...]


class StoredTensors(Mapping[str, Tensor]):
    """Tensors in files by name."""

    def __init__(self, pieces: Mapping[str, Sequence[_Piece]]) -> None:
        self._pieces = pieces

    @staticmethod
    def of_files(files: Sequence[Path], prefix: str = "") -> "StoredTensors":
        """Return the tensors whose names begin with `prefix`, without the prefix."""
        pieces: dict[str, list[_Piece]] = {}
        for path in files:
            with _opened(path) as file:
                places: JsonObject = json.loads((file.metadata() or {}).get(OFFSETS, "{}"))
                for key in file.keys():  # noqa: SIM118
                    if key.startswith(prefix):
                        offsets = places.get(key, {}).get("saved_offsets") or [0]
                        shape = tuple(file.get_slice(key).get_shape())
                        pieces.setdefault(key.removeprefix(prefix), []).append(_Piece(path, key, offsets[0], shape))
        return StoredTensors({name: sorted(rows, key=lambda piece: piece.first) for name, rows in pieces.items()})

    def shape(self, name: str) -> tuple[int, ...]:
        last = self._pieces[name][-1]
        return (last.first + last.shape[0], *last.shape[1:]) if last.shape else ()

    def __getitem__(self, name: str) -> Tensor:
        if not self._pieces[name][0].shape:
            return _read(self._pieces[name][0], slice(None))
        return self.rows(name, slice(0, self.shape(name)[0]))

    def rows(self, name: str, rows: slice) -> Tensor:
        """Read some rows of a tensor."""
        parts = []
        for piece in self._pieces[name]:
            first, last = max(rows.start, piece.first), min(rows.stop, piece.first + piece.shape[0])
            if first < last or (first == last and len(self._pieces[name]) == 1):
                parts.append(_read(piece, slice(first - piece.first, last - piece.first)))
        if not parts:
            return _read(self._pieces[name][0], slice(0, 0))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def _opened(path: Path) -> safe_open:
    with reading(path):
        return safe_open(path, framework="pt")


def _read(piece: _Piece, rows: slice) -> Tensor:
    with _opened(piece.file) as file:
        if not piece.shape:
            return file.get_tensor(piece.key)
        return file.get_slice(piece.key)[rows]
