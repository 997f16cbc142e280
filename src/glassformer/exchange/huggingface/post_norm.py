"""What BERT, BART and Marian share: layer norm after each part, biases everywhere, heads that split the width."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import Unsupported, differs, short
from glassformer.exchange.huggingface.gpt2 import ACTIVATIONS as GPT2_ACTIVATIONS
from glassformer.exchange.huggingface.matching import Match, linear

ACTIVATIONS = {"gelu": "gelu", **GPT2_ACTIVATIONS}
"""Theirs → ours; the first of those that are one is written."""

LIKE: dict[str, tuple[Any, ...]] = {
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
    "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
}
"""Settings of ours that all of them have."""

SETTINGS: dict[str, Any] = {
    "encoder": "transformer",
    "norm": "layer",
    "norm_order": "post",
    "bias": True,
    "qk_norm": False,
}
"""The same, of a model that comes in."""


def must_be_like(config: Config, own: Mapping[str, tuple[Any, ...]], name: str) -> None:
    """Refuse a run of ours that is not as they are, by the first setting."""
    differs(config, {**LIKE, **own}, name)
    model = config.model
    assert model.head_width is not None
    if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
        raise Unsupported(
            f"{name} has no model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads "
            f"{model.kv_heads}: only heads that share model.width {model.width}"
        )


def activation_name(model: ModelSettings) -> str:
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == model.activation)


def dropout_of(config: Mapping[str, Any], key: str) -> float:
    """What a model was trained with; it matters again where it is trained further."""
    value = config.get(key, 0.1)
    value = 0.1 if value is None else value
    if type(value) not in (int, float) or not 0 <= value <= 0.95:
        raise Unsupported(f"config.json: {key} is {short(value)}, but must be a number from 0 to 0.95")
    return float(value)


def maps(ours: str, theirs: str, names: Mapping[str, str]) -> list[Match]:
    """Several linear maps or norms; `names`: ours → theirs."""
    return [match for mine, name in names.items() for match in linear(f"{ours}.{mine}", f"{theirs}.{name}", bias=True)]
