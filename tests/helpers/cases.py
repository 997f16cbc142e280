"""The encoders that the tests try: every one of the registry, its variants, and the Transformer's options in pairs."""

from dataclasses import replace
from typing import Any

from glassformer.config.encoders import ENCODERS
from glassformer.config.model_section import ACTIVATIONS, ATTENTIONS, NORMS, POSITIONS, SCORES
from glassformer.config.presets import STYLES
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.base import Encoder
from glassformer.encoders.registry import BUILDERS, Place, build_encoder
from helpers.support import pairwise, ready

Flags = dict[str, Any]

DECODER_KEYS = ("attention", "input_feeding")

WIDTH, CONTEXT = 14, 23
SMALL: Flags = {
    "layers": 2,
    "width": WIDTH,
    "heads": 5,
    "head_width": 6,
    "hidden": 11,
    "context": CONTEXT,
    "window": 3,
    "kernel": 3,
}


def small(encoder: str, **flags: Any) -> Flags:
    """An encoder of the registry, as small as it can be while no two of its sizes are the same."""
    used = used_keys(encoder)
    return {"encoder": encoder, **{key: value for key, value in SMALL.items() if key in used}, **flags}


def build(flags: Flags, *, causal: bool, memory_width: int | None = None) -> Encoder:
    own = {key: value for key, value in flags.items() if key in DECODER_KEYS}  # refused where nothing is translated
    settings = resolve({}, {f"model.{key}": value for key, value in flags.items() if key not in own}).model
    settings = replace(settings, **own)
    return ready(build_encoder(settings, Place(settings.width, causal, memory_width)))


OPTIONS = {
    "positions": POSITIONS,
    "norm": NORMS,
    "norm_order": ("pre", "post"),
    "scores": SCORES,
    "kv_heads": (6, 2),
    "qk_norm": (True, False),
    "activation": ACTIVATIONS,
    "bias": (True, False),
    "residual": (True, False),
    "feed": (2, 1, 0),
    "scale": (True, False),
    "output_projection": (True, False),
    "layers": (1, 2),
}


def possible(case: dict[str, Any]) -> bool:
    scores = case.get("scores", "query-key")
    return not (
        (scores != "query-key" and case.get("kv_heads") == 2)
        or (scores == "bilinear" and case.get("output_projection") is False)
    )


def transformer(case: dict[str, Any]) -> Flags:
    """Sizes that fit the options: heads × head width is the width only where it must be."""
    feed = case["feed"]
    flags = {key: value for key, value in case.items() if key != "feed"}
    flags |= {"feed_forward": feed > 0, "feed_layers": max(1, feed)}
    flags |= {"encoder": "transformer", "hidden": 11, "context": CONTEXT}
    if case["scores"] == "bilinear":
        return flags | {"width": 10, "heads": 3, "kv_heads": 3}
    free = case["scores"] == "query-key" and case["output_projection"]
    return flags | {"width": 13 if free else 24, "heads": 6, "head_width": 4}


PAIRS = [
    transformer({**case, "embed_norm": number % 2 == 0}) for number, case in enumerate(pairwise(OPTIONS, possible))
]


def label(flags: Flags) -> str:
    """A test's name. Switches are written as words: +bias, -bias."""
    shown = [str(flags["encoder"])]
    for key, value in flags.items():
        if key != "encoder" and SMALL.get(key) != value:
            shown.append(f"{'+' if value else '-'}{key}" if isinstance(value, bool) else f"{key}={value}")
    return ",".join(shown)


CAUSAL: list[Flags] = [
    *(small(name) for name in BUILDERS if ENCODERS[name].causal),
    *(small("transformer", style=style) for style in STYLES),
    small("window", layers=1),
    small("window", layers=3, window=1, activation="tanh", bias=False),
    small("window", window=40),
    *(small("cnn", norm=norm) for norm in NORMS),
    small("cnn", residual=False, dilation=1, bias=False, kernel=2),
    small("cnn", kernel=1),
    small("cnn", layers=3, dilation=3, activation="relu"),
    small("rnn", nonlinearity="relu", layers=1),
    small("lstm", cells=19, bias=False),
    small("lstm", cells=19, layers=3),
    small("gru", initial=False, bias="single"),
    *PAIRS,
]
"""Encoders built to hide the future."""

WHOLE: list[Flags] = [
    *(small(name) for name in BUILDERS),
    *(small(name, bidirectional=True) for name, info in ENCODERS.items() if "bidirectional" in info.keys),
    small("lstm", bidirectional=True, cells=19, bias=False, initial=False),
    small("window", window=4, layers=1),
    small("cnn", norm="batch", kernel=4),
    *PAIRS,
]
"""Encoders built to see the whole text."""

MEMORY_OPTIONS = {key: OPTIONS[key] for key in ("positions", "norm", "norm_order", "scores", "kv_heads", "qk_norm")}
NOT_ABOUT_MEMORY = {
    "activation": "gelu",
    "bias": True,
    "residual": True,
    "feed": 2,
    "scale": True,
    "output_projection": True,
    "layers": 1,
}
DECODER_OPTIONS = {
    "encoder": ("rnn", "lstm", "gru"),
    "attention": ATTENTIONS,
    "input_feeding": (True, False),
    "layers": (1, 2),
    "bias": (True, False, "single"),
}


def feedable(case: dict[str, Any]) -> bool:
    return not (case.get("attention") == "none" and case.get("input_feeding"))


RECURRENT_DECODERS: list[Flags] = [
    *(small(case.pop("encoder"), **case) for case in pairwise(DECODER_OPTIONS, feedable)),
    *(small("lstm", cells=19, input_feeding=feeding) for feeding in (True, False)),
]

WITH_MEMORY: list[Flags] = [
    *(small(name) for name, info in ENCODERS.items() if info.memory),
    *(transformer({**case, **NOT_ABOUT_MEMORY}) for case in pairwise(MEMORY_OPTIONS, possible)),
    *RECURRENT_DECODERS,
]
"""Encoders that attend to a second sequence."""
