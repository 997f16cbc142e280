"""Architectures of Hugging Face as tables: entries of config.json, settings, names of weights, labels."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.config.presets import CLASSIFICATION, LABELLING, MULTILABEL, REGRESSION, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.sections import ModelSettings
from glassformer.tasks.answers import Answers, Classes, Labels

Tensors = Sequence[Tensor]
Choices = Mapping[str, Sequence[Any]]
"""The values that each setting can have; the first is meant where nothing is said."""

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}
"""Theirs → ours."""
BLOCK: Choices = {
    "model.encoder": ("transformer",),
    "model.embed": ("vectors",),
    "model.residual": (True,),
    "model.feed_forward": (True,),
    "model.feed_layers": (2,),
    "model.scores": ("query-key",),
    "model.scale": (True,),
    "model.output_projection": (True,),
}
"""Settings of ours that all architectures have."""
POST_NORM: Choices = {
    "data.kind": ("text",),
    **BLOCK,
    "model.norm_order": ("post",),
    "model.norm": ("layer",),
    "model.embed_width": (None,),
    "model.bias": (True,),
    "model.attention_bias": (True,),
    "model.feed_bias": (True,),
    "model.qk_norm": (False,),
    "model.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
}
"""Settings of ours that architectures with a norm after each sublayer have (BERT, BART, Marian)."""
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
    """The contents of a config.json as settings of ours."""

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

    def checked(self, key: str, default: Any, valid: Callable[[Any], bool], wanted: str) -> Any:
        """Return a value; `wanted`: what an error says it must be."""
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

    def dropout(self, key: str) -> float:
        """The dropout of the original training, which further training uses again."""
        wanted = "a number from 0 to 0.95"
        return float(self.checked(key, 0.1, lambda value: _is_number(value) and 0 <= value <= 0.95, wanted))

    def boolean(self, key: str, default: bool) -> bool:
        return bool(self.checked(key, default, lambda value: type(value) is bool, "true or false"))

    def choice(self, key: str, names: Mapping[str, str], default: str) -> str:
        """A name of theirs, as ours; `names`: theirs → ours."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in names:
            raise Unsupported(f"{self.name} with {key} {short(value)} is not supported: only with {', '.join(names)}")
        return names[value]


@dataclass(frozen=True)
class Entry:
    """An entry of config.json and the setting of ours that means the same."""

    theirs: str
    ours: str
    read: Callable[[ConfigValues], Any] | None
    """None: an entry that is only written."""
    write: Callable[[Any], Any] = lambda value: value


def size(theirs: str, ours: str, default: int | None = None) -> Entry:
    return Entry(theirs, ours, lambda values: values.size(theirs, default))


def optional_size(theirs: str, ours: str) -> Entry:
    return Entry(theirs, ours, lambda values: None if values.get(theirs) is None else values.size(theirs))


def boolean(theirs: str, ours: str, default: bool) -> Entry:
    return Entry(theirs, ours, lambda values: values.boolean(theirs, default), bool)


def norm_eps(theirs: str, default: float, unset: float) -> Entry:
    """`unset`: what a run of ours uses that does not set it."""
    return Entry(
        theirs, "norm_eps", lambda values: values.number(theirs, default, most=1.0), lambda value: value or unset
    )


def activation(theirs: str, names: Mapping[str, str], default: str) -> Entry:
    """`names`: theirs → ours; the first of several names for one activation is written."""
    return Entry(
        theirs,
        "activation",
        lambda values: values.choice(theirs, names, default),
        lambda value: next(name for name, known in names.items() if known == value),
    )


def dropout(theirs: str) -> Entry:
    return Entry(theirs, "dropout", lambda values: values.dropout(theirs))


def written(ours: str, *theirs: str) -> list[Entry]:
    """Entries that repeat a setting of ours and are not read."""
    return [Entry(name, ours, None) for name in theirs]


