"""Which windows or texts make up batch k: a function of the seed and k alone, so that resuming needs no state."""

import math

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.data.mixing import Numbers, mix, number, permuted


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
        window = permuted(place.astype(np.uint64), self.windows, key).astype(np.int64)
        shift = (mix(key, number(1)) % np.uint64(self._shifts)).astype(np.int64)
        return shift + window * self.context


SORTED_TOGETHER = 64
"""Batches whose texts are sorted by length together: enough for little padding, few enough that chance still rules."""


class LengthOrder:
    """Texts in random order, epoch after epoch, those of like length together; each once an epoch.

    The texts of an epoch are shuffled, sorted by length within stretches of a few dozen batches, cut into batches, and
    these are shuffled again. One batch of an epoch may be smaller than the others.
    """

    def __init__(self, lengths: NDArray[np.int64], batch_size: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = mix(number(seed), number(2))
        self.steps_per_epoch = math.ceil(len(lengths) / batch_size)
        self._epoch, self._batches = -1, list[NDArray[np.int64]]()

    def rows(self, step: int) -> NDArray[np.int64]:
        """The texts of one batch."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._of_epoch(epoch)
        return self._batches[place]

    def _of_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        key = mix(number(epoch), self._seed)
        shuffled = _shuffled(len(self._lengths), key)
        stretch = SORTED_TOGETHER * self._batch_size
        batches = []
        for first in range(0, len(shuffled), stretch):
            some = shuffled[first : first + stretch]
            some = some[np.argsort(self._lengths[some], kind="stable")]
            batches += [some[at : at + self._batch_size] for at in range(0, len(some), self._batch_size)]
        return [batches[place] for place in _shuffled(len(batches), mix(key, number(1)))]


def _shuffled(size: int, key: Numbers) -> NDArray[np.int64]:
    return permuted(np.arange(size, dtype=np.uint64), size, key).astype(np.int64)
