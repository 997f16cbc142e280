"""From what a person said to a whole configuration: defaults < task < size < style < data < file < flag."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config import encoders, presets
from glassformer.config.data_section import ALL_COLUMNS
from glassformer.config.errors import SettingError, refuse_unknown, unknown, with_article
from glassformer.config.limits import read_text
from glassformer.config.plugins import own_part
from glassformer.config.sections import LAYERWISE, DataSettings, ModelSettings, TokenizerSettings, TrainingSettings
from glassformer.config.setting import check_value, docstrings_of_fields, parse

SECTIONS: dict[str, type[Any]] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
}
FIELDS = {f"{name}.{field.name}": field for name, section in SECTIONS.items() for field in dataclasses.fields(section)}
"""Every setting by its dotted key."""


@functools.cache
def help_texts() -> dict[str, str]:
    """Return the help text of every setting by dotted key."""
    return presets.dotted({name: docstrings_of_fields(section) for name, section in SECTIONS.items()})


_NAMES = presets.read_settings("names.toml")
ALIASES: dict[str, str] = _NAMES["short"]
"""Short names that people type; each stands for one key."""
NAMES_ELSEWHERE = {name: key for key, names in _NAMES["elsewhere"].items() for name in names.split()}
"""A setting's dotted key, by each of the names that it has in other libraries."""

WORDS = (presets.TEXT, presets.MIXED)
"""The kinds of examples that have words."""

GROUPS = {
    "@packed": presets.PACKED,
    "@labelling": presets.LABELLING,
    "@recurrent": encoders.RECURRENT,
    "unset": (None,),
}
"""Words in `needs.toml` for several values, and for none."""


