"""Facts about the encoders that are known without torch: capabilities, settings and defaults."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field
from typing import Any

from glassformer.config.errors import SettingError, refuse_unknown, unknown
from glassformer.config.model_section import (
    ENCODER_SETTINGS,
    RECURRENT,
    ContextSettings,
    ModelSettings,
    SequenceSettings,
)
from glassformer.config.plugins import own_names, own_part
from glassformer.config.presets import SIZES, STYLES, TEXT, dotted, read_settings
from glassformer.config.setting import parse, setting_fields


@dataclass(frozen=True)
class EncoderInfo:
    """Facts about an encoder that are known before torch is loaded."""

    summary: str
    settings: type[ModelSettings] = SequenceSettings
    """The class of its settings."""
    causal: bool = True
    """Whether it can be built so that no output depends on a later input."""
    memory: bool = False
    """Whether it can attend to a second sequence."""
    any_width: bool = False
    """Whether its input may have another width than its output, as one-hot vectors have."""
    matrices: float = 12.0
    """Number of width × width matrices in one of its layers, which makes sizes comparable."""
    layers: int | None = None
    """Its usual number of layers; None: the number of the size."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings whose defaults differ from those of the class."""
    ordered: bool = True
    """Whether its output depends on the order of its inputs."""
    updates: int = 2000
    """Approximate number of updates for labels, without a budget."""
    reads: tuple[str, ...] = (TEXT,)
    """The kinds of examples whose labels it can learn."""
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Settings without effect, by kind of examples."""
    starts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of any section, by dotted key, whose defaults differ for translation (on a CPU), or for a kind of
    examples."""

    @property
    def keys(self) -> Collection[str]:
        """The names of its settings."""
        return setting_fields(self.settings)


def _encoder_of(name: str, table: Mapping[str, Any]) -> EncoderInfo:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    fields["starts"] = {kind: dotted(sections) for kind, sections in table.get("starts", {}).items()}
    return EncoderInfo(settings=ENCODER_SETTINGS[name], **fields)


def _read_encoders() -> dict[str, EncoderInfo]:
    tables = read_settings("encoders.toml")
    shared = tables.pop("recurrent")
    tables |= {name: {**shared, **tables[name]} for name in RECURRENT}
    return {name: _encoder_of(name, table) for name, table in tables.items()}


ENCODERS = _read_encoders()

OWN = "own"
"""Encoder name of an nn.Module that was passed to `gf.train`."""
OWN_INFO = EncoderInfo("a model given from Python", ContextSettings)

MODEL_ALIASES = {"bow": "bag", "dan": "average", "bilstm": "lstm:bidirectional"}
"""Short names of models."""

VARIANTS: dict[str, dict[str, Any]] = {
    "tfidf": {"weighting": "tfidf"},
    "counts": {"weighting": "counts"},
    "bigrams": {"ngrams": 2},
    "bidirectional": {"bidirectional": True},
    **{style: {"style": style} for style in STYLES},
}
"""Settings by the variant that may follow an encoder's name after a colon."""
SEPARATOR = re.compile(r":(?=[a-z][a-z0-9_-]*(?:=|:|$))")
"""A colon before a variant or a setting, but not within a value."""


def model_name(name: str) -> tuple[str, dict[str, Any]]:
    """Split `lstm:bidirectional:layers=2` into the encoder and the settings of its variants."""
    alias, *rest = list[str](SEPARATOR.split(name))
    encoder, *variants = [*MODEL_ALIASES.get(alias, alias).split(":"), *rest]
    settings: dict[str, Any] = {}
    for variant in variants:
        key, given, value = variant.partition("=")
        if given:
            settings[key] = parse(f"model.{key}", _field(key), value)
            continue
        usable = [other for other, keys in VARIANTS.items() if set(keys) <= set(encoder_info(encoder).keys)]
        refuse_unknown(f"variant of {encoder}", variant, usable)
        settings |= VARIANTS[variant]
    return encoder, settings


def _field(key: str) -> Field[Any]:
    """Return the setting with this name of any encoder; `resolve` refuses it later if the encoder does not use it."""
    fields = {name: field for info in ENCODERS.values() for name, field in setting_fields(info.settings).items()}
    refuse_unknown("setting of the model", key, fields)
    return fields[key]


def encoder_info(name: str) -> EncoderInfo:
    if is_own_model(name):
        return OWN_INFO
    if name not in ENCODERS:
        names = dict.fromkeys([*ENCODERS, *MODEL_ALIASES, *own_names("model.encoder")])
        raise SettingError(unknown("model", name, names))
    return ENCODERS[name]


def is_own_model(name: str) -> bool:
    """Return whether it is a user's own complete model: passed from Python, or registered."""
    return name == OWN or own_part("model", name) is not None


def size_of(name: str, encoder: str) -> dict[str, int]:
    """Return the settings of a size.

    The table is for the Transformer. Another encoder has its usual number of layers, and the width at which its
    matrices have as many weights as that Transformer. Models of the same size are then comparable.
    """
    refuse_unknown("size", name, SIZES)
    size, info = SIZES[name], encoder_info(encoder)
    if info.layers is None:
        return {key: value for key, value in size.items() if key in info.keys}
    weights = 12 * size["layers"] * size["width"] ** 2
    width = math.sqrt(weights / (info.matrices * info.layers))
    return {"layers": info.layers, "width": max(8, round(width / 8) * 8)}
