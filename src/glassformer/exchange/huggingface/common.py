"""What several architectures share: settings that have no other value in them, and heads for tokens and for labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import (
    Choices,
    ConfigValues,
    ParsedConfig,
    Unsupported,
    require_settings,
)
from glassformer.exchange.huggingface.labels import with_labels
from glassformer.exchange.huggingface.matching import Match, same

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}
"""Theirs → ours; the first of those that are one is written."""
POST_NORM_ACTIVATIONS = {"gelu": "gelu", **ACTIVATIONS}

CAUSAL: Choices = {
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
    "model.causal_mask": (True,),
    "model.output_projection": (True,),
}
"""Settings of ours that those have which read a text from left to right (GPT-2, Llama, Qwen3)."""
CAUSAL_HEADS: Mapping[str, Choices] = {
    LANGUAGE_MODEL: {"model.head_bias": (None, False)},
    CLASSIFICATION: {
        "data.kind": ("text",),
        "model.causal": (True,),
        "model.pool": ("last",),
        "model.head_layers": (0,),
        "model.head_bias": (False,),
        "model.embed_width": (None,),
    },
}
"""Settings of ours that their heads have, by task."""

POST_NORM: Choices = {
    "data.kind": ("text",),
    "model.encoder": ("transformer",),
    "model.norm_order": ("post",),
    "model.norm": ("layer",),
    "model.embed": ("vectors",),
    "model.embed_width": (None,),
    "model.bias": (True,),
    "model.attention_bias": (True,),
    "model.feed_bias": (True,),
    "model.qk_norm": (False,),
    "model.residual": (True,),
    "model.feed_forward": (True,),
    "model.feed_layers": (2,),
    "model.scores": ("query-key",),
    "model.scale": (True,),
    "model.output_projection": (True,),
    "model.activation": tuple(dict.fromkeys(POST_NORM_ACTIVATIONS.values())),
}
"""Settings of ours that those have whose norms stand after each part (BERT, BART, Marian)."""
POST_NORM_SETTINGS: Mapping[str, Any] = {
    "encoder": "transformer",
    "norm": "layer",
    "norm_order": "post",
    "bias": True,
    "qk_norm": False,
}
"""Settings that follow for a model that comes in."""


def require_plain_heads(config: Config, choices: Choices, name: str) -> None:
    """Refuse a run of ours with other settings, or whose heads do not share the width as theirs do."""
    require_settings(config, choices, name)
    model = config.model
    if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
        raise Unsupported(
            f"{name} has no model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads "
            f"{model.kv_heads}: only heads that share model.width {model.width}"
        )


def activation_name(model: ModelSettings) -> str:
    return next(theirs for theirs, ours in POST_NORM_ACTIVATIONS.items() if ours == model.activation)


def with_causal_head(body: ParsedConfig, values: ConfigValues, *, tied: bool, table: str) -> ParsedConfig:
    """A body with its head: that of a language model, or that of a classifier with its labels.

    `table`: their name for the word vectors, which a tied head may repeat.
    """
    if body.task == LANGUAGE_MODEL:
        repeated = {"lm_head.weight": table} if tied else {}
        return replace(body, settings={**body.settings, "tied": tied}, repeated=repeated)
    settings = {**body.settings, "causal": True, "pool": "last", "head_layers": 0, "head_bias": False}
    return with_labels(replace(body, settings=settings), values)


def causal_head(model: ModelSettings, task: str) -> list[Match]:
    """The head: of a language model one matrix, unless it is the word vectors'; of a classifier one without bias."""
    if task == CLASSIFICATION:
        return [same("head.output.weight", "score.weight")]
    return [] if model.tied else [same("head.weight", "lm_head.weight")]
