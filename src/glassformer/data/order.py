"""Which texts or pairs make up batch k: a function of the seed and k alone, so that resuming needs no state."""

import bisect
import itertools
import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError

Numbers = NDArray[np.uint64]

ROUNDS = 8
"""Rounds of the Feistel network. Four look random for large sizes; small ones, of a few bits, need more."""


def mix(values: Numbers, key: Numbers) -> Numbers:
    """Scramble each value with a key: the finaliser of SplitMix64, so that every input bit sways every output bit."""
    x = values + (key + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Numbers = x ^ (x >> np.uint64(31))
    return out


def number(value: int) -> Numbers:
    """A whole number of any size as an array of one: numpy's arrays wrap around quietly, its scalars warn."""
    return np.array([value % 2**64], dtype=np.uint64)


def permute(positions: Numbers, size: int, key: Numbers) -> Numbers:
    """Where each position goes in a pseudo-random permutation of 0 … size − 1; the key says which permutation.

    No table is held, so that a billion positions cost nothing. A Feistel network permutes all numbers of as many bits
    as size needs; a number that comes out too large goes through again until it is small enough (cycle walking), which
    makes it a permutation of 0 … size − 1.
    """
    bits = (size - 1).bit_length()
    key = np.broadcast_to(key, positions.shape)
    out = _feistel(positions, bits, key)
    while (outside := out >= size).any():
        out[outside] = _feistel(out[outside], bits, key[outside])
    return out


def _feistel(values: Numbers, bits: int, key: Numbers) -> Numbers:
    """Two halves (of unequal width where bits is odd); each round changes one by a scrambled copy of the other."""
    low_bits = np.uint64(bits // 2)
    low_mask = np.uint64(2 ** (bits // 2) - 1)
    high_mask = np.uint64(2 ** (bits - bits // 2) - 1)
    high, low = values >> low_bits, values & low_mask
    for turn in range(0, ROUNDS, 2):
        high = high ^ (mix(low, key + np.uint64(turn)) & high_mask)
        low = low ^ (mix(high, key + np.uint64(turn + 1)) & low_mask)
    return (high << low_bits) | low


Rows = NDArray[np.int64]
"""The numbers of texts or pairs."""


TOKENS_AT_ONCE = 2**14
"""Tokens in a batch of which nothing is learned, padding among them."""

CPU_TOKENS_AT_ONCE = 2**11
"""The same where a CPU only answers: what a layer makes of so many stays in its cache, which halves the time."""

_DRAWN = 5
"""The key of the permutation by which a sample is drawn."""

SORTED_TOGETHER = 64
"""Batches whose texts are sorted by length together: enough for little padding, few enough that chance still rules."""


def drawn_rows(size: int, count: int) -> Rows:
    """So many of 0 … size − 1, drawn at random, in their order; always the same, and fewer are among more."""
    if count >= size:
        return np.arange(size)
    return np.sort(permute(np.arange(count, dtype=np.uint64), size, number(_DRAWN)).astype(np.int64))


class EpochOrder(ABC):
    """Rows in random order, epoch after epoch, those of like length together; each once an epoch.

    The rows of an epoch are shuffled, sorted by length within stretches of a few dozen batches, cut into batches, and
    these are shuffled again.
    """

    def __init__(self, size: int, stretch: int, seed: Numbers) -> None:
        self._size = size
        self._stretch = stretch
        """Rows that are sorted together."""
        self._seed = seed
        self._epoch, self._batches = -1, list[Rows]()

    @abstractmethod
    def rows(self, step: int) -> Rows:
        """The rows of one batch."""

    @abstractmethod
    def _cut(self, some: Rows) -> list[Rows]:
        """A stretch, sorted and cut into batches."""

    def _batches_of(self, epoch: int) -> list[Rows]:
        """All batches of an epoch; the last one that was asked for is kept."""
        if epoch != self._epoch:
            key = mix(number(epoch), self._seed)
            shuffled = _shuffle(self._size, key)
            firsts = range(0, self._size, self._stretch)
            batches = [batch for first in firsts for batch in self._cut(shuffled[first : first + self._stretch])]
            self._batches = [batches[place] for place in _shuffle(len(batches), mix(key, number(1)))]
            self._epoch = epoch
        return self._batches


class LengthOrder(EpochOrder):
    """Texts, so many a batch. One batch of an epoch may be smaller than the others."""

    def __init__(self, lengths: NDArray[np.int64], batch_size: int, seed: int) -> None:
        super().__init__(len(lengths), SORTED_TOGETHER * batch_size, mix(number(seed), number(2)))
        self._lengths = lengths
        self._batch_size = batch_size
        self.steps_per_epoch = math.ceil(len(lengths) / batch_size)

    def rows(self, step: int) -> Rows:
        epoch, place = divmod(step, self.steps_per_epoch)
        return self._batches_of(epoch)[place]

    def _cut(self, some: Rows) -> list[Rows]:
        some = some[np.argsort(self._lengths[some], kind="stable")]
        return [some[at : at + self._batch_size] for at in range(0, len(some), self._batch_size)]


class TokenOrder(EpochOrder):
    """Pairs of texts, as many a batch as make `batch_tokens` tokens, padding among them.

    A pair that is longer is a batch of its own. Epochs may differ by some batches.
    """

    def __init__(self, sources: NDArray[np.int64], targets: NDArray[np.int64], batch_tokens: int, seed: int) -> None:
        if not len(sources):
            raise DataError("the training part has no pair to learn from")
        stretch = math.ceil(SORTED_TOGETHER * batch_tokens / max(1.0, float((sources + targets).mean())))
        super().__init__(len(sources), stretch, mix(number(seed), number(3)))
        self._sources = sources
        self._targets = targets
        self._batch_tokens = batch_tokens
        self.steps_per_epoch = len(self._batches_of(0))
        """Steps of the first epoch."""
        self._ends = [self.steps_per_epoch]
        """The step after the last one of each epoch, as far as they were asked for."""

    def rows(self, step: int) -> Rows:
        while step >= self._ends[-1]:
            self._ends.append(self._ends[-1] + len(self._batches_of(len(self._ends))))
        epoch = bisect.bisect_right(self._ends, step)
        return self._batches_of(epoch)[step - (self._ends[epoch - 1] if epoch else 0)]

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


def _shuffle(size: int, key: Numbers) -> Rows:
    return permute(np.arange(size, dtype=np.uint64), size, key).astype(np.int64)
