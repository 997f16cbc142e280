"""What is said of a text: a class, several labels, or a number. From labels to what a model learns, and back."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.data_section import COMMA, POINT
from glassformer.config.errors import RunError, SettingError
from glassformer.data.columns.labels import set_of


@dataclass(frozen=True)
class Classes:
    """Classes by name. Two of them may share one output: the score of the second, against the first."""

    names: tuple[str, ...]
    loss: str
    """softmax or logistic."""
    unknown: tuple[str, ...] = ()
    """Labels of evaluated examples that are not among the classes; their indices follow those of the classes."""
    positive: str | None = None
    """The class whose average precision is measured."""

    @staticmethod
    def of(names: Sequence[str], loss: str | None) -> "Classes":
        """These classes with the `loss` that is asked for; None: logistic for two classes, softmax for more."""
        if loss == "squared":
            raise SettingError("training.loss squared is for numbers: --task regression, or softmax or logistic")
        if loss == "logistic" and len(names) != 2:
            raise SettingError(f"training.loss logistic is for two classes, and there are {len(names)}; use softmax")
        return Classes(tuple(names), loss or ("logistic" if len(names) == 2 else "softmax"))

    @property
    def outputs(self) -> int:
        return 1 if self.loss == "logistic" else len(self.names)

    def with_unknown(self, labels: Iterable[str]) -> "Classes":
        """Return these classes, and as `unknown` the labels that are not among them."""
        return replace(self, unknown=tuple(sorted(set(labels).difference(self.names))))

    def learned(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """The number of each label's class."""
        numbers = {name: number for number, name in enumerate((*self.names, *self.unknown))}
        return np.array([numbers[label] for label in labels], dtype=np.int64)

    def words(self, learned: Tensor) -> list[str]:
        """The label of each number."""
        return [self.names[number] for number in learned.tolist()]

    def probabilities(self, scores: Float[Tensor, "N outputs"]) -> Float[Tensor, "N C"]:
        if self.loss == "softmax":
            return scores.softmax(-1)
        second = scores[:, 0].sigmoid()
        return torch.stack([1 - second, second], -1)

    def to_json(self) -> list[str]:
        return list(self.names)


@dataclass(frozen=True)
class Labels:
    """Labels by name, of which any number may be true at once. A score for each."""

    names: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Labels of evaluated examples that have no score; their indices follow those with scores."""

    threshold = 0.5
    """A label is said if its probability is above."""

    @staticmethod
    def of(names: Sequence[str], loss: str | None) -> "Labels":
        if loss not in (None, "logistic"):
            raise SettingError(f"training.loss {loss}: several labels are learned with the logistic loss, one by one")
        return Labels(tuple(names))

    @property
    def outputs(self) -> int:
        return len(self.names)

    def with_unknown(self, labels: Iterable[str]) -> "Labels":
        """Return these labels, and as `unknown` those of examples that are not among them."""
        return replace(self, unknown=tuple(sorted(set().union(*map(set_of, labels)).difference(self.names))))

    def learned(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """1 for each label of an example, 0 for the others."""
        numbers = {name: number for number, name in enumerate((*self.names, *self.unknown))}
        out = np.zeros((len(labels), len(numbers)), np.float32)
        for row, label in enumerate(labels):
            out[row, [numbers[name] for name in set_of(label)]] = 1
        return out

    def words(self, learned: Tensor) -> list[str]:
        return ["; ".join(self.said(row)) or "(none)" for row in learned.tolist()]

    def said(self, probabilities: Sequence[float]) -> list[str]:
        """The labels above the threshold."""
        return [name for name, value in zip(self.names, probabilities, strict=True) if value > self.threshold]

    def probabilities(self, scores: Float[Tensor, "N L"]) -> Float[Tensor, "N L"]:
        return scores.sigmoid()

    def to_json(self) -> dict[str, list[str]]:
        return {"labels": list(self.names)}


@dataclass(frozen=True)
class Scale:
    """Numbers. A model learns how many spreads they lie above the mean of the training part."""

    mean: float
    spread: float
    decimal: str = POINT
    """The decimal sign of the labels, where both could be meant."""

    outputs = 1

    @staticmethod
    def of(numbers: NDArray[np.float64], loss: str | None, decimal: str = POINT) -> "Scale":
        if loss not in (None, "squared"):
            raise SettingError(f"training.loss {loss} is for classes: --task classification, or squared")
        return Scale(float(numbers.mean()), float(numbers.std()) or 1.0, decimal)

    def with_unknown(self, labels: Iterable[str]) -> "Scale":
        """Return this scale: every number is known to it."""
        return self

    def learned(self, labels: Sequence[str]) -> NDArray[np.float32]:
        return ((np.array([float(label) for label in labels]) - self.mean) / self.spread).astype(np.float32)

    def words(self, learned: Tensor) -> list[str]:
        return [f"{value:.6g}" for value in self.values(learned[:, None]).tolist()]

    def values(self, scores: Float[Tensor, "N 1"]) -> Float[Tensor, "N"]:
        """Numbers in the unit of the data."""
        return scores[:, 0].double() * self.spread + self.mean

    def to_json(self) -> dict[str, Any]:
        plain = {"mean": self.mean, "spread": self.spread}
        return plain if self.decimal == POINT else {**plain, "decimal": self.decimal}


Answers = Classes | Labels | Scale


def read_answers(value: Any, loss: str | None, source: str, positive: str | None = None) -> Answers:
    """The answers that `to_json` wrote. `positive`: the class whose average precision is measured."""
    if _are_names(value):
        return replace(Classes.of(value, loss), positive=positive if positive in value else None)
    if isinstance(value, dict) and _are_names(value.get("labels")):
        return Labels.of(value["labels"], loss)
    if isinstance(value, dict) and all(_is_number(value.get(key)) for key in ("mean", "spread")):
        decimal = COMMA if value.get("decimal") == COMMA else POINT
        return Scale(value["mean"], value["spread"], decimal)
    raise RunError(f"{source} is damaged: its labels are neither names of classes nor a mean and a spread")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
