"""Words, fast: whatever stands between two blanks is cut once, and looked up after that.

Texts repeat themselves, so this is several times as fast as taking every text through the pipeline; and no word holds a
blank, so the result is the same.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import numpy as np
import tokenizers
from numpy.typing import NDArray

ASCII_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]|\n", re.ASCII)
"""The pipeline's words, as far as ASCII goes: there, Python and the pipeline agree on what a letter is."""

MOST_KEPT, LONGEST_KEPT = 2**20, 40
"""Stretches remembered at once, and the characters of one, so that a large corpus does not fill the memory."""


class Cutter:
    """A text into its words."""

    def __init__(self, pipeline: tokenizers.Tokenizer) -> None:
        self._pipeline = pipeline
        self._lower = pipeline.normalizer is not None

    def __call__(self, text: str) -> list[str]:
        if text.isascii():
            return ASCII_WORD.findall(text.lower() if self._lower else text)
        text = self._pipeline.normalizer.normalize_str(text) if self._lower else text
        return [word for word, _ in self._pipeline.pre_tokenizer.pre_tokenize_str(text)]


def count_words(texts: Iterable[str], pipeline: tokenizers.Tokenizer) -> Counter[str]:
    """How often each word stands in the texts. Stretches are counted first, and cut when all are there."""
    cut = Cutter(pipeline)
    counts: Counter[str] = Counter()
    stretches: Counter[str] = Counter()
    for text in texts:
        if len(text) > LONGEST_KEPT * (text.count(" ") + 1):  # hardly any blanks: stretches would be remembered in vain
            counts.update(cut(text))
            continue
        stretches.update(text.split(" "))
        if len(stretches) > MOST_KEPT:
            _add_words(counts, stretches, cut)
            stretches.clear()
    _add_words(counts, stretches, cut)
    return counts


def _add_words(counts: Counter[str], stretches: Counter[str], cut: Cutter) -> None:
    for stretch, times in stretches.items():
        for word in cut(stretch):
            counts[word] += times


class Numberer(dict[str, tuple[int, ...]]):
    """Stretch between blanks → the ids of its words."""

    def __init__(self, pipeline: tokenizers.Tokenizer, unknown: int) -> None:
        self._cut = Cutter(pipeline)
        self._vocabulary: dict[str, int] = pipeline.get_vocab()
        self._unknown = unknown

    def __missing__(self, stretch: str) -> tuple[int, ...]:
        ids = tuple([self._vocabulary.get(word, self._unknown) for word in self._cut(stretch)])
        if len(stretch) <= LONGEST_KEPT:
            self[stretch] = ids
        return ids

    def ids(self, text: str) -> NDArray[np.int32]:
        if len(self) > MOST_KEPT:
            self.clear()
        return np.array(list(chain.from_iterable(map(self.__getitem__, text.split(" ")))), np.int32)
