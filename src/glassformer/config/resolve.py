"""Resolve files and flags to a complete configuration: defaults < task < size < style < data < file < flag."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config import encoders, presets
from glassformer.config.data_section import ALL_COLUMNS, DataSettings
from glassformer.config.errors import SettingError, refuse_unknown, unknown, with_article
from glassformer.config.limits import read_text
from glassformer.config.model_section import (
    DECODERS,
    ENCODER_KEYS,
    ENCODER_SETTINGS,
    LAYERWISE,
    RECURRENT,
    LayerSettings,
    ModelSettings,
    SequenceSettings,
    Transformer,
)
from glassformer.config.plugins import own_part
from glassformer.config.sections import TokenizerSettings, TrainingSettings
from glassformer.config.setting import OpenSettings, check_value, docstrings_of_fields, parse, setting_fields

SECTIONS: dict[str, list[type[Any]]] = {
    "data": [DataSettings],
    "tokenizer": [TokenizerSettings],
    "model": [Transformer, *ENCODER_SETTINGS.values()],
    "training": [TrainingSettings],
}
"""The classes of each section; the encoder selects the class of the section `model`."""
FIELDS: dict[str, dataclasses.Field[Any]] = {}
"""Every setting by its dotted key."""


@functools.cache
def help_texts() -> dict[str, str]:
    """Return the help text of every setting by dotted key."""
    texts = ({name: docstrings_of_fields(one)} for name, classes in SECTIONS.items() for one in classes)
    return {key: text for section in texts for key, text in presets.dotted(section).items()}


def add_settings(section: str, settings: type[Any]) -> None:
    """Add the settings of a class, such as the settings of a registered encoder, to `FIELDS`."""
    SECTIONS[section].append(settings)
    for name, field in setting_fields(settings).items():
        FIELDS.setdefault(f"{section}.{name}", field)
    help_texts.cache_clear()


for _name, _classes in SECTIONS.items():
    for _class in list(_classes):
        add_settings(_name, _class)

_NAMES = presets.read_settings("names.toml")
ALIASES: dict[str, str] = _NAMES["short"]
"""Dotted keys by short name."""
NAMES_ELSEWHERE = {name: key for key, names in _NAMES["elsewhere"].items() for name in names.split()}
"""Dotted keys by the names that settings have in other libraries."""

KINDS_WITH_WORDS = (presets.TEXT, presets.MIXED)
"""The kinds of examples that have words."""

GROUPS = {
    "@packed": presets.PACKED,
    "@labelling": presets.LABELLING,
    "@recurrent": RECURRENT,
    "unset": (None,),
}
"""Names in `needs.toml` for several values, and for None."""


def _needed_values(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(single for value in values for single in GROUPS.get(value, (value,)))


NEEDS = {
    setting: {other: _needed_values(values) for other, values in needed.items()}
    for setting, needed in presets.dotted(presets.read_settings("needs.toml")).items()
}
"""Required values of other settings, by setting."""
VALUE_NEEDS: dict[tuple[str, Any], dict[str, tuple[Any, ...]]] = {
    ("model.attention", LAYERWISE): {"task": (presets.TRANSLATION,), "model.decoder": ("transformer",)},
    ("data.extra_columns", ALL_COLUMNS): {"task": presets.LABELLING},
}
"""Required values of other settings, by setting and value, where they differ from `NEEDS`."""


BUDGETS = ("training.steps", "training.epochs", "training.minutes")
"""Settings of the length of training; at most one may be set."""
ENCODER_DEFAULT_KEYS = ("model.layers", "model.width", "model.bidirectional")
"""Settings whose defaults are those of the encoder, whatever its decoder."""

BUILT_IN_ATTENTION_KEYS = ("model.kv_heads", "model.scale", "model.output_projection", "model.qk_norm")
"""Settings without effect on a registered attention."""
KINDS_IN_WORDS = {
    presets.TEXT: "texts",
    presets.TABLE: "tables",
    presets.IMAGE: "images",
    presets.MIXED: "texts with other columns",
}


@dataclass(frozen=True)
class Config:
    """A complete, checked configuration."""

    task: str
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    def get(self, key: str) -> Any:
        """Return a setting by its dotted key, None if it is not used; for `task`, the built-in task."""
        if key == "task":
            return presets.settings_task(self.task)
        section, name = key.split(".")
        decoder = self.decoder_settings
        if section == "model" and decoder is not None and name not in setting_fields(type(self.model)):
            return getattr(decoder, name, None)
        return getattr(getattr(self, section), name, None)

    @property
    def decoder_settings(self) -> LayerSettings | None:
        """Settings of a translator's decoder, if its kind differs from that of the encoder, else None."""
        return self.model.decoder_settings if isinstance(self.model, SequenceSettings) else None

    def idle(self, key: str) -> str | None:
        """Return the reason why a setting has no effect here; None if it has one."""
        section, name = key.split(".")
        encoder, decoder = self.model.encoder, self.decoder_settings
        by_decoder = decoder is not None and name in setting_fields(type(decoder)) and name not in ENCODER_KEYS
        if section == "model" and name not in setting_fields(type(self.model)) and not by_decoder:
            users = ", ".join(other for other in encoders.ENCODERS if name in used_keys(other))
            head = key == "model.layers" and "head_layers" in used_keys(encoder)
            instead = f"; the hidden layers of {encoder} are model.head_layers" if head else ""
            return f"{key} is not used by {encoder}; it belongs to {users}{instead}"
        if section == "model" and name in encoders.encoder_info(encoder).unread.get(self.data.kind, ()):
            return f"{key} is not used by {encoder} on {KINDS_IN_WORDS[self.data.kind]}"
        own = own_part("attention", self.get("model.scores"))
        if own is not None and key in BUILT_IN_ATTENTION_KEYS and self.get("task") != presets.TRANSLATION:
            return f"{key} does nothing with {own}"  # a translator attends to its source with built-in attention
        if key == "data.fold" and self.data.folds is None:
            return "data.fold does nothing without data.folds"
        if key in ("training.last_blocks", "training.layer_decay") and not self.is_finetuned:
            return f"{key} does nothing without --from: what is new has to be trained"
        if key == "training.layer_decay" and self.get("task") in presets.LABELLING and self.training.last_blocks == 0:
            return f"{key} does nothing while training.last_blocks is 0: no block is trained"
        if key == "model.buckets" and self.get("model.ngrams") == 1 and not self.get("model.words"):
            return "model.buckets does nothing while model.ngrams is 1; it goes with runs, model.ngrams 2 or more"
        for other, values in VALUE_NEEDS.get((key, self.get(key)), NEEDS.get(key, {})).items():
            if self.get(other) not in values:
                wanted = " or ".join("unset" if value is None else str(value).lower() for value in values)
                return f"{key} does nothing while {other} is {self.get(other)}; it goes with {other} {wanted}"
        return None

    @property
    def is_finetuned(self) -> bool:
        """Whether it is initialised from another run."""
        return self.model.from_run is not None or self.model.decoder_from is not None

    @property
    def framed(self) -> bool:
        """Whether START and END enclose each text, since its encoder knows the order of tokens."""
        return encoders.encoder_info(self.model.encoder).ordered

    def to_dict(self) -> dict[str, Any]:
        """Return every setting that has an effect, as a run saves them."""
        out: dict[str, Any] = {"task": self.task, **{name: {} for name in SECTIONS}}
        for key in keys():
            if self.idle(key) is None:
                section, name = key.split(".")
                out[section][name] = self.get(key)
        return out


