"""The texts or pairs of batch k: a function of the seed and k alone, so that resuming needs no state."""

import bisect
import itertools
import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError

UInts = NDArray[np.uint64]
Ints = NDArray[np.int64]

ROUNDS = 8
"""Rounds of the Feistel network. Four look random for large sizes; sizes of a few bits need more."""


def mix(values: UInts, key: UInts) -> UInts:
    """Scramble each value with a key by the finaliser of SplitMix64: every input bit affects every output bit."""
    x = values + (key + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: UInts = x ^ (x >> np.uint64(31))
    return out


def number(value: int) -> UInts:
    """Return a whole number of any size as an array of one: numpy's arrays wrap around silently, its scalars warn."""
    return np.array([value % 2**64], dtype=np.uint64)


def permute(positions: UInts, size: int, key: UInts) -> UInts:
    """Map each position by a pseudo-random permutation of 0 … size − 1, which the key selects.

    No table is stored, so a billion positions need no memory. A Feistel network permutes all numbers with the bits of
    `size`; results that are too large are mapped again (cycle walking), which gives a permutation of 0 … size − 1.
    """
    bits = (size - 1).bit_length()
    key = np.broadcast_to(key, positions.shape)
    out = _feistel(positions, bits, key)
    while (outside := out >= size).any():
        out[outside] = _feistel(out[outside], bits, key[outside])
    return out


def _feistel(values: UInts, bits: int, key: UInts) -> UInts:
    """Return values after the rounds of a Feistel network, which permutes all numbers with this many bits.

    Each round changes one half of the bits by a scrambled copy of the other half; the halves differ if `bits` is odd.
    """
    low_bits = np.uint64(bits // 2)
    low_mask = np.uint64(2 ** (bits // 2) - 1)
    high_mask = np.uint64(2 ** (bits - bits // 2) - 1)
    high, low = values >> low_bits, values & low_mask
    for turn in range(0, ROUNDS, 2):
        high = high ^ (mix(low, key + np.uint64(turn)) & high_mask)
        low = low ^ (mix(high, key + np.uint64(turn + 1)) & low_mask)
    return (high << low_bits) | low


TOKENS_AT_ONCE = 2**14
"""Maximum number of tokens in an evaluation batch, with padding."""

CPU_TOKENS_AT_ONCE = 2**11
"""Limit for predictions on a CPU. The outputs of a layer then fit into its cache, which halves the time."""

_DRAWN = 5
"""Key of the permutation for samples."""

SORTED_TOGETHER = 64
"""Number of batches whose texts are sorted by length together: enough for little padding, few enough to stay random."""


def drawn_rows(size: int, count: int) -> Ints:
    """Return a fixed random sample of 0 … size − 1, sorted. A smaller sample is contained in a larger one."""
    if count >= size:
        return np.arange(size)
    return np.sort(permute(np.arange(count, dtype=np.uint64), size, number(_DRAWN)).astype(np.int64))


class EpochOrder(ABC):
    """Random order of rows per epoch, with rows of similar length in one batch; each row occurs once per epoch.

    The rows of an epoch are shuffled, sorted by length within stretches of a few dozen batches and cut into batches.
    The batches are shuffled again.
    """

    def __init__(self, size: int, stretch: int, seed: UInts) -> None:
        self._size = size
        self._stretch = stretch  # rows that are sorted together
        self._seed = seed
        self._epoch, self._batches = -1, list[Ints]()

    @abstractmethod
    def rows(self, step: int) -> Ints:
        """Return the rows of one batch."""

    @abstractmethod
    def _cut(self, some: Ints) -> list[Ints]:
        """Sort a stretch by length and cut it into batches."""

    def _batches_of(self, epoch: int) -> list[Ints]:
        """Return all batches of an epoch; the last epoch is cached."""
        if epoch != self._epoch:
            key = mix(number(epoch), self._seed)
            shuffled = _shuffle(self._size, key)
            firsts = range(0, self._size, self._stretch)
            batches = [batch for first in firsts for batch in self._cut(shuffled[first : first + self._stretch])]
            self._batches = [batches[place] for place in _shuffle(len(batches), mix(key, number(1)))]
            self._epoch = epoch
        return self._batches


class LengthOrder(EpochOrder):
    """Batches of `batch_size` texts. One batch per epoch may be smaller."""

    def __init__(self, lengths: Ints, batch_size: int, seed: int) -> None:
        super().__init__(len(lengths), SORTED_TOGETHER * batch_size, mix(number(seed), number(2)))
        self._lengths = lengths
        self._batch_size = batch_size
        self.steps_per_epoch = math.ceil(len(lengths) / batch_size)

    def rows(self, step: int) -> Ints:
        epoch, place = divmod(step, self.steps_per_epoch)
        return self._batches_of(epoch)[place]

    def _cut(self, some: Ints) -> list[Ints]:
        some = some[np.argsort(self._lengths[some], kind="stable")]
        return [some[at : at + self._batch_size] for at in range(0, len(some), self._batch_size)]


class TokenOrder(EpochOrder):
    """Batches of pairs with at most `batch_tokens` tokens, padding included.

    A longer pair is a batch of its own. The number of batches can differ between epochs.
    """

    def __init__(self, sources: Ints, targets: Ints, batch_tokens: int, seed: int) -> None:
        if not len(sources):
            raise DataError("the training part has no pair to learn from")
        stretch = math.ceil(SORTED_TOGETHER * batch_tokens / max(1.0, float((sources + targets).mean())))
        super().__init__(len(sources), stretch, mix(number(seed), number(3)))
        self._sources = sources
        self._targets = targets
        self._batch_tokens = batch_tokens
        self.steps_per_epoch = len(self._batches_of(0))
        """Number of steps in the first epoch."""
        self._ends = [self.steps_per_epoch]  # the step after the last one of each epoch so far

    def rows(self, step: int) -> Ints:
        while step >= self._ends[-1]:
            self._ends.append(self._ends[-1] + len(self._batches_of(len(self._ends))))
        epoch = bisect.bisect_right(self._ends, step)
        return self._batches_of(epoch)[step - (self._ends[epoch - 1] if epoch else 0)]

    def _cut(self, some: Ints) -> list[Ints]:
        some = some[by_lengths(self._sources[some], self._targets[some])]
        borders = token_borders(self._batch_tokens, self._sources[some], self._targets[some])
        return [some[start:stop] for start, stop in itertools.pairwise(borders)]


def by_lengths(sources: Ints, targets: Ints) -> Ints:
    """Sort pairs by target length, then source length, alternately rising and falling: neighbours are similar."""
    return np.lexsort((np.where(targets % 2, sources, -sources), targets))


def token_borders(most: int, sources: Ints, targets: Ints | None = None) -> list[int]:
    """Return borders between batches of examples in their order, each of at most `most` tokens or of one example.

    `sources`: lengths of the texts; `targets`: lengths of the second texts, for pairs. Padding counts.
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


def _shuffle(size: int, key: UInts) -> Ints:
    return permute(np.arange(size, dtype=np.uint64), size, key).astype(np.int64)
