"""Every setting of every encoder changes what is computed: none is decoration (L7)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import SettingError
from glassformer.config.model_section import (
    ACTIVATIONS,
    NORMS,
    POOLS,
    POSITIONS,
    SCORES,
    SequenceSettings,
)
from glassformer.config.resolve import resolve, used_keys
from glassformer.config.setting import setting_fields
from glassformer.encoders.registry import BUILDERS, Place, build_encoder
from glassformer.models.build import build_language_model, build_masked_model, build_predictor, build_vectors
from glassformer.models.modules import TextPredictor
from helpers.support import differs, numbers, randomise, same, tokens

B, T, VOCAB = 3, 7, 13
Flags = dict[str, Any]

BASE: dict[str, Flags] = {
    "window": {"width": 12, "layers": 2, "window": 3},
    "cnn": {"width": 12, "layers": 2, "kernel": 3},
    "transformer": {"width": 12, "layers": 2, "heads": 2},
}
"""Where a setting starts from; encoders not named here start from width and two layers."""

OTHER: dict[str, tuple[Any, ...]] = {
    "style": ("classic", "gpt2", "bert", "llama"),
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
    "rotary_scaling": ("linear:3", "llama3:8:1:4:9"),
    "norm_eps": (0.3,),
    "embed_norm": (True,),
    "attention_bias": (True,),
    "feed_bias": (True,),
    "norm": NORMS,
    "norm_order": ("post",),
    "residual": (False,),
    "bias": (True, False),
    "scores": SCORES,
    "scale": (False,),
    "causal_mask": (False,),
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
    "pool": tuple(pool for pool in POOLS if pool != "flatten"),
    "head_layers": (1, 2),
    "head_hidden": (11,),
    "head_activation": ("tanh", "gelu"),
    "embed_width": (7,),
    "weighting": ("counts",),
    "ngrams": (2, 3),
    "buckets": (23,),
}
"""What a setting can be instead."""

SHARED_KEYS = setting_fields(SequenceSettings)
HEAD_KEYS = ("pool", "head_layers", "head_hidden", "head_activation", "head_bias", "causal", "embed_width")
ELSEWHERE = {
    "encoder", "size", "embed", "context", "dropout", "word_dropout", "vectors", "vectors_frozen", "patch", "stride",
    "padding", "words", "head_bias",
    "causal", "unit", "vocab", "from_run", "head_transform", "decoder", "decoder_layers", "attention",
    "input_feeding", "shared", "decoder_from",
}  # fmt: skip
"""Shared settings that are not about what one fixed model computes in use; other tests hold them."""


def settings_of(encoder: str, flags: Flags, task: str = "language-model") -> Any:
    base = BASE.get(encoder, {"width": 12, "layers": 2})
    used = {key: value for key, value in base.items() if key in used_keys(encoder)}
    merged = {"encoder": encoder, "context": 17, **used, **flags}
    return resolve({}, {"task": task, **{f"model.{key}": value for key, value in merged.items()}}).model


NO_GATE = {("window", "swiglu"), ("cnn", "swiglu")}

TRIED = [
    (encoder, key, value)
    for encoder in BUILDERS
    for key in (*ENCODERS[encoder].keys, "width", "tied")
    if key not in ELSEWHERE and (key not in SHARED_KEYS or key in ("width", "tied"))
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


@pytest.mark.sample(7)
@pytest.mark.parametrize(("encoder", "key", "value"), TRIED, ids=str)
def test_every_setting_changes_what_is_computed(encoder: str, key: str, value: Any) -> None:
    assert key in OTHER, f"model.{key} is new: say in OTHER what else it can be"
    usual = getattr(settings_of(encoder, {}), key)
    beside = {"bidirectional": {"bidirectional": False}, "initialisation": {"initialisation": usual}}.get(key, {})
    assert differs(computed(encoder, {key: value}), computed(encoder, beside))


GOES_WITH: dict[str, Flags] = {
    "head_hidden": {"head_layers": 1},
    "head_activation": {"head_layers": 1},
    "buckets": {"ngrams": 2},
}
"""What a setting needs beside it to do something."""

TRIED_ON_READERS = [
    (encoder, key, value)
    for encoder in ("bag", *BUILDERS)
    for key in (*(HEAD_KEYS if encoder in BUILDERS else ENCODERS[encoder].keys), "head_layers", "head_hidden")
    for value in OTHER.get(key, ())
    if value != getattr(settings_of(encoder, {}, "classification"), key)
]


def read(encoder: str, flags: Flags) -> Tensor:
    """The same of a model that answers."""
    settings = settings_of(encoder, {"head_layers": 0, **flags}, "classification")
    model = randomise(build_predictor(settings, vocab=VOCAB, outputs=5).double().eval())
    scores: Tensor = model(tokens(B, T, vocab=VOCAB))
    return scores


@pytest.mark.sample(5)
@pytest.mark.parametrize(("encoder", "key", "value"), sorted(set(TRIED_ON_READERS), key=str), ids=str)
def test_every_setting_changes_what_is_read(encoder: str, key: str, value: Any) -> None:
    beside = GOES_WITH.get(key, {})
    assert differs(read(encoder, {**beside, key: value}), read(encoder, beside))


def test_every_key_is_known_here() -> None:
    known = set(OTHER) | ELSEWHERE
    used = {key for encoder in ENCODERS for key in used_keys(encoder)}
    assert used <= known


def test_the_same_settings_compute_the_same() -> None:
    """So that a difference above is the setting's, and not chance."""
    for encoder in BUILDERS:
        assert not differs(computed(encoder, {}), computed(encoder, {}), 0.0)
        assert not differs(read(encoder, {}), read(encoder, {}), 0.0)
    assert not differs(read("bag", {}), read("bag", {}), 0.0)


