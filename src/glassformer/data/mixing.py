"""Chance without state: numbers that look random and are a plain function of what goes in."""

import numpy as np
from numpy.typing import NDArray

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
