"""Packed tokens as a language model reads them: windows in random order, what each one teaches, and what is hidden."""

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

    A window's inputs are its first `context` tokens, its targets the last `context`: neighbours share one token, so
    that each token is predicted once. Every epoch has its own order and lays its windows out from its own first token,
    so that no token always stands at a window's beginning. What lies before the first window and after the last one is
    left out of that epoch; the number of windows is the same in each.
    """

    def __init__(self, length: int, context: int, batch_size: int, seed: int) -> None:
        if length < context + 1:
            needed = f"context {context} needs at least {context + 1} tokens"
            raise DataError(f"{needed}, but the training part has {length}: lower --model.context")
        self.context = context
        self.batch_size = batch_size
        self._length = length
        self.windows = max(1, (length - context) // context)
        """Windows in an epoch: as many as fit wherever in the first `context` tokens they begin."""
        self._shifts = length - self.windows * context
        """Tokens at which an epoch's first window may begin."""
        self._seed = mix(number(seed), number(0))

    @property
    def steps_per_epoch(self) -> float:
        """Number of updates that read as many tokens as the text has; an epoch's windows omit some at both ends."""
        return self._length / (self.context * self.batch_size)

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


# --- which tokens of a text are hidden, and what stands in their place: plain functions of numbers, no random state ---

NOTHING = -1
"""The answer at places where none is asked for."""

MASKED, SWAPPED = 0.8, 0.1
"""Shares of the tokens to guess in training: those that MASK stands for, and those that another token stands for."""
JUDGED = 0.15
"""Part of the tokens that are guessed where a model is judged, whatever it was trained with."""

_CHOSEN, _HOW, _OTHER = (number(key) for key in range(3))
_FIXED = number(8)
"""The key with which the share of the first 100, 1,000, 10,000 … places that are guessed is JUDGED as near as chance
has it; there are keys, 3 for one, with which a short part is asked a quarter less."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Masking:
    """How tokens are hidden; special ones never are."""

    mask: int
    ordinary: NDArray[np.int64]
    """The ids of tokens that stand for text: those that are hidden, and that may stand for another."""
    size: int
    """One more than the largest id."""
    rate: float = JUDGED
    words: WordBorders | None = None
    """The words' borders, where all tokens of a word are guessed together."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, *, rate: float = JUDGED, whole_words: bool = False) -> "Masking":
        assert tokenizer.mask is not None
        words = word_borders(tokenizer) if whole_words else None
        return cls(tokenizer.mask, np.array(tokenizer.texts, np.int64), tokenizer.vocab_size, rate, words)

    @cached_property
    def hidden(self) -> NDArray[np.bool_]:
        """Whether a token is ever hidden, by its id."""
        found = np.zeros(self.size, np.bool_)
        found[self.ordinary] = True
        return found

    def to_learn(self, ids: Ids, key: UInts) -> tuple[Ids, Ids]:
        """What a model reads of B×T tokens, and what it is to guess: the token, or NOTHING.

        The rows have their numbers as keys, beside the one given: a batch is hidden alike however it is divided later.
        Each token, or each word, is guessed with a chance of `rate`, so that this is the expected part of the tokens.
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

    def to_judge(self, ids: Ids, first: int) -> tuple[Ids, Ids]:
        """The same for T tokens of a part, of which `first` is the place of the first.

        Which are guessed follows from their places alone, and MASK stands for all of them: two models with the same
        tokens are asked the same, whatever windows they read and however they were trained.
        """
        places = np.arange(first, first + len(ids), dtype=np.uint64)
        guessed = (_chance(places, _FIXED) < JUDGED) & self.hidden[ids]
        return np.where(guessed, self.mask, ids), np.where(guessed, ids, NOTHING)


def _chance(values: UInts, key: UInts) -> NDArray[np.float64]:
    """UInts from 0 to 1, each by its value and key."""
    chances: NDArray[np.float64] = (mix(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return chances