def used_keys(encoder: str) -> tuple[str, ...]:
    """Return the names of an encoder's settings."""
    return tuple(encoders.encoder_info(encoder).keys)


def keys() -> list[str]:
    """Return every dotted key."""
    return list(FIELDS)


DATA_PATHS = ("data.path", "data.validation", "data.test", "data.source_file", "data.target_file")
"""Settings that name the data, which may have moved since training."""
OTHER_PATHS = ("model.from_run", "model.decoder_from", "model.vectors", "tokenizer.file")
"""Settings that name other files, which only a new training run reads."""
BOUND_TRAINING_KEYS = ("training.optimizer", "training.loss", "training.last_blocks", "training.choose_by")
"""Training settings that the optimiser's state, the outputs or the best score depend on."""


def bound_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task and the settings, by dotted key, that trained weights depend on.

    These are all settings except paths and the training settings that may change when a run is resumed.
    """
    training = (key for key in FIELDS if key.startswith("training."))
    free = {*DATA_PATHS, *OTHER_PATHS, *training}.difference(BOUND_TRAINING_KEYS)
    return {key: value for key, value in names_in(settings) if key not in free}


COLUMN_KEYS = ("data.text", "data.label", "data.extra_columns")
"""Settings that name columns, separated by commas or as a list."""


def full_key(name: str) -> str:
    """Return the dotted key that a name or its short form stands for."""
    return ALIASES.get(name, name)


def known_elsewhere(name: str) -> str | None:
    """Return the setting that a name, or a flag, of another library stands for."""
    plain = name.removeprefix("--").lower().replace("-", "_")
    section, _, last = plain.rpartition(".")
    key = NAMES_ELSEWHERE.get(last)
    return key if key != plain and section in ("", *SECTIONS) else None


def names_in(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield settings by the names that the user wrote, those of a section after its name."""
    for key, value in settings.items():
        name = str(key)  # YAML reads some keys as numbers or booleans
        if isinstance(value, OpenSettings):
            if name != value.section:
                raise SettingError(f"{name} does not take {with_article(value)}, which belongs to {value.section}")
            yield from value.given().items()
        elif name in SECTIONS and (isinstance(value, Mapping) or value is None):
            yield from ((f"{name}.{inner_key}", inner) for inner_key, inner in (value or {}).items())
        else:
            yield name, value


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert sections, dotted keys and short names to dotted keys; refuse unknown ones."""
    flat: dict[str, Any] = {}
    for name, value in names_in(settings):
        if name == "task":
            flat["task"] = None if value is None else str(value)
            continue
        key = full_key(name)
        if key not in FIELDS:
            if (elsewhere := known_elsewhere(name)) is not None:
                raise SettingError(f"unknown setting '{name}'; it is called {elsewhere} here")
            raise SettingError(unknown("setting", key, [*FIELDS, *ALIASES]))
        if key in COLUMN_KEYS and isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
            value = ",".join(value)
        flat[key] = parse(key, FIELDS[key], value)
    if "model.encoder" in flat:
        encoder, variant = encoders.model_name(flat["model.encoder"])
        flat = {**of_model(variant), **flat, "model.encoder": encoder}
    return flat


def with_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the settings of a file and of flags, by dotted key; a budget among the flags replaces that of the file."""
    if any(flags.get(budget) is not None for budget in BUDGETS):
        file = {key: value for key, value in file.items() if key not in BUDGETS}
    return {**file, **flags}


