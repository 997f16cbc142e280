"""The encoders by name: what each can do, which settings it uses, and where these start; known without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError, refuse_unknown, unknown
from glassformer.config.plugins import own_names, own_part
from glassformer.config.presets import CPU_TRANSLATION, IMAGE, KINDS, MIXED, SIZES, STYLES, TABLE, TEXT, TRANSLATION

RECURRENT = ("lstm", "gru", "rnn")
DECODERS = ("transformer", *RECURRENT)
"""The encoders that can also write a translation: they read a second text beside their own."""
ENCODER_KEYS = ("bidirectional", "initial")
"""Settings that a decoder has no use for: it reads one way, and starts from its source."""

WORD_KEYS = ("word_dropout", "embed_width", "vectors", "vectors_frozen")
HEAD_KEYS = ("pool", "head_layers", "head_hidden", "head_activation", "head_bias", "causal", *WORD_KEYS)
PAIR_KEYS = ("decoder", "decoder_layers", "decoder_from", "attention", "input_feeding", "shared")
BEGUN_KEYS = ("from_run", "vocab", "head_transform", "unit")
"""Settings of models that someone has trained before, here or elsewhere."""
SHARED_KEYS = ("encoder", "size", "embed", "width", "context", "dropout", "tied", *HEAD_KEYS, *PAIR_KEYS, *BEGUN_KEYS)


@dataclass(frozen=True)
class EncoderInfo:
    """What is known of an encoder before torch is loaded."""

    summary: str
    keys: tuple[str, ...]
    """The settings of the `model` section it uses, beside the shared ones."""
    causal: bool = True
    """It can be built so that no output depends on a later input."""
    memory: bool = False
    """It can attend to a second sequence."""
    any_width: bool = False
    """Its input may be of another width than its output, as one-hot vectors are."""
    matrices: float = 12.0
    """How many width × width matrices one of its layers holds: this is what makes sizes comparable."""
    layers: int | None = None
    """Its usual number of layers; None: as many as the size names."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that start elsewhere than the section says."""
    ordered: bool = True
    """It knows the order of its inputs."""
    without: tuple[str, ...] = ()
    """The shared settings that it has no use for."""
    updates: int = 2000
    """How long to learn labels where nobody says: for about so many updates."""
    reads: tuple[str, ...] = (TEXT,)
    """The kinds of examples that it can learn labels of."""
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Its settings that it has no use for, by the kind of examples."""
    starts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of any section, by dotted key, whose defaults differ for translation (on a CPU), or for a kind of
    examples."""


def _recurrent(summary: str, matrices: float, *own: str) -> EncoderInfo:
    keys = ("layers", "bias", "bidirectional", "initial", *own)
    return EncoderInfo(
        summary,
        keys,
        memory=True,
        any_width=True,
        matrices=matrices,
        layers=2,
        defaults={"bias": True},
        reads=(TEXT, MIXED),
        starts={
            TEXT: {"model.layers": 1, "model.width": 128},
            TRANSLATION: {
                "model.layers": 1,
                "model.width": 256,
                "model.bidirectional": True,
                "model.tied": False,
                "training.optimizer": "adamw",
                "training.lr": 4e-3,
            },
            # many small updates of a narrow model achieve more in the first minutes
            CPU_TRANSLATION: {
                "model.width": 128,
                "training.batch_tokens": 512,
                "training.lr": 8e-3,
                "training.steps": 12_000,
            },
        },
    )


