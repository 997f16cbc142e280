"""An architecture of Hugging Face's: what its config.json means here, what ours is there, which weights are which."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.config.presets import CLASSIFICATION, LABELLING
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings

Tensors = Sequence[Tensor]
Choices = Mapping[str, Sequence[Any]]
"""The values that each setting can have; the first is meant where nothing is said."""


DIRECTION = "model.causal"
"""Which way a text is read: a model of the other kind is further away than any of its own."""
FEW = 4
"""Differences that are said one by one, each with what it could be."""


class Unsupported(Misuse):
    """A model, or a part of one, that has no counterpart on the other side; it is said by name, never passed over."""

    differences = 1
    """How many settings have none: of several architectures, the one with the fewest is the nearest."""


@dataclass(frozen=True)
class ParsedConfig:
    """What a config.json says, in the words of this house."""

    task: str
    settings: Mapping[str, Any]
    """The model's settings, by their names in its section."""
    labels: Any = None
    """What `Answers.to_json` writes, of a classifier or regressor."""
    loss: str | None = None
    """Which loss a classifier's scores are made for (`softmax`, `logistic`)."""
    ignored: tuple[str, ...] = ()
    """Weights of theirs that say nothing, such as a table that both sides compute: prefixes of their names, or patterns
    with *."""
    repeated: Mapping[str, str] = field(default_factory=dict)
    """Weights of theirs that may be there a second time, as a tied head may: the name → that of the one it repeats."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Patterns with * → what an import says where a weight of theirs has such a name."""