def check_ranges(flat: Mapping[str, Any]) -> None:
    """Refuse values, by dotted key, that are out of range whatever the other settings are."""
    for key, value in flat.items():
        if key != "task":
            check_value(key, FIELDS[key], value)


def resolve(
    file: Mapping[str, Any],
    flags: Mapping[str, Any],
    facts: Mapping[str, Any] | None = None,
    *,
    starts: Mapping[str, Any] | None = None,
    strict: bool = True,
) -> Config:
    """Return the configuration of a file and flags, with `facts` about the data where they set nothing.

    `starts`: defaults for this data set; a size or style that is set takes precedence. If `strict`, flags and settings
    of the model that the encoder or the task does not use are errors; a run's own settings are not checked.
    """
    flags = flatten(flags)
    said = with_flags(flatten(file), flags)
    facts = dict(facts or {})
    task = said.pop("task", None) or facts.pop("task", None) or presets.LANGUAGE_MODEL
    settings_of = presets.settings_task(task)
    parts: dict[str, Any] = {key: facts[key] for key in ("model.encoder", "model.decoder") if key in facts}
    encoder = {**parts, **said}.get("model.encoder", ModelSettings.encoder)
    kind = said.get("data.kind") or facts.get("data.kind") or presets.TEXT
    refuse_unknown("data.kind", kind, KINDS_IN_WORDS)
    merged = {**defaults(settings_of, kind, encoder, {**parts, **said}, starts or {}), **facts, **said}
    values = {
        section: {key.partition(".")[2]: value for key, value in merged.items() if key.startswith(f"{section}.")}
        for section in SECTIONS
    }
    config = Config(
        task=task,
        data=DataSettings(**values["data"]),
        tokenizer=TokenizerSettings(**values["tokenizer"]),
        model=_model(encoder, values["model"]),
        training=TrainingSettings.complete(values["training"]),
    )
    _check_reads(config)
    if settings_of == presets.TRANSLATION and config.get("model.norm") == "batch":
        raise SettingError("model.norm batch would let padding and other pairs into a translation; rms or layer?")
    own = own_part("attention", config.get("model.scores"))
    if own is not None and config.data.documents_apart and not own.takes("seen"):
        raise SettingError(f"{own} cannot keep documents apart (data.documents_apart): forward has no parameter `seen`")
    for key in said if strict else ():
        why = config.idle(key)
        if why is not None and (key in flags or key.startswith("model.")):
            raise SettingError(why)
    return config


