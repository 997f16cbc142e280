"""Which tokens of a text are hidden, and what stands in their place: plain functions of numbers, no random state."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glassformer.data.mixing import Numbers, mix, number
from glassformer.text.alignment import WordBorders, word_borders
from glassformer.text.tokenizer import Tokenizer

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

    def to_learn(self, ids: Ids, key: Numbers) -> tuple[Ids, Ids]:
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


def _chance(values: Numbers, key: Numbers) -> NDArray[np.float64]:
    """Numbers from 0 to 1, each by its value and key."""
    chances: NDArray[np.float64] = (mix(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return chances
