"""Whether a run that was there before has learned from what it is judged on."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from glassformer.config.errors import GlassformerError
from glassformer.config.resolve import Config
from glassformer.data.split.part import Part
from glassformer.families.base import FAMILIES, DataParts, Family
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import StreamFamily
from glassformer.families.load import split_data
from glassformer.families.translation import TranslationFamily
from glassformer.runs.run import Run

SPLIT = ("validation", "test", "validation_fraction", "test_fraction", "split_seed", "split_by", "folds", "fold")
"""The data settings that decide what is held out."""
PLACES = ("path", "source_file", "target_file")
"""Where the data lies, which may be elsewhere by now."""


def leakage(run: Run, trained: Config, config: Config, corpus: DataParts, part: str) -> tuple[str, bool]:
    """A remark for its row, and whether it has learned from some of these examples: then it does not compete.

    `trained`: the run's configuration; `corpus`: the data of the comparison, which judges on this `part` of it.
    """
    if run.card()["data"]["fingerprint"] != corpus.fingerprint:
        return "it was trained on other data: it may have seen some of these examples", False
    other = next((name for name in SPLIT if getattr(trained.data, name) != getattr(config.data, name)), None)
    if other is None and not trained.data.refit:
        return "", False
    here = {name: getattr(config.data, name) for name in PLACES}
    family, examples = FAMILIES[config.task], corpus.parts[part]
    own: Mapping[str, Any] = {}
    with contextlib.suppress(GlassformerError):
        own = split_data(replace(trained, data=replace(trained.data, **here))).parts
    shares = {name: known_share(family, examples, own[name]) for name in ("train", "validation") if name in own}
    learned = shares.get("train")
    if learned is None:
        return f"it was trained with another data.{other or 'refit'}: it may have seen some of these examples", False
    if learned > 0:
        some = "" if learned == 1 else "some of "
        return f"it has learned from {some}these examples: its score does not say how good it is", True
    if shares.get("validation"):
        return "its weights were chosen on some of these examples: its score is a little too good", False
    return "", False


@singledispatch
def known_share(family: Family, examples: Any, known: Any) -> float | None:
    """Which share of some examples is among those that are known; None: that cannot be told."""
    return None


@known_share.register(LabellingFamily)
@known_share.register(TranslationFamily)
def _(family: Family, examples: Any, known: Any) -> float:
    return float(np.isin(examples.digests, known.digests).mean())


@known_share.register
def _(family: StreamFamily, examples: Part, known: Part) -> float:
    if examples.span is not None and known.span is not None:
        both = min(examples.span[1], known.span[1]) - max(examples.span[0], known.span[0])
        return max(0, both) / (examples.span[1] - examples.span[0])
    if len(examples.chosen) != len(known.chosen):  # from a file of its own
        return 0.0
    return float((examples.chosen & known.chosen).sum() / max(1, examples.chosen.sum()))
