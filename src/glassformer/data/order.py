"""Which texts or pairs make up batch k: a function of the seed and k alone, so that resuming needs no state."""

import bisect
import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.data.mixing import Numbers, mix, number, permute

Rows = NDArray[np.int64]
"""The numbers of texts or pairs."""


TOKENS_AT_ONCE = 2**14
"""Tokens in a batch of which nothing is learned, padding among them."""

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
        self._epoch, self._batches = -1, list[Rows]()

    def rows(self, step: int) -> Rows:
        """The texts of one batch."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._of_epoch(epoch)
        return self._batches[place]

    def _of_epoch(self, epoch: int) -> list[Rows]:
        stretch = SORTED_TOGETHER * self._batch_size
        return _in_batches(len(self._lengths), mix(number(epoch), self._seed), stretch, self._cut)

    def _cut(self, some: Rows) -> list[Rows]:
        some = some[np.argsort(self._lengths[some], kind="stable")]
        return [some[at : at + self._batch_size] for at in range(0, len(some), self._batch_size)]


class TokenOrder:
    """Pairs of texts in random order, epoch after epoch, those of like lengths together; each once an epoch.

    A batch has as many pairs as make `batch_tokens` tokens, padding among them; a pair that is longer is a batch of its
    own. The pairs of an epoch are shuffled, sorted by length within stretches of a few dozen batches, cut into batches,
    and these are shuffled again. Epochs may differ by some batches.
    """

    def __init__(self, sources: NDArray[np.int64], targets: NDArray[np.int64], batch_tokens: int, seed: int) -> None:
        if not len(sources):
            raise DataError("the training part has no pair to learn from")
        self._sources = sources
        self._targets = targets
        self._batch_tokens = batch_tokens
        self._stretch = math.ceil(SORTED_TOGETHER * batch_tokens / max(1.0, float((sources + targets).mean())))
        self._seed = mix(number(seed), number(3))
        self._epoch, self._batches = 0, self._of_epoch(0)
        self._ends = [len(self._batches)]
        """The step after the last one of each epoch, as far as they were asked for."""
        self.steps_per_epoch = len(self._batches)
        """Steps of the first epoch."""

    def rows(self, step: int) -> Rows:
        """The pairs of one batch."""
        while step >= self._ends[-1]:
            self._begin(len(self._ends))
            self._ends.append(self._ends[-1] + len(self._batches))
        epoch = bisect.bisect_right(self._ends, step)
        self._begin(epoch)
        return self._batches[step - (self._ends[epoch - 1] if epoch else 0)]

    def _begin(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._of_epoch(epoch)

    def _of_epoch(self, epoch: int) -> list[Rows]:
        return _in_batches(len(self._sources), mix(number(epoch), self._seed), self._stretch, self._cut)

    def _cut(self, some: Rows) -> list[Rows]:
        some = some[by_lengths(self._sources[some], self._targets[some])]
        borders = token_borders(self._batch_tokens, self._sources[some], self._targets[some])
        return [some[start:stop] for start, stop in itertools.pairwise(borders)]


def by_lengths(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> Rows:
    """Pairs by their target's length, and by their source's, which rises and falls by turns: neighbours are alike."""
    return np.lexsort((np.where(targets % 2, sources, -sources), targets))


def token_borders(most: int, sources: NDArray[np.int64], targets: NDArray[np.int64] | None = None) -> list[int]:
    """Where to cut examples, in their order, so that no stretch, padded, holds more than so many tokens (or just one).

    `sources`: the lengths of their texts; `targets`: of the second ones, where they are pairs.
    """
    targets = np.zeros_like(sources) if targets is None else targets
    borders = [0]
    longest_source = longest_target = 0
    for place, (source, target) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        if (place + 1 - borders[-1]) * (longest_source + longest_target) > most and place > borders[-1]:
            borders.append(place)
            longest_source, longest_target = source, target
    return [*borders, len(sources)] if len(sources) else borders


def _in_batches(size: int, key: Numbers, stretch: int, cut: Callable[[Rows], list[Rows]]) -> list[Rows]:
    """One epoch: rows are shuffled, each stretch of so many is sorted and cut, and the batches are shuffled again."""
    shuffled = _shuffled(size, key)
    batches = [batch for first in range(0, size, stretch) for batch in cut(shuffled[first : first + stretch])]
    return [batches[place] for place in _shuffled(len(batches), mix(key, number(1)))]


def _shuffled(size: int, key: Numbers) -> Rows:
    return permute(np.arange(size, dtype=np.uint64), size, key).astype(np.int64)
