"""Base classes of the task families. A family defines everything that is specific to one kind of task.

`FAMILIES[config.task]` is the only dispatch on the kind of task. Packages above add generic functions for families
(findings, baselines, checks) with `functools.singledispatch` on the class. A user's family inherits those of its base
class and may register its own.
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
from glassformer.families.requests import ConfigRequest, Embedded, EvaluateOptions, Example, ModelInput, Recognition
from glassformer.families.schema import reader_of, schema_of
from glassformer.families.vectors import embed
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
"""A user's module, its class, or a function that makes it.

The module maps texts, as (B×T tokens, B×T mask), to B×outputs. For other examples it gets numbers and categories,
pixels, or all of these. A function is called with the vocabulary size (or the `Shape` of other examples) and the number
of outputs. A class gets the arguments among vocab (or shape), outputs and context that its `__init__` names.
"""


def make_own_model(own: OwnModel, reads: Any, outputs: int, seed: int) -> nn.Module:
    """Return a user's module. A function or a class is called with `reads` and `outputs`, seeded with `seed`."""
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
"""Inputs of a model, as a batch of one."""


class DataParts(Protocol):
    """Data divided into parts; every corpus has these attributes."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def parts(self) -> Mapping[str, Any]: ...
    @property
    def remarks(self) -> Sequence[str]: ...
    def report(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Processor:
    """Conversion of examples to inputs and of scores to answers.

    It is learned from the training part and saved in the run.
    """

    # Factories keep the defaults from becoming class attributes, so that a subclass may require a field.
    tokenizer: Tokenizer | None = field(default_factory=lambda: None)
    """Tokenizer of the input; None if the model reads no text."""
    target_tokenizer: Tokenizer | None = field(default_factory=lambda: None)
    """Tokenizer of the targets; None unless a translator has one per side."""
    features: Features | None = field(default_factory=lambda: None)
    """Conversion of examples to tensors; None for models that only read text."""
    answers: Answers | None = field(default_factory=lambda: None)
    """Conversion of scores to labels or numbers; None if the model generates text."""

    @property
    def shape(self) -> Shape:
        """Input sizes that a model must know."""
        if self.features is not None:
            return self.features.shape
        return Shape(vocab=0 if self.tokenizer is None else self.tokenizer.vocab_size)


def tokenizers_of(run: Run) -> Processor:
    """Return the tokenizers of a run, which are used to prepare its data again."""
    return Processor(tokenizer=run.tokenizer(), target_tokenizer=run.target_tokenizer())


@dataclass(frozen=True, kw_only=True)
class Prepared(Processor):
    """Everything that a training run needs except the model."""

    corpus: DataParts
    tokens: dict[str, int]
    """Number of tokens in each part."""
    task: Task


@dataclass(frozen=True, eq=False)
class EvaluatedPart:
    """An evaluation, with the run and the data that it belongs to."""

    loaded: "Loaded"
    part: Any
    inputs: Any
    """The part as inputs of the model."""
    evaluation: Evaluation
    corpus: DataParts | None = None
    """The run's own data if the part belongs to it, else None."""


# --- a run's model ---

Kind = TypeVar("Kind")


class OtherTask:
    """Placeholder for a method that only runs of other tasks have.

    Accessing it raises `NotThisRun`, which lists the methods of the run.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, loaded: "Loaded | None", owner: type) -> "OtherTask":
        if loaded is None:
            return self
        run, known = f"{loaded.run.path} is a run of {loaded.config.task}", ", ".join(loaded.family.methods)
        raise NotThisRun(f"{run}, which has no {self.name}; it has {known}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Loaded(Processor, Embeds):
    """A run with its model, its settings, and the processor learned from its data."""

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
    """Function that loads the run again. It takes the run's folder, the device, a user's own model and the
    precision."""
    precision: str = "fp32"
    """Precision of the weights: fp32, bf16 or int8."""

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
        """Columns that the run learned from. The run checks every table that it reads against them."""
        return self.family.schema(self, self.config.data)

    @property
    def output_tokenizer(self) -> Tokenizer:
        """Tokenizer of the tokens that the model generates; for other models, the tokenizer of their input."""
        if self.tokenizer is None:
            raise Misuse(f"{self.run.path} reads no texts")
        return self.tokenizer

    @progress_bar()
    @check_arguments
    def embed(self, texts: Example | Iterable[Any], *, tokens: bool = False) -> Any:
        """Return the vector of an example, or of each of several (a list, an array, a DataFrame).

        With `tokens`, each result also has a vector for each token of the text.
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
        """Pickle the path of the run's folder, from which another process loads the model again."""
        if self.load_again is None:
            raise Misuse(f"{self.run.path} was not loaded from its folder, and cannot be sent elsewhere: gf.load it")
        own = self.model if self.config.model.encoder == OWN else None  # the run's folder does not contain it
        return self.load_again, (os.path.abspath(self.run), str(device_of(self.model)), own, self.precision)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Loaded":
        load_again, (path, device, own, precision) = self.__reduce__()
        return load_again(path, device, copy.deepcopy(own, memo), precision)


