"""A family of tasks: everything in which one kind of task differs from another.

`FAMILIES[config.task]` is the only dispatch on the kind of a task. What rooms further down add to a family (findings,
baselines, checks …) they add as generic functions of it (`functools.singledispatch` on the family's class), so that a
family that is defined elsewhere has what its base class has, and may register its own.
"""

import copy
import math
import os
import shlex
from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Generator, Tensor, nn

from glassformer.bricks.capabilities import Capability, capability
from glassformer.config.arguments import check_arguments
from glassformer.config.encoders import OWN, is_own_model
from glassformer.config.errors import Misuse, NotThisRun, SettingError, error_line, refuse_unknown, with_article
from glassformer.config.plugins import FAMILY, note_part
from glassformer.config.presets import TASKS, TEXT, add_task
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.columns.schema import Schema
from glassformer.data.features.inputs import Features
from glassformer.families.capabilities import Embeds
from glassformer.families.predict import embed
from glassformer.families.requests import ConfigRequest, Embedded, EvaluateOptions, Example, ModelInput, Recognition
from glassformer.families.schema import reader_of, schema_of
from glassformer.models.build import parameter_count
from glassformer.models.capabilities import HasVectors
from glassformer.models.inputs import Shape
from glassformer.models.modules import device_of
from glassformer.notebook.display import progress_bar
from glassformer.runs.run import Run
from glassformer.tasks.answers import Answers
from glassformer.tasks.base import Evaluation, Task
from glassformer.text.tokenizer import Tokenizer

OwnModel = nn.Module | type[nn.Module] | Callable[[Any, int], nn.Module]
"""A user's module, its class, or a function that makes one.

The module maps texts, as (B×T tokens, B×T mask), to B×outputs. Other examples are passed as numbers and categories, as
pixels, or as all of these. A function is called with the vocabulary size (or the `Shape` of other examples) and the
outputs; a class gets those of vocab (or shape), outputs and context that its `__init__` names.
"""


def make_own_model(own: OwnModel, reads: Any, outputs: int, seed: int) -> nn.Module:
    """Return a user's module, or call the user's function of (`reads`, `outputs`) that makes one."""
    made: Any = own
    if callable(own) and not isinstance(own, nn.Module):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                made = own(reads, outputs)
            except TypeError as error:
                raise SettingError(f"model=… fails: {error_line(error)}") from error
    if not isinstance(made, nn.Module):
        raise SettingError(f"model=… must be an nn.Module or return one, not {with_article(made)}")
    return made


ModelCall = tuple[Tensor | None, ...]
"""What a model is called with, as a batch of one."""


class DataParts(Protocol):
    """Data, divided: what every corpus has, whatever it holds."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def parts(self) -> Mapping[str, Any]: ...
    @property
    def remarks(self) -> Sequence[str]: ...
    def report(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Processor:
    """How examples become what a model reads, and its scores what is said: learned from the training part, and kept in
    the run.
    """

    # no default stands in the class itself, so that a subclass may say what is always given
    tokenizer: Tokenizer | None = field(default_factory=lambda: None)
    """None where no words are read."""
    target_tokenizer: Tokenizer | None = field(default_factory=lambda: None)
    """The tokenizer of the targets, where a translation has one for each side."""
    features: Features | None = field(default_factory=lambda: None)
    """How an example becomes what is read, where something is said of it."""
    answers: Answers | None = field(default_factory=lambda: None)
    """What is said of an example; None where texts are written."""

    @property
    def shape(self) -> Shape:
        """What a model has to know of what it reads."""
        if self.features is not None:
            return self.features.shape
        return Shape(vocab=0 if self.tokenizer is None else self.tokenizer.vocab_size)


def tokenizers_of(run: Run) -> Processor:
    """The tokenizers of a run, which its data is to be prepared with again."""
    return Processor(tokenizer=run.tokenizer(), target_tokenizer=run.target_tokenizer())


@dataclass(frozen=True, kw_only=True)
class Prepared(Processor):
    """Everything that a training needs but the model."""

    corpus: DataParts
    tokens: dict[str, int]
    """How many each part has."""
    task: Task


@dataclass(frozen=True, eq=False)
class EvaluatedPart:
    """An evaluation, and what it is of."""

    loaded: "Loaded"
    part: Any
    inputs: Any
    """That part, as the model reads it."""
    evaluation: Evaluation
    corpus: DataParts | None = None
    """The run's own data, if the part is one of it."""


