"""Where the characters and words of a text stand among its tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.text.tokenizer import Piece, Tokenizer

Span = tuple[int, int]
"""[start, end)"""


class WordBorders(NamedTuple):
    """Whether a token begins a word, and whether it ends one, by id.

    A word goes on until a token that begins another, or until one that ends it.
    """

    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    def first(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of the first token of its word, for each token of B×T; what stands at place 0 begins one there."""
        begins = self.begins[ids]
        begins[:, 1:] |= self.ends[ids[:, :-1]]
        places: NDArray[np.int64] = np.maximum.accumulate(np.where(begins, np.arange(ids.shape[1]), 0), 1)
        return places


def word_borders(tokenizer: Tokenizer) -> WordBorders:
    """The borders of words. What a word is, follows from how tokens spell.

    Of characters: what stands between blanks. Where tokens hold the blank before them (byte pairs, SentencePiece): from
    one that begins with a blank, or a line, to the next. Of WordPiece: a piece and those after it that go on with it.
    Of words, and of pipelines that spell in no way known here: each token. A special token is a word of its own.
    """
    begins, ends = np.ones((2, tokenizer.vocab_size), np.bool_)
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


@dataclass(frozen=True)
class SpanTokens:
    """The tokens of a stretch of characters."""

    pieces: list[Piece]
    places: list[int]
    """The tokens' places among the ids that were read; none if not all of them were."""


def tokens_of(
    spans: Iterable[Span], text: str, tokenizer: Tokenizer, ids: Sequence[int] | None = None
) -> list[SpanTokens]:
    """The tokens of each of these stretches: those that share a character with it.

    `ids`: what a model read of the text, START first if it has one, and END or nothing where it was cut off; None: all.
    """
    pieces = tokenizer.encode_with_offsets(text)
    read = [piece.id for piece in pieces] if ids is None else list(ids)
    openings = tokenizer.roles.opening, tokenizer.roles.source  # before a text to label or write, or to translate
    before = next((len(marks) for marks in openings if tuple(read[: len(marks)]) == marks), 0)
    tokens = []
    for start, end in spans:
        own = [place for place, piece in enumerate(pieces) if piece.start < end and piece.end > start]
        places = [before + place for place in own]
        whole = all(at < len(read) and read[at] == pieces[place].id for at, place in zip(places, own, strict=True))
        tokens.append(SpanTokens([pieces[place] for place in own], places if whole else []))
    return tokens
