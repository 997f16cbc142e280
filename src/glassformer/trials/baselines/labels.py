"""The same answer for every example, as scores: the largest class, the mean, the usual labels."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glassformer.tasks.prediction import Classification, Multilabel, Regression

LEAST = 1e-6
"""A share that was never met is taken for this, so that its loss is finite."""
Answers = NDArray[np.floating]
Scores = Float[Tensor, "outputs"]


def constant_mean(task: Regression) -> Scores:
    return _scores(np.array([task.parts["train"].answers.mean()]))  # 0, but for rounding: answers lie around the mean


def class_shares(task: Classification) -> Scores:
    """The logarithm of how frequent each class is: the largest wins, with the smallest loss that a constant has."""
    answers, classes = task.parts["train"].answers, task.answers
    shares = np.bincount(answers, minlength=len(classes.names)) / len(answers)
    return _scores(logit(shares[1:]) if classes.outputs == 1 else np.log(np.maximum(shares, LEAST)))


def label_shares(task: Multilabel) -> Scores:
    """How frequent each label is: those of more than half of the examples are said."""
    return _scores(logit(task.parts["train"].answers.mean(0)))


def label_set(choose: Callable[[Answers], NDArray[np.bool_]], task: Multilabel) -> Scores:
    """Always this set; the score of each label says how often an example agrees with it."""
    answers = task.parts["train"].answers
    chosen = choose(answers)
    agree = np.where(chosen, answers.mean(0), 1 - answers.mean(0))
    return _scores(np.where(chosen, 1, -1) * logit(np.maximum(agree, 0.5 + LEAST)))


def most_frequent(answers: Answers) -> NDArray[np.bool_]:
    """The most frequent set of labels; of two, the one with the first label that they differ in."""
    sets, counts = np.unique(answers > 0.5, axis=0, return_counts=True)
    return sets[np.flatnonzero(counts == counts.max())[-1]]


def every(answers: Answers) -> NDArray[np.bool_]:
    """All labels: the set with the most hits, and the most false ones."""
    return np.ones(answers.shape[1], dtype=np.bool_)


def logit(shares: Answers) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)


def _scores(row: NDArray[np.float64]) -> Scores:
    return torch.from_numpy(row.astype(np.float32))
