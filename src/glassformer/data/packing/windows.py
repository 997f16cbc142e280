"""Packed tokens as a language model reads them: windows in random order, their documents, and what each one teaches."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import DataError
from glassformer.data.mixing import mix, number, permute


class WindowOrder:
    """Windows of context + 1 tokens in random order, epoch after epoch.

    A window's inputs are its first `context` tokens, its targets the last `context`: neighbours share one token, so
    that each token is predicted once. Every epoch has its own order and lays its windows out from its own first token,
    so that no token always stands at a window's beginning. What lies before the first window and after the last one is
    left out of that epoch; the number of windows is the same in each.
    """

    def __init__(self, length: int, context: int, batch_size: int, seed: int) -> None:
        if length < context + 1:
            raise DataError(
                f"context {context} needs at least {context + 1} tokens, but the training part has {length}: "
                "lower --model.context"
            )
        self.context = context
        self.batch_size = batch_size
        self.windows = max(1, (length - context) // context)
        """Windows in an epoch: as many as fit wherever in the first `context` tokens they begin."""
        self._shifts = length - self.windows * context
        """Tokens at which an epoch's first window may begin."""
        self._seed = mix(number(seed), number(0))

    @property
    def steps_per_epoch(self) -> float:
        return self.windows / self.batch_size

    def starts(self, step: int) -> NDArray[np.int64]:
        """The first tokens of the windows of one batch; a batch may end one epoch and begin the next."""
        places = np.arange(self.batch_size, dtype=np.int64) + step * self.batch_size
        epoch, place = np.divmod(places, self.windows)
        key = mix(epoch.astype(np.uint64), self._seed)
        window = permute(place.astype(np.uint64), self.windows, key).astype(np.int64)
        shift = (mix(key, number(1)) % np.uint64(self._shifts)).astype(np.int64)
        return shift + window * self.context


def segments_of(ids: Int[Tensor, "B T"], start: int | None, end: int | None) -> Int[Tensor, "B T"]:
    """The document of each token, from 0 on: START begins a document, or where there is none, what follows END.

    A window that begins in the middle of a document has the rest of it as its first.
    """
    begins = torch.zeros_like(ids)
    if start is not None:
        begins = (ids == start).long()
    elif end is not None:
        begins[:, 1:] = (ids[:, :-1] == end).long()
    return begins.cumsum(1)


def training_pairs(pieces: Sequence[str], between: str = "") -> list[tuple[str, str]]:
    """One sentence as its training pairs: each prefix, and the piece that comes next.

    Byte pairs bring their own spaces, words need one `between` them. With START and END among the pieces, the first and
    the last pair say how a text begins and that it ends.

    >>> training_pairs(["the", " cat", " sat"])
    [('the', ' cat'), ('the cat', ' sat')]
    """
    return [(between.join(pieces[:end]), pieces[end]) for end in range(1, len(pieces))]
