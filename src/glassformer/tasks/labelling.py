"""Common base of classification and regression: one answer per example."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability
from glassformer.config.errors import DataError, SettingError, with_article
from glassformer.config.json_types import JsonObject
from glassformer.config.progress import counted_batches
from glassformer.data.features.inputs import Inputs, Tensors
from glassformer.data.order import CPU_TOKENS_AT_ONCE, TOKENS_AT_ONCE, LengthOrder
from glassformer.data.wording import counted
from glassformer.models.capabilities import CountsTokens, PoolsTokens
from glassformer.models.modules import device_of
from glassformer.tasks.answers import Answers
from glassformer.tasks.base import ALONE, Among, Batch, Evaluation, Task
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Examples of similar length: inputs of the model, and their answers."""

    of: Inputs
    inputs: Tensors
    answers: Tensor
    lengths: NDArray[np.int64]
    known: list[str]
    """Text that identifies each example."""

    @property
    def size(self) -> int:
        return len(self.answers)

    @property
    def count(self) -> int:
        return self.size

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    def rows(self, first: int, last: int) -> "LabelledBatch":
        inputs = self.of.trim(tuple(tensor[first:last] for tensor in self.inputs))
        return LabelledBatch(
            self.of, inputs, self.answers[first:last], self.lengths[first:last], self.known[first:last]
        )

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        return self.known[row]

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        return *(tensor.to(device) for tensor in self.inputs), self.answers.to(device)


def fast_tokens(examples: Inputs, model: nn.Module) -> int:
    """Return the number of tokens per batch, padding included, at which a model is fastest.

    The default of an evaluation is that of training, where rounding stays the same.
    """
    on_cpu = device_of(model).type == "cpu"
    return CPU_TOKENS_AT_ONCE if on_cpu and examples.has_words else TOKENS_AT_ONCE


class Labelling(Task):
    """A task with one or several scores per example."""

    steady = False
    loss_unit: str
    """Unit of the loss, with a placeholder for the noun of an example."""
    _order: LengthOrder

    def __init__(self, parts: Mapping[str, Inputs], answers: Answers, *, batch_size: int = 1, seed: int = 0) -> None:
        self.parts = parts
        self.answers = answers
        self.outputs = answers.outputs
        first = next(iter(parts.values()))
        self.noun = self.record = first.noun
        if not first.has_words and len(first):
            self.tokens_per_example = int(first.lengths[0])
        self.unit = self.loss_unit.format(noun=self.noun)
        if "train" in parts:
            self._order = LengthOrder(parts["train"].lengths, batch_size, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, step: int) -> LabelledBatch:
        rows = self._order.rows(step)
        train = self.parts["train"]
        inputs = train.augment(train.take(rows), step)
        known = [train.texts[row] for row in rows.tolist()]
        return LabelledBatch(train, inputs, torch.from_numpy(train.answers[rows]), train.lengths[rows], known)

    def _reader(self, model: nn.Module) -> nn.Module:
        return model.get_submodule("head") if self.on_features else model

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        *inputs, answers = tensors
        return self.losses(scores_of(self._reader(model), tuple(inputs), self.outputs, self.noun), answers).sum()

    @abstractmethod
    def losses(self, scores: Float[Tensor, "B outputs"], answers: Tensor) -> Float[Tensor, "B"]:
        """Return the training loss of each example."""

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, part: str, *, most: int | None = None, batch_tokens: int = TOKENS_AT_ONCE
    ) -> Evaluation:
        examples = self.parts[part]
        if not len(examples):
            raise DataError(f"the {part} part holds no {self.noun}")
        if isinstance(examples, FrozenFeatures):
            examples.compute(self.shared_by)
        return self.judge(examples, score(self._reader(model), examples, self.outputs, batch_tokens, self.shared_by))

    def records_of(self, texts: Sequence[str], **columns: Sequence[object]) -> list[JsonObject]:
        """Return one record per example, from columns of values."""
        names = (self.noun, *columns)
        return [dict(zip(names, row, strict=True)) for row in zip(texts, *columns.values(), strict=True)]

    def record_count(self, part: str) -> int:
        return len(self.parts[part])

    def sample_part(self, part: Inputs) -> Inputs:
        return part.select(self.drawn(len(part)))

    @abstractmethod
    def judge(self, examples: Inputs, scores: Float[Tensor, "N outputs"]) -> Evaluation:
        """Return the metrics and a record per example."""


