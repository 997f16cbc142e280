"""Alignment of characters and words of a text with its tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.text.tokenizer import Piece, Tokenizer

Span = tuple[int, int]
"""Character positions [start, end)."""


class WordBorders(NamedTuple):
    """For each token id, whether the token begins a word and whether it ends one.

    A word extends to the next token that begins a word, or to a token that ends one.
    """

    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    def first(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of the first token of each token's word (B×T); position 0 always begins a word."""
        begins = self.begins[ids]
        begins[:, 1:] |= self.ends[ids[:, :-1]]
        positions: NDArray[np.int64] = np.maximum.accumulate(np.where(begins, np.arange(ids.shape[1]), 0), 1)
        return positions


def word_borders(tokenizer: Tokenizer) -> WordBorders:
    """Return which tokens begin and end words, which depends on how tokens spell text.

    - Characters: words are separated by whitespace.
    - Tokens that include the blank before them (byte-level BPE, SentencePiece): a word begins at such a token.
    - WordPiece: a word is a token and the continuation tokens after it.
    - Words, and pipelines with an unknown spelling: each token is a word.

    A special token is a word of its own.
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
    """The tokens of a span of characters."""

    pieces: list[Piece]
    positions: list[int]
    """Positions of the tokens among the input ids; empty if some of them were not read."""


def tokens_of(
    spans: Iterable[Span], text: str, tokenizer: Tokenizer, ids: Sequence[int] | None = None
) -> list[SpanTokens]:
    """Return the tokens of each span: those that share a character with it.

    `ids` are the ids that a model read: with its opening token, and truncated where it was truncated. None: the whole
    text.
    """
    pieces = tokenizer.encode_with_offsets(text)
    read = [piece.id for piece in pieces] if ids is None else list(ids)
    openers = tokenizer.roles.opening, tokenizer.roles.source  # before a text to label or write, or to translate
    before = next((len(marks) for marks in openers if tuple(read[: len(marks)]) == marks), 0)
    tokens = []
    for start, end in spans:
        inside = [number for number, piece in enumerate(pieces) if piece.start < end and piece.end > start]
        positions = [before + number for number in inside]
        whole = all(
            position < len(read) and read[position] == pieces[number].id
            for position, number in zip(positions, inside, strict=True)
        )
        tokens.append(SpanTokens([pieces[number] for number in inside], positions if whole else []))
    return tokens
