"""Names as data: the encoders and what each can do, the sizes, and the styles of the one Transformer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.names import unknown

SHARED_KEYS = ("encoder", "size", "embed", "width", "context", "dropout", "tied")


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


def _recurrent(summary: str, matrices: float, *own: str) -> EncoderInfo:
    keys = ("layers", "bias", "bidirectional", "initial", *own)
    return EncoderInfo(summary, keys, any_width=True, matrices=matrices, layers=2, defaults={"bias": True})


ENCODERS: dict[str, EncoderInfo] = {
    "window": EncoderInfo(
        "an MLP over the last few tokens: the fixed-window model",
        ("layers", "window", "hidden", "activation", "bias"),
        matrices=68.0,  # (16 in + 1 out) × hidden 4
        layers=1,
        defaults={"activation": "relu", "bias": True},
    ),
    "cnn": EncoderInfo(
        "stacked one-dimensional convolutions, dilated so that the reach grows with depth",
        ("layers", "kernel", "dilation", "activation", "norm", "bias", "residual"),
        matrices=4.0,
        layers=6,
        defaults={"activation": "gelu", "bias": True},
    ),
    "rnn": _recurrent("Elman's recurrent network", 2.0, "nonlinearity"),
    "lstm": _recurrent("long short-term memory", 8.0, "cells"),
    "gru": _recurrent("gated recurrent units", 6.0),
    "transformer": EncoderInfo(
        "attention and feed-forward blocks",
        (
            "style", "layers", "heads", "head_width", "kv_heads", "hidden", "activation", "feed_layers", "feed_forward",
            "positions", "rotary_base", "norm", "norm_order", "residual", "bias", "scores", "scale", "mask",
            "output_projection", "qk_norm", "embed_scale", "initialisation",
        ),
        memory=True,
    ),
}  # fmt: skip

SIZES: dict[str, dict[str, int]] = {
    "nano": {"layers": 3, "heads": 3, "width": 48},
    "tiny": {"layers": 4, "heads": 4, "width": 128},
    "small": {"layers": 6, "heads": 6, "width": 384},
    "base": {"layers": 6, "heads": 8, "width": 512},
    "large": {"layers": 12, "heads": 12, "width": 768},
    "huge": {"layers": 24, "heads": 16, "width": 1024},
    "giant": {"layers": 48, "heads": 25, "width": 1600},
}

STYLES: dict[str, dict[str, Any]] = {
    "classic": {
        "norm": "layer", "norm_order": "post", "positions": "sine", "activation": "relu", "bias": True,
        "qk_norm": False, "embed_scale": True, "initialisation": "xavier",
    },
    "gpt2": {
        "norm": "layer", "norm_order": "pre", "positions": "learned", "activation": "gelu", "bias": True,
        "qk_norm": False, "embed_scale": False, "initialisation": "gpt2", "tied": True,
    },
    "llama": {
        "norm": "rms", "norm_order": "pre", "positions": "rotary", "activation": "swiglu", "bias": False,
        "qk_norm": False, "embed_scale": False, "initialisation": "gpt2",
    },
}  # fmt: skip


def encoder_info(name: str) -> EncoderInfo:
    if name not in ENCODERS:
        raise SettingError(unknown("model", name, ENCODERS))
    return ENCODERS[name]


def size_of(name: str, encoder: str) -> dict[str, int]:
    """The settings a size stands for.

    The table is the Transformer's. Another encoder takes its usual depth, and the width at which its matrices hold as
    many numbers as that Transformer's: models of one size name are then comparable.
    """
    if name not in SIZES:
        raise SettingError(unknown("size", name, SIZES))
    size, info = SIZES[name], encoder_info(encoder)
    if info.layers is None:
        return {key: value for key, value in size.items() if key in info.keys or key in SHARED_KEYS}
    weights = 12 * size["layers"] * size["width"] ** 2
    width = math.sqrt(weights / (info.matrices * info.layers))
    return {"layers": info.layers, "width": max(8, round(width / 8) * 8)}


def style_of(name: str) -> dict[str, Any]:
    if name not in STYLES:
        raise SettingError(unknown("style", name, STYLES))
    return STYLES[name]
