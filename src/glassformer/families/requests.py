"""Requests to a family: complete a configuration, evaluate a run, or read an example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from glassformer.config.errors import Misuse, with_article
from glassformer.config.messages import say
from glassformer.config.presets import DEFAULT_TASK, settings_task
from glassformer.config.resolve import BUDGETS, Config, cpu_defaults, flatten, resolve
from glassformer.config.sections import DataSettings
from glassformer.config.views import flag_of
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.aligned import is_tmx
from glassformer.data.io.memory import held_name
from glassformer.data.io.place import find
from glassformer.finetuning.settings import Finetuning
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import is_cpu

NO_DATA = "no data: name a text file, a folder, a table, or an embedded data set (`glassformer data` lists them)"


class Recognition(NamedTuple):
    """The configuration for some data, with the rows that were read to recognise it."""

    config: Config
    rows: Any = None
    """The table, pairs or images, if they had to be read."""


@dataclass(frozen=True)
class ConfigRequest:
    """A user's settings, to be completed with settings inferred from the data."""

    file: Mapping[str, Any]
    flags: Mapping[str, Any]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings of file and flags by dotted key; flags win."""
        return {**flatten(self.file), **flatten(self.flags)}

    @property
    def task(self) -> str | None:
        return self.settings.get("task")

    @property
    def path(self) -> str | None:
        return self.settings.get("data.path")

    @cached_property
    def data(self) -> DataSettings:
        reading = (key for key in self.settings if key.startswith("data."))
        return DataSettings(**{key.removeprefix("data."): self.settings[key] for key in reading})

    @cached_property
    def finetuning(self) -> Finetuning | None:
        """Runs whose weights training starts from; None for a new model."""
        return Finetuning.of(self.settings)

    @property
    def has_budget(self) -> bool:
        said = {**self.starts, **self.settings}
        return any(said.get(budget) is not None for budget in BUDGETS)

    @cached_property
    def starts(self) -> Mapping[str, Any]:
        """Default settings of an embedded data set; empty for other data."""
        is_embedded = self.path is not None and find(self.path, several=True) is None
        return open_dataset(str(self.path)).settings if is_embedded else {}

    def resolve(self, facts: Mapping[str, Any], *, rows: int | None = None) -> Config:
        """Return the whole configuration. `facts`: settings inferred from the data."""
        if self.finetuning is None:
            starts = self.starts  # an embedded data set has the same defaults on every device
            if not starts and is_cpu(self.settings.get("training.device", "auto")):
                starts = cpu_defaults(settings_task(self.task or facts.get("task") or DEFAULT_TASK), self.settings)
            return resolve(self.file, self.flags, facts, starts=starts)
        more = self.finetuning.settings(self.task or facts["task"], rows)
        return self.finetuning.finish(resolve(self.file, self.flags, {**facts, **more}, starts=self.starts))


class EvaluateArguments(TypedDict, total=False):
    """Arguments of `evaluate` and `errors`: the fields of `EvaluateOptions` except the data."""

    part: str | None
    stride: int | None
    beam: int | None
    length_penalty: float | None
    lowercase: bool
    bleu_tokenizer: str | None
    reading: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Data to evaluate on, and options of the evaluation."""

    data: Any = None
    """Path, name of a data set, or data in memory such as a table or a list; None for the run's own data."""
    part: str | None = None
    stride: int | None = None
    beam: int | None = None
    length_penalty: float | None = None
    lowercase: bool = False
    bleu_tokenizer: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Data settings that differ from the run's."""

    @property
    def other_data(self) -> bool:
        """True if the options name data that is not the run's own."""
        return self.data is not None or not self.reading.keys().isdisjoint(("source_file", "target_file"))

    def refuse_search(self) -> None:
        """Raise `Misuse` for options that only runs of translation have."""
        for name in ("beam", "length_penalty", "lowercase", "bleu_tokenizer", "source_file", "target_file"):
            if name in self.reading or getattr(self, name, None) not in (None, False):
                raise Misuse(f"{flag_of(name)} is for runs that translate")

    def refuse_stride(self) -> None:
        if self.stride is not None:
            raise Misuse("--stride is for language models that write")

    def settings(self, config: Config) -> DataSettings:
        """Return the data settings: those of the run, with the changes in these options."""
        if not self.other_data:
            return config.data
        path = self.data if self.data is None or isinstance(self.data, str) else held_name(self.data)
        place = {"path": path, "source_file": None, "target_file": None}
        settings = replace(config.data, **{**place, **self.reading})
        if is_tmx(path or "") and not is_tmx(config.data.path or ""):  # has languages, no columns
            return replace(settings, source=self.reading.get("source"), target=self.reading.get("target"))
        return settings


