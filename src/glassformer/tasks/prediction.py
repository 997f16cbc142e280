"""Classification, multilabel classification and regression."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.bricks.losses import logistic_loss, softmax_loss, squared_loss
from glassformer.config.arrays import Array
from glassformer.config.errors import SettingError, refuse_unknown
from glassformer.config.json_types import JsonObject
from glassformer.data.features.inputs import Inputs
from glassformer.data.wording import counted
from glassformer.tasks.answers import Classes, Labels, Scale
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling, precision_recall_f1, ratios

AVERAGE_PRECISION = "average_precision"

# --- a class ---


class Classification(Labelling):
    """Classification: one class per example."""

    answers: Classes
    loss_unit = "nats per {noun}"

    def __init__(
        self,
        parts: Mapping[str, Inputs],
        answers: Classes,
        *,
        smoothing: float = 0.0,
        class_weights: str | None = None,
        choose_by: str = "accuracy",
        **batches: int,
    ) -> None:
        """Create the task; `batches` has the batch size and the seed."""
        super().__init__(parts, answers, **batches)
        self.smoothing = smoothing
        self.choose_by = choose_by
        self.weights = None
        if class_weights is not None:
            classes = parts["train"].answers.astype(np.int64)
            self.weights = torch.from_numpy(weights_of(class_weights, answers.names, classes))

    def losses(self, scores: Float[Tensor, "B outputs"], answers: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
        losses = self._plain(scores, answers, self.smoothing)
        return losses if self.weights is None else losses * self.weights.to(losses.device)[answers]

    def _plain(self, scores: Float[Tensor, "B outputs"], answers: Int[Tensor, "B"], smoothing: float) -> Tensor:
        """Return the unweighted loss of each example.

        For two classes, softmax and logistic loss are the same function of the difference of the scores.
        """
        if self.answers.loss == "softmax":
            return softmax_loss(scores, answers, smoothing)
        return logistic_loss(scores[:, 0], answers * (1 - smoothing) + smoothing / 2)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N outputs"]) -> Evaluation:
        """Return the metrics, as scikit-learn computes them.

        An unknown label is a wrong answer, and a class of its own with an F1 of 0. The loss is over the known labels.
        """
        probabilities = self.answers.probabilities(scores).numpy()
        predicted = probabilities.argmax(1)
        classes = len(self.answers.names)
        unknown, places = np.unique(examples.answers[examples.answers >= classes], return_inverse=True)
        names = (*self.answers.names, *(self.answers.unknown[number - classes] for number in unknown.tolist()))
        known, answers = examples.answers < classes, examples.answers.astype(np.int64)
        answers[~known] = classes + places
        known_losses = self._plain(scores[torch.from_numpy(known)], torch.from_numpy(answers[known]), 0.0)
        left = iter(known_losses.tolist())
        losses = [next(left) if is_known else None for is_known in known.tolist()]
        confusion = confusion_matrix(answers, predicted, len(names))
        by_class = dict(zip(names, per_class(confusion, self.noun), strict=True))
        metrics = {
            "accuracy": float(np.trace(confusion) / confusion.sum()),
            "macro_f1": macro_f1(confusion),
            **({"loss": float(known_losses.double().mean())} if known.any() else {}),  # undefined without known labels
            "majority": float(confusion.sum(1)[:classes].max() / confusion.sum()),
            f"{self.noun}s": len(examples),
        }
        undefined: dict[str, None] = {} if known.any() else {"loss": None}
        if self.answers.positive is not None:
            positive = self.answers.names.index(self.answers.positive)
            if (answers == positive).any():
                metrics[AVERAGE_PRECISION] = average_precision(answers == positive, probabilities[:, positive])
            else:
                undefined[AVERAGE_PRECISION] = None
        records = self.records_of(
            examples.texts,
            label=[names[answer] for answer in answers.tolist()],
            predicted=[names[guess] for guess in predicted.tolist()],
            probability=probabilities.max(1).tolist(),
            loss=losses,
        )
        over = "" if known.all() else f" (over {counted(int(known.sum()), 'example')} with known labels)"
        summary = (
            f"accuracy {metrics['accuracy']:.4f} (always the largest class: {metrics['majority']:.4f}), "
            f"macro F1 {metrics['macro_f1']:.4f}, loss {metrics.get('loss', math.nan):.4f}{over}"
        )
        if AVERAGE_PRECISION in metrics:
            summary += f", average precision of '{self.answers.positive}' {metrics[AVERAGE_PRECISION]:.4f}"
        details = {
            "per_class": by_class,
            "confusion": {"labels": list(names), "matrix": confusion.tolist()},
            **undefined,
            "known_labels": int(known.sum()),
            "unknown_labels": dict(zip(names[classes:], confusion.sum(1)[classes:].tolist(), strict=True)),
        }
        primary = self.choose_by if self.choose_by in metrics else "accuracy"
        arrays = {"scores": scores.numpy()}
        evaluation = Evaluation(metrics, primary, lower_is_better=primary == "loss", summary=summary)
        return replace(evaluation, details=details, records=records, arrays=arrays)


def confusion_matrix(true: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the number of examples of class i (row) predicted as class j (column)."""
    return np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)


