"""Small sequence-to-sequence models of every kind."""

from typing import Any

from glassformer.config.encoders import ENCODERS
from glassformer.config.model_section import ATTENTIONS, DECODERS, ModelSettings
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.registry import BUILDERS
from glassformer.models.build import build_seq2seq
from glassformer.models.modules import Seq2Seq
from helpers.support import pairwise

Flags = dict[str, Any]

SOURCE_VOCAB, TARGET_VOCAB = 13, 11
SMALL: Flags = {
    "layers": 2, "decoder_layers": 1, "width": 14, "heads": 5, "head_width": 6, "hidden": 17, "context": 23,
    "window": 3, "kernel": 3, "dropout": 0.0,
}  # fmt: skip


def settings_of(encoder: str = "transformer", decoder: str = "transformer", **flags: Any) -> ModelSettings:
    """A translator's settings, no two of its sizes the same."""
    used = {*used_keys(encoder), *used_keys(decoder)}
    chosen = {**{key: value for key, value in SMALL.items() if key in used}, "shared": False, **flags}
    if chosen.get("embed") == "onehot":
        del chosen["shared"]
    if "bidirectional" in ENCODERS[encoder].keys:
        chosen.setdefault("bidirectional", False)
    said = {f"model.{key}": value for key, value in {"encoder": encoder, "decoder": decoder, **chosen}.items()}
    return resolve({}, {"task": "translation", **said}).model


def translator(
    encoder: str = "transformer",
    decoder: str = "transformer",
    *,
    seed: int = 0,
    source_vocab: int = SOURCE_VOCAB,
    target_vocab: int = TARGET_VOCAB,
    **flags: Any,
) -> Seq2Seq:
    settings = settings_of(encoder, decoder, **flags)
    if flags.get("shared"):
        source_vocab = target_vocab
    return build_seq2seq(settings, source_vocab=source_vocab, target_vocab=target_vocab, seed=seed)


def _possible(case: Flags) -> bool:
    attention, feeding = case.get("attention"), case.get("input_feeding")
    if case.get("decoder") == "transformer" and (attention not in (None, ATTENTIONS[0]) or feeding):
        return False
    if case.get("bidirectional") and "bidirectional" not in ENCODERS[case.get("encoder", "lstm")].keys:
        return False
    return not (attention == "none" and feeding)


def _flags(case: Flags) -> Flags:
    """Only what the encoder and the decoder use."""
    left_out = set()
    if case["decoder"] == "transformer":
        left_out |= {"attention", "input_feeding"}
    if "bidirectional" not in ENCODERS[case["encoder"]].keys:
        left_out.add("bidirectional")
    return {key: value for key, value in case.items() if key not in left_out}


OPTIONS: dict[str, tuple[Any, ...]] = {
    "decoder": DECODERS,
    "encoder": tuple(BUILDERS),
    "attention": ATTENTIONS,
    "input_feeding": (False, True),
    "bidirectional": (False, True),
    "tied": (True, False),
    "shared": (False, True),
}

TRANSLATORS: list[Flags] = [
    *(_flags(case) for case in pairwise(OPTIONS, _possible)),
    *({"encoder": "transformer", "decoder": "transformer", "style": style} for style in ("classic", "gpt2", "llama")),
    *(
        {"encoder": "transformer", "decoder": "transformer", "attention": "layerwise", "decoder_layers": 2, **more}
        for more in ({}, {"style": "classic"}, {"shared": True, "tied": True, "norm": "layer"})
    ),
    {"encoder": "lstm", "decoder": "lstm", "cells": 19},
    {"encoder": "lstm", "decoder": "gru", "cells": 19},
    {"encoder": "gru", "decoder": "rnn", "decoder_layers": 3, "nonlinearity": "relu"},
]
"""Every decoder with every encoder, kind of attention and way to share, in pairs."""


def label(flags: Flags) -> str:
    shown = [f"{flags['encoder']}-{flags['decoder']}"]
    for key, value in flags.items():
        if key not in ("encoder", "decoder") and value is not False:
            shown.append(f"+{key}" if value is True else f"{key}={value}")
    return ",".join(shown)
