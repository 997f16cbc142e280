"""Common parts of Hugging Face architectures: config.json, and the names of weights and labels."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from torch import Tensor

from glassformer.bricks.norm import EPS
from glassformer.config.errors import Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.model_section import Transformer
from glassformer.config.presets import CLASSIFICATION, LABELLING, MULTILABEL, REGRESSION, VECTORS
from glassformer.config.resolve import Config
from glassformer.tasks.answers import Answers, Classes, Labels

Tensors = Sequence[Tensor]
Choices = Mapping[str, Sequence[object]]
"""The supported values of each setting; the first is the default."""

DIRECTION = "model.causal"
"""Causality weighs more than all other differences when the nearest architecture is selected."""
MAX_DIFFERENCES = 4
"""Maximum number of differences that a message explains."""


class Unsupported(Misuse):
    """A model, or a part of one, that has no counterpart on the other side."""

    differences = 1
    """Number of settings without a counterpart: the architecture with the fewest is the nearest."""


# --- the tables of architectures.toml ---


@cache
def read_tables() -> JsonObject:
    """Return the tables of `architectures.toml`, with None where they say "unset"."""
    text = files(__package__ or "").joinpath("architectures.toml").read_text("utf-8")
    tables: JsonObject = _with_none(tomllib.loads(text))
    return tables


def _with_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_none(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_none(each) for each in value]
    return None if value == "unset" else value


def _table(name: str) -> JsonObject:
    """Return a table with the entries that it inherits."""
    own = read_tables()[name]
    return _joined(_table(own["extends"]), own) if "extends" in own else own


def _joined(parent: JsonObject, own: JsonObject) -> JsonObject:
    joined = {**parent, **own}
    for key in parent.keys() & own.keys():
        if isinstance(own[key], dict):
            joined[key] = _joined(parent[key], own[key])
    return joined


def _choices(table: JsonObject) -> Choices:
    """Return supported values by dotted key."""
    return {f"{section}.{key}": values for section, part in table.items() for key, values in part.items()}


class Entry(NamedTuple):
    """A glassformer setting and the equivalent entry of config.json."""

    ours: str
    theirs: str
    kind: str
    default: Any = None


# --- config.json ---


@dataclass(frozen=True)
class ParsedConfig:
    """The contents of a config.json as glassformer settings."""

    task: str
    settings: JsonObject
    """Settings of the model by their names in its section."""
    labels: object = None
    """Labels of a classifier or regressor in the form of `Answers.to_json`."""
    loss: str | None = None
    """Loss that a classifier was trained with (`softmax`, `logistic`)."""
    repeated: Mapping[str, str] = field(default_factory=dict)
    """Weights that a file may repeat, such as a tied head, and the weight that each one repeats."""


class ConfigValues:
    """The values of a config.json, each checked when it is read."""

    def __init__(self, values: JsonObject, name: str) -> None:
        """Wrap the values of a config.json; errors refer to the architecture as `name`."""
        self.values, self.name = values, name

    def get(self, key: str, default: object = None) -> Any:
        """Return the value; `default` if it is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def require(self, choices: Choices) -> None:
        """Raise `Unsupported` for the first value that is not among the choices."""
        for key, able in choices.items():
            if self.get(key, able[0]) not in able:
                raise self.unsupported(key, map(repr, able))

    def unsupported(self, key: str, able: Iterable[str]) -> Unsupported:
        value = short(self.values.get(key))
        return Unsupported(f"{self.name} with {key} {value} is not supported: only with {' or '.join(able)}")

    def checked(self, key: str, default: object, valid: Callable[[Any], bool], wanted: str) -> Any:
        """Return a value; raise `Unsupported`, with `wanted` as the requirement, unless it is valid."""
        value = self.get(key, default)
        if not valid(value):
            raise Unsupported(f"config.json: {key} is {short(value)}, but must be {wanted}")
        return value

    def size(self, key: str, default: int | None = None, most: int = 2**24) -> int:
        wanted = f"a whole number from 1 to {most:,}"
        return int(self.checked(key, default, lambda value: type(value) is int and 0 < value <= most, wanted))

    def number(self, key: str, default: float | None = None, most: float = 1e12) -> float:
        wanted = f"a number above 0, at most {most:g}"
        return float(self.checked(key, default, lambda value: _is_number(value) and 0 < value <= most, wanted))

    def boolean(self, key: str, default: bool) -> bool:
        return bool(self.checked(key, default, lambda value: type(value) is bool, "true or false"))

    def read(self, entry: Entry) -> Any:
        """Return the value of a glassformer setting."""
        key, default = entry.theirs, entry.default
        match entry.kind:
            case "size":
                return self.size(key, default)
            case "optional size":
                return None if self.get(key) is None else self.size(key)
            case "boolean":
                return self.boolean(key, default)
            case "epsilon":
                return self.number(key, default, most=1.0)
            case "dropout":  # the original dropout, for further training
                wanted = "a number from 0 to 0.95"
                return float(self.checked(key, 0.1, lambda value: _is_number(value) and 0 <= value <= 0.95, wanted))
        names, value = read_tables()["names"][entry.kind], self.get(key, default)
        if not isinstance(value, str) or value not in names:
            raise self.unsupported(key, names)
        return names[value]


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def short(value: object) -> str:
    """Return a value of a file as text for a message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


# --- weights ---


@dataclass(frozen=True)
class Match:
    """Weights of both models that hold the same numbers in different layouts."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[[Tensors], Tensors]
    to_theirs: Callable[[Tensors], Tensors]
    """Conversion to their layout. It also works on meta tensors, from which the required shapes follow."""
    any_rows: tuple[str, ...] = ()
    """Names of their weights with any number of rows."""
    optional: tuple[str, ...] = ()
    """Names of their weights that default to zeros."""


