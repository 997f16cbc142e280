"""Tensors in files of safetensors, whole or in rows over several files: read by name, all of one or some of its rows.

Nothing is read before it is asked for. The rows' places stand in the files as `torch.distributed.checkpoint` writes
them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from glassformer.runs.files import reading

PLACES = "DCP_SHARDING_INFO"
"""The entry of a file that says where its rows stand in the whole tensors: name → {"saved_offsets": [row, 0, …]}."""
AT_ONCE = 2**24
"""Bytes that are written in one go."""


TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class Rows(NamedTuple):
    """Rows of a tensor, from `first` on."""

    tensor: Tensor
    first: int = 0


def write_rows(path: Path, rows: Mapping[str, Rows]) -> str:
    """Write rows of many tensors to one file and return its digest.

    Equal tensors give equal files, whatever their order in `rows`: wide numbers first, then by name. The writers of
    `safetensors` and of torch are not used: they first copy each tensor into a Python object, for which other threads
    wait, and a training run that continues meanwhile stalls for seconds.
    """
    rows = dict(sorted(rows.items(), key=lambda item: (-item[1].tensor.element_size(), item[0])))
    header: dict[str, Any] = {}
    end = 0
    for name, (tensor, _) in rows.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    places = {
        name: {"saved_offsets": [first, *[0] * tensor.dim()][: tensor.dim()]} for name, (tensor, first) in rows.items()
    }
    header["__metadata__"] = {PLACES: json.dumps(places)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        start = memoryview(len(text).to_bytes(8, "little") + text)
        for piece in (start, *(_bytes(tensor) for tensor, _ in rows.values())):
            for first in range(0, len(piece), AT_ONCE):
                some = piece[first : first + AT_ONCE]
                digest.update(some)
                while some:
                    some = some[file.write(some) :]
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
    """Tensors by name."""

    def __init__(self, pieces: Mapping[str, Sequence[_Piece]]) -> None:
        self._pieces = pieces

    @staticmethod
    def of_files(files: Sequence[Path], start: str = "") -> "StoredTensors":
        """What files hold under names that begin with `start`, which is left away."""
        pieces: dict[str, list[_Piece]] = {}
        for path in files:
            with _opened(path) as file:
                places: dict[str, Any] = json.loads((file.metadata() or {}).get(PLACES, "{}"))
                for key in file.keys():  # noqa: SIM118
                    if key.startswith(start):
                        offsets = places.get(key, {}).get("saved_offsets") or [0]
                        shape = tuple(file.get_slice(key).get_shape())
                        pieces.setdefault(key.removeprefix(start), []).append(_Piece(path, key, offsets[0], shape))
        return StoredTensors({name: sorted(some, key=lambda piece: piece.first) for name, some in pieces.items()})

    def shape(self, name: str) -> tuple[int, ...]:
        last = self._pieces[name][-1]
        return (last.first + last.shape[0], *last.shape[1:]) if last.shape else ()

    def __getitem__(self, name: str) -> Tensor:
        if not self._pieces[name][0].shape:
            return _read(self._pieces[name][0], slice(None))
        return self.rows(name, slice(0, self.shape(name)[0]))

    def rows(self, name: str, rows: slice) -> Tensor:
        """Some rows of a tensor."""
        found = []
        for piece in self._pieces[name]:
            first, last = max(rows.start, piece.first), min(rows.stop, piece.first + piece.shape[0])
            if first < last or (first == last and len(self._pieces[name]) == 1):
                found.append(_read(piece, slice(first - piece.first, last - piece.first)))
        if not found:
            return _read(self._pieces[name][0], slice(0, 0))
        return found[0] if len(found) == 1 else torch.cat(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def _opened(path: Path) -> Any:
    with reading(path):
        return safe_open(path, framework="pt")


def _read(piece: _Piece, rows: slice) -> Tensor:
    with _opened(piece.file) as file:
        if not piece.shape:
            return file.get_tensor(piece.key)
        return file.get_slice(piece.key)[rows]
