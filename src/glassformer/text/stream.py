"""Text out of a model, token by token, as soon as it is certain."""

import codecs
from collections.abc import Sequence

from glassformer.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
"""What decoding shows for half a character."""

LONGEST_CHARACTER = 4
"""Bytes, and so tokens, that one character can take."""


class Stream:
    """Decodes ids as they come: all that `push` and `end` return, joined, is `decode` of all the ids.

    Each push looks back only to the tokens before it, so its cost does not grow with the text. The token before is
    needed because it decides, with the next one, whether words are joined by a blank.
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()) -> None:
        """`after`: ids of a text that is there already, and that the new text must join."""
        self._tokenizer = tokenizer
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[int] = [id for id in after if id not in tokenizer.specials][-1:]
        self._waiting: list[int] = []
        self._bytes = False
        """Whether what waits is a run of single bytes."""

    def push(self, id: int) -> str:
        """The text that this token settles; none while a character is incomplete."""
        if id in self._tokenizer.specials:
            return ""
        if self._tokenizer.spelling.byte_marks:
            return self._characters.decode(self._tokenizer.token_bytes(id))
        byte = self._tokenizer.one_byte(id)
        settled = self._settle() if self._bytes and not byte else ""
        self._waiting.append(id)
        self._bytes = byte  # whether they are text is decided for a whole run of them
        if byte or (self._new_text().endswith(REPLACEMENT) and len(self._waiting) < LONGEST_CHARACTER):
            return settled
        return settled + self._settle()

    def end(self) -> str:
        """The rest: what an unfinished character looks like."""
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
    """Ends a stream of text at the first stop string, even one that comes in pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self.stops), default=0)
        self.found = False
        self._held = ""

    def push(self, text: str) -> str:
        """The text that is safe to show: none of it can belong to a stop string any more."""
        self._held += text
        ends = [(place + len(stop), place) for stop in self.stops if (place := self._held.find(stop)) >= 0]
        if ends:  # the one that is complete first ends the text, however it comes in pieces
            self.found = True
            before, self._held = self._held[: min(ends)[1]], ""
            return before
        sizes = range(min(self._longest, len(self._held)), 0, -1)
        keep = next((size for size in sizes if any(stop.startswith(self._held[-size:]) for stop in self.stops)), 0)
        cut = len(self._held) - keep
        safe, self._held = self._held[:cut], self._held[cut:]
        return safe

    def end(self) -> str:
        rest, self._held = self._held, ""
        return rest