@dataclass(frozen=True)
class Match:
    """Weights of ours and theirs that are the same numbers in different layouts."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[[Tensors], Tensors]
    to_theirs: Callable[[Tensors], Tensors]
    """The way out, also for tensors without numbers (`meta`): the shapes that theirs must have follow from ours."""
    any_rows: tuple[str, ...] = ()
    """Names of theirs that may have any number of rows."""
    optional: tuple[str, ...] = ()
    """Names of theirs that a file may lack: then they are zeros."""


def same(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), lambda tensors: tensors, lambda tensors: tensors)


def first_of(ours: str, theirs: Sequence[str], rest: Callable[[Tensor], Tensor], optional: Sequence[str] = ()) -> Match:
    """Match one weight of ours with the first of theirs; `rest` computes each of the others from it."""
    return Match(
        (ours,),
        tuple(theirs),
        lambda tensors: tensors[:1],
        lambda tensors: [tensors[0], *(rest(tensors[0]) for _ in theirs[1:])],
        optional=tuple(optional),
    )


def module_names(architecture: str, part: str) -> Mapping[str, str]:
    """Return a table of `modules.toml`: names of modules on both sides."""
    return _tables()[architecture][part]


@cache
def _tables() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return tomllib.loads(files("glassformer.exchange.huggingface").joinpath("modules.toml").read_text("utf-8"))


class Architecture:
    """One family of models (`model_type` in config.json), described by tables."""

    model_type: str
    name: str
    """What errors call it."""
    tasks: ClassVar[Mapping[str, str]]
    """Names in `architectures` → our task; `classification` stands for all tasks that label."""
    theirs: ClassVar[Choices]
    """Settings of theirs that ours can be."""
    ours: ClassVar[Choices]
    """Settings of ours that it has; an imported model has the first value of each."""
    heads: ClassVar[Mapping[str, Choices]] = {}
    """Settings of ours that its heads have, by task."""
    initialisation: str = "gpt2"
    entries: ClassVar[Sequence[Entry]]
    """Entries of config.json that are settings of ours."""
    constants: ClassVar[Mapping[str, Any]] = {}
    """Entries of config.json that always have the same value."""
    base: str = ""
    """Prefix of the names of the body's weights, which files of a body alone omit."""
    body: ClassVar[Mapping[str, str]]
    """Modules of the body: our name → theirs, without `base`; * stands for the number of a layer."""
    head_names: ClassVar[Mapping[str, str]] = {}
    """Modules of the heads: our name → theirs."""
    ignored: tuple[str, ...] = ()
    """As `ParsedConfig.ignored`."""

    def choices(self, task: str) -> Choices:
        """Settings of ours that it has with the head of a task."""
        return {**self.ours, **self.heads.get(head_task(task), {})}

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        """Return the meaning of a config.json; raise `Unsupported` for settings that ours cannot have."""
        values.require(self.theirs)
        task = self.tasks[architecture]
        settings = {
            key.removeprefix("model."): able[0] for key, able in self.choices(task).items() if key.startswith("model.")
        }
        settings |= {"initialisation": self.initialisation}
        settings |= {entry.ours: entry.read(values) for entry in self.entries if entry.read is not None}
        width, heads = settings["width"], settings["heads"]
        if settings.get("head_width") is None and width % heads:
            keys = {entry.ours: entry.theirs for entry in reversed(self.entries)}
            raise Unsupported(f"config.json: {keys['heads']} {heads} does not divide {keys['width']} {width}")
        return ParsedConfig(task, settings, ignored=self.ignored)

    def write(self, config: Config, vocab: int) -> dict[str, Any]:
        """Return the config.json for a run of ours with settings that this family has.

        The export adds the entries about labels and special tokens.
        """
        model = config.model
        self.check_heads(model)
        values = {entry.theirs: entry.write(getattr(model, entry.ours)) for entry in self.entries}
        return {**values, "vocab_size": model.vocab or vocab, **self.constants}

    def check_heads(self, model: ModelSettings) -> None:
        """Raise `Unsupported` unless the heads share the width as theirs do."""
        if model.heads * model.head_width != model.width or model.kv_heads != model.heads:
            raise Unsupported(
                f"{self.name} has no model.heads {model.heads} of model.head_width {model.head_width}, model.kv_heads "
                f"{model.kv_heads}: only heads that share model.width {model.width}"
            )

    def matches(self, ours: Iterable[str], model: ModelSettings, architecture: str) -> list[Match]:
        """Return where each weight of ours is in theirs; `ours`: their names."""
        base = "" if self.tasks[architecture] == VECTORS else self.base
        special = self.special_matches(model, self.tasks[architecture], base)
        matched = {name for match in special for name in match.ours}
        return [*special, *(same(name, self.their_name(name, base)) for name in ours if name not in matched)]

    def special_matches(self, model: ModelSettings, task: str, base: str) -> list[Match]:
        """Return the matches of weights that are not laid out alike in both models."""
        return []

    def their_name(self, name: str, base: str) -> str:
        """Return the name of a weight that is laid out alike in both models."""
        module, _, kind = name.rpartition(".")
        number = re.search(r"(?<=\.)\d+(?=\.)", module)
        module = module if number is None else module.replace(f".{number[0]}.", ".*.", 1)
        theirs = base + self.body[module] if module in self.body else self.head_names[module]
        return f"{theirs if number is None else theirs.replace('*', number[0])}.{kind}"

    def name_for(self, task: str) -> str | None:
        """Return the first of its names in `architectures` that has this task of ours, or None."""
        return next((name for name, head in self.tasks.items() if head == head_task(task)), None)

    def aliases(self, name: str) -> list[str]:
        """Return other names that a weight of theirs has in some files."""
        return [name.removeprefix(self.base)] if self.base and name.startswith(self.base) else []


