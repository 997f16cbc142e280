"""What is learned from, and what is held out to see how well: files of their own, or a part split off."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import Source, open_source
from glassformer.data.io.survey import Survey, survey
from glassformer.data.mixing import mix, number
from glassformer.data.split.folds import first_share, folds_of
from glassformer.data.split.held_out import PURPOSES, REFITTED, asked_for
from glassformer.data.split.part import Part, digest, documents_of, stretches, whole
from glassformer.data.wording import counted


@dataclass(frozen=True, eq=False)
class Corpus:
    """Data, divided."""

    fingerprint: str
    """Of all texts, those of validation and test files among them."""
    parts: dict[str, Part]
    """`train`, and where asked for `validation` and `test`."""
    remarks: tuple[str, ...]

    def report(self) -> str:
        """What was divided and how, for a person to read."""
        return "; ".join(self.remarks)


def split(source: Source, settings: DataSettings) -> Corpus:
    """Files that were given are taken as they are; else the end of a single text, or whole documents of several."""
    found = survey(source)
    files, fractions = asked_for(settings)
    refuse_joining(source.name, settings)
    if found.filled.sum() == 1:
        if settings.folds is not None:
            raise DataError(f"{source.name} is one text, which has no folds: leave --folds away, or give documents")
        parts = _split_tail(found, fractions, settings)
        held = _of_tail(parts, {name: part for name, part in fractions.items() if name in parts})
    else:
        parts = _split_documents(found, fractions, settings.split_seed)
        if settings.folds is not None and not settings.refit:
            parts = _with_fold(found, parts, settings)
        parts = _learned(found, parts, settings)
        held = " and ".join(_of_documents(part) for name, part in parts.items() if name != "train")
    remarks = [_size(found) + (f": {held}" if held else ""), *_settings_in_words(parts, settings), *_left_out(found)]
    fingerprint = found.fingerprint
    for name, path in files.items():
        given = survey(open_source(path, settings))
        parts[name] = whole(given, name)
        fingerprint = digest(fingerprint, name, given.fingerprint)
        remarks += [
            f"{name} from {path}: {_size(given)}",
            *_left_out(given),
            *_overlap(given, name, found, parts["train"]),
        ]
    return Corpus(fingerprint, parts, tuple(remarks))


def refuse_joining(name: str, settings: DataSettings) -> None:
    """A refit learns from the validation part too, and texts of two sources are not joined."""
    if settings.refit and settings.validation is not None:
        raise DataError(f"a refit cannot join {settings.validation} to {name}: put both into one folder")


def _split_tail(found: Survey, fractions: dict[str, float], settings: DataSettings) -> dict[str, Part]:
    """At exact characters: train, then validation, then test. A smaller training part is the head of the whole one."""
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
    return stretches(found, borders)


def _with_fold(found: Survey, parts: dict[str, Part], settings: DataSettings) -> dict[str, Part]:
    """Whole documents: one fold of what is not the test is the validation part; equal ones stay together."""
    assert settings.folds is not None
    left = parts["train"].chosen
    digests = found.digests[left]
    groups = np.unique(digests, return_inverse=True)[1].astype(np.int64)
    folds = folds_of(digests, groups, np.zeros(len(groups), dtype=np.int64), settings.folds, settings.split_seed)
    if folds is None:
        raise DataError(
            f"{found.source.name} has {counted(len(groups), 'document')} that are not the test, "
            f"{len(np.unique(digests)):,} of them different: too few for {settings.folds} folds (--folds)"
        )
    inside = np.zeros_like(left)
    inside[left] = folds == settings.fold
    train = documents_of(found, "train", left & ~inside)
    return {**parts, "train": train, "validation": documents_of(found, "validation", inside)}


def _learned(found: Survey, parts: dict[str, Part], settings: DataSettings) -> dict[str, Part]:
    """With what the settings add to the training part, or leave out of it."""
    train = parts["train"].chosen
    if settings.refit and "validation" in parts:
        train = train | parts["validation"].chosen
        parts = {name: part for name, part in parts.items() if name != "validation"}
    if settings.train_fraction < 1:
        digests, train = found.digests[train], train.copy()
        kinds = np.zeros(len(digests), dtype=np.int64)
        train[train] = first_share(digests, kinds, settings.train_fraction, settings.split_seed)
    return {**parts, "train": documents_of(found, "train", train)}


def _settings_in_words(parts: dict[str, Part], settings: DataSettings) -> list[str]:
    """What the training part is, where it is not all that is not held out."""
    remarks = []
    if settings.folds is not None and not settings.refit:
        remarks.append(f"validation is fold {settings.fold + 1} of {settings.folds} (data.fold {settings.fold})")
    if settings.refit:
        remarks.append(REFITTED)
    if settings.train_fraction < 1:
        what = f"{parts['train'].characters:,} characters (data.train_fraction)"
        remarks.append(f"{100 * settings.train_fraction:g} % of the training part is learned from: {what}")
    return remarks


def _split_documents(found: Survey, fractions: dict[str, float], seed: int) -> dict[str, Part]:
    """Whole documents, picked by a number made of their content and the seed; equal ones stay together.

    So the choice does not depend on the order of the documents, and one more moves few of the others.
    """
    total = int(found.filled.sum())
    contents, counts = np.unique(found.digests[found.filled], return_counts=True)
    if len(contents) < len(fractions) + 1:
        raise DataError(
            f"{found.source.name} has {total:,} documents, {len(contents):,} of them different: too few for "
            f"{len(fractions) + 1} parts ({', '.join(['train', *fractions])})"
        )
    order = np.argsort(mix(contents, number(seed)))
    parts = {}
    for place, (name, fraction) in enumerate(fractions.items()):
        needed = len(fractions) - place  # contents to leave, one for each part still to come
        picked = _pick(counts[order], max(1, round(fraction * total)), len(order) - needed)
        chosen = found.filled & np.isin(found.digests, contents[order[picked]])
        parts[name] = documents_of(found, name, chosen)
        order = np.delete(order, picked)
    train = found.filled & np.isin(found.digests, contents[order])
    return {"train": documents_of(found, "train", train), **parts}


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


def _of_tail(parts: dict[str, Part], fractions: dict[str, float]) -> str:
    shares = {name: f"{100 * part:g} % ({parts[name].characters:,} characters)" for name, part in fractions.items()}
    if len(shares) == 2:
        return f"held out from its end: {shares['validation']} for validation, then {shares['test']} for the test"
    return "".join(f"the last {share} held out {PURPOSES[name]}" for name, share in shares.items())


def _of_documents(part: Part) -> str:
    return f"{counted(part.documents, 'document')} ({part.characters:,} characters) held out {PURPOSES[part.name]}"


def _size(found: Survey) -> str:
    documents = int(found.filled.sum())
    characters = int(found.characters[found.filled].sum())
    return f"{'one text' if documents == 1 else counted(documents, 'document')}, {characters:,} characters"


def _left_out(found: Survey) -> list[str]:
    blank = int((~found.filled).sum())
    note = f"left out: {counted(blank, 'document')} without text" if blank else ""
    return [remark for remark in (found.source.note, note) if remark]


def _overlap(given: Survey, name: str, found: Survey, train: Part) -> list[str]:
    """Held-out documents that were trained on make the score too good."""
    seen = int(np.isin(given.digests[given.filled], found.digests[train.chosen]).sum())
    total = int(given.filled.sum())
    return [f"warning: {seen:,} of {counted(total, 'document')} of {name} also in training"] if seen else []
