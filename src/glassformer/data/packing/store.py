"""Text → token ids, once: packed into files that are mapped into memory, and kept for the next time.

A small text is one file. A large one is cut into shards, each whole on the disk as soon as it is full, so that a
packing that was stopped goes on after the last of them.
"""

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glassformer.config.errors import GlassformerError, Say
from glassformer.config.parts import sweep, sweep_claims
from glassformer.data.cache import cache_folders, free_bytes, why_unwritable
from glassformer.data.io import source
from glassformer.data.packing.packer import Packing, PartEntry, claim_name, map_ids, path_of, read_entry, write_entry
from glassformer.data.split.base import digest
from glassformer.data.split.documents import Part
from glassformer.text.tokenizer import Tokenizer

AT_ONCE = 2**22
"""Tokens that are counted in one go."""


class Shards:
    """Ids in several files as one array: its length, an id, a stretch, ids at any places.

    A stretch within one file is a view of it, and only what is looked at is read.
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
        """All of it in memory."""
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
        """The ids at these places, in their shape; a negative one counts from the end."""
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
    """How often each of so many tokens stands there."""
    counts = np.zeros(size, np.int64)
    for first in range(0, len(ids), AT_ONCE):
        counts += np.bincount(ids[first : first + AT_ONCE].astype(np.int64), minlength=size)
    return counts


FORMAT = 2
"""The format of the files below; a new one makes the old ones be built again."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A part as the model reads it: every document as START … END, one after the other."""

    ids: Ids
    """Mapped from disk: only what is looked at is read."""
    bytes: int
    """Bytes of the text as UTF-8, START and END not counted: what bits per byte divide by."""
    characters: int
    documents: int
    unknown: int
    """How many ids are UNK."""

    def __len__(self) -> int:
        return len(self.ids)


def pack(part: Part, tokenizer: Tokenizer, say: Say = print) -> Tokens:
    """The tokens of a part: from the cache if they are there and whole, else made now and put there."""
    roles = f"{tokenizer.start} {tokenizer.end} {tokenizer.unk}"  # the same tokens may have other uses
    # the size of chunks: where a shard ends is told by counting them
    key = digest(f"{FORMAT} {part.fingerprint} {tokenizer.hash} {roles} {source.CHUNK}")[:32]
    folders = [folder / "tokens" for folder in cache_folders()]
    for folder in folders:
        sweep_claims(folder, claim_name(key, "*"))
    if (tokens := _load(folders, key, say)) is not None:
        return tokens
    reasons = {folder: why for folder in folders if (why := why_unwritable(folder))}
    writable = [folder for folder in folders if folder not in reasons]
    where = [f"cannot write to the cache {folder} ({why})" for folder, why in reasons.items()]
    if not writable:
        lacking = "; ".join(where) or "there is no home folder for a cache"
        say(f"{lacking}: tokens go to a temporary folder, this time only")
        # The mapped files stay readable after their names are gone, so nothing is left behind.
        with tempfile.TemporaryDirectory(prefix="glassformer-") as temporary:
            return _build(part, tokenizer, [Path(temporary)], key, say)
    for line in where:
        say(f"{line}: tokens go to the other folders")
    for folder in writable:
        sweep(folder)
    return _build(part, tokenizer, writable, key, say)


def _load(folders: Sequence[Path], key: str, say: Say) -> Tokens | None:
    """Nothing, if a file is missing, of another size, or damaged.

    The checksum of a single file is compared each time. Of many that would read the whole corpus at every start, and
    a sound disk reports what it cannot read: so the checksum of a shard is compared only when the file is not the one
    that was written or compared before, told by the time of its last change.
    """
    lacking = ""
    for at in folders:
        entry = read_entry(PartEntry, at / f"{key}.json", key)
        if entry is None:
            continue
        files, changed, count = [], [], len(entry.tokens)
        for number in range(count):
            shard = next(filter(None, (_map_shard(folder, entry, number) for folder in folders)), None)
            if shard is None:
                lacking = f"shard {number + 1:,} of {count:,}" if count > 1 else ""
                break
            files.append(shard[0])
            changed.append(shard[1])
        else:
            if count > 1 and changed != entry.changed:
                with contextlib.suppress(OSError):  # compared again the next time
                    write_entry(replace(entry, changed=changed), at / f"{key}.json")
            ids = files[0] if count == 1 else Shards(files)
            return Tokens(ids, entry.bytes, entry.characters, entry.documents, entry.unknown)
    if lacking:
        where = " or ".join(map(str, folders))
        say(f"packed tokens are missing or damaged in {where}: {lacking} is made again")
    return None


def _map_shard(folder: Path, entry: PartEntry, number: int) -> tuple[NDArray[Any], int] | None:
    """The ids of one file of a part, if it lies whole in this folder, and when that was last changed."""
    many = len(entry.tokens) > 1
    path = path_of(folder, entry.key, number if many else None)
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return None
    known = many and changed == entry.changed[number]
    ids = map_ids(path, entry.dtype, entry.tokens[number], None if known else entry.checksums[number])
    return None if ids is None else (ids, changed)


def _build(part: Part, tokenizer: Tokenizer, folders: Sequence[Path], key: str, say: Say) -> Tokens:
    """Aside first, then renamed: a file under its own name is whole, and the entry that vouches for it comes last."""
    where = ", ".join(map(str, folders))
    try:
        packing = Packing(part, tokenizer, folders, key, say)
        shards = packing.run()
        entry = PartEntry(
            key,
            shards[0].dtype,
            [shard.tokens for shard in shards],
            [shard.checksum for shard in shards],
            [packing.paths[shard.number].stat().st_mtime_ns for shard in shards],
            part.bytes,
            part.characters,
            part.documents,
            sum(shard.unknown for shard in shards),
        )
        write_entry(entry, max(folders, key=free_bytes) / f"{key}.json")
    except OSError as error:
        raise GlassformerError(f"cannot keep the tokens of the {part.name} part in {where}: {error.strerror}") from None
    tokens = _load(folders, key, say)
    if tokens is None:
        raise GlassformerError(f"the tokens just written to {where} cannot be read back: is the disk sound?")
    return tokens
