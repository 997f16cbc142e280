"""From what a person said to a whole configuration: defaults < size < style < file < flag."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.names import unknown
from glassformer.config.presets import ENCODERS, SHARED_KEYS, encoder_info, size_of, style_of
from glassformer.config.sections import DataSettings, ModelSettings, TokenizerSettings, TrainingSettings
from glassformer.config.setting import parse

SECTIONS: dict[str, type[Any]] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
}

ALIASES: dict[str, str] = {
    "model": "model.encoder",
    "size": "model.size",
    "style": "model.style",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "minutes": "training.minutes",
    "seed": "training.seed",
    "device": "training.device",
    "lr": "training.lr",
    "batch_size": "training.batch_size",
    "optimizer": "training.optimizer",
    "dropout": "model.dropout",
    "vocab_size": "tokenizer.vocab_size",
    "text": "data.text",
    "validation": "data.validation",
    "test": "data.test",
}
"""Short names that people type; each stands for one key."""


@dataclass(frozen=True)
class Config:
    """A whole, checked configuration."""

    task: str
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    def get(self, key: str) -> Any:
        """A setting by its dotted key."""
        section, name = key.split(".")
        return getattr(getattr(self, section), name)

    def idle(self, key: str) -> str | None:
        """Why a setting does nothing here, if so."""
        section, name = key.split(".")
        if section == "model" and name not in used_keys(self.model.encoder):
            users = [other for other, info in ENCODERS.items() if name in info.keys]
            return f"{key} is not used by {self.model.encoder}; it belongs to {', '.join(users)}"
        other, values = NEEDS.get(key, ("", ()))
        if other in keys() and self.get(other) not in values:
            wanted = " or ".join("unset" if value is None else str(value).lower() for value in values)
            return f"{key} does nothing while {other} is {self.get(other)}; it goes with {other} {wanted}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """What a run saves: every setting that does something."""
        out: dict[str, Any] = {"task": self.task, **{name: {} for name in SECTIONS}}
        for key in keys():
            if self.idle(key) is None:
                section, name = key.split(".")
                out[section][name] = self.get(key)
        return out


def used_keys(encoder: str) -> tuple[str, ...]:
    return SHARED_KEYS + encoder_info(encoder).keys


def keys() -> list[str]:
    """Every dotted key."""
    return [f"{name}.{field.name}" for name, section in SECTIONS.items() for field in dataclasses.fields(section)]


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections, dotted keys and short names, all to dotted keys; unknown ones are refused."""
    flat: dict[str, Any] = {}
    known = keys()
    for key, value in settings.items():
        name = str(key)  # YAML reads some keys as numbers or truths
        if name == "task":
            flat["task"] = None if value is None else str(value)
        elif name in SECTIONS and (isinstance(value, Mapping) or value is None):
            for inner_key, inner in (value or {}).items():
                _put(flat, f"{name}.{inner_key}", inner, known)
        else:
            _put(flat, ALIASES.get(name, name), value, known)
    return flat


def _put(flat: dict[str, Any], key: str, value: Any, known: list[str]) -> None:
    if key not in known:
        raise SettingError(unknown("setting", key, [*known, *ALIASES]))
    section, name = key.split(".")
    field = next(field for field in dataclasses.fields(SECTIONS[section]) if field.name == name)
    flat[key] = parse(key, field, value)


TASKS = ("language-model",)
NEEDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "tokenizer.kind": ("tokenizer.file", (None,)),
    "tokenizer.vocab_size": ("tokenizer.file", (None,)),
    "tokenizer.lowercase": ("tokenizer.file", (None,)),
    "tokenizer.min_count": ("tokenizer.file", (None,)),
    "tokenizer.sample_mb": ("tokenizer.file", (None,)),
    "data.validation_fraction": ("data.validation", (None,)),
    "data.test_fraction": ("data.test", (None,)),
    "model.rotary_base": ("model.positions", ("rotary",)),
    "training.momentum": ("training.optimizer", ("momentum",)),
    "training.beta1": ("training.optimizer", ("muon", "adamw")),
    "training.beta2": ("training.optimizer", ("muon", "adamw")),
    "training.lr_floor": ("training.schedule", ("cosine",)),
}
"""Settings that do something only where another one has certain values."""

BUDGETS = ("training.steps", "training.epochs", "training.minutes")


def resolve(file: Mapping[str, Any], flags: Mapping[str, Any]) -> Config:
    """The configuration that a file and flags ask for.

    Keys that the chosen encoder does not use are errors, not decoration.
    """
    from_file, from_flags = flatten(file), flatten(flags)
    if any(from_flags.get(budget) is not None for budget in BUDGETS):  # a flag's budget replaces the file's
        from_file = {key: value for key, value in from_file.items() if key not in BUDGETS}
    said = {**from_file, **from_flags}
    task = said.pop("task", None) or "language-model"
    if task not in TASKS:
        raise SettingError(unknown("task", task, TASKS))
    encoder = said.get("model.encoder", ModelSettings.encoder)
    size = size_of(said.get("model.size", ModelSettings.size), encoder)
    style = style_of(said["model.style"]) if said.get("model.style") else {}
    under = {f"model.{key}": value for key, value in {**encoder_info(encoder).defaults, **size, **style}.items()}
    merged = {**under, **said}
    sections = {
        name: section(**{key.split(".")[1]: value for key, value in merged.items() if key.startswith(f"{name}.")})
        for name, section in SECTIONS.items()
    }
    config = Config(task=task, **sections)
    for key in said:
        why = config.idle(key)
        if why is not None and (key in from_flags or key.startswith("model.")):
            raise SettingError(why)
    return config
