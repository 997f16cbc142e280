"""Texts, divided: the end of a single one is held out, or whole documents of several, or files of their own."""

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config.data_section import APART, EXACT
from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import Chunk, Source, open_source
from glassformer.data.io.survey import Survey, survey
from glassformer.data.order import Numbers, mix, number
from glassformer.data.same_text import KEPT_TOGETHER, NO_PAIRS, near_duplicates, near_in_words
from glassformer.data.split.base import (
    PURPOSES,
    Corpus,
    Mask,
    Rows,
    assign,
    digest,
    group_rows,
    number_values,
    overlap,
    requested_parts,
    training_in_words,
)
from glassformer.data.wording import counted


class Place(NamedTuple):
    """The beginning of a group of files, in a part."""

    group: int = 0
    document: int = 0
    """Documents of the source before it."""
    characters: int = 0
    """Characters of the part before it."""


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
    keys: Numbers
    """Of its documents, each: those of one normal form have equal ones."""
    span: tuple[int, int] | None = None
    """First character, and the one after the last: a stretch counts as a document of its own."""
    places: tuple[Place, ...] = (Place(),)
    """Where reading may begin: at each group of files."""

    def place_before(self, characters: int) -> Place:
        """The last place with no more than so many characters before it."""
        return self.places[bisect_right(self.places, characters, key=lambda place: place.characters) - 1]

    def chunks(self, place: Place = Place()) -> Iterator[Chunk]:  # noqa: B008 (it cannot be changed)
        """All of it, or what follows a place."""
        characters = place.characters
        for group in range(place.group, len(self.places)):
            chosen = self._chosen(self.source.groups[group].chunks(), self.places[group].document)
            for chunk in chosen if self.span is None else self._stretch(*self.span):
                characters += len(chunk.text)
                yield chunk
            last = group + 1 == len(self.places)
            expected = self.characters if last else self.places[group + 1].characters
            if characters != expected:
                raise DataError(
                    f"{self.source.name} changed while it was being read: "
                    f"the {self.name} part had {expected:,} characters up to here and now has {characters:,}"
                )

    def _chosen(self, chunks: Iterator[Chunk], first: int) -> Iterator[Chunk]:
        """Those of chosen documents; `first`: the number of the first document."""
        document = first - 1
        for chunk in chunks:
            document += chunk.starts
            if document < len(self.chosen) and self.chosen[document]:
                yield chunk

    def _stretch(self, first: int, stop: int) -> Iterator[Chunk]:
        at = 0
        for chunk in self._chosen(self.source.chunks(), 0):
            begin, end = max(first - at, 0), min(stop - at, len(chunk.text))
            if begin < end:
                yield Chunk(chunk.text[begin:end], starts=at + begin == first, ends=at + end == stop)
            at += len(chunk.text)
            if at >= stop:
                return


def documents_of(found: Survey, name: str, chosen: Mask) -> Part:
    """Whole documents."""
    fingerprint = digest(found.fingerprint, chosen[found.filled].tobytes().hex())
    documents, characters, size = (int(count[chosen].sum()) for count in (chosen, found.characters, found.bytes))
    places, keys = _places(found, chosen), found.keys[chosen]
    return Part(name, found.source, fingerprint, documents, characters, size, chosen, keys, places=places)


def _places(found: Survey, chosen: Mask) -> tuple[Place, ...]:
    """The beginning of each group of files in the part of the chosen documents."""
    before = np.append(0, np.cumsum(np.where(chosen, found.characters, 0)))
    return tuple(Place(group, first, int(before[first])) for group, first in enumerate(found.groups))


def whole(found: Survey, name: str) -> Part:
    """Everything but blank documents."""
    return documents_of(found, name, found.filled)


def stretches(found: Survey, borders: dict[str, tuple[int, int]]) -> dict[str, Part]:
    """A single text, cut at characters."""
    characters = int(found.characters[found.filled].sum())
    sizes = {name: stop - first for name, (first, stop) in borders.items()}
    if characters != found.bytes[found.filled].sum():  # not ASCII: how many bytes a stretch has must be seen
        sizes = _bytes_of_stretches(whole(found, "whole"), borders)
    parts, keys = {}, found.keys[found.filled]
    for name, (first, stop) in borders.items():
        fingerprint, size = digest(found.fingerprint, f"{first}:{stop}"), sizes[name]
        span = (first, stop)
        parts[name] = Part(name, found.source, fingerprint, 1, stop - first, size, found.filled, keys, span)
    return parts


