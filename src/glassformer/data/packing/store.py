"""Token ids of a part in files that are mapped into memory and cached.

A small text is one file. A large one is divided into shards, so that packing continues after the last complete shard if
it was interrupted.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glassformer.config.errors import GlassformerError
from glassformer.config.messages import say
from glassformer.config.parts import sweep, sweep_claims
from glassformer.data.cache import cache_folders, why_unwritable
from glassformer.data.io import source
from glassformer.data.packing.packer import Packing, claim_name, find_shard, shard_count
from glassformer.data.split.base import digest
from glassformer.data.split.documents import TextPart
from glassformer.text.tokenizer import Tokenizer

COUNTED_TOKENS = 2**22
"""Tokens that are counted at once."""


class Shards:
    """Ids in several files, indexed as one array by an id, a slice or an array of ids.

    A slice within one file is a view of it; only the requested ids are read.
    """

    ndim = 1

    def __init__(self, files: Sequence[NDArray[Any]]) -> None:
        self._files = tuple(files)
        self._ends = np.cumsum([len(file) for file in files])
        self.dtype = files[0].dtype
        self.shape = (int(self._ends[-1]),)

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def __getitem__(self, places: int | np.integer[Any]) -> int: ...
    @overload
    def __getitem__(self, places: slice | NDArray[np.integer[Any]]) -> NDArray[Any]: ...
    def __getitem__(self, places: int | np.integer[Any] | slice | NDArray[np.integer[Any]]) -> int | NDArray[Any]:
        if not isinstance(places, slice):
            found = self._at(np.asarray(places))
            return found if found.ndim else int(found)
        first, stop, step = places.indices(len(self))
        return self._stretch(first, stop) if step == 1 else self._at(np.arange(first, stop, step))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all ids as one array in memory."""
        if copy is False:
            raise ValueError("ids that lie in several files are copied to become one array")
        return np.concatenate(self._files, dtype=dtype or self.dtype, casting="unsafe")

    def _stretch(self, first: int, stop: int) -> NDArray[Any]:
        pieces = []
        number = int(np.searchsorted(self._ends, first, side="right"))
        while first < stop and number < len(self._files):
            file, end = self._files[number], int(self._ends[number])
            start = end - len(file)
            pieces.append(file[first - start : stop - start])
            first, number = end, number + 1
        if not pieces:
            return np.empty(0, self.dtype)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _at(self, places: NDArray[Any]) -> NDArray[Any]:
        """Return the ids at these positions, in their shape; negative positions count from the end."""
        if places.dtype.kind not in "iu":
            raise IndexError(f"places in a text are whole numbers, not {places.dtype}")
        places = np.where(places < 0, places + len(self), places)
        if places.size and not 0 <= places.min() <= places.max() < len(self):
            raise IndexError(f"there are {len(self):,} ids, and places {places.min():,} to {places.max():,} are asked")
        of = np.searchsorted(self._ends, places, side="right")
        found = np.empty(places.shape, self.dtype)
        for number in np.unique(of).tolist():
            here = of == number
            found[here] = self._files[number][places[here] - (int(self._ends[number]) - len(self._files[number]))]
        return found


Ids = NDArray[np.uint16] | NDArray[np.uint32] | Shards


def how_often(ids: Ids, size: int) -> NDArray[np.int64]:
    """Return the number of occurrences of each of `size` tokens."""
    counts = np.zeros(size, np.int64)
    for first in range(0, len(ids), COUNTED_TOKENS):
        counts += np.bincount(ids[first : first + COUNTED_TOKENS].astype(np.int64), minlength=size)
    return counts


FORMAT = 3
"""Version of the cached format; other versions are not read."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A part as the model reads it: all documents, each as START … END."""

    ids: Ids
    """Mapped from disk; only the requested ids are read."""
    bytes: int
    """Bytes of the text as UTF-8, without START and END; the divisor of bits per byte."""
    characters: int
    documents: int
    unknown: int
    """Number of UNK tokens."""

    def __len__(self) -> int:
        return len(self.ids)


def pack(part: TextPart, tokenizer: Tokenizer) -> Tokens:
    """Return the tokens of a part from the cache, or pack them and add them to the cache."""
    roles = f"{tokenizer.start} {tokenizer.end} {tokenizer.unk}"  # equal tokens may have other roles
    borders = f"{source.CHUNK} {shard_count(part)}"  # a shard ends with a chunk
    key = digest(f"{FORMAT} {part.fingerprint} {tokenizer.hash} {roles} {borders}")[:32]
    folders = [folder / "tokens" for folder in cache_folders()]
    for folder in folders:
        sweep_claims(folder, claim_name(key, "*"))
    if (tokens := _load(part, folders, key)) is not None:
        return tokens
    reasons = {folder: why for folder in folders if (why := why_unwritable(folder))}
    writable = [folder for folder in folders if folder not in reasons]
    where = [f"cannot write to the cache {folder} ({why})" for folder, why in reasons.items()]
    if not writable:
        lacking = "; ".join(where) or "there is no home folder for a cache"
        say(f"{lacking}: tokens go to a temporary folder, this time only")
        # The mapped files stay readable after their names are gone, so nothing is left behind.
        with tempfile.TemporaryDirectory(prefix="glassformer-") as temporary:
            return _build(part, tokenizer, [Path(temporary)], key)
    for line in where:
        say(f"{line}: tokens go to the other folders")
    for folder in writable:
        sweep(folder)
    return _build(part, tokenizer, writable, key)


def _load(part: TextPart, folders: Sequence[Path], key: str) -> Tokens | None:
    """Return the packed tokens of a part; None if a shard is missing or damaged.

    The checksum of a single file is compared each time. With many shards, this would read the whole corpus at every
    start. The checksum of a shard is therefore compared only if its modification time has changed.
    """
    count, files, unknown = shard_count(part), list[NDArray[Any]](), 0
    for number in range(count):
        shard = find_shard(folders, key, number, compare=count == 1)
        if shard is None:
            return None
        unknown += shard[0].unknown
        files.append(shard[1])
    ids = files[0] if count == 1 else Shards(files)
    return Tokens(ids, part.bytes, part.characters, part.documents, unknown)


def _build(part: TextPart, tokenizer: Tokenizer, folders: Sequence[Path], key: str) -> Tokens:
    where = ", ".join(map(str, folders))
    try:
        Packing(part, tokenizer, folders, key).run()
    except OSError as error:
        raise GlassformerError(f"cannot keep the tokens of the {part.name} part in {where}: {error.strerror}") from None
    tokens = _load(part, folders, key)
    if tokens is None:
        raise GlassformerError(f"the tokens just written to {where} cannot be read back: is the disk sound?")
    return tokens
