"""What the training loop knows of a task."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.order import drawn_rows
from glassformer.notebook.html import facts, table
from glassformer.text.tokenizer import Tokenizer

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Among:
    """This process among those that evaluate the same model together."""

    rank: int = 0
    world: int = 1

    def spread(self, batches: Iterable[T], judge: Callable[[T], R]) -> list[R]:
        """The result of every batch, in their order, on every process. `batches`: told in few words, since each process
        passes over those of the others.
        """
        if self.world == 1:
            return [judge(batch) for batch in batches]
        mine, coming = [], iter(batches)
        while batch_each := list(islice(coming, self.world)):
            if self.rank < len(batch_each):
                mine.append(judge(batch_each[self.rank]))
        by_rank: list[list[R]] = [[]] * self.world
        dist.all_gather_object(by_rank, mine)
        return [by_rank[number % self.world][number // self.world] for number in range(sum(map(len, by_rank)))]


ALONE = Among()


MOST_ROWS = 40
"""Classes that a notebook shows."""
SHOWN = 60
"""Characters of an example in a line."""


class Batch(ABC):
    """Some examples, laid out for a model."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many examples: what several processes and accumulation divide."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many predictions are judged in it: the loss is a sum over these."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens that the model reads."""

    @abstractmethod
    def rows(self, first: int, last: int) -> "Batch":
        """A slice of its examples."""

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        """What a person knows an example by."""
        return ""

    def describe(self, row: int, tokenizer: Tokenizer | None) -> str:
        """The beginning of an example's text, or what else it is known by, on one line."""
        text = " ".join(self.text(row, tokenizer).split())
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

    @abstractmethod
    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        """What the loss needs, on the device."""


def to_device(device: torch.device, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors there; a GPU copies them while it computes."""
    if device.type == "cuda":
        return tuple(tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors)
    return tuple(tensor.to(device) for tensor in tensors)


@dataclass(frozen=True)
class Evaluation:
    """Metrics over a part of the data, and one record per example."""

    metrics: dict[str, float]
    primary: str
    """The metric that decides which weights are best."""
    lower_is_better: bool
    summary: str = ""
    """The metrics for a person to read."""
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    """What is not one number: scores by class, a confusion matrix."""
    records: list[dict[str, Any]] = field(default_factory=list, repr=False)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)
    """What stands behind the records: a classifier's `scores`, N×outputs; of a language model each token's `loss`."""

    @property
    def score(self) -> float:
        """The primary metric, turned so that lower is better; of equal accuracies, the smaller loss decides."""
        value = self.metrics[self.primary]
        return value if self.lower_is_better else 1e-9 * self.metrics.get("loss", 0.0) - value

    def with_skipped(self, skipped: Mapping[str, Sequence[int]]) -> Self:
        """Return the evaluation with the number of rows that could not be scored, by reason."""
        return replace(self, details={**self.details, "skipped": {why: len(rows) for why, rows in skipped.items()}})

    def _repr_html_(self) -> str:
        """The metrics, and where there are classes or labels, the scores of each."""
        by_name: dict[str, dict[str, Any]] = self.details.get("per_class") or self.details.get("per_label") or {}
        columns = list(next(iter(by_name.values()), ()))
        rows = [[name, *(scores.get(column) for column in columns)] for name, scores in by_name.items()]
        of_each = table(("", *columns), rows[:MOST_ROWS]) if rows else ""
        return facts(self.metrics, self.summary) + of_each


class Task(ABC):
    """The only place that knows what a batch means."""

    parts: Mapping[str, Any] = MappingProxyType({})
    """The parts of the data that it is on, by name."""
    steps_per_epoch: float
    steady: bool = True
    """Its batches are all of one shape, or of few, so that compiling the step for each is soon done."""
    validates: bool = True
    """It has a validation part; without one, a training keeps its last weights."""
    unit: str = "nats per token"
    """The unit of the loss."""
    smoothing: float = 0.0
    """Label smoothing in the loss that is learned from; that of an evaluation never has it."""
    record: str = "example"
    """What an evaluation has a record of."""
    tokens_per_example: int | None = None
    """What an example counts as, where all count alike and are no words: an image's pixels, a row's columns."""
    share: float = 1.0
    """The part of what is held out that an evaluation judges."""
    min_sample: int = 1
    """Records without which the primary metric of a sample is mostly noise."""
    noise: float = 0.0
    """Standard error of the difference in the primary metric between two states of a model, on `min_sample` records."""
    shared_by: Among = ALONE
    """The processes that judge what is held out together."""
    on_features: bool = False
    """Its inputs are features, computed once, which only a model's head has still to read."""

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """The whole batch of a step, over all processes: a function of the seed and the step alone."""

    @abstractmethod
    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        """The summed loss of a batch's tensors; its count goes with the batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        """Metrics on a part of the data; of at most so many tokens of it."""

    def among(self, processes: Among) -> Self:
        """The same task, judged by several processes together: all of them ask for the same evaluations."""
        if processes == self.shared_by:
            return self
        shared = copy.copy(self)
        shared.shared_by = processes
        return shared

    # --- a part of it, drawn at random: the same each time, and a smaller one is in a larger one ---

    def record_count(self, part: str) -> int:
        """Records that an evaluation of a whole part has; one, where it can only be judged whole."""
        return 1

    def token_share(self, part: str, most: int) -> float:
        """The part of it that has so many tokens; all of it, where tokens do not bound a validation."""
        return 1.0

    def sample(self, share: float) -> Self:
        """The same task, judged on a share of what is held out."""
        if share >= 1:
            return self
        sampled = copy.copy(self)
        sampled.share = share
        held_out = {name: sampled.sample_part(part) for name, part in self.parts.items() if name != "train"}
        sampled.parts = {**self.parts, **held_out}
        return sampled

    def sample_part(self, part: Any) -> Any:
        """A share of a part; or all of it, where what is judged of it is drawn later, or it is judged whole."""
        return part

    def drawn(self, count: int) -> NDArray[np.int64]:
        """Which of so many are judged."""
        return drawn_rows(count, max(1, round(self.share * count)))