def _bytes_of_stretches(text: Part, borders: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Bytes of each stretch, in one more pass over the text."""
    sizes = dict.fromkeys(borders, 0)
    at = 0
    for chunk in text.chunks():
        for name, (first, stop) in borders.items():
            sizes[name] += len(chunk.text[max(first - at, 0) : max(stop - at, 0)].encode())
        at += len(chunk.text)
    return sizes


# --- splitting ---

TextCorpus = Corpus[Part]


def split_texts(source: Source, settings: DataSettings) -> TextCorpus:
    """Files that were given are taken as they are; else the end of a single text, or whole documents of several."""
    found = survey(source, near_duplicates=settings.near_duplicates == APART)
    files, fractions = requested_parts(settings)
    refuse_joining(source.name, settings)
    divide = _split_tail if found.filled.sum() == 1 else _split_documents
    parts, held = divide(found, fractions, settings)
    remarks = [_size(found) + (f": {held}" if held else "")]
    remarks += training_in_words(settings, f"{parts['train'].characters:,} characters") + _left_out(found)
    fingerprint = found.fingerprint
    learned = _same(found, settings)[parts["train"].chosen]
    for name, path in files.items():
        given = survey(open_source(path, settings))
        parts[name] = whole(given, name)
        fingerprint = digest(fingerprint, name, given.fingerprint)
        remarks += [f"{name} from {path}: {_size(given)}", *_left_out(given)]
        remarks += overlap(name, _same(given, settings)[given.filled], learned, "document")
    return TextCorpus(fingerprint, parts, tuple(remarks))


def refuse_joining(name: str, settings: DataSettings) -> None:
    """A refit learns from the validation part too, and texts of two sources are not joined."""
    if settings.refit and settings.validation is not None:
        raise DataError(f"a refit cannot join {settings.validation} to {name}: put both into one folder")


def _split_tail(found: Survey, fractions: dict[str, float], settings: DataSettings) -> tuple[dict[str, Part], str]:
    """Stretches of a text: train, then validation, then test. A smaller training part is the head of the whole one."""
    if settings.folds is not None:
        raise DataError(f"{found.source.name} is one text, which has no folds: leave --folds away, or give documents")
    size = int(found.characters[found.filled].sum())
    validation, test = fractions.get("validation", 0.0), fractions.get("test", 0.0)
    train_stop, validation_stop = int(size * (1 - validation - test)), int(size * (1 - test))
    borders = {"train": (0, train_stop), "validation": (train_stop, validation_stop), "test": (validation_stop, size)}
    borders = {name: border for name, border in borders.items() if name == "train" or name in fractions}
    for name, (first, stop) in borders.items():
        if first == stop:
            raise DataError(f"{found.source.name} has {size:,} characters: too few to leave any for the {name} part")
    if settings.refit and borders.pop("validation", None) is not None:
        borders["train"] = (0, validation_stop)
    borders["train"] = (0, max(1, int(borders["train"][1] * settings.train_fraction)))
    parts = stretches(found, borders)
    shares = [
        f"{100 * share:g} % ({parts[name].characters:,} characters) {PURPOSES[name]}"
        for name, share in fractions.items()
        if name in parts
    ]
    return parts, f"held out from its end: {', then '.join(shares)}" if shares else ""


def _split_documents(found: Survey, fractions: dict[str, float], settings: DataSettings) -> tuple[dict[str, Part], str]:
    """Whole documents; equal ones stay together, and near-duplicates where that is wanted."""
    digests = found.digests[found.filled]
    groups, near = number_values(_same(found, settings)[found.filled]), NO_PAIRS
    if settings.near_duplicates == APART:
        keys, sketches = found.keys[found.filled], list(itertools.compress(found.sketches, found.filled))
        near = near_duplicates(keys, sketches.__getitem__)
        groups = group_rows(keys, pairs=near.tolist())
    held = _hold_out(found.source.name, digests, groups, fractions, settings.split_seed)
    alone = np.zeros(len(digests), dtype=np.int64)
    assignment = assign(held, digests, groups, alone, settings)
    if assignment is None:
        left = groups[~np.any([alone, *held.values()], axis=0)]
        there = f"{counted(len(left), 'document')} that are not the test, {len(np.unique(left)):,} of them different"
        raise DataError(f"{found.source.name} has {there}: too few for {settings.folds} folds (--folds)")
    parts = {}
    for name, inside in assignment.parts.items():
        chosen = np.zeros_like(found.filled)
        chosen[found.filled] = inside
        parts[name] = documents_of(found, name, chosen)
    held_out = " and ".join(
        f"{counted(part.documents, 'document')} ({part.characters:,} characters) held out {PURPOSES[name]}"
        for name, part in parts.items()
        if name != "train"
    )
    together = [f"{near_in_words(near, 'document')} {KEPT_TOGETHER}"] if len(near) else []
    return parts, "; ".join(filter(None, [held_out, *together]))


def _same(found: Survey, settings: DataSettings) -> Numbers:
    """Equal ones for documents that are never in two parts."""
    return found.digests if settings.same_text == EXACT else found.keys


def _hold_out(where: str, digests: Numbers, groups: Rows, fractions: dict[str, float], seed: int) -> dict[str, Mask]:
    """Which documents each part holds out, picked by a number made of their content and the seed.

    So the choice does not depend on the order of the documents, and one more moves few of the others.
    """
    counts = np.bincount(groups)
    contents = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(contents, groups, digests)
    if len(contents) < len(fractions) + 1:
        parts = f"{len(fractions) + 1} parts ({', '.join(['train', *fractions])})"
        there = f"{len(digests):,} documents, {len(contents):,} of them different"
        raise DataError(f"{where} has {there}: too few for {parts}")
    order = np.argsort(mix(contents, number(seed)))
    held = {}
    for place, (name, fraction) in enumerate(fractions.items()):
        needed = len(fractions) - place  # contents to leave, one for each part still to come
        picked = _pick(counts[order], max(1, round(fraction * len(digests))), len(order) - needed)
        held[name] = np.isin(groups, order[picked])
        order = np.delete(order, picked)
    return held


def _pick(counts: NDArray[np.int64], wanted: int, most: int) -> list[int]:
    """Groups, in their order, that together have `wanted` documents or as nearly so as fits; one at least."""
    picked: list[int] = []
    for group, count in enumerate(counts.tolist()):
        if wanted == 0 or len(picked) == most:
            break
        if count <= wanted:
            picked.append(group)
            wanted -= count
    return picked or [int(np.argmin(counts))]


def _size(found: Survey) -> str:
    documents = int(found.filled.sum())
    characters = int(found.characters[found.filled].sum())
    return f"{'one text' if documents == 1 else counted(documents, 'document')}, {characters:,} characters"


def _left_out(found: Survey) -> list[str]:
    blank = int((~found.filled).sum())
    note = f"left out: {counted(blank, 'document')} without text" if blank else ""
    return [remark for remark in (found.source.note, note) if remark]