class ConfigValues:
    """The values of a config.json, each checked when it is read."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        """`name`: what errors call the architecture."""
        self.values, self.name = values, name

    def get(self, key: str, default: Any = None) -> Any:
        """The value; `default` where it is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def require(self, choices: Choices) -> None:
        """Refuse settings whose values ours cannot be."""
        for key, able in choices.items():
            if self.values.get(key, able[0]) not in able:
                only = " or ".join(map(repr, able))
                raise Unsupported(
                    f"{self.name} with {key} {short(self.values[key])} is not supported: only with {only}"
                )

    def size(self, key: str, default: int | None = None, most: int = 2**24) -> int:
        value = self.get(key, default)
        if type(value) is not int or not 0 < value <= most:
            raise Unsupported(f"config.json: {key} is {short(value)}, but must be a whole number from 1 to {most:,}")
        return value

    def number(self, key: str, default: float | None = None, most: float = 1e12) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value <= most:
            raise Unsupported(f"config.json: {key} is {short(value)}, but must be a number above 0, at most {most:g}")
        return float(value)

    def dropout(self, key: str) -> float:
        """What a model was trained with; it matters again where it is trained further."""
        value = self.get(key, 0.1)
        if type(value) not in (int, float) or not 0 <= value <= 0.95:
            raise Unsupported(f"config.json: {key} is {short(value)}, but must be a number from 0 to 0.95")
        return float(value)

    def width_and_heads(self, width: str, heads: str, defaults: tuple[int, int]) -> tuple[int, int]:
        """Two sizes by their keys: the width, and how many heads share it."""
        sizes = self.size(width, defaults[0]), self.size(heads, defaults[1])
        if sizes[0] % sizes[1]:
            raise Unsupported(f"config.json: {heads} {sizes[1]} does not divide {width} {sizes[0]}")
        return sizes

    def boolean(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if type(value) is not bool:
            raise Unsupported(f"config.json: {key} is {short(value)}, but must be true or false")
        return value

    def choice(self, key: str, names: Mapping[str, str], default: str) -> str:
        """A name of theirs, as ours; `names`: theirs → ours."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in names:
            raise Unsupported(f"{self.name} with {key} {short(value)} is not supported: only with {', '.join(names)}")
        return names[value]


@dataclass(frozen=True)
class Match:
    """Some weights of ours and some of theirs that are the same numbers, however they are laid out."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[[Tensors], Tensors]
    to_theirs: Callable[[Tensors], Tensors]
    """The way out, also for tensors without numbers (`meta`): what shapes theirs must have follows from ours."""
    any_rows: tuple[str, ...] = ()
    """Names of theirs whose number of rows is theirs to choose."""
    optional: tuple[str, ...] = ()
    """Names of theirs that a file may lack: then they are zeros."""


class Architecture(ABC):
    """One family of models (`model_type` in config.json)."""

    model_type: str
    name: str
    """What errors call it."""
    tasks: ClassVar[Mapping[str, str]]
    """Names in `architectures` → our task; of one that labels, `classification` stands for all that labels can be."""
    theirs: ClassVar[Choices]
    """Settings of theirs that ours can be."""
    ours: ClassVar[Choices]
    """Settings of ours that it has."""
    heads: ClassVar[Mapping[str, Choices]] = {}
    """Settings of ours that its heads have, by task."""
    base: str = ""
    """What the names of the body's weights begin with; files of a body alone leave it away."""

    @abstractmethod
    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        """The meaning of a config.json. Refuses by name whatever is set in a way that ours cannot be."""

    @abstractmethod
    def matches(self, model: ModelSettings, architecture: str) -> list[Match]:
        """Every weight of ours, and where it is in theirs."""

    @abstractmethod
    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        """The config.json for a run of ours, whose task and settings this family has; Unsupported if there is none.

        What follows from labels and from the roles of tokens is added to it by the export.
        """

    def name_for(self, task: str) -> str | None:
        """The first of its names in `architectures` that has this task of ours; None where none has."""
        return next((name for name, head in self.tasks.items() if head == head_task(task)), None)

    def folder_settings(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        """Settings, by dotted key, that follow from other files of a folder than config.json."""
        return {}

    def extra_files(self, config: Config) -> Mapping[str, Any]:
        """Further JSON files of a run that goes out, by their names."""
        return {}

    def aliases(self, name: str) -> list[str]:
        """Other names that a weight of theirs has in some files."""
        return [name.removeprefix(self.base)] if self.base and name.startswith(self.base) else []


def head_task(task: str) -> str:
    """The task by which architectures know their heads: all that labels is classification."""
    return CLASSIFICATION if task in LABELLING else task


def short(value: Any) -> str:
    """Some value of a file, for a line that names it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def require_settings(config: Config, choices: Choices, name: str) -> None:
    """Refuse a run of ours whose settings have no counterpart in theirs, naming each."""
    apart = [key for key in choices if config.idle(key) is None and config.get(key) not in choices[key]]
    if apart:
        lines = [f"no {key} {_plain(config.get(key))}: only {' or '.join(map(_plain, choices[key]))}" for key in apart]
        few = f"{name} has {'; '.join(lines)}"
        error = Unsupported(few if len(apart) <= FEW else f"{name} differs in {', '.join(apart)}")
        error.differences = len(apart) + (len(choices) if DIRECTION in apart else 0)
        raise error


def _plain(value: Any) -> str:
    return "unset" if value is None else str(value).lower()


def same(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), lambda tensors: tensors, lambda tensors: tensors)


def first_of(ours: str, theirs: Sequence[str], rest: Callable[[Tensor], Tensor], optional: Sequence[str] = ()) -> Match:
    """One of ours is the first of theirs; `rest` makes of it what each of the others holds."""
    return Match(
        (ours,),
        tuple(theirs),
        lambda tensors: tensors[:1],
        lambda tensors: [tensors[0], *(rest(tensors[0]) for _ in theirs[1:])],
        optional=tuple(optional),
    )


def linear(ours: str, theirs: str, *, bias: bool) -> list[Match]:
    """A linear map, or a norm: its weight, and its bias if it has one."""
    return [same(f"{ours}.{part}", f"{theirs}.{part}") for part in ("weight", "bias")[: 1 + bias]]


def linears(ours: str, theirs: str, names: Mapping[str, str], *, bias: bool = True) -> list[Match]:
    """Several linear maps or norms; `names`: ours → theirs."""
    return [match for part, name in names.items() for match in linear(f"{ours}.{part}", f"{theirs}.{name}", bias=bias)]
