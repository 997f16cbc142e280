"""Say which of several labels are true of an example: none, one, or more of them."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from glassformer.bricks.losses import logistic_loss
from glassformer.config.arrays import Array
from glassformer.config.presets import MULTILABEL
from glassformer.data.features.inputs import Inputs
from glassformer.tasks.answers import Labels
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling, precision_recall_f1, ratios


class Multilabel(Labelling):
    """A logistic regression for each label, on one model.

    The loss of an example is the mean over its labels, so that it does not grow with how many there are, and a rate
    that suits classes suits these.
    """

    name = MULTILABEL

    def __init__(self, parts: Mapping[str, Inputs], labels: Labels, *, batch_size: int = 1, seed: int = 0) -> None:
        super().__init__(parts, outputs=labels.outputs, batch_size=batch_size, seed=seed)
        self.unit = f"nats per label of a {self.noun}"
        self.labels = labels

    def losses(self, scores: Float[Tensor, "B L"], answers: Float[Tensor, "B L"]) -> Float[Tensor, "B"]:
        return logistic_loss(scores, answers).mean(-1)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N L"]) -> Evaluation:
        true: NDArray[np.bool_] = examples.answers > 0.5
        losses = self.losses(scores, torch.from_numpy(examples.answers)).double()
        probabilities = self.labels.probabilities(scores).numpy()
        predicted = probabilities > self.labels.threshold
        often = most_frequent_set(true)
        metrics = {
            **set_metrics(true, predicted),
            "loss": float(losses.mean()),
            "majority": set_metrics(true, often)["exact_match"],
            "majority_micro_f1": set_metrics(true, often)["micro_f1"],
            f"{self.noun}s": len(examples),
        }
        names = np.array(self.labels.names, dtype=object)
        records = [
            {
                self.noun: text,
                "labels": names[of].tolist(),
                "predicted": names[guess].tolist(),
                "probabilities": dict(zip(self.labels.names, map(float, row), strict=True)),
                "loss": float(loss),
            }
            for text, of, guess, row, loss in zip(examples.texts, true, predicted, probabilities, losses, strict=True)
        ]
        summary = (
            f"micro F1 {metrics['micro_f1']:.4f} (always the most frequent set: {metrics['majority_micro_f1']:.4f}; "
            f"never any label: 0), macro F1 {metrics['macro_f1']:.4f}, exact match {metrics['exact_match']:.4f}, "
            f"Hamming loss {metrics['hamming']:.4f}, loss {metrics['loss']:.4f}"
        )
        rows = per_label(true, predicted, f"{self.noun}s")
        details = {"per_label": dict(zip(self.labels.names, rows, strict=True))}
        return Evaluation(
            metrics,
            "micro_f1",
            lower_is_better=False,
            summary=summary,
            details=details,
            records=records,
            arrays={"scores": scores.numpy()},
        )


def most_frequent_set(true: Bool[Array, "N L"]) -> Bool[Array, "N L"]:
    """What would be said by who always says the set that most examples have; of two, in whatever order examples come,
    the one with the first label that they differ in.
    """
    counts = Counter(map(tuple, true.tolist()))
    often = max(counts, key=lambda labels: (counts[labels], labels))
    return np.tile(np.array(often, dtype=np.bool_), (len(true), 1))


def set_metrics(true: Bool[Array, "N L"], predicted: Bool[Array, "N L"]) -> dict[str, float]:
    """Micro F1 counts every label of every example alike; macro F1 is the mean over the labels that occur or were said;
    exact match wants all labels of an example right; Hamming is the share of single decisions that are wrong.
    """
    right, says, there = (true & predicted).sum(0), predicted.sum(0), true.sum(0)
    met = says + there > 0
    by_label = ratios(2 * right, says + there)
    return {
        "micro_f1": float(ratios(2 * right.sum(), says.sum() + there.sum())[0]),
        "macro_f1": float(by_label[met].mean()) if met.any() else 0.0,
        "exact_match": float((true == predicted).all(1).mean()),
        "hamming": float((true != predicted).mean()),
    }


def per_label(
    true: Bool[Array, "N L"], predicted: Bool[Array, "N L"], noun: str = "examples"
) -> list[dict[str, float]]:
    """Precision, recall and F1 of each label, and of how many examples it is true; 0 where nothing is to divide by."""
    return precision_recall_f1((true & predicted).sum(0), predicted.sum(0), true.sum(0), noun)