def _needed_values(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(single for value in values for single in GROUPS.get(value, (value,)))


NEEDS = {
    setting: {other: _needed_values(values) for other, values in needed.items()}
    for setting, needed in presets.dotted(presets.read_settings("needs.toml")).items()
}
"""What the others must be, by setting."""
VALUE_NEEDS: dict[tuple[str, Any], dict[str, tuple[Any, ...]]] = {
    ("model.attention", LAYERWISE): {"task": (presets.TRANSLATION,), "model.decoder": ("transformer",)},
    ("data.extra_columns", ALL_COLUMNS): {"task": presets.LABELLING},
}
"""Required values of other settings, by setting and value, where they differ from `NEEDS`."""


BUDGETS = ("training.steps", "training.epochs", "training.minutes")
"""How long to train, one way or another."""
OF_ENCODER = ("model.layers", "model.width", "model.bidirectional")
"""What an encoder decides for itself, whatever its decoder."""

OF_OUR_ATTENTION = ("model.kv_heads", "model.scale", "model.output_projection", "model.qk_norm")
"""What attention of a person's own does not know."""
KINDS_IN_WORDS = {
    presets.TEXT: "texts",
    presets.TABLE: "tables",
    presets.IMAGE: "images",
    presets.MIXED: "texts with other columns",
}


@dataclass(frozen=True)
class Config:
    """A whole, checked configuration."""

    task: str
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    def get(self, key: str) -> Any:
        """A setting by its dotted key, or the task whose settings these are."""
        if key == "task":
            return presets.settings_task(self.task)
        section, name = key.split(".")
        return getattr(getattr(self, section), name)

    def idle(self, key: str) -> str | None:
        """Why a setting does nothing here, if so."""
        section, name = key.split(".")
        encoder, decoder = self.model.encoder, self.model.decoder
        writes = self.get("task") == presets.TRANSLATION and decoder is not None and name not in encoders.ENCODER_KEYS
        if section == "model" and not any(name in used_keys(user) for user in (encoder, *([decoder] * writes)) if user):
            users = ", ".join(other for other in encoders.ENCODERS if name in used_keys(other))
            head = key == "model.layers" and "head_layers" in used_keys(encoder)
            instead = f"; the hidden layers of {encoder} are model.head_layers" if head else ""
            return f"{key} is not used by {encoder}; it belongs to {users}{instead}"
        if section == "model" and name in encoders.encoder_info(encoder).unread.get(self.data.kind, ()):
            return f"{key} is not used by {encoder} on {KINDS_IN_WORDS[self.data.kind]}"
        own = own_part("attention", self.model.scores)
        if own is not None and key in OF_OUR_ATTENTION and self.get("task") != presets.TRANSLATION:
            return f"{key} does nothing with {own}"  # a translator looks at its source with ours
        if key == "data.fold" and self.data.folds is None:
            return "data.fold does nothing without data.folds"
        if key in ("training.last_blocks", "training.layer_decay") and not self.is_finetuned:
            return f"{key} does nothing without --from: what is new has to be trained"
        if key == "training.layer_decay" and self.get("task") in presets.LABELLING and self.training.last_blocks == 0:
            return f"{key} does nothing while training.last_blocks is 0: no block is trained"
        if key == "model.buckets" and self.model.ngrams == 1 and not self.model.words:
            return "model.buckets does nothing while model.ngrams is 1; it goes with runs, model.ngrams 2 or more"
        for other, values in VALUE_NEEDS.get((key, self.get(key)), NEEDS.get(key, {})).items():
            if self.get(other) not in values:
                wanted = " or ".join("unset" if value is None else str(value).lower() for value in values)
                return f"{key} does nothing while {other} is {self.get(other)}; it goes with {other} {wanted}"
        return None

    @property
    def is_finetuned(self) -> bool:
        """It starts from what another run has learned."""
        return self.model.from_run is not None or self.model.decoder_from is not None

    @property
    def framed(self) -> bool:
        """START and END stand around each text: its encoder knows where it begins and ends."""
        return encoders.encoder_info(self.model.encoder).ordered

    def to_dict(self) -> dict[str, Any]:
        """What a run saves: every setting that does something."""
        out: dict[str, Any] = {"task": self.task, **{name: {} for name in SECTIONS}}
        for key in keys():
            if self.idle(key) is None:
                section, name = key.split(".")
                out[section][name] = self.get(key)
        return out


def used_keys(encoder: str) -> tuple[str, ...]:
    info = encoders.encoder_info(encoder)
    return (*(key for key in encoders.SHARED_KEYS if key not in info.without), *info.keys)


def keys() -> list[str]:
    """Every dotted key."""
    return list(FIELDS)


DATA_PATHS = ("data.path", "data.validation", "data.test", "data.source_file", "data.target_file")
"""Settings that name the data, which may have moved since training."""
OTHER_PATHS = ("model.from_run", "model.decoder_from", "model.vectors", "tokenizer.file")
"""Settings that name other files, which only a new training run reads."""
FIXED = ("training.optimizer", "training.loss", "training.last_blocks", "training.choose_by")
"""Training settings that the optimiser's state, the outputs or the best score depend on."""


def bound_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task and the settings, by dotted key, that trained weights depend on: all but paths and those
    training settings that may change when a run is resumed."""
    training = (key for key in FIELDS if key.startswith("training."))
    free = {*DATA_PATHS, *OTHER_PATHS, *training}.difference(FIXED)
    return {key: value for key, value in names_in(settings) if key not in free}


OF_COLUMNS = ("data.text", "data.label", "data.extra_columns")
"""Settings that name columns, with commas or as a list."""


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
    """Settings by their names as a person wrote them, those of a section with its name before them."""
    for key, value in settings.items():
        name = str(key)  # YAML reads some keys as numbers or truths
        if name in SECTIONS and (isinstance(value, Mapping) or value is None):
            yield from ((f"{name}.{inner_key}", inner) for inner_key, inner in (value or {}).items())
        else:
            yield name, value


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections, dotted keys and short names, all to dotted keys; unknown ones are refused."""
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
        if key in OF_COLUMNS and isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
            value = ",".join(value)
        flat[key] = parse(key, FIELDS[key], value)
    if "model.encoder" in flat:
        encoder, variant = encoders.model_name(flat["model.encoder"])
        flat = {**of_model(variant), **flat, "model.encoder": encoder}
    return flat


def with_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file and of flags, by dotted key; flags win, and how long to train is theirs if they say so."""
    if any(flags.get(budget) is not None for budget in BUDGETS):
        file = {key: value for key, value in file.items() if key not in BUDGETS}
    return {**file, **flags}


def check_ranges(flat: Mapping[str, Any]) -> None:
    """Refuse values, by dotted key, that no other setting could make right."""
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
    """The configuration that a file and flags ask for; `facts` is what the data says where they say nothing.

    `starts`: where settings start for this very data; a size or style that was asked for beats it.
    Keys that the chosen encoder or task does not use are errors, not decoration (unless not `strict`: a run's own).
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
    sections = {
        name: section(**{key.split(".")[1]: value for key, value in merged.items() if key.startswith(f"{name}.")})
        for name, section in SECTIONS.items()
    }
    config = Config(task=task, **sections)
    _check_reads(config)
    if settings_of == presets.TRANSLATION and config.model.norm == "batch":
        raise SettingError("model.norm batch would let padding and other pairs into a translation; rms or layer?")
    own = own_part("attention", config.model.scores)
    if own is not None and config.data.documents_apart and not own.takes("seen"):
        raise SettingError(f"{own} cannot keep documents apart (data.documents_apart): forward has no parameter `seen`")
    for key in said if strict else ():
        why = config.idle(key)
        if why is not None and (key in flags or key.startswith("model.")):
            raise SettingError(why)
    return config


def defaults(task: str, kind: str, encoder: str, said: Mapping[str, Any], starts: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted key: by task, kind of data, encoder, the data itself (`starts`), size and style."""
    info = encoders.encoder_info(encoder)
    general: dict[str, Any] = {}
    if task == presets.TRANSLATION:
        decoder = decoder_for(encoder, said)
        writer = encoders.encoder_info(decoder)
        if not writer.memory:
            able = " or ".join(encoders.DECODERS)
            raise SettingError(f"{decoder} cannot attend to a second text: model.decoder {able} can")
        writing = writer.starts.get(presets.TRANSLATION, {})
        general = {
            **of_model(writer.defaults),
            **presets.STARTS[presets.TRANSLATION],
            # how large it is, an encoder decides; the decoder, which has the head, how both are trained
            **{key: value for key, value in writing.items() if key not in OF_ENCODER},
            **{key: value for key, value in info.starts.get(presets.TRANSLATION, {}).items() if key in OF_ENCODER},
            "model.decoder": decoder,
        }
        if decoder != encoder:
            general["model.decoder_layers"] = writing.get("model.layers", 1)
        vectors = said.get("model.embed") != "onehot"  # which has no weights to share
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
    if "training.optimizer" in said:  # each has a rate of its own
        general.pop("training.lr", None)
    if said.get("tokenizer.kind", "word") == "bpe":
        general.pop("tokenizer.lowercase", None)
    if any(said.get(budget) is not None for budget in BUDGETS):
        general.pop("training.steps", None)
    size = of_model(encoders.size_of(said.get("model.size") or "tiny", encoder))
    style = of_model(presets.style_of(said["model.style"])) if said.get("model.style") else {}
    named = size if said.get("model.size") else {}  # a size that was asked for beats what the task would choose
    found = {**of_model(info.defaults), **size, **general, **named, **style}
    attention = own_part("attention", said.get("model.scores", ""))
    if attention is not None and not attention.takes("rotation") and found.get("model.positions", "rotary") == "rotary":
        found["model.positions"] = "learned"
    return found


def decoder_for(encoder: str, said: Mapping[str, Any]) -> str:
    return said.get("model.decoder") or (encoder if encoder in encoders.DECODERS else encoders.DECODERS[0])


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
    """A budget for so many labelled texts, where nobody gave one."""
    rows = max(1, round(rows * config.data.train_fraction))
    updates = encoders.encoder_info(config.model.encoder).updates
    most = presets.MOST_EPOCHS if config.data.kind in WORDS else presets.MOST_EPOCHS_OF_NUMBERS
    epochs = min(most, max(presets.FEWEST_EPOCHS, round(updates * config.training.batch_size / rows)))
    return replace(config, training=replace(config.training, steps=None, epochs=float(epochs)))


def _check_reads(config: Config) -> None:
    """Whether the encoder can read what it is given."""
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
"""What to say of an encoder that is not causal, by task."""


def that_writes(config: Config) -> Config:
    """The configuration as it is; refused, if its encoder cannot be part of what writes texts."""
    name, task = config.model.encoder, config.get("task")
    if task in CANNOT_WRITE and not encoders.is_own_model(name) and not encoders.encoder_info(name).causal:
        raise SettingError(f"{name} {CANNOT_WRITE[task]} (--model)")
    if task == presets.LANGUAGE_MODEL and config.model.bidirectional and config.idle("model.bidirectional") is None:
        raise SettingError("model.bidirectional reads the future: a language model must not")
    return config


def read_config(path: str | Path) -> dict[str, Any]:
    """Settings from a YAML (or JSON) file; a run's `glassformer.json` serves as well."""
    import yaml  # not for who only asks for help

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
    """Refuse a file that is not there, or holds what is no setting; what can be read only once is not read yet."""
    if not Path(path).exists() or Path(path).is_file():
        flatten(read_config(path))