Example = str | Mapping[str, Any]
"""A text, an image file, or the values of a row by column name (a mapping, or JSON)."""


@dataclass(frozen=True, kw_only=True)
class ModelInput:
    """One example as a batch of one; call the model with `model(*inputs)`."""

    inputs: tuple[Tensor | None, ...]
    text: str
    tokens: list[str]
    """Name of each vector that the encoder reads; for a translator, the source tokens."""
    ids: list[int]
    """Ids of the words among the tokens, including START and END."""
    words: range
    """Positions of the words among the tokens."""
    written: list[str] | None = None
    """Decoder inputs of a translator, starting with START; None for other models."""
    answers: list[str] | None = None
    """Token to predict at each position.

    For a language model, this is the next token ("" after the last). For a translator, these are the target tokens up
    to END. For a masked model, it is the token at the position ("" at a MASK).
    """
    answer_ids: list[int] | None = None
    """Ids of the answers. A language model has one fewer, because no token follows the last."""
    stand: list[int | None] | None = None
    """Id at each position for a masked model; None at positions that are never predicted: MASK, START and END."""
    output: str = ""
    """Translation; empty for other models."""
    columns: tuple[str, ...] = ()
    """Columns of a table's row: numbers first, then categories."""
    pixels: NDArray[np.uint8] | None = None
    grid: tuple[int, int] | None = None
    """Rows and columns of an image's patches, stored row by row at `patches`."""
    patches: range | None = None

    @property
    def follows(self) -> list[int | None]:
        """Id to predict at each position; None where no token follows or none is predicted."""
        if self.stand is not None:
            return self.stand
        return [*(self.answer_ids or []), *([] if self.written else [None])]

    @property
    def sides(self) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
        """Query tokens and key tokens of each attention stack."""
        read, written = (self.tokens, self.tokens), (self.written or [], self.written or [])
        return {"self": read, "source": read, "target": written, "cross": (self.answers or [], self.tokens)}

    @property
    def square(self) -> tuple[int, int] | None:
        """Grid of an example that is only an image: its patches, or its pixels if the image is one vector.

        None for other examples.
        """
        if self.pixels is None or self.columns or self.ids:
            return None
        height, width = self.pixels.shape[:2]
        return self.grid or (height, width)

    @property
    def parts(self) -> Sequence[str]:
        """Names of the parts that can be removed from the input: tokens, image cells, or columns of a row."""
        if self.square is not None:
            return [f"{row},{column}" for row in range(self.square[0]) for column in range(self.square[1])]
        return self.columns if len(self.tokens) == 1 and self.columns else self.tokens


def say_unknown(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Report the number of tokens that are unknown to the model, if there are any."""
    if tokenizer.unk is not None and (unknown := ids.count(tokenizer.unk)):
        say(f"{unknown:,} token{'s are' if unknown > 1 else ' is'} unknown to this model")


def say_cut_text(length: int, room: int) -> None:
    """Report that a text is cut because it is longer than `room` tokens."""
    if length > room:
        say(f"the text is {length:,} tokens long and cut after {room:,}: no more fit")


@dataclass(frozen=True)
class Embedded:
    """A text with its vector; on request, also its tokens with their vectors."""

    text: str
    vector: NDArray[np.float32]
    tokens: list[str] | None = None
    vectors: NDArray[np.float32] | None = None


def random_tokens(vocab: int, generator: Generator, max_tokens: int) -> torch.Tensor:
    """Return uniformly random ids, 1×T, with T from half of `max_tokens` to `max_tokens`."""
    length = int(torch.randint(1 + max_tokens // 2, max_tokens + 1, (), generator=generator))
    return torch.randint(vocab, (1, length), generator=generator)


def check_text(example: Example) -> str:
    if not isinstance(example, str):
        raise Misuse(f"this run reads texts, not {with_article(example)}")
    return example


def evenly_chosen(places: NDArray[np.int64], count: int) -> list[int]:
    """Return at most `count` evenly spaced places, including the first and the last."""
    if not len(places):
        return []
    return places[np.unique(np.linspace(0, len(places) - 1, count).round().astype(np.int64))].tolist()
