"""Token ids that lie in several mapped files, read as if they were one array."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

AT_ONCE = 2**22
"""Tokens that are counted in one go."""


class Shards:
    """What is asked of an array of ids: its length, an id, a stretch, ids at any places, where a token stands.

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

    def __iter__(self) -> Iterator[int]:
        for file in self._files:
            for first in range(0, len(file), AT_ONCE):
                yield from file[first : first + AT_ONCE].tolist()

    def __eq__(self, token: object) -> NDArray[np.bool_]:  # type: ignore[override]
        """Where a token stands: a truth for each id, as of an array."""
        return np.concatenate([np.asarray(file == token) for file in self._files])

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """All of it in memory."""
        if copy is False:
            raise ValueError("ids that lie in several files are copied to become one array")
        return np.concatenate(self._files, dtype=dtype or self.dtype, casting="unsafe")

    def tolist(self) -> list[int]:
        return list(self)

    def _stretch(self, first: int, stop: int) -> NDArray[Any]:
        pieces = []
        for file, end in zip(self._files, self._ends.tolist(), strict=True):
            start = end - len(file)
            if start < stop and first < end:
                pieces.append(file[max(first - start, 0) : stop - start])
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