def _model(encoder: str, values: Mapping[str, Any]) -> ModelSettings:
    """Return the complete settings of a model; `values`: those of its encoder and its decoder."""
    model = encoders.encoder_info(encoder).settings.complete({**values, "encoder": encoder})
    decoder = values.get("decoder")
    if not isinstance(model, SequenceSettings) or decoder in (None, encoder):
        return model
    other = encoders.encoder_info(decoder).settings
    assert issubclass(other, LayerSettings)
    return replace(
        model, decoder_settings=other.complete({**values, "encoder": decoder, "layers": model.decoder_layers})
    )


def defaults(task: str, kind: str, encoder: str, said: Mapping[str, Any], starts: Mapping[str, Any]) -> dict[str, Any]:
    """Return defaults by dotted key, for a task, kind of data, encoder, data set (`starts`), size and style."""
    info = encoders.encoder_info(encoder)
    general: dict[str, Any] = {}
    if task == presets.TRANSLATION:
        decoder = decoder_for(encoder, said)
        writer = encoders.encoder_info(decoder)
        if not writer.memory:
            able = " or ".join(DECODERS)
            raise SettingError(f"{decoder} cannot attend to a second text: model.decoder {able} can")
        writing = writer.starts.get(presets.TRANSLATION, {})
        general = {
            **of_model(writer.defaults),
            **presets.STARTS[presets.TRANSLATION],
            # The encoder determines the size; the decoder, which has the head, determines how both are trained.
            **{key: value for key, value in writing.items() if key not in ENCODER_DEFAULT_KEYS},
            **{
                key: value
                for key, value in info.starts.get(presets.TRANSLATION, {}).items()
                if key in ENCODER_DEFAULT_KEYS
            },
            "model.decoder": decoder,
        }
        if decoder != encoder:
            general["model.decoder_layers"] = writing.get("model.layers", 1)
        vectors = said.get("model.embed") != "onehot"  # one-hot vectors have no weights to share
        general["model.tied"] = general.get("model.tied", False) and vectors
        general["model.shared"] = said.get("tokenizer.shared", True) and vectors
    elif task == presets.MASKED and "bidirectional" in info.keys:
        general = {"model.bidirectional": True}
    elif task in presets.LABELLING:
        like = presets.TEXT if kind == presets.MIXED else kind
        general = {**presets.STARTS[like], **info.starts.get(like, {})}
    # An encoder ignores a data set's setting that only other encoders support, such as documents_apart.
    general |= {
        key: value for key, value in starts.items() if encoder in NEEDS.get(key, {}).get("model.encoder", [encoder])
    }
    if "training.optimizer" in said:  # the default rate depends on it
        general.pop("training.lr", None)
    if said.get("tokenizer.kind", "word") == "bpe":
        general.pop("tokenizer.lowercase", None)
    if any(said.get(budget) is not None for budget in BUDGETS):
        general.pop("training.steps", None)
    size = of_model(encoders.size_of(said.get("model.size") or "tiny", encoder))
    style = of_model(presets.style_of(said["model.style"])) if said.get("model.style") else {}
    named = size if said.get("model.size") else {}  # a requested size overrides the defaults of the task
    found = {**of_model(info.defaults), **size, **general, **named, **style}
    attention = own_part("attention", said.get("model.scores", ""))
    if attention is not None and not attention.takes("rotation") and found.get("model.positions", "rotary") == "rotary":
        found["model.positions"] = "learned"
    return found


