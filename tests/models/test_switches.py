"""Every setting of every encoder changes what is computed: none is decoration (L7)."""

from typing import Any

import pytest
from torch import Tensor, nn

from glassformer.config.presets import ENCODERS
from glassformer.config.resolve import resolve
from glassformer.config.sections import ACTIVATIONS, NORMS, POSITIONS, SCORES
from glassformer.encoders.registry import Place, build_encoder
from glassformer.models.build import build_language_model
from support import differs, numbers, randomise, tokens

B, T, VOCAB = 3, 7, 13
Flags = dict[str, Any]

BASE: dict[str, Flags] = {
    "window": {"width": 12, "layers": 2, "window": 3},
    "cnn": {"width": 12, "layers": 2, "kernel": 3},
    "transformer": {"width": 12, "layers": 2, "heads": 2},
}
"""Where a setting starts from; encoders not named here start from width and two layers."""

OTHER: dict[str, tuple[Any, ...]] = {
    "style": ("classic", "gpt2", "llama"),
    "layers": (1, 3),
    "heads": (1, 3, 6),
    "head_width": (4, 12),
    "kv_heads": (1,),
    "hidden": (7,),
    "activation": ACTIVATIONS,
    "feed_layers": (1,),
    "feed_forward": (False,),
    "positions": POSITIONS,
    "rotary_base": (500.0,),
    "norm": NORMS,
    "norm_order": ("post",),
    "residual": (False,),
    "bias": (True, False),
    "scores": SCORES,
    "scale": (False,),
    "mask": (False,),
    "output_projection": (False,),
    "qk_norm": (False,),
    "embed_scale": (True,),
    "initialisation": ("gpt2", "xavier"),
    "bidirectional": (True,),
    "initial": (False,),
    "nonlinearity": ("relu",),
    "cells": (19,),
    "window": (2, 5),
    "kernel": (2, 5),
    "dilation": (1, 3),
    "width": (16,),
    "tied": (False,),
}
"""What a setting can be instead."""

ELSEWHERE = {"encoder", "size", "embed", "context", "dropout"}
"""Shared settings that are not about what one fixed model computes in use; other tests hold them."""


def settings_of(encoder: str, flags: Flags) -> Any:
    base = BASE.get(encoder, {"width": 12, "layers": 2})
    merged = {"encoder": encoder, "context": 17, **base, **flags}
    return resolve({}, {f"model.{key}": value for key, value in merged.items()}).model


NO_GATE = {("window", "swiglu"), ("cnn", "swiglu")}

TRIED = [
    (encoder, key, value)
    for encoder, info in ENCODERS.items()
    for key in (*info.keys, "width", "tied")
    for value in OTHER.get(key, ("no other value is known",))
    if value != getattr(settings_of(encoder, {}), key) and (encoder, value) not in NO_GATE
]


def computed(encoder: str, flags: Flags) -> Tensor:
    """What a model with fixed random weights makes of a text; weights of one name and shape are the same in all."""
    settings = settings_of(encoder, flags)
    model: nn.Module
    if flags.get("bidirectional") is not None:
        model = randomise(build_encoder(settings, Place(settings.width, causal=False))).double().eval()
        out: Tensor = model(numbers(B, T, settings.width))
        return out
    model = build_language_model(settings, vocab=VOCAB).double().eval()
    if "initialisation" not in flags:
        randomise(model)
    scores: Tensor = model(tokens(B, T, vocab=VOCAB))
    return scores


@pytest.mark.parametrize(("encoder", "key", "value"), TRIED, ids=str)
def test_every_setting_changes_what_is_computed(encoder: str, key: str, value: Any) -> None:
    assert key in OTHER, f"model.{key} is new: say in OTHER what else it can be"
    usual = getattr(settings_of(encoder, {}), key)
    beside = {"bidirectional": {"bidirectional": False}, "initialisation": {"initialisation": usual}}.get(key, {})
    assert differs(computed(encoder, {key: value}), computed(encoder, beside))


def test_every_key_is_known_here() -> None:
    known = set(OTHER) | ELSEWHERE
    used = {key for info in ENCODERS.values() for key in info.keys}
    assert used <= known


def test_the_same_settings_compute_the_same() -> None:
    """So that a difference above is the setting's, and not chance."""
    for encoder in ENCODERS:
        assert not differs(computed(encoder, {}), computed(encoder, {}), 0.0)
