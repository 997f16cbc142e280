"""Where settings start that nobody named, and settings that do something only where others have certain values."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.data_section import ALL_COLUMNS
from glassformer.config.encoders import DECODERS, HEAD_KEYS, PAIR_KEYS, RECURRENT, WORD_KEYS, encoder_info, size_of
from glassformer.config.errors import SettingError
from glassformer.config.plugins import own_part
from glassformer.config.presets import (
    CLASSIFICATION,
    CPU_TRANSLATION,
    IMAGE,
    LABELLING,
    LANGUAGE_MODEL,
    MASKED,
    MIXED,
    MULTILABEL,
    STARTS,
    TABLE,
    TASKS,
    TEXT,
    TRANSLATION,
    VECTORS,
    style_of,
)
from glassformer.config.sections import LAYERWISE, ModelSettings

WORDS = (TEXT, MIXED)
"""The kinds of examples that have words."""
PICTURES = (IMAGE, MIXED)

FRESH = {"model.from_run": (None,), "model.decoder_from": (None,)}
"""What begins from another run has its tokens."""

NEEDS: dict[str, dict[str, tuple[Any, ...]]] = {
    **{
        f"tokenizer.{key}": {"data.kind": WORDS, "tokenizer.file": (None,), **FRESH}
        for key in ("kind", "vocab_size", "min_count", "sample_mb", "lowercase")
    },
    "tokenizer.file": {"data.kind": WORDS, **FRESH},
    "tokenizer.shared": {"task": (TRANSLATION,), **FRESH},
    "data.documents_apart": {"task": (LANGUAGE_MODEL, MASKED), "model.encoder": ("transformer",)},
    "data.validation_fraction": {"data.validation": (None,), "data.folds": (None,)},
    "data.label_separator": {"task": (MULTILABEL,)},
    "data.test_fraction": {"data.test": (None,)},
    "data.text": {"task": (LANGUAGE_MODEL, MASKED, *LABELLING), "data.kind": WORDS},
    "data.label": {"task": LABELLING},
    "data.bad_rows": {"task": (*LABELLING, TRANSLATION)},
    "data.near_duplicates": {"data.kind": WORDS},
    "data.split_by": {"task": (*LABELLING, TRANSLATION)},
    "data.kind": {"task": LABELLING},
    "data.extra_columns": {"data.kind": (TABLE, MIXED)},
    "data.image": {"data.kind": (MIXED,)},
    **{f"data.{key}": {"data.kind": PICTURES} for key in ("image_size", "shift", "flip")},
    **{
        f"data.{key}": {"task": (TRANSLATION,)}
        for key in ("source", "target", "source_file", "target_file", "too_long")
    },
    "model.tied": {"task": (LANGUAGE_MODEL, MASKED, TRANSLATION)},
    "model.causal_mask": {"task": (LANGUAGE_MODEL,)},
    "model.embed": {"data.kind": WORDS},
    "model.context": {"data.kind": WORDS},
    **{f"model.{key}": {"task": LABELLING} for key in HEAD_KEYS},
    **{f"model.{key}": {"task": LABELLING, "data.kind": WORDS, "model.embed": ("vectors",)} for key in WORD_KEYS},
    "model.word_dropout": {"task": LABELLING, "data.kind": WORDS},
    "model.pool": {"task": (*LABELLING, VECTORS)},
    "model.head_activation": {"task": LABELLING, "model.head_layers": (1, 2)},
    "model.head_transform": {"task": (MASKED,)},
    "model.head_bias": {"task": tuple(task for task in TASKS if task != VECTORS)},
    "model.unit": {"task": (VECTORS,)},
    "model.vocab": {"data.kind": WORDS},
    "model.from_run": {"data.kind": WORDS},
    "model.rotary_scaling": {"model.positions": ("rotary",)},
    "model.head_hidden": {"task": LABELLING, "model.head_layers": (1, 2)},
    "model.words": {"tokenizer.kind": ("char",)},
    **{f"model.{key}": {"task": (TRANSLATION,)} for key in PAIR_KEYS},
    **{f"model.{key}": {"task": (TRANSLATION,), "model.decoder": RECURRENT} for key in ("attention", "input_feeding")},
    "model.shared": {"task": (TRANSLATION,), "tokenizer.shared": (True,), "model.embed": ("vectors",)},
    "model.patch": {"data.kind": PICTURES},
    "model.rotary_base": {"model.positions": ("rotary",)},
    "training.momentum": {"training.optimizer": ("momentum",)},
    "training.beta1": {"training.optimizer": ("muon", "adamw")},
    "training.beta2": {"training.optimizer": ("muon", "adamw")},
    "training.lr_floor": {"training.schedule": ("cosine",)},
    "training.loss": {"task": LABELLING},
    "training.class_weights": {"task": (CLASSIFICATION,)},
    "training.choose_by": {"task": (CLASSIFICATION,)},
    "training.label_smoothing": {"task": (LANGUAGE_MODEL, MASKED, CLASSIFICATION, TRANSLATION)},
    "training.targets": {"task": (LANGUAGE_MODEL,)},
    "training.mask_rate": {"task": (MASKED,)},
    "training.whole_words": {"task": (MASKED,)},
    "training.samples": {"task": (LANGUAGE_MODEL, TRANSLATION)},
    "training.validation_tokens": {"task": (LANGUAGE_MODEL, MASKED, TRANSLATION)},
    "training.batch_size": {"task": (LANGUAGE_MODEL, MASKED, *LABELLING)},
    "training.batch_tokens": {"task": (TRANSLATION,)},
}
"""What the others must be, by setting."""
VALUE_NEEDS: dict[tuple[str, Any], dict[str, tuple[Any, ...]]] = {
    ("model.attention", LAYERWISE): {"task": (TRANSLATION,), "model.decoder": ("transformer",)},
    ("data.extra_columns", ALL_COLUMNS): {"task": LABELLING},
}
"""Required values of other settings, by setting and value, where they differ from `NEEDS`."""


BUDGETS = ("training.steps", "training.epochs", "training.minutes")
"""How long to train, one way or another."""
OF_ENCODER = ("model.layers", "model.width", "model.bidirectional")
"""What an encoder decides for itself, whatever its decoder."""


def defaults(task: str, kind: str, encoder: str, said: Mapping[str, Any], starts: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted key: by task, kind of data, encoder, the data itself (`starts`), size and style."""
    info = encoder_info(encoder)
    general: dict[str, Any] = {}
    if task == TRANSLATION:
        decoder = decoder_for(encoder, said)
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
    # An encoder ignores a data set's setting that only other encoders support, such as documents_apart.
    general |= {
        key: value for key, value in starts.items() if encoder in NEEDS.get(key, {}).get("model.encoder", [encoder])
    }
    if "training.optimizer" in said:  # each has a rate of its own
        general.pop("training.lr", None)
    if said.get("tokenizer.kind", "word") == "bpe":
        general.pop("tokenizer.lowercase", None)
    if any(said.get(budget) is not None for budget in BUDGETS):
        general.pop("training.steps", None)
    size = of_model(size_of(said.get("model.size") or "tiny", encoder))
    style = of_model(style_of(said["model.style"])) if said.get("model.style") else {}
    named = size if said.get("model.size") else {}  # a size that was asked for beats what the task would choose
    found = {**of_model(info.defaults), **size, **general, **named, **style}
    attention = own_part("attention", said.get("model.scores", ""))
    if attention is not None and not attention.takes("rotation") and found.get("model.positions", "rotary") == "rotary":
        found["model.positions"] = "learned"
    return found


def decoder_for(encoder: str, said: Mapping[str, Any]) -> str:
    return said.get("model.decoder") or (encoder if encoder in DECODERS else DECODERS[0])


def cpu_defaults(task: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that differ on a CPU, by dotted key, without the settings in `said`."""
    if task != TRANSLATION:
        return {}
    decoder = decoder_for(said.get("model.encoder", ModelSettings.encoder), said)
    found = dict(encoder_info(decoder).starts.get(CPU_TRANSLATION, {}))
    if "model.width" in said or said.get("model.size"):
        found.pop("training.lr", None)  # this rate is for the narrow default model
    return {key: value for key, value in found.items() if key not in said}


def of_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"model.{key}": value for key, value in settings.items()}
