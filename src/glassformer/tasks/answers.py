"""Targets of classification, multilabel classification and regression, and their conversion to tensors."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

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
    """Classes by name. With the logistic loss, two classes share one output: the score of the second."""

    names: tuple[str, ...]
    loss: str
    """"softmax" or "logistic"."""
    unknown: tuple[str, ...] = ()
    """Labels of evaluated examples outside the classes; their indices follow those of the classes."""
    positive: str | None = None
    """Class whose average precision is measured."""

    @staticmethod
    def of(names: Sequence[str], loss: str | None) -> "Classes":
        """Return the classes; `loss` defaults to logistic for two classes and to softmax for more."""
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
        """Return the class index of each label."""
        numbers = {name: number for number, name in enumerate((*self.names, *self.unknown))}
        return np.array([numbers[label] for label in labels], dtype=np.int64)

    def words(self, learned: Tensor) -> list[str]:
        """Return the label of each class index."""
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
    """Labels by name, any number of which can apply at once, with a score each."""

    names: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Labels of evaluated examples without a score; their indices follow those with scores."""

    threshold = 0.5
    """Probability above which a label is predicted."""

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
        """Return an array with 1 for each label of an example and 0 for the others."""
        numbers = {name: number for number, name in enumerate((*self.names, *self.unknown))}
        out = np.zeros((len(labels), len(numbers)), np.float32)
        for row, label in enumerate(labels):
            out[row, [numbers[name] for name in set_of(label)]] = 1
        return out

    def words(self, learned: Tensor) -> list[str]:
        return ["; ".join(self.said(row)) or "(none)" for row in learned.tolist()]

    def said(self, probabilities: Sequence[float]) -> list[str]:
        """Return the labels above the threshold."""
        return [name for name, value in zip(self.names, probabilities, strict=True) if value > self.threshold]

    def probabilities(self, scores: Float[Tensor, "N L"]) -> Float[Tensor, "N L"]:
        return scores.sigmoid()

    def to_json(self) -> dict[str, list[str]]:
        return {"labels": list(self.names)}


@dataclass(frozen=True)
class Scale:
    """Numbers, standardised by the mean and standard deviation of the training part."""

    mean: float
    spread: float
    decimal: str = POINT
    """Decimal separator of the labels where both would be possible."""

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
        """Return the scores as numbers in the unit of the data."""
        return scores[:, 0].double() * self.spread + self.mean

    def to_json(self) -> dict[str, object]:
        plain: dict[str, object] = {"mean": self.mean, "spread": self.spread}
        return plain if self.decimal == POINT else {**plain, "decimal": self.decimal}


Answers = Classes | Labels | Scale


def read_answers(value: object, loss: str | None, source: str, positive: str | None = None) -> Answers:
    """Return the answers that `to_json` wrote. `positive` is the class whose average precision is measured."""
    if _are_names(value):
        return replace(Classes.of(value, loss), positive=positive if positive in value else None)
    if isinstance(value, dict) and _are_names(value.get("labels")):
        return Labels.of(value["labels"], loss)
    if isinstance(value, dict) and all(_is_number(value.get(key)) for key in ("mean", "spread")):
        decimal = COMMA if value.get("decimal") == COMMA else POINT
        return Scale(value["mean"], value["spread"], decimal)
    raise RunError(f"{source} is damaged: its labels are neither names of classes nor a mean and a spread")


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
