"""Where settings start that nobody named."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.encoders import DECODERS, encoder_info, size_of
from glassformer.config.errors import SettingError
from glassformer.config.presets import LABELLING, MASKED, MIXED, STARTS, TEXT, TRANSLATION, style_of

BUDGETS = ("training.steps", "training.epochs", "training.minutes")
"""How long to train, one way or another."""
OF_ENCODER = ("model.layers", "model.width", "model.bidirectional")
"""What an encoder decides for itself, whatever its decoder."""


def defaults(task: str, kind: str, encoder: str, said: Mapping[str, Any], starts: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted key: by task, kind of data, encoder, the data itself (`starts`), size and style."""
    info = encoder_info(encoder)
    general: dict[str, Any] = {}
    if task == TRANSLATION:
        decoder = said.get("model.decoder") or (encoder if encoder in DECODERS else DECODERS[0])
        writer = encoder_info(decoder)
        if not writer.memory:
            raise SettingError(f"{decoder} cannot attend to a second text: model.decoder {' or '.join(DECODERS)} can")
        writing = writer.starts.get(TRANSLATION, {})
        general = {
            **of_model(writer.defaults),
            **STARTS[TRANSLATION],
            # how large it is, an encoder decides; the decoder, which has the head, how both are trained
            **{key: value for key, value in writing.items() if key not in OF_ENCODER},
            **{key: value for key, value in info.starts.get(TRANSLATION, {}).items() if key in OF_ENCODER},
            "model.decoder": decoder,
        }
        if decoder != encoder:
            general["model.decoder_layers"] = writing.get("model.layers", 1)
        vectors = said.get("model.embed") != "onehot"  # which has no weights to share
        general["model.tied"] = general.get("model.tied", False) and vectors
        general["model.shared"] = said.get("tokenizer.shared", True) and vectors
    elif task == MASKED and "bidirectional" in info.keys:
        general = {"model.bidirectional": True}
    elif task in LABELLING:
        like = TEXT if kind == MIXED else kind
        general = {**STARTS[like], **info.starts.get(like, {})}
    general |= starts
    if "training.optimizer" in said:  # each has a rate of its own
        general.pop("training.lr", None)
    if said.get("tokenizer.kind", "word") == "bpe":
        general.pop("tokenizer.lowercase", None)
    if any(said.get(budget) is not None for budget in BUDGETS):
        general.pop("training.steps", None)
    size = of_model(size_of(said.get("model.size") or "tiny", encoder))
    style = of_model(style_of(said["model.style"])) if said.get("model.style") else {}
    named = size if said.get("model.size") else {}  # a size that was asked for beats what the task would choose
    return {**of_model(info.defaults), **size, **general, **named, **style}


def of_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"model.{key}": value for key, value in settings.items()}