# --- a run's model ---

Kind = TypeVar("Kind")


class OtherTask:
    """A method that only runs of other tasks have: reading it raises `NotThisRun`, which lists what the run has."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, loaded: "Loaded | None", owner: type) -> "OtherTask":
        if loaded is None:
            return self
        run, known = f"{loaded.run.path} is a run of {loaded.config.task}", ", ".join(loaded.family.methods)
        raise NotThisRun(f"{run}, which has no {self.name}; it has {known}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Loaded(Processor, Embeds):
    """A run's model, with everything that belongs to it."""

    generate: ClassVar[Any] = OtherTask()
    stream: ClassVar[Any] = OtherTask()
    chat: ClassVar[Any] = OtherTask()
    stream_chat: ClassVar[Any] = OtherTask()
    probabilities: ClassVar[Any] = OtherTask()
    translate: ClassVar[Any] = OtherTask()
    predict: ClassVar[Any] = OtherTask()
    fill: ClassVar[Any] = OtherTask()

    model: nn.Module
    run: Run
    config: Config
    load_again: Callable[..., "Loaded"] | None = field(default=None, compare=False)
    """A function of the folder, the device, a user's own model and the precision that loads it again."""
    precision: str = "fp32"
    """That of its weights: fp32, bf16, int8."""

    @property
    def family(self) -> "Family":
        return FAMILIES[self.config.task]

    def capability(self, kind: type[Kind]) -> Kind | None:
        """Return the run, or else its model, typed as `kind`; None if neither has this capability.

        Capabilities of runs are `Generates`, `Translates`, `Labels`, `Fills` and `Embeds`; `models.capabilities` has
        those of models.
        """
        found = capability(self, kind)
        return capability(self.model, kind) if found is None else found

    def lacks(self, kind: type) -> bool:
        """Return True for `Embeds` if the model is a user's own, whose vectors are unknown."""
        return kind is Embeds and capability(self.model, HasVectors) is None

    @property
    def parameters(self) -> int:
        return parameter_count(self.model) if self.precision != "int8" else int(self.run.card()["parameters"])

    @property
    def schema(self) -> Schema:
        """Columns that the run learned from; every table that it reads is checked against them."""
        return self.family.schema(self, self.config.data)

    @property
    def output_tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens which are written, or else read."""
        if self.tokenizer is None:
            raise Misuse(f"{self.run.path} reads no texts")
        return self.tokenizer

    @progress_bar()
    @check_arguments
    def embed(self, texts: Example | Iterable[Any], *, tokens: bool = False) -> Any:
        """The vector of an example, or of each of several (a list, an array, a DataFrame); and of a text's tokens, if
        asked for.
        """
        reader = reader_of(self, "embed")
        found = self.family.embed(self, reader.examples(texts), tokens=tokens)
        return found[0] if reader.is_one(texts) else found

    def __repr__(self) -> str:
        name = self.family.model_name(self.config)
        reads = repr(self.tokenizer) if self.features is None or self.config.data.kind == TEXT else self.features.words
        return f"{self.run.path}: {self.config.task}, {name}, {self.parameters:,} parameters, {reads}"

    def __fspath__(self) -> str:
        return os.fspath(self.run)

    def __reduce__(self) -> tuple[Callable[..., "Loaded"], tuple[Any, ...]]:
        """Pickle the run's folder, from which another process loads the model again."""
        if self.load_again is None:
            raise Misuse(f"{self.run.path} was not loaded from its folder, and cannot be sent elsewhere: gf.load it")
        own = self.model if self.config.model.encoder == OWN else None  # which the run does not hold
        return self.load_again, (os.path.abspath(self.run), str(device_of(self.model)), own, self.precision)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Loaded":
        load_again, (path, device, own, precision) = self.__reduce__()
        return load_again(path, device, copy.deepcopy(own, memo), precision)


AnyRun = str | os.PathLike[str] | Run | Loaded
"""A run's folder, or what was made of it already."""


# --- families ---


