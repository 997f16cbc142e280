"""Losses without a model: of uniform guesses, and of guesses by the frequency of answers."""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from glassformer.data.packing.store import how_often
from glassformer.families.base import Prepared
from glassformer.tasks.base import Task
from glassformer.tasks.language_model import LanguageModelling, MaskedModelling
from glassformer.tasks.prediction import Classification
from glassformer.tasks.translation import Translating

MAX_COUNTED = 2**23
"""Maximum number of tokens that are counted."""
UNIFORM_SHARE = 0.99
"""Share of the maximum entropy from which answers count as equally frequent."""


def reference_losses(prepared: Prepared) -> list[tuple[str, float]]:
    """Return the names and values of reference lines for a loss, if they are known."""
    counts, what = answer_counts(prepared.task, prepared)
    if counts is None or len(counts) < 2:
        return []
    uniform, entropy = math.log(len(counts)), _entropy(counts)
    levels = [(f"guessing uniformly: ln {len(counts):,} = {uniform:.3g}", uniform)]
    return levels + ([(f"{what} {entropy:.3g}", entropy)] if 0 < entropy < UNIFORM_SHARE * uniform else [])


def unigram_entropy(prepared: Prepared) -> float | None:
    """Return the loss of a model that predicts answers by their frequency in training.

    Return None if the task has no answers that can be counted.
    """
    counts, _ = answer_counts(prepared.task, prepared)
    return None if counts is None else _entropy(counts)


def _entropy(counts: NDArray[np.int64]) -> float:
    """Return the entropy of the answers in nats."""
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


Counts = tuple[NDArray[np.int64] | None, str]


@singledispatch
def answer_counts(task: Task, prepared: Prepared) -> Counts:
    """Return the number of each answer in training, or None if answers cannot be counted, and the entropy's name."""
    return None, ""


@answer_counts.register
def token_counts(task: LanguageModelling, prepared: Prepared) -> Counts:
    counts = how_often(task.parts["train"].ids[:MAX_COUNTED], prepared.shape.vocab)
    return counts if task.start is None else np.delete(counts, task.start), "unigram entropy"


@answer_counts.register
def hidden_token_counts(task: MaskedModelling, prepared: Prepared) -> Counts:
    counts = how_often(task.parts["train"].ids[:MAX_COUNTED], task.masking.size)
    return counts[task.masking.ordinary], "unigram entropy"


@answer_counts.register
def target_token_counts(task: Translating, prepared: Prepared) -> Counts:
    target, opening = task.parts["train"].target, list(task.tokenizer.roles.opening)
    return np.delete(
        np.bincount(target.ids[:MAX_COUNTED], minlength=task.tokenizer.vocab_size), opening
    ), "unigram entropy"


@answer_counts.register
def class_counts(task: Classification, prepared: Prepared) -> Counts:
    return np.bincount(task.parts["train"].answers, minlength=len(task.answers.names)), "entropy of the classes"
