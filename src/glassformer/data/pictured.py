"""Pictures with a class each, divided: what is learned from, and what is held out."""

import hashlib
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASSIFICATION, IMAGE
from glassformer.config.sections import DataSettings
from glassformer.data.columns import Columns
from glassformer.data.labelled import (
    Labelled,
    LabelledCorpus,
    classes_in_words,
    classes_of,
    fingerprint_of_part,
    part_of,
    thin,
)
from glassformer.data.mixing import Numbers
from glassformer.data.part import digest
from glassformer.data.parts import (
    asked_for,
    held_out,
    in_order,
    left_to_training,
    repeated,
    rows_in_words,
    size_in_words,
)
from glassformer.data.pictures import Pictures, read_pictures
from glassformer.data.table import Table

COLUMNS = Columns(None, "the name of its folder", CLASSIFICATION, "a class for each image", IMAGE)


def split_pictures(pictures: Pictures, settings: DataSettings) -> LabelledCorpus:
    """Parts that are given, as folders or as files, are taken as they are; others are split off what is for training.

    Equal pictures are never in two parts that were split.
    """
    whole = _labelled(pictures)
    classes = classes_of(whole)
    files, fractions = asked_for(settings)
    given = _given_parts(pictures, whole)
    fractions = {name: fraction for name, fraction in fractions.items() if name not in given}
    if (both := next((name for name in files if name in given), None)) is not None:
        raise DataError(f"{pictures.name} has {both} pictures of its own: take them out, or leave --{both} unset")
    ours = given.pop("train", whole)
    digests = _digests(ours)
    number = {label: place for place, label in enumerate(classes)}
    kinds = np.array([number[label] for label in ours.labels], dtype=np.int64)
    rows = Table(pictures.name, {}, ours.lines)
    also = " and each class stays in training"
    held, how = held_out(rows, list(range(len(ours))), digests, kinds, fractions, settings, alike="pictures", also=also)
    in_train = left_to_training(len(ours), held)
    parts = {name: part_of(ours, name, chosen) for name, chosen in {"train": in_train, **held}.items()}
    remarks = [
        size_in_words(len(ours), held, "picture"),
        classes_in_words(ours),
        *how,
        *([pictures.note] if pictures.note else []),
        *repeated(digests, "picture", "picture"),
        *thin(parts, fractions, ours),
    ]
    fingerprint = fingerprint_of_part(whole)
    for name, path in files.items():
        given[name] = _labelled(read_pictures(path, settings.size_of_images()), name)
        fingerprint = digest(fingerprint, name, fingerprint_of_part(given[name]))
    for name, part in given.items():
        parts[name] = part
        count = rows_in_words(len(part), "picture")
        remarks.append(f"{name} from {part.source}: {count}")
        if seen := int(np.isin(_digests(part), digests[in_train]).sum()):
            remarks.append(f"warning: {seen:,} of {count} of {name} also in training")
    parts = {name: parts[name] for name in in_order(parts)}
    for part in parts.values():
        refuse_unseen(part, parts["train"].labels)
    return LabelledCorpus(fingerprint, parts, classes, COLUMNS, tuple(remarks))


def whole_pictures(pictures: Pictures, name: str, classes: Collection[str]) -> Labelled:
    """All pictures as one part; a label that is none of the `classes` is refused."""
    part = _labelled(pictures, name)
    refuse_unseen(part, classes)
    return part


def as_table(pictures: Pictures) -> tuple[Table, Columns]:
    """Pictures by what tells them apart, for looking at what is odd about them."""
    part = _labelled(pictures)
    columns = {"picture": [f"{number:x}" for number in _digests(part).tolist()], "label": pictures.labels}
    return Table(pictures.name, columns, part.lines), replace(COLUMNS, label="label", also=("picture",))


def refuse_unseen(part: Labelled, classes: Collection[str]) -> None:
    known = set(classes)
    for label, file in zip(part.labels, part.texts, strict=True):
        if label not in known:
            raise DataError(f"{part.source}, {file}: the label '{label}' does not occur in training")


def _labelled(pictures: Pictures, name: str = "whole") -> Labelled:
    lines = list(range(1, len(pictures) + 1))
    return Labelled(name, pictures.files, pictures.labels, lines, pictures.name, pixels=pictures.pixels)


def _given_parts(pictures: Pictures, whole: Labelled) -> dict[str, Labelled]:
    """The parts that the pictures come in; none where they come as one."""
    if pictures.part is None:
        return {}
    of = np.array(pictures.part)
    return {name: part_of(whole, name, of == name) for name in in_order(pictures.part)}


def _digests(part: Labelled) -> Numbers:
    """Equal for equal pictures."""
    assert part.pixels is not None
    found = (hashlib.blake2b(picture.tobytes(), digest_size=8).digest() for picture in part.pixels)
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)
