"""What one run was judged on, as a second run reads it; and whether the second has learned from it."""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import TEXT
from glassformer.data.columns.labels import set_of
from glassformer.data.split.documents import Part
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import listed
from glassformer.families.base import DataParts, EvaluatedPart, Family, Loaded
from glassformer.families.labelling import ClassificationFamily, LabellingFamily, LoadedPredictor, MultilabelFamily
from glassformer.families.language import StreamFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.requests import EvaluateOptions
from glassformer.families.translation import TranslationFamily

# --- the same examples ---


@singledispatch
def shared_part(family: Family, first: EvaluatedPart, second: Loaded, options: EvaluateOptions) -> Any:
    """The part that the first run was judged on, as the second reads it; refused where they cannot be compared."""
    return first.part


@shared_part.register
def _(family: MaskedFamily, first: EvaluatedPart, second: Loaded, options: EvaluateOptions) -> Part:
    raise Misuse("--versus is not for masked language models: glassformer compare --runs sets them side by side")


@shared_part.register
def labelled_part(
    family: LabellingFamily, first: EvaluatedPart, second: LoadedPredictor, options: EvaluateOptions
) -> Labelled:
    """The same rows, read again where the second run needs other columns of them."""
    part: Labelled = first.part
    path = options.data or _own_file(first)
    if _read_alike(first.loaded, second, part):
        return part
    if path is None:
        raise Misuse(f"--versus {second.run.path} reads other columns: name the DATA to compare the two on")
    try:
        again = family.whole_part(second, replace(options, data=path, part=None))
    except DataError:
        if not second.config.data.kind == first.loaded.config.data.kind == TEXT:
            raise
        return part  # its texts had another name where the second run learned
    lines = set(part.lines)
    return again.select(part.name, [row for row, line in enumerate(again.lines) if line in lines])


@shared_part.register
def _(
    family: ClassificationFamily, first: EvaluatedPart, second: LoadedPredictor, options: EvaluateOptions
) -> Labelled:
    _refuse_unknown(second, first.part, ([label] for label in first.part.labels))
    return labelled_part(family, first, second, options)


@shared_part.register
def _(family: MultilabelFamily, first: EvaluatedPart, second: LoadedPredictor, options: EvaluateOptions) -> Labelled:
    _refuse_unknown(second, first.part, (set_of(label) for label in first.part.labels))
    return labelled_part(family, first, second, options)


def _refuse_unknown(second: Any, part: Labelled, labels: Iterable[Iterable[str]]) -> None:
    """Refuse a class or label that the second run has never met. `labels`: those of each example."""
    known = second.answers.names
    for names, line in zip(labels, part.lines, strict=True):
        for name in names:
            if name not in known:
                raise DataError(
                    f"--versus {second.run.path}: it does not know the class '{name}' ({part.origin}, line {line:,}); "
                    f"it knows {listed(known)}"
                )


def _read_alike(first: Loaded, second: Loaded, part: Labelled) -> bool:
    """Whether what the first run reads of a row is all that the second needs."""
    mine, theirs = first.config.data, second.config.data
    same = all(getattr(mine, name) == getattr(theirs, name) for name in ("kind", "text", "extra_columns", "image"))
    return same and (part.pixels is None or _image_size(first) == _image_size(second))


def _image_size(loaded: Loaded) -> object:
    return getattr(getattr(loaded.features, "image", None) or loaded.features, "size", None)


def _own_file(first: EvaluatedPart) -> str | None:
    """The file that a part of the run's own comes from."""
    data = first.loaded.config.data
    named = {"validation": data.validation, "test": data.test}.get(first.part.name)
    return named or (data.path if first.part.origin == data.path else None)


# --- what the second run has learned from ---


@singledispatch
def training_overlap(family: Family, first: EvaluatedPart, second: Loaded, part: Any, corpus: DataParts) -> str:
    """A warning, if the second run learned from what it is now judged on. `corpus`: the second run's own data."""
    return ""


@training_overlap.register
def _(family: StreamFamily, first: EvaluatedPart, second: Loaded, part: Part, corpus: DataParts) -> str:
    held_out = {name for name, own in corpus.parts.items() if own.fingerprint == part.fingerprint} - {"train"}
    if first.corpus is None or part.name == "train" or held_out:
        return ""
    return (
        f"warning: {second.run.path} was divided in another way: it may have learned from this {part.name} "
        "part (train both with one --data.split_seed)"
    )


@training_overlap.register(LabellingFamily)
@training_overlap.register(TranslationFamily)
def _(family: Family, first: EvaluatedPart, second: Loaded, part: Any, corpus: DataParts) -> str:
    seen = int(np.isin(part.digests, corpus.parts["train"].digests).sum())
    if not seen or part.name == "train":
        return ""
    return (
        f"warning: {second.run.path} learned from {seen:,} of these {len(part):,} examples: it has an advantage "
        "(train both with one --data.split_seed)"
    )
