"""The interface of tasks to the training loop."""

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

from glassformer.config.arrays import Array
from glassformer.config.json_types import JsonObject
from glassformer.data.order import drawn_rows
from glassformer.notebook.html import facts, table
from glassformer.text.tokenizer import Tokenizer

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Among:
    """This process among the processes that evaluate a model together."""

    rank: int = 0
    world: int = 1

    def spread(self, batches: Iterable[T], judge: Callable[[T], R]) -> list[R]:
        """Return the result of `judge` for every batch, in order, on every process.

        `batches` should be cheap to iterate over, since each process skips the batches of the others.
        """
        if self.world == 1:
            return [judge(batch) for batch in batches]
        own_results, remaining = [], iter(batches)
        while batch_each := list(islice(remaining, self.world)):
            if self.rank < len(batch_each):
                own_results.append(judge(batch_each[self.rank]))
        by_rank: list[list[R]] = [[]] * self.world
        dist.all_gather_object(by_rank, own_results)
        return [by_rank[number % self.world][number // self.world] for number in range(sum(map(len, by_rank)))]


ALONE = Among()


MAX_ROWS = 40
"""Maximum number of classes shown in a notebook."""
MAX_DESCRIPTION_CHARS = 60
"""Maximum number of characters of an example in a line."""


class Batch(ABC):
    """Examples laid out as tensors."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of examples: what processes and gradient accumulation divide."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of predictions, over which the loss is summed."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens that the model reads."""

    @abstractmethod
    def rows(self, first: int, last: int) -> "Batch":
        """Return a slice of the examples."""

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        """Return the text that identifies an example for a person."""
        return ""

    def describe(self, row: int, tokenizer: Tokenizer | None) -> str:
        """Return the beginning of an example's text on one line."""
        text = " ".join(self.text(row, tokenizer).split())
        return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[: MAX_DESCRIPTION_CHARS - 1]}…"

    @abstractmethod
    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the inputs of the loss on the device."""


def to_device(device: torch.device, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors on the device; copies to a GPU are asynchronous."""
    if device.type == "cuda":
        return tuple(tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors)
    return tuple(tensor.to(device) for tensor in tensors)


@dataclass(frozen=True)
class Evaluation:
    """Metrics over a part of the data, and one record per example."""

    metrics: dict[str, float]
    primary: str
    """Metric that selects the best weights."""
    lower_is_better: bool
    summary: str = ""
    """The metrics as text."""
    details: JsonObject = field(default_factory=dict, repr=False)
    """Results that are not single numbers: scores by class, a confusion matrix."""
    records: list[JsonObject] = field(default_factory=list, repr=False)
    arrays: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)
    """Values behind the records: `scores` (N×outputs) of a classifier, each token's `loss` of a language model."""

    @property
    def score(self) -> float:
        """The primary metric, negated if higher is better. For equal accuracies, the smaller loss decides."""
        value = self.metrics[self.primary]
        return value if self.lower_is_better else 1e-9 * self.metrics.get("loss", 0.0) - value

    def with_skipped(self, skipped: Mapping[str, Sequence[int]]) -> Self:
        """Return the evaluation with the number of rows that could not be scored, by reason."""
        return replace(self, details={**self.details, "skipped": {why: len(rows) for why, rows in skipped.items()}})

    def _repr_html_(self) -> str:
        """Return a table of the metrics and, for classes or labels, of the scores of each."""
        by_name: dict[str, JsonObject] = self.details.get("per_class") or self.details.get("per_label") or {}
        columns = list(next(iter(by_name.values()), ()))
        rows = [[name, *(scores.get(column) for column in columns)] for name, scores in by_name.items()]
        score_table = table(("", *columns), rows[:MAX_ROWS]) if rows else ""
        return facts(self.metrics, self.summary) + score_table


class Task(ABC):
    """A task: the only code that knows what a batch means."""

    parts: Mapping[str, Any] = MappingProxyType({})
    """Parts of the data by name."""
    steps_per_epoch: float
    steady: bool = True
    """Whether batches have one or few shapes, so that compiling the step for each is fast."""
    validates: bool = True
    """Whether there is a validation part; otherwise training keeps the last weights."""
    unit: str = "nats per token"
    """Unit of the loss."""
    smoothing: float = 0.0
    """Label smoothing of the training loss; evaluations never use it."""
    record: str = "example"
    """What an evaluation has a record of."""
    tokens_per_example: int | None = None
    """Size of an example if all have the same size and no words: pixels of an image, columns of a row."""
    share: float = 1.0
    """Share of the validation or test part to evaluate."""
    min_sample: int = 1
    """Number of records below which the primary metric of a sample is mostly noise."""
    noise: float = 0.0
    """Standard error of the difference in the primary metric between two states of a model, on `min_sample` records."""
    shared_by: Among = ALONE
    """Processes that evaluate together."""
    on_features: bool = False
    """Whether its inputs are precomputed features for the model's head."""

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Return the whole batch of a step, over all processes: a function of the seed and the step alone."""

    @abstractmethod
    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        """Return the summed loss of a batch's tensors; the batch has the count."""

    @abstractmethod
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        """Return the metrics on a part of the data, or on at most `most` tokens of it."""

    def among(self, processes: Among) -> Self:
        """Return the same task evaluated by several processes, which must all request the same evaluations."""
        if processes == self.shared_by:
            return self
        shared = copy.copy(self)
        shared.shared_by = processes
        return shared

    # --- evaluation of a random sample ---

    def record_count(self, part: str) -> int:
        """Return the number of records in an evaluation of a whole part; 1 if it cannot be sampled."""
        return 1

    def token_share(self, part: str, most: int) -> float:
        """Return the share of a part with `most` tokens; 1 if tokens do not limit an evaluation."""
        return 1.0

    def sample(self, share: float) -> Self:
        """Return the same task evaluated on a random share of the validation and test parts.

        The sample is the same each time, and smaller samples are subsets of larger ones.
        """
        if share >= 1:
            return self
        sampled = copy.copy(self)
        sampled.share = share
        held_out = {name: sampled.sample_part(part) for name, part in self.parts.items() if name != "train"}
        sampled.parts = {**self.parts, **held_out}
        return sampled

    def sample_part(self, part: Any) -> Any:
        """Return the sample of a part; the whole part if it is sampled later or not at all."""
        return part

    def drawn(self, count: int) -> NDArray[np.int64]:
        """Return the indices of the sampled records."""
        return drawn_rows(count, max(1, round(self.share * count)))