def first_of(ours: str, theirs: Sequence[str], rest: Callable[[Tensor], Tensor], optional: Sequence[str] = ()) -> Match:
    """Match a glassformer weight with the first Hugging Face weight; `rest` computes each of the others from it."""
    return Match(
        (ours,),
        tuple(theirs),
        lambda tensors: tensors[:1],
        lambda tensors: [tensors[0], *(rest(tensors[0]) for _ in theirs[1:])],
        optional=tuple(optional),
    )


class Architecture:
    """One family of models (`model_type` in config.json), described by its table in `architectures.toml`."""

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type
        self.table = _table(model_type)
        self.name: str = self.table["name"]
        self.base: str = self.table["base"]
        self.entries = [Entry(ours, *entry) for ours, entry in self.table["config"].items()]
        own = {name: entry for name, entry in read_tables()["classes"].items() if entry[0] == model_type}
        self.tasks: dict[str, str] = {name: task for name, (_, task, _) in own.items()}
        """glassformer task by class name; `classification` stands for all tasks with labels."""
        self.auto_classes: dict[str, str] = {name: auto for name, (_, _, auto) in own.items()}
        """Auto class of transformers by class name."""

    def choices(self, task: str) -> Choices:
        """Return the glassformer settings that the architecture supports with the head of a task."""
        return {**_choices(self.table["ours"]), **_choices(self.of_task("heads", task))}

    def of_task(self, part: str, task: str) -> Any:
        """Return what a part of the table holds for a task; empty where it holds nothing."""
        return self.table.get(part, {}).get(head_task(task), {})

    def is_ignored(self, name: str, task: str) -> bool:
        """Return whether the import skips a Hugging Face weight."""
        patterns = (*self.table.get("ignored", ()), *self.of_task("unused", task))
        return any(fnmatchcase(each, pattern) for each in (name, f"{self.base}{name}") for pattern in patterns)

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        """Return the meaning of a config.json; raise `Unsupported` for settings that ours cannot have."""
        values.require(self.table.get("theirs", {}))
        task = self.tasks[architecture]
        choices = self.choices(task)
        settings: JsonObject = {
            key.removeprefix("model."): able[0] for key, able in choices.items() if key.startswith("model.")
        }
        settings |= {"initialisation": self.table["initialisation"]}
        for entry in self.entries:
            value = settings[entry.ours] = values.read(entry)
            able = choices.get(f"model.{entry.ours}", (value,))
            if value not in able:
                raise values.unsupported(entry.theirs, map(_plain, able))
        width, heads = settings["width"], settings["heads"]
        if settings.get("head_width") is None and width % heads:
            theirs = {entry.ours: entry.theirs for entry in self.entries}
            raise Unsupported(f"config.json: {theirs['heads']} {heads} does not divide {theirs['width']} {width}")
        return ParsedConfig(task, settings)

    def write(self, config: Config, vocab: int) -> JsonObject:
        """Return the config.json for a run whose settings this architecture supports.

        The export adds the entries about labels and special tokens.
        """
        model = transformer_of(config)
        self.check_heads(model)
        values = {entry.ours: _written(entry, model) for entry in self.entries}
        values |= {"vocab": model.vocab or vocab, "dropout": model.dropout}
        constants = self.table.get("constants", {})
        copies = {theirs: values[ours] for theirs, ours in self.table.get("copies", {}).items()}
        return {**{entry.theirs: values[entry.ours] for entry in self.entries}, **copies, **constants}

    def check_heads(self, model: Transformer) -> None:
        """Raise `Unsupported` unless the heads share the width as theirs do."""
        if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
            sizes = f"model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads {model.kv_heads}"
            raise Unsupported(f"{self.name} has no {sizes}: only heads that share model.width {model.width}")

    def matches(self, ours: Iterable[str], model: Transformer, architecture: str) -> list[Match]:
        """Return the matches for the glassformer weights named in `ours`."""
        base = "" if self.tasks[architecture] == VECTORS else self.base
        special = self.special_matches(model, self.tasks[architecture], base)
        matched = {name for match in special for name in match.ours}
        alike = ((name, self.their_name(name, base)) for name in ours if name not in matched)
        return [*special, *(Match((our,), (their,), _unchanged, _unchanged) for our, their in alike)]

    def special_matches(self, model: Transformer, task: str, base: str) -> list[Match]:
        """Return the matches of weights with different layouts in both models."""
        return []

    def their_name(self, name: str, base: str) -> str:
        """Return the Hugging Face name of a weight with the same layout in both models."""
        module, _, kind = name.rpartition(".")
        number = re.search(r"(?<=\.)\d+(?=\.)", module)
        module = module if number is None else module.replace(f".{number[0]}.", ".*.", 1)
        body = self.table["body"]
        theirs = base + body[module] if module in body else self.table["modules"][module]
        return f"{theirs if number is None else theirs.replace('*', number[0])}.{kind}"

    def name_for(self, task: str) -> str | None:
        """Return the first class name in `architectures` for a glassformer task; None if there is none."""
        return next((name for name, head in self.tasks.items() if head == head_task(task)), None)

    def aliases(self, name: str) -> list[str]:
        """Return alternative names of a Hugging Face weight in files."""
        return [name.removeprefix(self.base)] if self.base and name.startswith(self.base) else []


