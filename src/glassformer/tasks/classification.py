"""Say which class an example belongs to."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from glassformer.bricks.losses import logistic_loss, softmax_loss
from glassformer.config.errors import SettingError, unknown
from glassformer.config.presets import CLASSIFICATION
from glassformer.data.features.inputs import Inputs
from glassformer.tasks.answers import Classes
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling, precision_recall_f1


class Classification(Labelling):
    name = CLASSIFICATION

    def __init__(
        self,
        parts: Mapping[str, Inputs],
        classes: Classes,
        *,
        batch_size: int = 1,
        seed: int = 0,
        smoothing: float = 0.0,
        class_weights: str | None = None,
    ) -> None:
        super().__init__(parts, outputs=classes.outputs, batch_size=batch_size, seed=seed)
        self.unit = f"nats per {self.noun}"
        self.classes = classes
        self.smoothing = smoothing
        self.weights = None
        if class_weights is not None:
            self.weights = torch.from_numpy(weights_of(class_weights, classes.names, parts["train"].answers))

    def losses(self, scores: Float[Tensor, "B outputs"], answers: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
        losses = self._plain(scores, answers, self.smoothing)
        return losses if self.weights is None else losses * self.weights.to(losses.device)[answers]

    def _plain(self, scores: Float[Tensor, "B outputs"], answers: Int[Tensor, "B"], smoothing: float) -> Tensor:
        """Softmax and logistic loss of two classes are the same function of the difference of their scores."""
        if self.classes.loss == "softmax":
            return softmax_loss(scores, answers, smoothing)
        return logistic_loss(scores[:, 0], answers * (1 - smoothing) + smoothing / 2)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N outputs"]) -> Evaluation:
        true = torch.from_numpy(examples.answers)
        losses = self._plain(scores, true, 0.0)
        probabilities = self.classes.probabilities(scores).numpy()
        predicted = probabilities.argmax(1)
        confusion = confusion_matrix(examples.answers, predicted, len(self.classes.names))
        by_class = dict(zip(self.classes.names, per_class(confusion, self.noun), strict=True))
        metrics = {
            "accuracy": float(np.trace(confusion) / confusion.sum()),
            "macro_f1": macro_f1(confusion),
            "loss": float(losses.double().mean()),
            "majority": float(confusion.sum(1).max() / confusion.sum()),
            f"{self.noun}s": len(examples),
        }
        names = self.classes.names
        records = [
            {
                self.noun: text,
                "label": names[answer],
                "predicted": names[guess],
                "probability": float(row[guess]),
                "loss": float(loss),
            }
            for text, answer, guess, row, loss in zip(
                examples.texts, examples.answers, predicted, probabilities, losses, strict=True
            )
        ]
        summary = (
            f"accuracy {metrics['accuracy']:.4f} (always the largest class: {metrics['majority']:.4f}), "
            f"macro F1 {metrics['macro_f1']:.4f}, loss {metrics['loss']:.4f}"
        )
        details = {"per_class": by_class, "confusion": {"labels": list(names), "matrix": confusion.tolist()}}
        return Evaluation(
            metrics,
            "accuracy",
            lower_is_better=False,
            summary=summary,
            details=details,
            records=records,
            arrays={"scores": scores.numpy()},
        )


def confusion_matrix(true: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """How many examples of class i (row) were taken for class j (column)."""
    return np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)


def per_class(confusion: NDArray[np.int64], noun: str = Inputs.noun) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class; 0 where there is nothing to divide by."""
    return precision_recall_f1(np.diag(confusion), confusion.sum(0), confusion.sum(1), f"{noun}s")


def macro_f1(confusion: NDArray[np.int64]) -> float:
    """The mean of the classes' F1, over the classes that occur or were said to."""
    met = confusion.sum(0) + confusion.sum(1) > 0
    return float(np.mean([row["f1"] for row, there in zip(per_class(confusion), met, strict=True) if there]))


def weights_of(spec: str, names: tuple[str, ...], answers: NDArray[np.int64]) -> NDArray[np.float32]:
    """`balanced` (a class weighs as much as any other, however rare), or `spam=5,ham=1` (those not named weigh 1)."""
    if spec == "balanced":
        counts = np.bincount(answers, minlength=len(names))
        return (len(answers) / (len(names) * np.maximum(counts, 1))).astype(np.float32)
    weights = np.ones(len(names), np.float32)
    for pair in spec.split(","):
        name, separator, value = pair.rpartition("=")
        if not separator:
            raise SettingError(
                f"training.class_weights wants balanced or a weight by class, {names[0]}=5, not '{pair}'"
            )
        if name not in names:
            raise SettingError(unknown("class in training.class_weights", name, names))
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if not 0 <= weight < np.inf:
            raise SettingError(
                f"training.class_weights: the weight of '{name}' must be a number from 0 up, not '{value}'"
            )
        weights[names.index(name)] = weight
    return weights