def scores_of(model: nn.Module, inputs: Tensors, outputs: int, noun: str = Inputs.noun) -> Float[Tensor, "B outputs"]:
    """Return the model's scores; raise `SettingError` if a user's model returns another shape."""
    scores, size = model(*inputs), len(inputs[0])
    if not isinstance(scores, Tensor) or scores.shape != (size, outputs):
        result = f"scores of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else with_article(scores)
        raise SettingError(f"the model gave {result} for {counted(size, noun)}, but must give ({size}, {outputs})")
    return scores.float()


@torch.no_grad()
def score(
    model: nn.Module, examples: Inputs, outputs: int, batch_tokens: int = TOKENS_AT_ONCE, among: Among = ALONE
) -> Float[Tensor, "N outputs"]:
    """Return the scores of every example, in order. `among` are the processes that share the work."""
    if not len(examples):
        return torch.empty(0, outputs)

    def compute(*inputs: Tensor) -> Tensor:
        return scores_of(model, inputs, outputs, examples.noun)

    return compute_rows(examples, compute, device_of(model), batch_tokens, among)


def compute_rows(
    examples: Inputs,
    compute: Callable[..., Tensor],
    device: torch.device,
    batch_tokens: int = TOKENS_AT_ONCE,
    among: Among = ALONE,
) -> Tensor:
    """Return the result of `compute` for every example, in order."""

    def compute_batch(rows: NDArray[np.int64]) -> Tensor:
        some = compute(*(tensor.to(device) for tensor in examples.take(rows))).float().cpu()
        return some.clone()  # `some` may be a view of a larger tensor

    batches = list(examples.batch_rows(batch_tokens))
    computed = among.spread(counted_batches(batches, len, len(examples), examples.noun), compute_batch)
    if not computed:
        return torch.empty(0, 0)
    out = computed[0].new_empty(len(examples), *computed[0].shape[1:])
    while computed:  # `computed` shrinks as `out` is filled
        out[torch.from_numpy(batches.pop())] = computed.pop()
    return out


def ratios(numerators: ArrayLike, denominators: ArrayLike) -> NDArray[np.float64]:
    """Return numerators divided by denominators; 0 where the denominator is 0."""
    denominators = np.atleast_1d(denominators)
    return np.divide(np.atleast_1d(numerators), denominators, out=np.zeros(len(denominators)), where=denominators > 0)


def precision_recall_f1(
    right: NDArray[np.int64], predicted: NDArray[np.int64], true: NDArray[np.int64], noun: str
) -> list[JsonObject]:
    """Return the scores of each class or label from its counts of hits, predictions and true examples."""
    columns = ratios(right, predicted), ratios(right, true), ratios(2 * right, predicted + true)
    return [
        {"precision": float(p), "recall": float(r), "f1": float(f), noun: int(n)}
        for p, r, f, n in zip(*columns, true, strict=True)
    ]


# --- frozen features: if only the head is trained, the rest of the model runs once per example ---


def head_learns_alone(model: nn.Module) -> bool:
    """Return whether only the head of the model is trainable."""
    reader = capability(model, PoolsTokens)
    if reader is None or capability(model, CountsTokens) is not None:
        return False
    head = {id(weight) for weight in reader.head.parameters()}
    return not any(weight.requires_grad and id(weight) not in head for weight in model.parameters())


def on_frozen_features(task: Labelling, model: nn.Module) -> Labelling:
    """Return the task on the model's features of each example, which are computed once."""
    frozen = copy.copy(task)
    frozen.parts = {name: FrozenFeatures(part, model) for name, part in task.parts.items()}
    frozen.on_features = True
    return frozen


class FrozenFeatures(Inputs):
    """Examples whose features are computed on first use."""

    def __init__(self, examples: Inputs, model: nn.Module) -> None:
        self.answers, self.texts, self.noun = examples.answers, examples.texts, examples.noun
        self.has_words = examples.has_words
        self._examples, self._model = examples, model
        self._features: Float[Tensor, "N pooled"] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self._examples.lengths

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return (self.features[torch.from_numpy(rows)],)

    def select(self, rows: NDArray[np.int64]) -> "FrozenFeatures":
        return FrozenFeatures(self._examples.select(rows), self._model)

    @property
    def features(self) -> Float[Tensor, "N pooled"]:
        if self._features is None:
            self.compute()
        assert self._features is not None
        return self._features

    @torch.no_grad()
    def compute(self, among: Among = ALONE) -> None:
        """Compute the features without dropout and in full precision.

        `among` are the processes that share the work; all of them must call this.
        """
        if self._features is not None:
            return
        reader = capability(self._model, PoolsTokens)
        assert reader is not None
        model, device, training = self._model, device_of(self._model), self._model.training
        model.eval()
        with torch.autocast(device.type, enabled=False):
            self._features = compute_rows(self._examples, reader.features, device, among=among)
        model.train(training)
