"""What the architectures that read a text from left to right share: a head for tokens, or one for labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.config.presets import LABELLING, LANGUAGE_MODEL
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import Reading
from glassformer.exchange.huggingface.labels import read_labels
from glassformer.exchange.huggingface.matching import Match, same

PLAIN: dict[str, tuple[Any, ...]] = {
    "model.encoder": ("transformer",),
    "model.embed": ("vectors",),
    "model.embed_scale": (False,),
    "model.norm_order": ("pre",),
    "model.embed_norm": (False,),
    "model.residual": (True,),
    "model.feed_forward": (True,),
    "model.feed_layers": (2,),
    "model.scores": ("query-key",),
    "model.scale": (True,),
    "model.mask": (True,),
    "model.output_projection": (True,),
}
"""Settings of ours that all of them have."""
HEADS: dict[str, tuple[Any, ...]] = {"model.head_bias": (None, False)}
"""Settings of ours that their language models have."""
READER: dict[str, tuple[Any, ...]] = {
    "data.kind": ("text",),
    "model.causal": (True,),
    "model.pool": ("last",),
    "model.head_layers": (0,),
    "model.head_bias": (False,),
    "model.embed_width": (None,),
}
"""Settings of ours that their classifiers have."""


def with_head(reading: Reading, config: Mapping[str, Any], name: str, *, tied: bool, table: str) -> Reading:
    """What was read of a body, with its head: that of a language model, or that of a classifier with its labels.

    `table`: their name for the word vectors, which a tied head may repeat.
    """
    if reading.task == LANGUAGE_MODEL:
        repeated = {"lm_head.weight": table} if tied else {}
        return replace(reading, settings={**reading.settings, "tied": tied}, repeated=repeated)
    found = read_labels(config, name)
    settings = {**reading.settings, "causal": True, "pool": "last", "head_layers": 0, "head_bias": False}
    return replace(reading, task=found.task, settings=settings, labels=found.labels, loss=found.loss)


def ends(model: ModelSettings, task: str) -> list[Match]:
    """The head: of a language model one matrix, unless it is the word vectors'; of a classifier one without bias."""
    if task in LABELLING:
        return [same("head.output.weight", "score.weight")]
    return [] if model.tied else [same("head.weight", "lm_head.weight")]
