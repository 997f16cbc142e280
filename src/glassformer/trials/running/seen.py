"""Whether a run that was there before has learned from what it is judged on."""

from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.config.errors import GlassformerError
from glassformer.config.resolve import Config
from glassformer.data.split.part import Part
from glassformer.families.prepare import split_data
from glassformer.runs.run import Run

SPLIT = ("validation", "test", "validation_fraction", "test_fraction", "split_seed", "split_by", "folds", "fold")
"""The data settings that decide what is held out."""
PLACES = ("path", "source_file", "target_file")
"""Where the data lies, which may be elsewhere by now."""


def seen(run: Run, trained: Config, config: Config, corpus: Any, part: str) -> tuple[str, bool]:
    """A remark for its row, and whether it has learned from some of these examples: then it does not compete.

    `trained`: the run's configuration; `corpus`: the data of the comparison, which judges on this `part` of it.
    """
    if run.card()["data"]["fingerprint"] != corpus.fingerprint:
        return "it was trained on other data: it may have seen some of these examples", False
    other = next((name for name in SPLIT if getattr(trained.data, name) != getattr(config.data, name)), None)
    if other is None and not trained.data.refit:
        return "", False
    here = {name: getattr(config.data, name) for name in PLACES}
    try:
        own = split_data(replace(trained, data=replace(trained.data, **here))).parts
    except GlassformerError:
        return f"it was trained with another data.{other or 'refit'}: it may have seen some of these examples", False
    if (share := _share(own["train"], corpus.parts[part])) > 0:
        some = "" if share == 1 else "some of "
        return f"it has learned from {some}these examples: its score does not say how good it is", True
    if "validation" in own and _share(own["validation"], corpus.parts[part]) > 0:
        return "its weights were chosen on some of these examples: its score is a little too good", False
    return "", False


def _share(known: Any, asked: Any) -> float:
    """Which part of what is asked is known."""
    if not isinstance(asked, Part):
        return float(np.isin(asked.digests, known.digests).mean())
    if asked.span is not None and known.span is not None:
        both = min(asked.span[1], known.span[1]) - max(asked.span[0], known.span[0])
        return max(0, both) / (asked.span[1] - asked.span[0])
    if len(asked.chosen) != len(known.chosen):  # from a file of its own
        return 0.0
    return float((asked.chosen & known.chosen).sum() / max(1, asked.chosen.sum()))