def decoder_for(encoder: str, said: Mapping[str, Any]) -> str:
    return said.get("model.decoder") or (encoder if encoder in DECODERS else DECODERS[0])


def cpu_defaults(task: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that differ on a CPU, by dotted key, without the settings in `said`."""
    if task != presets.TRANSLATION:
        return {}
    decoder = decoder_for(said.get("model.encoder", ModelSettings.encoder), said)
    found = dict(encoders.encoder_info(decoder).starts.get(presets.CPU_TRANSLATION, {}))
    if "model.width" in said or said.get("model.size"):
        found.pop("training.lr", None)  # this rate is for the narrow default model
    return {key: value for key, value in found.items() if key not in said}


def of_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"model.{key}": value for key, value in settings.items()}


def with_epochs(config: Config, rows: int) -> Config:
    """Return the configuration with the default number of epochs for this number of labelled examples."""
    rows = max(1, round(rows * config.data.train_fraction))
    updates = encoders.encoder_info(config.model.encoder).updates
    most = presets.MOST_EPOCHS if config.data.kind in KINDS_WITH_WORDS else presets.MOST_EPOCHS_OF_NUMBERS
    epochs = min(most, max(presets.FEWEST_EPOCHS, round(updates * config.training.batch_size / rows)))
    return replace(config, training=replace(config.training, steps=None, epochs=float(epochs)))


def _check_reads(config: Config) -> None:
    """Refuse an encoder that cannot read this kind of data."""
    kind, name, task = config.data.kind, config.model.encoder, config.get("task")
    if task in presets.LABELLING and not encoders.is_own_model(name) and kind not in encoders.encoder_info(name).reads:
        able = ", ".join(other for other, info in encoders.ENCODERS.items() if kind in info.reads)
        hint = "; or name a column that is a text with --text" if kind == presets.TABLE else ""
        raise SettingError(f"{name} does not read {KINDS_IN_WORDS[kind]}; one of {able} does (--model){hint}")
    if task not in presets.LABELLING and presets.TEXT not in encoders.encoder_info(name).reads:
        raise SettingError(f"{name} does not read texts, and the task is {config.task}")


CANNOT_WRITE = {
    presets.LANGUAGE_MODEL: "reads the whole text at once: it cannot be a language model",
    presets.MASKED: "keeps no vector for each token: it cannot guess hidden ones",
    presets.TRANSLATION: "keeps no vector for each token: it cannot be read by a decoder",
}
"""Reasons to refuse an encoder that is not causal, by task."""


def that_writes(config: Config) -> Config:
    """Return the configuration; refuse an encoder that cannot be part of a model of this task."""
    name, task = config.model.encoder, config.get("task")
    if task in CANNOT_WRITE and not encoders.is_own_model(name) and not encoders.encoder_info(name).causal:
        raise SettingError(f"{name} {CANNOT_WRITE[task]} (--model)")
    if task == presets.LANGUAGE_MODEL and config.model.bidirectional and config.idle("model.bidirectional") is None:
        raise SettingError("model.bidirectional reads the future: a language model must not")
    return config


def read_config(path: str | Path) -> dict[str, Any]:
    """Read settings from a YAML or JSON file, or from the `glassformer.json` of a run."""
    import yaml  # slow to import, and not needed for --help

    try:
        value = yaml.safe_load(read_text(path, streams=True))
    except OSError as error:
        raise SettingError(f"cannot read the config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise SettingError(f"{path} is not valid YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    except RecursionError:
        raise SettingError(f"{path} is nested deeper than can be read") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingError(f"{path} must hold sections (data, tokenizer, model, training), not {with_article(value)}")
    return value["config"] if isinstance(value.get("config"), dict) else value


def check_config(path: str) -> None:
    """Refuse a file that is missing or has unknown settings. A pipe, which can be read only once, is not read yet."""
    if not Path(path).exists() or Path(path).is_file():
        flatten(read_config(path))