def per_class(confusion: NDArray[np.int64], noun: str = Inputs.noun) -> list[JsonObject]:
    """Return precision, recall and F1 of each class; 0 where the denominator is 0."""
    return precision_recall_f1(np.diag(confusion), confusion.sum(0), confusion.sum(1), f"{noun}s")


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """Return the mean F1 over the classes that occur or are predicted."""
    count = confusion.sum(0) + confusion.sum(1)
    return float(ratios(2 * np.diag(confusion), count)[count > 0].mean())


def average_precision(true: Bool[Array, " N"], scores: Float[Array, " N"]) -> float:
    """Return the mean of the precisions at every threshold, weighted by the recall gained there (as scikit-learn)."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # equal scores share one threshold
    hits = np.cumsum(true[order])[last]
    gains = np.diff(hits, prepend=0) / hits[-1]
    return float((gains * hits / (last + 1)).sum())


def weights_of(spec: str, names: tuple[str, ...], answers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return class weights for `balanced` (equal total weight per class) or for a list like `spam=5,ham=1`.

    Classes outside the list have the weight 1.
    """
    if spec == "balanced":
        counts = np.bincount(answers, minlength=len(names))
        return (len(answers) / (len(names) * np.maximum(counts, 1))).astype(np.float32)
    weights = np.ones(len(names), np.float32)
    for pair in spec.split(","):
        name, separator, value = pair.rpartition("=")
        if separator:
            refuse_unknown("class in training.class_weights", name, names)
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if not separator or not 0 <= weight < np.inf:
            raise SettingError(f"training.class_weights '{pair}' is neither balanced nor like {names[0]}=5")
        weights[names.index(name)] = weight
    return weights


# --- several labels ---


class Multilabel(Labelling):
    """Multilabel classification: a logistic regression per label on a shared model.

    The loss of an example is the mean over its labels. It thus does not grow with their number, and the same learning
    rates work as for classes.
    """

    answers: Labels
    loss_unit = "nats per label of a {noun}"

    def losses(self, scores: Float[Tensor, "B L"], answers: Float[Tensor, "B L"]) -> Float[Tensor, "B"]:
        return logistic_loss(scores, answers).mean(-1)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N L"]) -> Evaluation:
        labels = len(self.answers.names)
        counts = (examples.answers[:, labels:] > 0.5).sum(0)
        unknown = np.flatnonzero(counts)
        true: NDArray[np.bool_] = examples.answers[:, [*range(labels), *(labels + unknown)]] > 0.5
        losses = self.losses(scores, torch.from_numpy(examples.answers[:, :labels])).double()
        probabilities = self.answers.probabilities(scores).numpy()
        predicted = np.zeros_like(true)  # an unknown label is never predicted
        predicted[:, :labels] = probabilities > self.answers.threshold
        often = np.concatenate([most_frequent_set(true[:, :labels]), np.zeros_like(true[:, labels:])], 1)
        baseline = set_metrics(true, often)
        metrics = {
            **set_metrics(true, predicted),
            "loss": float(losses.mean()),
            "majority": baseline["exact_match"],
            "majority_micro_f1": baseline["micro_f1"],
            f"{self.noun}s": len(examples),
        }
        unknown_names = [self.answers.unknown[number] for number in unknown.tolist()]
        names = np.array([*self.answers.names, *unknown_names], dtype=object)
        records = self.records_of(
            examples.texts,
            labels=[names[of].tolist() for of in true],
            predicted=[names[guess].tolist() for guess in predicted],
            probabilities=[dict(zip(self.answers.names, row, strict=True)) for row in probabilities.tolist()],
            loss=losses.tolist(),
        )
        summary = (
            f"micro F1 {metrics['micro_f1']:.4f} (always the most frequent set: {metrics['majority_micro_f1']:.4f}; "
            f"never any label: 0), macro F1 {metrics['macro_f1']:.4f}, exact match {metrics['exact_match']:.4f}, "
            f"Hamming loss {metrics['hamming']:.4f}, loss {metrics['loss']:.4f}"
        )
        by_label = precision_recall_f1((true & predicted).sum(0), predicted.sum(0), true.sum(0), f"{self.noun}s")
        details = {
            "per_label": dict(zip(names.tolist(), by_label, strict=True)),
            "known_labels": int(true[:, :labels].sum()),
            "unknown_labels": dict(zip(unknown_names, counts[unknown].tolist(), strict=True)),
        }
        arrays = {"scores": scores.numpy()}
        evaluation = Evaluation(metrics, "micro_f1", lower_is_better=False, summary=summary)
        return replace(evaluation, details=details, records=records, arrays=arrays)


