"""From the characters of a text to the tokens that a model read of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.text.tokenizer import Piece, Tokenizer

Span = tuple[int, int]
"""[start, end)"""


@dataclass(frozen=True)
class Placed:
    """The tokens of a stretch of characters."""

    pieces: list[Piece]
    places: list[int]
    """Where they stand among the ids that were read; none if not all of them were."""


def tokens_of(spans: Iterable[Span], text: str, tokenizer: Tokenizer, ids: Sequence[int] | None = None) -> list[Placed]:
    """The tokens of each of these stretches: those that share a character with it.

    `ids`: what a model read of the text, START first if it has one, and END or nothing where it was cut off; None: all.
    """
    pieces = tokenizer.encode_with_offsets(text)
    read = [piece.id for piece in pieces] if ids is None else list(ids)
    before = next((len(marks) for marks in _openings(tokenizer) if tuple(read[: len(marks)]) == marks), 0)
    found = []
    for start, end in spans:
        own = [place for place, piece in enumerate(pieces) if piece.start < end and piece.end > start]
        places = [before + place for place in own]
        whole = all(at < len(read) and read[at] == pieces[place].id for at, place in zip(places, own, strict=True))
        found.append(Placed([pieces[place] for place in own], places if whole else []))
    return found


def _openings(tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    """What may stand before a text: one that is labelled or written, or one that is translated."""
    return tokenizer.roles.opening, tokenizer.roles.source