AnyRun = str | os.PathLike[str] | Run | Loaded
"""A run's folder, or the run opened or loaded from it."""


# --- families ---


class Family(ABC):
    """One kind of task. Users subclass it and pass an instance to `register_family`."""

    task: str
    """Name of the task for `--task`."""
    title: str
    """Description of its models."""
    noun: str = "text"
    """Name of one example."""
    verb: str = "predict"
    """Command that uses a run."""
    primary: str
    """Metric that selects the weights, unless a setting names another (`selection`)."""
    lower_is_better: bool = False
    reads_stream: bool = False
    """True if the family reads a corpus as one long row of tokens."""
    labels_examples: bool = False
    """True if a model has one row of scores per example, not one per token."""
    label_kind: str | None = None
    """Kind of the labels, one of `LABEL_KINDS`; None if examples have no labels."""
    has_decoder: bool = False
    """True if a decoder generates a text that depends on the encoder's input."""
    text_loss: bool = True
    """True if a single text has a loss; False for masked models, whose texts have none until tokens are hidden."""
    predicts_next: bool = False
    """True if the model predicts the next token of its input."""
    is_trained: bool = True
    """True if glassformer trains the models; False if they are only imported."""
    token_places: tuple[int, ...] = (0,)
    """Indices of the token inputs of a model. Each is followed by its mask."""
    loaded_class: type[Loaded]

    # --- data ---

    @abstractmethod
    def recognise(self, request: ConfigRequest) -> Recognition:
        """Return the complete configuration of a training run, with open settings inferred from the data."""

    @abstractmethod
    def split_data(self, config: Config, rows: Any = None) -> DataParts:
        """Return the data, divided into parts. `rows`: the data if it has been read already."""

    def check_corpus(self, config: Config, corpus: Any) -> None:  # noqa: B027 (there may be nothing to refuse)
        """Raise an error if nothing can be learned from the data."""

    @abstractmethod
    def prepare(self, config: Config, corpus: Any, known: Processor) -> Prepared:
        """Return the corpus as a task. `known`: tokenizers and features that are not learned again."""

    def schema(self, loaded: Any, data: DataSettings) -> Schema:
        """Return the columns that a run reads. `data`: its settings, or those of other data."""
        return schema_of(loaded.config, loaded.features, data)

    @abstractmethod
    def whole_part(self, loaded: Any, options: EvaluateOptions) -> Any:
        """Return all of the data that the options name, as one part."""

    # --- model ---

    @abstractmethod
    def build_model(self, config: Config, processor: Processor) -> nn.Module:
        """Return the model with its initial weights."""

    def own_model(self, config: Config, processor: Processor, own: OwnModel) -> nn.Module:
        """Return a user's own model, if this family can train one."""
        raise SettingError(f"a model of your own cannot learn {config.task}, only labels, numbers or the next token")

    def learn_from_data(self, model: nn.Module, prepared: Prepared) -> None:  # noqa: B027 (few models do)
        """Let a model learn statistics of the training part before the first step."""

    def training_task(self, task: Task, model: nn.Module, config: Config) -> Task:
        """Return the task for the training of this model."""
        return task

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str | None:
        """Return a sample of the model's output, shown after a validation during training; None without one."""
        return None

    def check_refit(self, data: DataSettings) -> None:  # noqa: B027 (there may be nothing to refuse)
        """Raise an error if the parts of the data cannot be joined for a refit."""

    def read_processor(self, run: Run, config: Config) -> Processor:
        """Read tokenizers, features and answers from a run."""
        return tokenizers_of(run)

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config, **more: Any) -> Loaded:
        """Return the model with its weights as a loaded run. `more`: fields that only this family's runs have."""
        kept = {one.name: getattr(processor, one.name) for one in fields(Processor)}
        return self.loaded_class(model=model, run=run, config=config, **kept, **more)

    # --- use ---

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        """Raise an error for options that do not apply to runs of this family."""
        options.refuse_search()
        options.refuse_stride()

    @abstractmethod
    def evaluate_part(self, loaded: Any, part: Any, options: EvaluateOptions) -> EvaluatedPart:
        """Evaluate a run on a part of its own data, or of other data."""

    @abstractmethod
    def encode_example(self, loaded: Any, example: Example, *, target: str | None, beam: int) -> ModelInput:
        """Return an example as inputs of a run's model; `target`: a translation to use instead of the model's own."""

    @abstractmethod
    def held_out_examples(
        self, loaded: Any, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[ModelInput]:
        """Yield examples of a held-out part, evenly spaced."""

    @abstractmethod
    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        """Return random inputs of the right types and shapes."""

    def embed(self, loaded: Any, examples: Any, *, tokens: bool) -> list[Embedded]:
        """Return the vector of each example: a list, or a table if the run reads rows.

        With `tokens`, each result also has a vector for each token of the text.
        """
        return embed(loaded.model, loaded.tokenizer, loaded.config, [str(text) for text in examples], tokens=tokens)

    def answer_function(self, loaded: Any, *, top: int) -> Callable[[str], dict[str, Any]]:
        """Return a function that answers a line of text with a dict: a label, a number, a token or a translation.

        The dict is JSON-serialisable. `top`: number of candidates for each hidden token.
        """

        def answer(text: str) -> dict[str, Any]:
            prediction = loaded.predict(text)
            return prediction.to_dict() if hasattr(prediction, "to_dict") else {"text": text, "value": prediction}

        return answer

    def example_target(self, loaded: Any, example: ModelInput, answer: str | None) -> Tensor:
        """Return the targets of an example: the token after each token, or the answer."""
        return torch.tensor(example.answer_ids)

    def example_loss(self, loaded: Any, example: ModelInput, target: Tensor) -> Tensor:
        """Return the loss on an example, per token."""
        scores = loaded.model(*example.inputs).float().cpu()
        return torch.nn.functional.cross_entropy(scores[0, : len(target)], target)

    def training_target(self, loaded: Any, example: ModelInput, answer: str | None) -> tuple[Tensor, str]:
        """Return the targets of one training step on an example, and the name of the loss."""
        if answer is not None:
            raise Misuse("--answer is for runs that predict: a text is its own answer, a translator's is --translation")
        return torch.tensor([[-1 if id is None else id for id in example.follows]]), "softmax"

    def output_names(self, loaded: Any) -> list[str]:
        """Return the names of the scores; a head may have more rows than there are tokens."""
        return [loaded.output_tokenizer.shown(id) for id in range(loaded.model.head.out_features)]

    def selection(self, config: Config) -> tuple[str, bool]:
        """Return the metric by which weights are chosen, and whether lower is better."""
        return self.primary, self.lower_is_better

    # --- description ---

    def model_name(self, config: Config) -> str:
        """Return the name of the model: its encoder, or the task if a user's family builds its own model."""
        ours = self.build_model.__module__.startswith("glassformer.")
        return config.model.encoder if ours or is_own_model(config.model.encoder) else config.task

    def describe(self, config: Config) -> str:
        """Return a description of the model for the run's card."""
        return self.title

    def example_argument(self, run: Path, config: Config) -> str:
        """Return the argument of the command that uses a run."""
        return "'A text'"

    def command(self, run: Path, config: Config) -> str:
        """Return a command that uses a run."""
        return f"glassformer {self.verb} {shlex.quote(str(run))} {self.example_argument(run, config)}"

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        """Return the loss of uniform guessing and its formula; None if it is unknown."""
        tokens = (card.get("target_tokenizer") or card["tokenizer"])["vocab_size"]
        return math.log(tokens), f"ln of {tokens:,} tokens"

    @property
    def methods(self) -> list[str]:
        """Names of the methods of its runs."""
        kind, general = self.loaded_class, {*dir(Capability), "capability"}
        names = (name for name in dir(kind) if not name.startswith("_") and name not in general)
        return [name for name in names if callable(getattr(kind, name, None))]


class Families(UserDict[str, Family]):
    """Families by the names of their tasks. The built-in families are imported on first use."""

    modules = ("language", "masked", "labelling", "translation", "embedding")

    def __init__(self) -> None:
        """Leave `data` unset until its first use."""

    @cached_property
    def data(self) -> dict[str, Family]:  # type: ignore[override]
        modules = [import_module(f"glassformer.families.{name}") for name in self.modules]
        return {family.task: family for module in modules for family in module.FAMILIES}

    def __getitem__(self, task: str) -> Family:
        refuse_unknown("task", task, self)
        return self.data[task]


FAMILIES = Families()


def register_family(family: Family, *, like: str) -> None:
    """Register a user's family. `like`: the built-in task whose settings it has."""
    if not isinstance(family, Family):
        raise Misuse(f"register_family takes a Family, as register_family(MyFamily(), like=…), not {family!r}")
    if family.task in TASKS:
        raise Misuse(f"the task {family.task} is one of ours: give your family a name of its own")
    add_task(family.task, like)
    FAMILIES[family.task] = family
    note_part(FAMILY, family.task, family, type(family).__module__)