def most_frequent_set(true: Bool[Array, "N L"]) -> Bool[Array, "N L"]:
    """Return the prediction of the most frequent label set for each example.

    Of equally frequent sets, it is the one with the first label in which they differ, in any order of examples.
    """
    counts = Counter(map(tuple, true.tolist()))
    often = max(counts, key=lambda labels: (counts[labels], labels))
    return np.tile(np.array(often, dtype=np.bool_), (len(true), 1))


def set_metrics(true: Bool[Array, "N L"], predicted: Bool[Array, "N L"]) -> dict[str, float]:
    """Return micro F1, macro F1, exact match and Hamming loss.

    Micro F1 weights every label of every example equally. Macro F1 is the mean over the labels that occur or are
    predicted. Exact match is the share of examples with all labels right. Hamming loss is the share of wrong decisions.
    """
    right, predictions, occurrences = (true & predicted).sum(0), predicted.sum(0), true.sum(0)
    is_relevant = predictions + occurrences > 0
    by_label = ratios(2 * right, predictions + occurrences)
    return {
        "micro_f1": float(ratios(2 * right.sum(), predictions.sum() + occurrences.sum())[0]),
        "macro_f1": float(by_label[is_relevant].mean()) if is_relevant.any() else 0.0,
        "exact_match": float((true == predicted).all(1).mean()),
        "hamming": float((true != predicted).mean()),
    }


# --- a number ---


class Regression(Labelling):
    """Regression: squared error in standard deviations of the training part; metrics in the unit of the data."""

    answers: Scale
    loss_unit = "squared error, in spreads"

    def losses(self, scores: Float[Tensor, "B 1"], answers: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
        return squared_loss(scores[:, 0], answers)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N 1"]) -> Evaluation:
        answers = torch.from_numpy(examples.answers)
        true = self.answers.values(answers[:, None])
        predicted = self.answers.values(scores)
        errors = predicted - true
        squared, variance = float(errors.square().mean()), float((true - true.mean()).square().mean())
        metrics = {
            "rmse": math.sqrt(squared),
            "mae": float(errors.abs().mean()),
            **({"r2": 1 - squared / variance} if true.max() > true.min() else {}),  # undefined for constant targets
            "loss": float(self.losses(scores, answers).double().mean()),
            f"{self.noun}s": len(examples),
        }
        columns = {"number": true.tolist(), "predicted": predicted.tolist(), "error": errors.tolist()}
        records = self.records_of(examples.texts, **columns)
        explained = f"R² {metrics['r2']:.4f}" if "r2" in metrics else "R² –"
        summary = f"RMSE {metrics['rmse']:.4g}, MAE {metrics['mae']:.4g}, {explained}"
        details = {} if "r2" in metrics else {"r2": None}
        return Evaluation(metrics, "rmse", lower_is_better=True, summary=summary, details=details, records=records)
