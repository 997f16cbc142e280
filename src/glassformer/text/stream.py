"""Incremental decoding: each new token becomes text as soon as its text is certain."""

import codecs
from collections.abc import Sequence

from glassformer.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
"""Decoded form of an incomplete character."""

MAX_CHARACTER_BYTES = 4
"""Maximum number of bytes, and so of tokens, per character."""


class Stream:
    """Incremental decoder: the results of `push` and `end`, joined, equal `decode` of all ids.

    A push looks back only to the token before the waiting ones, so its cost does not grow with the text. That token
    decides whether a blank joins two words.
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()) -> None:
        """Start after the ids `after` of a text that the new text continues."""
        self._tokenizer = tokenizer
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[int] = [id for id in after if id not in tokenizer.specials][-1:]
        self._waiting: list[int] = []
        self._bytes = False
        """Whether the waiting tokens are a run of single bytes."""

    def push(self, id: int) -> str:
        """Return the text that this token makes certain; empty while a character is incomplete."""
        if id in self._tokenizer.specials:
            return ""
        if self._tokenizer.spelling.byte_marks:
            return self._characters.decode(self._tokenizer.token_bytes(id))
        byte = self._tokenizer.one_byte(id)
        settled = self._settle() if self._bytes and not byte else ""
        self._waiting.append(id)
        self._bytes = byte  # a run of bytes is decoded as a whole
        if byte or (self._new_text().endswith(REPLACEMENT) and len(self._waiting) < MAX_CHARACTER_BYTES):
            return settled
        return settled + self._settle()

    def end(self) -> str:
        """Return the remaining text, with an incomplete character decoded as it is."""
        rest = self._characters.decode(b"", final=True) + self._new_text()
        self._before, self._waiting = [], []
        return rest

    def _settle(self) -> str:
        new = self._new_text()
        self._before, self._waiting = self._waiting, []
        return new

    def _new_text(self) -> str:
        before = self._tokenizer.decode(self._before)
        return self._tokenizer.decode(self._before + self._waiting)[len(before) :]


class Stops:
    """Truncation of a text stream at the first stop string, also if it arrives in several parts."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self.stops), default=0)
        self.found = False
        self._held = ""

    def push(self, text: str) -> str:
        """Return the text that cannot belong to a stop string any more."""
        self._held += text
        ends = [(place + len(stop), place) for stop in self.stops if (place := self._held.find(stop)) >= 0]
        if ends:  # the stop string that is complete first wins, however the text is split
            self.found = True
            before, self._held = self._held[: min(ends)[1]], ""
            return before
        sizes = range(min(self._longest, len(self._held)), 0, -1)
        size = next((size for size in sizes if any(stop.startswith(self._held[-size:]) for stop in self.stops)), 0)
        cut = len(self._held) - size
        safe, self._held = self._held[:cut], self._held[cut:]
        return safe

    def end(self) -> str:
        rest, self._held = self._held, ""
        return rest