ENCODERS: dict[str, EncoderInfo] = {
    "bag": EncoderInfo(
        "a bag of words: counts or TF-IDF, and a linear map or MLP",
        ("weighting", "ngrams", "words", "buckets"),
        causal=False,
        ordered=False,
        updates=850,
        without=(
            "size", "embed", "width", "tied", "pool", "causal", "embed_width", "vectors",
            "vectors_frozen", *PAIR_KEYS, *BEGUN_KEYS,
        ),
        starts={
            TEXT: {
                "tokenizer.vocab_size": 200_000,
                "model.context": 2**16,
                "model.word_dropout": 0.0,
                "training.batch_size": 64,
                "training.lr": 0.05,
                "training.weight_decay": 0.03,
            },
        },
    ),
    "average": EncoderInfo(
        "the average of the word vectors, and an MLP: the deep averaging network",
        (),
        any_width=True,
        ordered=False,
        reads=(TEXT, MIXED),
        starts={
            TEXT: {
                "model.context": 2**16,
                "model.width": 256,
                "model.head_layers": 1,
                "model.pool": "mean",
                "model.dropout": 0.5,
                "model.word_dropout": 0.3,
                "training.lr": 4e-3,
            },
        },
    ),
    "window": EncoderInfo(
        "an MLP over the last few tokens: the fixed-window model",
        ("layers", "window", "hidden", "activation", "bias"),
        matrices=68.0,  # (16 in + 1 out) × hidden 4
        layers=1,
        defaults={"activation": "relu", "bias": True},
        starts={TEXT: {"model.window": 5, "model.width": 128}},
    ),
    "cnn": EncoderInfo(
        "stacked one-dimensional convolutions: the reach grows with depth",
        ("layers", "kernel", "stride", "padding", "dilation", "activation", "norm", "bias", "residual"),
        matrices=4.0,
        layers=6,
        defaults={"activation": "gelu", "bias": True},
        reads=(TEXT, IMAGE),
        unread={TEXT: ("stride", "padding"), IMAGE: ("dilation", "activation", "norm", "residual")},
        starts={
            TEXT: {
                "model.layers": 3,
                "model.kernel": 3,
                "model.dilation": 1,
                "model.width": 128,
                "training.batch_size": 64,
            },
            IMAGE: {
                "model.layers": 2,
                "model.kernel": 3,
                "model.width": 64,
                "model.pool": "flatten",
                "model.head_layers": 1,
            }
        },
    ),
    "rnn": _recurrent("Elman's recurrent network", 2.0, "nonlinearity"),
    "lstm": _recurrent("long short-term memory", 8.0, "cells"),
    "gru": _recurrent("gated recurrent units", 6.0),
    "transformer": EncoderInfo(
        "attention and feed-forward blocks",
        (
            "style", "layers", "heads", "head_width", "kv_heads", "hidden", "activation", "feed_layers", "feed_forward",
            "positions", "rotary_base", "rotary_scaling", "norm", "norm_order", "norm_eps", "embed_norm", "residual",
            "bias", "attention_bias", "feed_bias", "scores", "scale", "causal_mask", "output_projection", "qk_norm",
            "embed_scale", "initialisation", "patch",
        ),
        memory=True,
        reads=KINDS,
        starts={
            TEXT: {
                "model.layers": 2,
                "model.positions": "learned",
                "model.pool": "mean",
                "model.dropout": 0.1,
                "model.word_dropout": 0.1,
                "training.optimizer": "muon",
                "training.lr": 3e-3,
                "training.batch_size": 64,
            },
            TRANSLATION: {
                "model.layers": 2,
                "model.dropout": 0.1,
                "model.tied": True,
                "training.optimizer": "muon",
                "training.lr": 3e-3,
            },
            IMAGE: {
                "model.layers": 3,
                "model.width": 64,
                "model.positions": "learned",
                "model.pool": "mean",
                "training.optimizer": "muon",
            },
            TABLE: {"model.layers": 2, "model.width": 32, "model.positions": "none", "model.pool": "mean"},
        },
    ),
    "linear": EncoderInfo(
        "a linear map of a table's columns or an image's pixels: linear, logistic and softmax regression",
        (),
        causal=False,
        ordered=False,
        reads=(TABLE, IMAGE),
        without=("size", "embed", "width", "context", "dropout", "tied", *HEAD_KEYS, *PAIR_KEYS, *BEGUN_KEYS),
        starts={IMAGE: {"training.lr": 1e-2}, TABLE: {"training.lr": 2e-2, "training.weight_decay": 0.0}},
    ),
    "mlp": EncoderInfo(
        "a multilayer perceptron on a table's columns or an image's pixels",
        (),
        causal=False,
        ordered=False,
        reads=(TABLE, IMAGE),
        without=("size", "embed", "width", "context", "tied", "pool", "causal", *WORD_KEYS, *PAIR_KEYS, *BEGUN_KEYS),
        starts={IMAGE: {"model.head_layers": 1}, TABLE: {"model.head_layers": 1}},
    ),
}  # fmt: skip

OWN = "own"
"""What stands for an nn.Module that a person gave to `gf.train`: no encoder of ours, and none of its settings ours."""
OWN_INFO = EncoderInfo(
    "a model given from Python", (), without=tuple(key for key in SHARED_KEYS if key not in ("encoder", "context"))
)

MODEL_ALIASES = {"bow": "bag", "dan": "average", "bilstm": "lstm:bidirectional"}
"""Names that people type."""

VARIANTS: dict[str, dict[str, Any]] = {
    "tfidf": {"weighting": "tfidf"},
    "counts": {"weighting": "counts"},
    "bigrams": {"ngrams": 2},
    "bidirectional": {"bidirectional": True},
    **{style: {"style": style} for style in STYLES},
}
"""What may follow an encoder's name after a colon."""


def model_name(name: str) -> tuple[str, dict[str, Any]]:
    """`lstm:bidirectional` → its encoder, and the settings that the variant stands for."""
    encoder, *variants = MODEL_ALIASES.get(name, name).split(":")
    settings: dict[str, Any] = {}
    for variant in variants:
        usable = [other for other, keys in VARIANTS.items() if set(keys) <= set(encoder_info(encoder).keys)]
        refuse_unknown(f"variant of {encoder}", variant, usable)
        settings |= VARIANTS[variant]
    return encoder, settings


def encoder_info(name: str) -> EncoderInfo:
    if is_own_model(name):
        return OWN_INFO
    if name not in ENCODERS:
        raise SettingError(
            unknown("model", name, dict.fromkeys([*ENCODERS, *MODEL_ALIASES, *own_names("model.encoder")]))
        )
    return ENCODERS[name]


def is_own_model(name: str) -> bool:
    """Whether it is a whole model of a person's own: given from Python, or registered."""
    return name == OWN or own_part("model", name) is not None


def size_of(name: str, encoder: str) -> dict[str, int]:
    """The settings a size stands for.

    The table is the Transformer's. Another encoder takes its usual depth, and the width at which its matrices hold as
    many numbers as that Transformer's: models of one size name are then comparable.
    """
    refuse_unknown("size", name, SIZES)
    size, info = SIZES[name], encoder_info(encoder)
    if info.layers is None:
        used = {*info.keys, *SHARED_KEYS}.difference(info.without)
        return {key: value for key, value in size.items() if key in used}
    weights = 12 * size["layers"] * size["width"] ** 2
    width = math.sqrt(weights / (info.matrices * info.layers))
    return {"layers": info.layers, "width": max(8, round(width / 8) * 8)}