def head_task(task: str) -> str:
    """The task by which architectures know their heads: all that labels is classification."""
    return CLASSIFICATION if task in LABELLING else task


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


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


# --- labels ---

PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTILABEL,
    "regression": REGRESSION,
}
MAX_LABELS = 2**20


def with_labels(body: ParsedConfig, values: ConfigValues) -> ParsedConfig:
    """What a model of theirs says of a text: one score is a number, several are classes unless they say otherwise."""
    names = _names(values)
    problem = values.get("problem_type", "regression" if len(names) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in PROBLEMS:
        only = ", ".join(PROBLEMS)
        raise Unsupported(f"{values.name} with problem_type {short(problem)} is not supported: only {only}")
    task = PROBLEMS[problem]
    if task == REGRESSION:
        if len(names) != 1:
            raise Unsupported(f"{values.name} that says {len(names)} numbers of a text is not supported: only one")
        return replace(body, task=task, labels={"mean": 0.0, "spread": 1.0})
    if task == MULTILABEL:
        return replace(body, task=task, labels={"labels": names})
    if len(names) < 2:
        raise Unsupported(f"{values.name} with one class is not supported: there is nothing to choose from")
    return replace(body, task=task, labels=names, loss="softmax")


def _names(values: ConfigValues) -> list[str]:
    """Labels by their numbers; transformers counts two where nobody says."""
    by_number = values.get("id2label")
    if by_number is None:
        return [f"LABEL_{number}" for number in range(values.size("num_labels", 2, MAX_LABELS))]
    if not isinstance(by_number, dict) or not 0 < len(by_number) <= MAX_LABELS:
        raise Unsupported("config.json: id2label must hold a name for each number of a label")
    names = [by_number.get(str(number)) for number in range(len(by_number))]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise Unsupported(f"config.json: id2label must name {len(names)} different labels, by the numbers from 0")
    return [str(name) for name in names]


def label_settings(answers: Answers) -> dict[str, Any]:
    """What config.json says of the labels of a run of ours."""
    task = CLASSIFICATION if isinstance(answers, Classes) else MULTILABEL if isinstance(answers, Labels) else REGRESSION
    names = answers.names if isinstance(answers, Classes | Labels) else ("LABEL_0",)
    return {
        "problem_type": next(problem for problem, learned in PROBLEMS.items() if learned == task),
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
