"""The same answer for every example: the largest class, the mean, the usual labels."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glassformer.tasks.classification import Classification
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.regression import Regression
from glassformer.trials.baselines.names import EVERY, SET

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
        said = {SET: most_frequent, EVERY: every}.get(name)
        row = logit(answers.mean(0)) if said is None else _of_set(answers, said(answers))
    return torch.from_numpy(np.tile(row.astype(np.float32), (count, 1))), len(row)


def _of_classes(answers: NDArray[np.int64], outputs: int, classes: int) -> NDArray[np.float64]:
    """The logarithm of how frequent each class is: the largest wins, with the smallest loss that a constant has."""
    shares = np.bincount(answers, minlength=classes) / len(answers)
    return logit(shares[1:]) if outputs == 1 else np.log(np.maximum(shares, LEAST))


def most_frequent(answers: NDArray[np.floating]) -> NDArray[np.bool_]:
    """The most frequent set of labels; of two, the one with the first label that they differ in."""
    sets, counts = np.unique(answers > 0.5, axis=0, return_counts=True)
    return sets[np.flatnonzero(counts == counts.max())[-1]]


def every(answers: NDArray[np.floating]) -> NDArray[np.bool_]:
    """All labels: the set with the most hits, and the most false ones."""
    return np.ones(answers.shape[1], dtype=np.bool_)


def _of_set(answers: NDArray[np.floating], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Always this set; the score of each label says how often an example agrees with it."""
    agree = np.where(chosen, answers.mean(0), 1 - answers.mean(0))
    return np.where(chosen, 1, -1) * logit(np.maximum(agree, 0.5 + LEAST))


def logit(shares: NDArray[np.floating]) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)
