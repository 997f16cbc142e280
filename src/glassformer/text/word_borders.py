"""Where words begin among tokens."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.text.tokenizer import Tokenizer


class WordBorders(NamedTuple):
    """By id. A word goes on until a token that begins another, or until one that ends it."""

    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    def first(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each token of B×T, the place of the first token of its word; what stands at place 0 begins one there."""
        begins = self.begins[ids]
        begins[:, 1:] |= self.ends[ids[:, :-1]]
        places: NDArray[np.int64] = np.maximum.accumulate(np.where(begins, np.arange(ids.shape[1]), 0), 1)
        return places


def word_borders(tokenizer: Tokenizer) -> WordBorders:
    """What a word is, follows from how tokens spell.

    Of characters: what stands between blanks. Where tokens hold the blank before them (byte pairs, SentencePiece): from
    one that begins with a blank, or a line, to the next. Of WordPiece: a piece and those after it that go on with it.
    Of words, and of pipelines that spell in no way known here: each token. A special token is a word of its own.
    """
    size = tokenizer.vocab_size
    alone = np.ones(size, np.bool_)
    for id in tokenizer.texts:
        alone[id] = False
    begins, ends = alone.copy(), alone
    for id in tokenizer.texts:
        begins[id], ends[id] = _borders(tokenizer, id)
    return WordBorders(begins, ends)


def _borders(tokenizer: Tokenizer, id: int) -> tuple[bool, bool]:
    spelling = tokenizer.spelling
    if spelling.inside is not None:
        return not tokenizer.token(id).startswith(spelling.inside), False
    text = tokenizer.token_bytes(id).decode(errors="replace")
    if tokenizer.kind == "char":
        return text.isspace(), text.isspace()
    if spelling.byte_marks or spelling.blank is not None:
        return text[:1].isspace(), text.endswith("\n")
    return True, False
