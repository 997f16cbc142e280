"""Packed tokens as a language model reads them: windows in random order, their training pairs, and hidden tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import DataError
from glassformer.data.order import UInts, mix, number, permute
from glassformer.text.alignment import WordBorders, word_borders
from glassformer.text.tokenizer import Tokenizer


class WindowOrder:
    """Windows of context + 1 tokens in random order, epoch after epoch.

    The inputs of a window are its first `context` tokens, its targets the last `context`. Neighbouring windows share
    one token, so that each token is predicted once. Every epoch has its own order and its own first token, so that no
    token is always at the beginning of a window. Tokens before the first window and after the last one are left out of
    that epoch. All epochs have the same number of windows.
    """

    def __init__(self, length: int, context: int, batch_size: int, seed: int) -> None:
        if length < context + 1:
            needed = f"context {context} needs at least {context + 1} tokens"
            raise DataError(f"{needed}, but the training part has {length}: lower --model.context")
        self.context = context
        self.batch_size = batch_size
        self._length = length
        self.windows = max(1, (length - context) // context)
        """Windows in an epoch: the number that fits for any first token among the first `context` tokens."""
        self._shifts = length - self.windows * context  # tokens at which the first window of an epoch may begin
        self._seed = mix(number(seed), number(0))

    @property
    def steps_per_epoch(self) -> float:
        """Number of updates that read as many tokens as the text has; an epoch's windows omit some at both ends."""
        return self._length / (self.context * self.batch_size)

    def starts(self, step: int) -> NDArray[np.int64]:
        """Return the first tokens of the windows of one batch, which may end one epoch and begin the next."""
        places = np.arange(self.batch_size, dtype=np.int64) + step * self.batch_size
        epoch, place = np.divmod(places, self.windows)
        key = mix(epoch.astype(np.uint64), self._seed)
        window = permute(place.astype(np.uint64), self.windows, key).astype(np.int64)
        shift = (mix(key, number(1)) % np.uint64(self._shifts)).astype(np.int64)
        return shift + window * self.context


def segments_of(ids: Int[Tensor, "B T"], start: int | None, end: int | None) -> Int[Tensor, "B T"]:
    """Return the number of each token's document, from 0. START begins a document; without START, the token after END.

    In a window that begins inside a document, the rest of that document is the first.
    """
    begins = torch.zeros_like(ids)
    if start is not None:
        begins = (ids == start).long()
    elif end is not None:
        begins[:, 1:] = (ids[:, :-1] == end).long()
    return begins.cumsum(1)


def training_pairs(pieces: Sequence[str], between: str = "") -> list[tuple[str, str]]:
    """Return the training pairs of a sentence: each prefix and the next token.

    `between`: separator of tokens without their own spaces. If START and END are among the tokens, the first and last
    pairs show how a text begins and ends.

    >>> training_pairs(["the", " cat", " sat"])
    [('the', ' cat'), ('the cat', ' sat')]
    """
    return [(between.join(pieces[:end]), pieces[end]) for end in range(1, len(pieces))]


# --- hidden tokens and their replacements: plain functions of numbers, without random state ---

NOTHING = -1
"""The answer at positions that are not predicted."""

MASKED, SWAPPED = 0.8, 0.1
"""Shares of the tokens to guess in training that are replaced by MASK, and by another token."""
EVALUATED = 0.15
"""Share of the tokens to guess in evaluation, whatever the share in training."""

_CHOSEN, _HOW, _OTHER = (number(key) for key in range(3))
_FIXED = number(8)
"""A key with which nearly the share EVALUATED of the first 100, 1,000, 10,000 … positions is guessed. With key 3, for
example, a quarter fewer positions of a short part would be guessed."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Masking:
    """Rule by which tokens are hidden; special tokens never are."""

    mask: int
    ordinary: NDArray[np.int64]
    """Ids of the tokens of text, which can be hidden or replace others."""
    size: int
    """One more than the largest id."""
    rate: float = EVALUATED
    words: WordBorders | None = None
    """Borders of words, if all tokens of a word are hidden together."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, rate: float = EVALUATED, whole_words: bool = False) -> "Masking":
        assert tokenizer.mask is not None
        words = word_borders(tokenizer) if whole_words else None
        return cls(tokenizer.mask, np.array(tokenizer.texts, np.int64), tokenizer.vocab_size, rate, words)

    @cached_property
    def hidden(self) -> NDArray[np.bool_]:
        """True for the ids of tokens that can be hidden."""
        found = np.zeros(self.size, np.bool_)
        found[self.ordinary] = True
        return found

    def to_learn(self, ids: Ids, key: UInts) -> tuple[Ids, Ids]:
        """Return B×T tokens with hidden ones replaced, and the answers: the token, or NOTHING.

        Each row is hidden by its number and the key, so the result does not depend on later division of the batch.
        Each token, or each word, is hidden with probability `rate`.
        """
        keys = mix(np.arange(len(ids), dtype=np.uint64), key)[:, None]
        places = np.arange(ids.shape[1], dtype=np.uint64)
        chosen = _chance(places, mix(keys, _CHOSEN))
        if self.words is not None:
            chosen = np.take_along_axis(chosen, self.words.first(ids), 1)
        guessed = (chosen < self.rate) & self.hidden[ids]
        how = _chance(places, mix(keys, _HOW))
        others = self.ordinary[mix(places, mix(keys, _OTHER)) % np.uint64(len(self.ordinary))]
        read = np.where(how < MASKED, self.mask, np.where(how < MASKED + SWAPPED, others, ids))
        return np.where(guessed, read, ids), np.where(guessed, ids, NOTHING)

    def to_evaluate(self, ids: Ids, first: int) -> tuple[Ids, Ids]:
        """Return the same for T tokens of a part in evaluation; `first`: position of the first token.

        Hidden tokens are chosen by their positions alone and always replaced by MASK. Two models with the same tokens
        therefore guess the same ones, whatever windows they read and however they were trained.
        """
        places = np.arange(first, first + len(ids), dtype=np.uint64)
        guessed = (_chance(places, _FIXED) < EVALUATED) & self.hidden[ids]
        return np.where(guessed, self.mask, ids), np.where(guessed, ids, NOTHING)


def _chance(values: UInts, key: UInts) -> NDArray[np.float64]:
    """Return pseudo-random numbers from 0 to below 1, each determined by its value and the key."""
    chances: NDArray[np.float64] = (mix(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return chances
