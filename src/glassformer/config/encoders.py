"""The encoders by name: what each can do, which settings it uses, and where these start; known without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import SettingError, refuse_unknown, unknown
from glassformer.config.plugins import own_names, own_part
from glassformer.config.presets import SIZES, STYLES, TEXT, dotted, read_settings

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
GROUPS = {"@words": WORD_KEYS, "@head": HEAD_KEYS, "@pair": PAIR_KEYS, "@begun": BEGUN_KEYS}
"""Names in `encoders.toml` for several settings."""
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


def _encoder_of(table: Mapping[str, Any]) -> EncoderInfo:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    fields["without"] = tuple(key for name in table.get("without", ()) for key in GROUPS.get(name, (name,)))
    fields["starts"] = {kind: dotted(sections) for kind, sections in table.get("starts", {}).items()}
    return EncoderInfo(**fields)


def _read_encoders() -> dict[str, EncoderInfo]:
    tables = read_settings("encoders.toml")
    shared = tables.pop("recurrent")
    tables |= {name: {**shared, **tables[name]} for name in RECURRENT}
    return {name: _encoder_of(table) for name, table in tables.items()}


ENCODERS = _read_encoders()

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
        names = dict.fromkeys([*ENCODERS, *MODEL_ALIASES, *own_names("model.encoder")])
        raise SettingError(unknown("model", name, names))
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
