"""A part of a source: what is trained on, validated on or tested on."""

from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.config.errors import DataError
from glassformer.data.io.source import Chunk, Source
from glassformer.data.io.survey import Survey
from glassformer.data.split.base import Mask, digest


@dataclass(frozen=True, eq=False)
class Part:
    """Some of a source's documents, or a stretch of its only one. Read again and again, as a source is."""

    name: str
    source: Source
    fingerprint: str
    """Parts with the same one have the same text."""
    documents: int
    characters: int
    bytes: int
    """Bytes of its text as UTF-8."""
    chosen: Mask
    """Whether each document of the source is in this part."""
    span: tuple[int, int] | None = None
    """First character, and the one after the last: a stretch counts as a document of its own."""

    def chunks(self) -> Iterator[Chunk]:
        characters = 0
        for chunk in self._documents() if self.span is None else self._stretch(*self.span):
            characters += len(chunk.text)
            yield chunk
        if characters != self.characters:
            raise DataError(
                f"{self.source.name} changed while it was being read: "
                f"the {self.name} part had {self.characters:,} characters and now has {characters:,}"
            )

    def _documents(self) -> Iterator[Chunk]:
        document = -1
        for chunk in self.source.chunks():
            document += chunk.starts
            if document < len(self.chosen) and self.chosen[document]:
                yield chunk

    def _stretch(self, first: int, stop: int) -> Iterator[Chunk]:
        at = 0
        for chunk in self._documents():
            begin, end = max(first - at, 0), min(stop - at, len(chunk.text))
            if begin < end:
                yield Chunk(chunk.text[begin:end], starts=at + begin == first, ends=at + end == stop)
            at += len(chunk.text)
            if at >= stop:
                return


def documents_of(found: Survey, name: str, chosen: Mask) -> Part:
    """Whole documents."""
    return Part(
        name,
        found.source,
        digest(found.fingerprint, chosen[found.filled].tobytes().hex()),
        int(chosen.sum()),
        int(found.characters[chosen].sum()),
        int(found.bytes[chosen].sum()),
        chosen,
    )


def whole(found: Survey, name: str) -> Part:
    """Everything but blank documents."""
    return documents_of(found, name, found.filled)


def stretches(found: Survey, borders: dict[str, tuple[int, int]]) -> dict[str, Part]:
    """A single text, cut at characters."""
    characters = int(found.characters[found.filled].sum())
    sizes = {name: stop - first for name, (first, stop) in borders.items()}
    if characters != found.bytes[found.filled].sum():  # not ASCII: how many bytes a stretch has must be seen
        sizes = _bytes_of_stretches(whole(found, "whole"), borders)
    return {
        name: Part(
            name,
            found.source,
            digest(found.fingerprint, f"{first}:{stop}"),
            1,
            stop - first,
            sizes[name],
            found.filled,
            (first, stop),
        )
        for name, (first, stop) in borders.items()
    }


def _bytes_of_stretches(text: Part, borders: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Bytes of each stretch, in one more pass over the text."""
    sizes = dict.fromkeys(borders, 0)
    at = 0
    for chunk in text.chunks():
        for name, (first, stop) in borders.items():
            sizes[name] += len(chunk.text[max(first - at, 0) : max(stop - at, 0)].encode())
        at += len(chunk.text)
    return sizes
