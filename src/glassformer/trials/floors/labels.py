"""The same answer for every example: the largest class, the mean, the usual labels."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glassformer.tasks.classification import Classification
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.regression import Regression
from glassformer.trials.floors.names import SET

LEAST = 1e-6
"""A share that was never met is taken for this, so that its loss is finite."""


def constant_scores(name: str, task: Labelling, count: int) -> tuple[Float[Tensor, "N outputs"], int]:
    """So many rows of the scores that say it, and how many numbers were learned for them."""
    answers = task.parts["train"].answers
    if isinstance(task, Regression):
        row = np.array([answers.mean()])  # 0, but for rounding: answers lie around the mean
    elif isinstance(task, Classification):
        row = _of_classes(answers, task.classes.outputs, len(task.classes.names))
    else:
        row = _of_set(answers) if name == SET else logit(answers.mean(0))
    return torch.from_numpy(np.tile(row.astype(np.float32), (count, 1))), len(row)


def _of_classes(answers: NDArray[np.int64], outputs: int, classes: int) -> NDArray[np.float64]:
    """The logarithm of how frequent each class is: the largest wins, with the smallest loss that a constant has."""
    shares = np.bincount(answers, minlength=classes) / len(answers)
    return logit(shares[1:]) if outputs == 1 else np.log(np.maximum(shares, LEAST))


def _of_set(answers: NDArray[np.floating]) -> NDArray[np.float64]:
    """The most frequent set of labels; the score of each says how often an example agrees with it."""
    sets, counts = np.unique(answers > 0.5, axis=0, return_counts=True)
    chosen = sets[counts.argmax()]
    agree = np.where(chosen, answers.mean(0), 1 - answers.mean(0))
    return np.where(chosen, 1, -1) * logit(np.maximum(agree, 0.5 + LEAST))


def logit(shares: NDArray[np.floating]) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)