class Family(ABC):
    """One kind of task. A family of one's own is a subclass, handed to `register_family`."""

    task: str
    """Its name, as `--task` takes it."""
    title: str
    """What a model of it is called."""
    noun: str = "text"
    """What one of its examples is called."""
    verb: str = "predict"
    """The command that uses a run."""
    primary: str
    """The metric by which weights are chosen, unless a setting names another (`selection`)."""
    lower_is_better: bool = False
    reads_stream: bool = False
    """It reads a corpus as one long row of tokens."""
    labels_examples: bool = False
    """It says something of a whole example: one row of scores for each, not one for each token."""
    label_kind: str | None = None
    """What it says of an example, where that is a class, several labels or a number: one of `LABEL_KINDS`."""
    has_decoder: bool = False
    """A second model writes what the first has read."""
    text_loss: bool = True
    """A text alone has a loss; where tokens are hidden, only a part of the data has."""
    predicts_next: bool = False
    """It predicts the next token of the text that it reads."""
    is_trained: bool = True
    """It is learned here, by a loss; else its models come from elsewhere."""
    token_places: tuple[int, ...] = (0,)
    """Where in what a model is called with tokens stand, each followed by their mask, if words are read."""
    loaded_class: type[Loaded]

    # --- its data ---

    @abstractmethod
    def recognise(self, request: ConfigRequest) -> Recognition:
        """The configuration of a training that `--task` asks for: what settings leave open, the data decides."""

    @abstractmethod
    def split_data(self, config: Config, rows: Any = None) -> DataParts:
        """The data and what is held out of it. `rows`: where it has been read already."""

    def check_corpus(self, config: Config, corpus: Any) -> None:  # noqa: B027 (there may be nothing to refuse)
        """Refuse what nothing could be learned from, before anything is begun."""

    @abstractmethod
    def prepare(self, config: Config, corpus: Any, known: Processor) -> Prepared:
        """The corpus as a task. `known`: what is not to be learned anew."""

    def schema(self, loaded: Any, data: DataSettings) -> Schema:
        """Return the columns that a run reads. `data`: its settings, or those of other data."""
        return schema_of(loaded.config, loaded.features, data)

    @abstractmethod
    def whole_part(self, loaded: Any, options: EvaluateOptions) -> Any:
        """All of the data that was named, as a part."""

    # --- its model ---

    @abstractmethod
    def build_model(self, config: Config, processor: Processor) -> nn.Module:
        """The model with its first weights."""

    def own_model(self, config: Config, processor: Processor, own: OwnModel) -> nn.Module:
        """Return a user's own model, if this family can train one."""
        raise SettingError(f"a model of your own cannot learn {config.task}, only labels, numbers or the next token")

    def learn_from_data(self, model: nn.Module, prepared: Prepared) -> None:  # noqa: B027 (few models do)
        """What a model takes from the training part before the first step."""

    def training_task(self, task: Task, model: nn.Module, config: Config) -> Task:
        """The task as a model is trained on it."""
        return task

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str | None:
        """What the model writes by now, to be shown after a validation on the way."""
        return None

    def check_refit(self, data: DataSettings) -> None:  # noqa: B027 (there may be nothing to refuse)
        """Refuse data whose parts cannot be joined for a training on all of them."""

    def read_processor(self, run: Run, config: Config) -> Processor:
        """What the run keeps."""
        return tokenizers_of(run)

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config, **more: Any) -> Loaded:
        """The model with its weights, ready for use. `more`: what only runs of this family have."""
        kept = {one.name: getattr(processor, one.name) for one in fields(Processor)}
        return self.loaded_class(model=model, run=run, config=config, **kept, **more)

    # --- its use ---

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        """Refuse what a run of this family cannot be asked."""
        options.refuse_search()
        options.refuse_stride()

    @abstractmethod
    def evaluate_part(self, loaded: Any, part: Any, options: EvaluateOptions) -> EvaluatedPart:
        """What a run makes of a part, its own or another's."""

    @abstractmethod
    def encode_example(self, loaded: Any, example: Example, *, target: str | None, beam: int) -> ModelInput:
        """An example as a run's model reads it; `target`: what a translator is to write, instead of what it would."""

    @abstractmethod
    def held_out_examples(
        self, loaded: Any, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[ModelInput]:
        """Some examples of a held-out part, evenly chosen."""

    @abstractmethod
    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        """An example that nobody wrote: numbers of the right kind and shape."""

    def embed(self, loaded: Any, examples: Any, *, tokens: bool) -> list[Embedded]:
        """The vector of each example (a list of them; where rows are read, also a table); and of a text's tokens, if
        asked for.
        """
        return embed(loaded.model, loaded.tokenizer, loaded.config, [str(text) for text in examples], tokens=tokens)

    def answer_function(self, loaded: Any, *, top: int) -> Callable[[str], dict[str, Any]]:
        """Return a function that answers a line of text, as JSON: a label, a number, a token, a translation.

        `top`: number of tokens for each hidden one.
        """

        def answer(text: str) -> dict[str, Any]:
            prediction = loaded.predict(text)
            return prediction.to_dict() if hasattr(prediction, "to_dict") else {"text": text, "value": prediction}

        return answer

    def example_target(self, loaded: Any, example: ModelInput, answer: str | None) -> Tensor:
        """What should come out for an example: the token that follows each, or its answer."""
        return torch.tensor(example.answer_ids)

    def example_loss(self, loaded: Any, example: ModelInput, target: Tensor) -> Tensor:
        """The loss on an example, per token."""
        scores = loaded.model(*example.inputs).float().cpu()
        return torch.nn.functional.cross_entropy(scores[0, : len(target)], target)

    def training_target(self, loaded: Any, example: ModelInput, answer: str | None) -> tuple[Tensor, str]:
        """What one training step on an example learns, and by which loss."""
        if answer is not None:
            raise Misuse("--answer is for runs that predict: a text is its own answer, a translator's is --translation")
        return torch.tensor([[-1 if id is None else id for id in example.follows]]), "softmax"

    def output_names(self, loaded: Any) -> list[str]:
        """Names of what is scored: a head may have rows that no token has."""
        return [loaded.output_tokenizer.shown(id) for id in range(loaded.model.head.out_features)]

    def selection(self, config: Config) -> tuple[str, bool]:
        """Return the metric by which weights are chosen, and whether lower is better."""
        return self.primary, self.lower_is_better

    # --- what is said of it ---

    def model_name(self, config: Config) -> str:
        """What its model is called: by its encoder; of a family of one's own that builds its own, by the task."""
        ours = self.build_model.__module__.startswith("glassformer.")
        return config.model.encoder if ours or is_own_model(config.model.encoder) else config.task

    def describe(self, config: Config) -> str:
        """What a run's model is, for its card."""
        return self.title

    def example_argument(self, run: Path, config: Config) -> str:
        """What to give the command that uses a run."""
        return "'A text'"

    def command(self, run: Path, config: Config) -> str:
        """A command that uses a run."""
        return f"glassformer {self.verb} {shlex.quote(str(run))} {self.example_argument(run, config)}"

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        """The loss of guessing evenly, and why; None: it is not known. By default that of tokens that are written."""
        tokens = (card.get("target_tokenizer") or card["tokenizer"])["vocab_size"]
        return math.log(tokens), f"ln of {tokens:,} tokens"

    @property
    def methods(self) -> list[str]:
        """Names of the methods of its runs."""
        kind, general = self.loaded_class, {*dir(Capability), "capability"}
        names = (name for name in dir(kind) if not name.startswith("_") and name not in general)
        return [name for name in names if callable(getattr(kind, name, None))]


class Families(UserDict[str, Family]):
    """The families by the names of their tasks; those of this package are imported when the first is asked for."""

    modules = ("language", "labelling", "translation", "embedding")

    def __init__(self) -> None:
        """Leave `data` unset until it is asked for."""

    @cached_property
    def data(self) -> dict[str, Family]:  # type: ignore[override]
        modules = [import_module(f"glassformer.families.{name}") for name in self.modules]
        return {family.task: family for module in modules for family in module.FAMILIES}

    def __getitem__(self, task: str) -> Family:
        refuse_unknown("task", task, self)
        return self.data[task]


FAMILIES = Families()


def register_family(family: Family, *, like: str) -> None:
    """A family of one's own. `like`: the task of ours whose settings it has."""
    if not isinstance(family, Family):
        raise Misuse(f"register_family takes a Family, as register_family(MyFamily(), like=…), not {family!r}")
    if family.task in TASKS:
        raise Misuse(f"the task {family.task} is one of ours: give your family a name of its own")
    add_task(family.task, like)
    FAMILIES[family.task] = family
    note_part(FAMILY, family.task, family, type(family).__module__)
