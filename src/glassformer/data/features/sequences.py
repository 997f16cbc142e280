"""Token ids of many texts, end to end, and some of them side by side with padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sequences:
    """The ids of text i are ids[starts[i] : starts[i + 1]]."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    pad: int

    @classmethod
    def concatenate(cls, texts: Sequence[NDArray[np.int32]], pad: int) -> Self:
        """The ids of all texts, from those of each."""
        ids = np.concatenate([np.empty(0, np.int32), *texts])
        return cls(ids, np.cumsum([0, *map(len, texts)], dtype=np.int64), pad)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def of(self, row: int) -> list[int]:
        """The tokens of one text."""
        ids: list[int] = self.ids[self.starts[row] : self.starts[row + 1]].tolist()
        return ids

    def count(self, token: int | None) -> int:
        """How often one token stands in the texts; None, which stands for no token, never does."""
        return 0 if token is None else int((self.ids == token).sum())

    def padded(self, rows: NDArray[np.int64]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """The tokens of these texts, padded to the longest of them, and which of them are real."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        places = np.arange(max(1, int(lengths.max(initial=0))))
        mask = places < lengths[:, None]
        at = np.minimum(starts[:, None] + places, max(0, len(self.ids) - 1))
        tokens = self.ids[at] if len(self.ids) else np.zeros(mask.shape, np.int32)
        return torch.from_numpy(np.where(mask, tokens, self.pad).astype(np.int64)), torch.from_numpy(mask)

    @staticmethod
    def trim(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Some rows of what `padded` gave, without padding that none of them needs."""
        longest = max(1, int(mask.sum(1).max()))
        return ids[:, :longest], mask[:, :longest]