@pytest.mark.parametrize("encoder", ["window", "cnn", "transformer"])
def test_a_causal_reader_sees_only_what_came_before(encoder: str) -> None:
    """Its states at a place do not follow from later tokens; those of one that reads all at once do."""
    some = tokens(B, T, vocab=VOCAB)
    other = some.clone()
    other[:, -1] = (other[:, -1] + 1) % VOCAB
    for causal in (True, False):
        settings = settings_of(encoder, {"causal": causal}, "classification")
        model = randomise(build_predictor(settings, vocab=VOCAB, outputs=5).double().eval())
        assert isinstance(model, TextPredictor)
        before, after = model.states(some)[:, 0], model.states(other)[:, 0]
        reached = differs(model.states(some)[:, -2], model.states(other)[:, -2])
        assert reached == (not causal)
        assert not causal or not differs(before, after)


@pytest.mark.parametrize("task", ["language-model", "masked"])
def test_more_rows_than_tokens_and_a_bias_for_scores(task: str) -> None:
    settings = settings_of("transformer", {"vocab": 17, "head_bias": True})
    build = build_language_model if task == "language-model" else build_masked_model
    model = build(settings, vocab=VOCAB)
    assert model(tokens(B, T, vocab=VOCAB)).shape == (B, T, 17)
    assert model.head.bias is not None
    with pytest.raises(SettingError, match=r"model\.vocab is 5, but the tokenizer has 13 tokens"):
        build(settings_of("transformer", {"vocab": 5}), vocab=VOCAB)


def test_vectors_of_texts_can_be_of_length_one() -> None:
    settings = settings_of("transformer", {"pool": "mean"}, "vectors")
    x = tokens(B, T, vocab=VOCAB)
    plain = randomise(build_vectors(settings, vocab=VOCAB))
    unit = randomise(build_vectors(replace(settings, unit=True), vocab=VOCAB))
    assert differs(plain(x), unit(x))
    same(unit(x).norm(dim=-1), torch.ones(B), 1e-6)
    same(unit(x), plain(x) / plain(x).norm(dim=-1, keepdim=True), 1e-6)
