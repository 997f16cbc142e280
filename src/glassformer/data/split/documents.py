"""Texts divided into parts: the end of a single text, whole documents of several, or files of their own."""

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.config.data_section import EXACT, TOGETHER
from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import Chunk, Source, open_source
from glassformer.data.io.survey import Survey, survey
from glassformer.data.order import Ints, UInts, mix, number
from glassformer.data.same_text import KEPT_TOGETHER, NO_PAIRS, near_duplicates, near_in_words
from glassformer.data.split import base
from glassformer.data.split.base import PURPOSES, Corpus, RowMask, digest
from glassformer.data.wording import counted


class FilePosition(NamedTuple):
    """The beginning of a group of files, in a part."""

    group: int = 0
    document: int = 0
    """Number of documents of the source before it."""
    characters: int = 0
    """Number of characters of the part before it."""


@dataclass(frozen=True, eq=False)
class TextPart:
    """Some documents of a source, or a stretch of its only one, which can be read again and again."""

    name: str
    source: Source
    fingerprint: str
    """Digest of the text."""
    documents: int
    characters: int
    bytes: int
    """Bytes of the text as UTF-8."""
    chosen: RowMask
    """True for the documents of the source that are in this part."""
    keys: UInts
    """Digests of the normal forms of the documents."""
    span: tuple[int, int] | None = None
    """First character of a stretch, and the one after the last; a stretch counts as one document."""
    positions: tuple[FilePosition, ...] = (FilePosition(),)
    """Positions at which reading can begin: each group of files."""

    def position_before(self, characters: int) -> FilePosition:
        """Return the last position with at most this number of characters before it."""
        return self.positions[bisect_right(self.positions, characters, key=lambda one: one.characters) - 1]

    def chunks(self, position: FilePosition = FilePosition()) -> Iterator[Chunk]:  # noqa: B008 (it is immutable)
        """Yield the text from a position on."""
        characters = position.characters
        for group in range(position.group, len(self.positions)):
            chosen = self._chosen(self.source.groups[group].chunks(), self.positions[group].document)
            for chunk in chosen if self.span is None else self._stretch(*self.span):
                characters += len(chunk.text)
                yield chunk
            last = group + 1 == len(self.positions)
            expected = self.characters if last else self.positions[group + 1].characters
            if characters != expected:
                raise DataError(
                    f"{self.source.name} changed while it was being read: "
                    f"the {self.name} part had {expected:,} characters up to here and now has {characters:,}"
                )

    def _chosen(self, chunks: Iterator[Chunk], first: int) -> Iterator[Chunk]:
        """Yield the chunks of chosen documents; `first`: the number of the first document."""
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


def documents_of(found: Survey, name: str, chosen: RowMask) -> TextPart:
    """Return the part with these documents."""
    fingerprint = digest(found.fingerprint, chosen[found.filled].tobytes().hex())
    documents, characters, size = (int(count[chosen].sum()) for count in (chosen, found.characters, found.bytes))
    before = np.append(0, np.cumsum(np.where(chosen, found.characters, 0)))
    positions = tuple(FilePosition(group, first, int(before[first])) for group, first in enumerate(found.groups))
    keys = found.keys[chosen]
    return TextPart(name, found.source, fingerprint, documents, characters, size, chosen, keys, positions=positions)


def whole_text(found: Survey, name: str) -> TextPart:
    """Return a part with all documents that are not blank."""
    return documents_of(found, name, found.filled)


def stretches(found: Survey, borders: dict[str, tuple[int, int]]) -> dict[str, TextPart]:
    """Return the parts of a single text between these characters."""
    characters = int(found.characters[found.filled].sum())
    sizes = {name: stop - first for name, (first, stop) in borders.items()}
    if characters != found.bytes[found.filled].sum():  # not ASCII
        sizes = _bytes_of_stretches(whole_text(found, "whole"), borders)
    parts, keys = {}, found.keys[found.filled]
    for name, (first, stop) in borders.items():
        fingerprint, size = digest(found.fingerprint, f"{first}:{stop}"), sizes[name]
        span = (first, stop)
        parts[name] = TextPart(name, found.source, fingerprint, 1, stop - first, size, found.filled, keys, span)
    return parts


