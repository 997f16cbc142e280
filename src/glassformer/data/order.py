"""Which windows of the text make up batch k: a function of the seed and k alone, so that resuming needs no state."""

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.data.mixing import mix, number, permuted


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