def transformer_of(config: Config) -> Transformer:
    """Return the settings of the Transformer that a run is."""
    assert isinstance(config.model, Transformer)
    return config.model


def _unchanged(tensors: Tensors) -> Tensors:
    return tensors


def _written(entry: Entry, model: Transformer) -> object:
    """Return a glassformer setting in the form of config.json."""
    value = getattr(model, entry.ours)
    if entry.kind == "epsilon":
        return value or EPS[model.norm]
    names = read_tables()["names"].get(entry.kind, {})
    return next((theirs for theirs, ours in names.items() if ours == value), value)


def head_task(task: str) -> str:
    """Return the task by which architectures know their heads: all that labels is classification."""
    return CLASSIFICATION if task in LABELLING else task


def require_settings(config: Config, choices: Choices, name: str) -> None:
    """Raise `Unsupported`, with each difference, for a run whose settings have no counterpart."""
    apart = [key for key in choices if config.idle(key) is None and config.get(key) not in choices[key]]
    if apart:
        lines = [f"no {key} {_plain(config.get(key))}: only {' or '.join(map(_plain, choices[key]))}" for key in apart]
        few = f"{name} has {'; '.join(lines)}"
        error = Unsupported(few if len(apart) <= MAX_DIFFERENCES else f"{name} differs in {', '.join(apart)}")
        error.differences = len(apart) + (len(choices) if DIRECTION in apart else 0)
        raise error


def _plain(value: object) -> str:
    return "unset" if value is None else str(value).lower()


# --- labels ---

PROBLEMS: dict[str, str] = read_tables()["problems"]
"""Values of `problem_type` in config.json → our tasks."""
MAX_LABELS = 2**20


def with_labels(body: ParsedConfig, values: ConfigValues) -> ParsedConfig:
    """Add the labels of a Hugging Face model.

    Without a `problem_type`, one score is a number and several scores are classes.
    """
    names = _names(values)
    problem = values.get("problem_type", "regression" if len(names) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in PROBLEMS:
        raise values.unsupported("problem_type", PROBLEMS)
    task = PROBLEMS[problem]
    if (task == REGRESSION) != (len(names) == 1) and task != MULTILABEL:
        raise Unsupported(f"{values.name} with problem_type {problem} and {len(names)} labels is not supported")
    if task == REGRESSION:
        return replace(body, task=task, labels={"mean": 0.0, "spread": 1.0})
    if task == MULTILABEL:
        return replace(body, task=task, labels={"labels": names})
    return replace(body, task=task, labels=names, loss="softmax")


def _names(values: ConfigValues) -> list[str]:
    """Return the labels by their numbers; two if config.json does not say, as in transformers."""
    by_number = values.get("id2label")
    if by_number is None:
        return [f"LABEL_{number}" for number in range(values.size("num_labels", 2, MAX_LABELS))]
    names = [by_number.get(str(number)) for number in range(len(by_number))] if isinstance(by_number, dict) else []
    is_list = 0 < len(names) <= MAX_LABELS and all(isinstance(name, str) and name for name in names)
    if not is_list or len(set(names)) != len(names):
        raise Unsupported("config.json: id2label must hold a different name for each number of a label, from 0")
    return [str(name) for name in names]


def label_settings(answers: Answers) -> JsonObject:
    """Return the entries of config.json about the labels of a run."""
    task = CLASSIFICATION if isinstance(answers, Classes) else MULTILABEL if isinstance(answers, Labels) else REGRESSION
    names = answers.names if isinstance(answers, Classes | Labels) else ("LABEL_0",)
    return {
        "problem_type": next(problem for problem, learned in PROBLEMS.items() if learned == task),
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