def _bytes_of_stretches(text: TextPart, borders: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Read the text again to count the bytes of each stretch."""
    sizes = dict.fromkeys(borders, 0)
    at = 0
    for chunk in text.chunks():
        for name, (first, stop) in borders.items():
            sizes[name] += len(chunk.text[max(first - at, 0) : max(stop - at, 0)].encode())
        at += len(chunk.text)
    return sizes


# --- splitting ---

TextCorpus = Corpus[TextPart]
Division = tuple[dict[str, TextPart], str]
"""The parts, and a remark on what was held out."""


def split_texts(source: Source, settings: DataSettings) -> TextCorpus:
    """Divide a source: hold out the end of a single text or whole documents, and add the files of parts."""
    found = survey(source, near_duplicates=settings.near_duplicates == TOGETHER)
    files, fractions = base.requested_parts(settings)
    refuse_joining(source.name, settings)
    divide = _split_tail if found.filled.sum() == 1 else _split_documents
    parts, held = divide(found, fractions, settings)
    remarks = [_size(found) + (f": {held}" if held else "")]
    remarks += base.training_in_words(settings, f"{parts['train'].characters:,} characters")
    remarks += _left_out(found)
    fingerprint = found.fingerprint
    learned = _same(found, settings)[parts["train"].chosen]
    for name, path in files.items():
        given = survey(open_source(path, settings))
        parts[name] = whole_text(given, name)
        fingerprint = digest(fingerprint, name, given.fingerprint)
        remarks += [f"{name} from {path}: {_size(given)}", *_left_out(given)]
        remarks += base.overlap(name, _same(given, settings)[given.filled], learned, "document")
    return TextCorpus(fingerprint, parts, remarks)


def refuse_joining(name: str, settings: DataSettings) -> None:
    """Raise `DataError` if a refit would have to join texts of two sources."""
    if settings.refit and settings.validation is not None:
        raise DataError(f"a refit cannot join {settings.validation} to {name}: put both into one folder")


def _split_tail(found: Survey, fractions: dict[str, float], settings: DataSettings) -> Division:
    """Divide one text into train, validation and test. A smaller training part is its beginning."""
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


def _split_documents(found: Survey, fractions: dict[str, float], settings: DataSettings) -> Division:
    """Divide documents; equal ones stay together, and as requested near-duplicates."""
    digests = found.digests[found.filled]
    groups, near = base.number_values(_same(found, settings)[found.filled]), NO_PAIRS
    if settings.near_duplicates == TOGETHER:
        keys, sketches = found.keys[found.filled], list(itertools.compress(found.sketches, found.filled))
        near = near_duplicates(keys, sketches.__getitem__)
        groups = base.group_rows(keys, pairs=near.tolist())
    where, size = found.source.name, f"{len(digests):,} documents, {int(groups.max()) + 1:,} of them different"
    if groups.max() < len(fractions):
        raise base.too_few(where, size, fractions)
    held = _hold_out(digests, groups, fractions, settings.split_seed)
    classes = np.zeros(len(digests), dtype=np.int64)
    assignment = base.assign(where, size, held, digests, groups, classes, settings)
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


def _same(found: Survey, settings: DataSettings) -> UInts:
    """Return digests that are equal for documents that must share a part."""
    return found.digests if settings.same_text == EXACT else found.keys


def _hold_out(digests: UInts, groups: Ints, fractions: dict[str, float], seed: int) -> dict[str, RowMask]:
    """Return the documents that each part holds out, chosen by a hash of their content and the seed.

    The choice does not depend on the order of the documents, and an additional document moves few others.
    """
    counts = np.bincount(groups)
    contents = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(contents, groups, digests)
    order = np.argsort(mix(contents, number(seed)))
    held = {}
    for place, (name, fraction) in enumerate(fractions.items()):
        needed = len(fractions) - place  # groups to leave, one for each remaining part
        picked = _pick(counts[order], max(1, round(fraction * len(digests))), len(order) - needed)
        held[name] = np.isin(groups, order[picked])
        order = np.delete(order, picked)
    return held


def _pick(counts: Ints, wanted: int, most: int) -> list[int]:
    """Return groups in their order with at most `wanted` documents together; at least one group."""
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
