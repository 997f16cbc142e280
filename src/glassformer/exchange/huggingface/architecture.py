"""An architecture of Hugging Face's: what its config.json means here, what ours is there, which weights are which."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from glassformer.config.errors import Misuse
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.matching import Match


class Unsupported(Misuse):
    """A model, or a part of one, that has no counterpart on the other side; it is said by name, never passed over."""

    differences = 1
    """How many settings have none: of several architectures, the one with the fewest is the nearest."""


@dataclass(frozen=True)
class Reading:
    """What a config.json says, in the words of this house."""

    task: str
    settings: Mapping[str, Any]
    """Of the model, by their names in its section."""
    labels: Any = None
    """Of a classifier or regressor: what `Answers.to_json` writes."""
    loss: str | None = None
    """Of a classifier: which loss its scores are made for (`softmax`, `logistic`)."""
    ignored: tuple[str, ...] = ()
    """Weights of theirs that say nothing, such as a table that both sides compute: prefixes of their names, or patterns
    with *."""
    repeated: Mapping[str, str] = field(default_factory=dict)
    """Weights of theirs that may be there a second time, as a tied head may: the name → that of the one it repeats."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Patterns with * → what an import says where a weight of theirs has such a name."""


class Architecture(ABC):
    """One family of models (`model_type` in config.json)."""

    model_type: str
    tasks: ClassVar[Mapping[str, str]]
    """Names in `architectures` → our task; of one that labels, `classification` stands for all that labels can be."""
    base: str = ""
    """What the names of the body's weights begin with; files of a body alone leave it away."""

    @abstractmethod
    def read(self, config: Mapping[str, Any], architecture: str) -> Reading:
        """Refuses by name whatever is set in a way that ours cannot be."""

    @abstractmethod
    def matches(self, model: ModelSettings, task: str, architecture: str) -> list[Match]:
        """Every weight of ours, and where it is in theirs."""

    @abstractmethod
    def write(self, config: Config, vocab: int) -> tuple[str, dict[str, Any]]:
        """The architecture's name and config.json for a run of ours; Unsupported, with why, if it has none.

        What follows from labels and from the roles of tokens is added to it by the export.
        """

    def beside(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        """Settings, by dotted key, that follow from other files of a folder than config.json."""
        return {}

    def files(self, config: Config) -> Mapping[str, Any]:
        """Further JSON files of a run that goes out, by their names."""
        return {}

    def aliases(self, name: str) -> list[str]:
        """Other names that a weight of theirs has in some files."""
        return [name.removeprefix(self.base)] if self.base and name.startswith(self.base) else []


def only(config: Mapping[str, Any], wanted: Mapping[str, Sequence[Any]], name: str) -> None:
    """Refuse settings whose values ours cannot be; what is not said has the first of its values."""
    for key, values in wanted.items():
        if config.get(key, values[0]) not in values:
            able = " or ".join(map(repr, values))
            raise Unsupported(f"{name} with {key} {short(config[key])} is not supported: only with {able}")


def whole_number(config: Mapping[str, Any], key: str, *, default: int | None = None, most: int = 2**24) -> int:
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or not 0 < value <= most:
        raise Unsupported(f"config.json: {key} is {short(value)}, but must be a whole number from 1 to {most:,}")
    return value


def number(config: Mapping[str, Any], key: str, *, default: float | None = None, most: float = 1e12) -> float:
    value: Any = config.get(key)
    value = default if value is None else value
    if type(value) not in (int, float) or not 0 < value <= most:
        raise Unsupported(f"config.json: {key} is {short(value)}, but must be a number above 0, at most {most:g}")
    return float(value)


def truth(config: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not bool:
        raise Unsupported(f"config.json: {key} is {short(value)}, but must be true or false")
    return value


def word(config: Mapping[str, Any], key: str, words: Mapping[str, str], *, default: str, name: str) -> str:
    """A name of theirs, as ours; `words`: theirs → ours."""
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, str) or value not in words:
        raise Unsupported(f"{name} with {key} {short(value)} is not supported: only with {', '.join(words)}")
    return words[value]


def short(value: Any) -> str:
    """Some value of a file, for a line that names it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def differs(config: Config, wanted: Mapping[str, Sequence[Any]], than: str) -> None:
    """Refuse a run of ours whose settings have no counterpart in theirs, naming each."""
    apart = [key for key in wanted if config.idle(key) is None and config.get(key) not in wanted[key]]
    if apart:
        told = [f"no {key} {_said(config.get(key))}: only {' or '.join(map(_said, wanted[key]))}" for key in apart]
        error = Unsupported(f"{than} has {'; '.join(told)}")
        error.differences = len(apart)
        raise error


def _said(value: Any) -> str:
    return "unset" if value is None else str(value).lower()
