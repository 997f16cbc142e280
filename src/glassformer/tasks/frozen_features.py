"""Labels that a head learns alone: what the rest of the model makes of each example is computed once."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.features.inputs import Inputs, Tensors
from glassformer.models.reader import Predictor
from glassformer.tasks.base import Evaluation, Task
from glassformer.tasks.labelling import LabelledBatch, Labelling, device_of


def head_learns_alone(model: nn.Module) -> bool:
    """Whether nothing before the head changes in training."""
    if not isinstance(model, Predictor):
        return False
    head = {id(weight) for weight in model.head.parameters()}
    return not any(weight.requires_grad and id(weight) not in head for weight in model.parameters())


class FrozenFeaturesTask(Task):
    """A labelling task on features, which only the head has still to read. Of a model it takes the head."""

    steady = False

    def __init__(self, task: Labelling, model: Predictor) -> None:
        self.inner = copy.copy(task)
        self.parts = self.inner.parts = FrozenFeatureParts(task.parts, model)
        self.name, self.unit, self.smoothing = task.name, task.unit, task.smoothing
        self.validates, self.steps_per_epoch = task.validates, task.steps_per_epoch

    def batch(self, step: int) -> LabelledBatch:
        return self.inner.batch(step)

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        assert isinstance(model, Predictor)
        return self.inner.loss(model.head, *tensors)

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        assert isinstance(model, Predictor)
        return self.inner.evaluate(model.head, part, most=most)


@dataclass(frozen=True, eq=False)
class FrozenFeatures(Inputs):
    """Examples whose features are there."""

    answers: NDArray[Any]
    texts: Sequence[str]
    features: Float[Tensor, "N pooled"]
    tokens: NDArray[np.int64]
    noun: str

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.tokens

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return (self.features[torch.from_numpy(rows)],)


class FrozenFeatureParts(Mapping[str, Inputs]):
    """The parts of a task; the features of one are computed when it is first asked for."""

    def __init__(self, parts: Mapping[str, Inputs], model: Predictor) -> None:
        self._parts = parts
        self._model = model
        self._known: dict[str, FrozenFeatures] = {}

    def __getitem__(self, name: str) -> FrozenFeatures:
        if name not in self._known:
            part = self._parts[name]
            features = compute_features(self._model, part)
            self._known[name] = FrozenFeatures(part.answers, part.texts, features, part.lengths, part.noun)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


@torch.no_grad()
def compute_features(model: Predictor, examples: Inputs) -> Float[Tensor, "N pooled"]:
    """The features that the model has in use: without dropout, and in full precision."""
    device, training = device_of(model), model.training
    out: Tensor | None = None
    model.eval()
    with torch.autocast(device.type, enabled=False):
        for rows, tensors in examples.batches():
            batch_features = model.features(*(tensor.to(device) for tensor in tensors)).float().cpu()
            out = batch_features.new_empty(len(examples), *batch_features.shape[1:]) if out is None else out
            out[torch.from_numpy(rows)] = batch_features
    model.train(training)
    return torch.empty(0, 0) if out is None else out
