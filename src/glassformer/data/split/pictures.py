"""Pictures with a class each, divided: what is learned from, and what is held out."""

import hashlib
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASS, IMAGE
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.label_sets import kinds_of, names_of
from glassformer.data.io.pictures import Pictures, read_pictures
from glassformer.data.io.table import Table
from glassformer.data.mixing import Numbers
from glassformer.data.split.base import requested_parts
from glassformer.data.split.labelled import (
    Labelled,
    LabelledCorpus,
    absent_labels,
    classes_of,
    labelled_corpus,
    labels_in_words,
    refuse_unseen,
)
from glassformer.data.split.rows import in_order, split_rows

COLUMNS = Columns(None, "the name of its folder", CLASS, "a class for each image", IMAGE)


class PicturePart(Labelled):
    """Pictures, and a class for each. Equal ones are never in two parts that were split, whatever their files."""

    noun: ClassVar[str] = "picture"

    @cached_property
    def digests(self) -> Numbers:
        assert self.pixels is not None
        found = (hashlib.blake2b(picture.tobytes(), digest_size=8).digest() for picture in self.pixels)
        return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)


def split_pictures(pictures: Pictures, settings: DataSettings) -> LabelledCorpus:
    """Parts that are given, as folders or files, are taken as they are; others are split off what is for training."""
    whole = _labelled(pictures)
    classes = classes_of(whole)
    files, _ = requested_parts(settings)
    given = _given_parts(pictures, whole)
    if (both := next((name for name in files if name in given), None)) is not None:
        raise DataError(f"{pictures.name} has {both} pictures of its own: take them out, or leave --{both} unset")
    if "validation" in given and settings.folds is not None:
        raise DataError(f"{pictures.name} has validation pictures of its own: leave --data.folds away")
    ours: Labelled = given.pop("train", whole)
    own: dict[str, Any] = {f"{name}_fraction": 0.0 for name in given}
    split = split_rows(
        ours,
        Table(pictures.name, {}, ours.lines),
        range(len(ours)),
        replace(settings, **own),
        alike="picture",
        facts=[labels_in_words(ours, CLASS)],
        notes=[pictures.note] if pictures.note else [],
        kinds=kinds_of(names_of(ours.labels, CLASS), classes),
    )
    split.fingerprint = whole.fingerprint
    split.warn(absent_labels(ours))
    for part in given.values():
        split.take(part)
    read = ((name, read_pictures(path, settings.size_of_images())) for name, path in files.items())
    corpus = split.corpus(((_labelled(other, name), ()) for name, other in read), settings)
    return labelled_corpus(corpus, classes, COLUMNS)


def whole_pictures(pictures: Pictures, name: str, classes: Collection[str]) -> Labelled:
    """All pictures as one part; a label that is none of the `classes` is refused."""
    part = _labelled(pictures, name)
    refuse_unseen(part, COLUMNS, classes)
    return part


def as_table(pictures: Pictures) -> tuple[Table, Columns]:
    """Pictures by what tells them apart, for looking at what is odd about them."""
    part = _labelled(pictures)
    columns = {"picture": [f"{number:x}" for number in part.digests.tolist()], "label": pictures.labels}
    return Table(pictures.name, columns, part.lines), replace(COLUMNS, label="label", also=("picture",))


def _labelled(pictures: Pictures, name: str = "whole") -> PicturePart:
    lines = list(range(1, len(pictures) + 1))
    return PicturePart(name, pictures.files, pictures.labels, lines, pictures.name, pixels=pictures.pixels)


def _given_parts(pictures: Pictures, whole: PicturePart) -> dict[str, PicturePart]:
    """The parts that the pictures come in; none where they come as one."""
    if pictures.part is None:
        return {}
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(pictures.part):
        rows.setdefault(name, []).append(row)
    return {name: whole.select(name, of) for name, of in in_order(rows).items()}
