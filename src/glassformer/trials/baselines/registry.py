"""The floors and references of each family, judged as a model is: by the task itself, on the same examples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.errors import DataError, SettingError
from glassformer.config.names import unknown
from glassformer.config.presets import TABLE, TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation
from glassformer.tasks.classification import Classification
from glassformer.tasks.multilabel import Multilabel
from glassformer.tasks.regression import Regression
from glassformer.tasks.translation import judge
from glassformer.trials.baselines import names
from glassformer.trials.baselines.language import judge_hidden, judge_ngrams, judge_unigrams, left_out
from glassformer.trials.baselines.scikit import CLASSIFIER, MULTILABEL_CLASSIFIER, REGRESSOR, Estimator, fit_and_score
from glassformer.trials.outcome import FLOOR, REFERENCE


@dataclass(frozen=True)
class BaselineResult:
    """What a baseline came to on a part."""

    evaluation: Evaluation
    parameters: int
    """How many numbers it learned or counted."""
    seconds: float | None = None
    """How long it learned, where that is not all that it did."""
    note: str = ""
    """What a reader of its score should know."""


@dataclass(frozen=True)
class Baseline:
    """A floor or a reference of a family."""

    name: str
    evaluate: Callable[[Any, str], BaselineResult]
    """From the prepared data and the name of the part to judge it on."""
    kind: str = FLOOR


@singledispatch
def baselines(family: Family, kind: str) -> list[Baseline]:
    """What a model must beat, on examples of a kind: floors, which learn nothing, or only count, and models of
    scikit-learn with its defaults, which are what most people would try first.
    """
    return []


def evaluate_baseline(what: str, name: str, config: Config, prepared: Prepared, part: str) -> BaselineResult:
    """A floor or a reference (`what`) on a part."""
    known = {one.name: one for one in baselines(FAMILIES[config.task], config.data.kind) if one.kind == what}
    if name not in known:
        raise SettingError(unknown(f"{what} for this task", name, known))
    return known[name].evaluate(prepared, part)


# --- texts ---


@baselines.register
def _(family: LanguageFamily, kind: str) -> list[Baseline]:
    return [
        Baseline(names.UNIGRAM, lambda data, part: BaselineResult(*judge_unigrams(data.task, part, data.shape.vocab))),
        Baseline(
            names.NGRAM,
            lambda data, part: BaselineResult(
                *judge_ngrams(data.task, part, data.shape.vocab), note=left_out(data.task)
            ),
        ),
    ]


@baselines.register
def _(family: MaskedFamily, kind: str) -> list[Baseline]:
    return [Baseline(names.UNIGRAM, lambda prepared, part: BaselineResult(*judge_hidden(prepared.task, part)))]


@baselines.register
def _(family: TranslationFamily, kind: str) -> list[Baseline]:
    return [Baseline(names.COPY, _judge_copies)]


def _judge_copies(prepared: Any, part: str) -> BaselineResult:
    """The source as its own translation: what names, numbers and equal words are worth."""
    pairs = prepared.task.parts[part]
    if not len(pairs):
        raise DataError(f"the {part} part holds no pair")
    records = [
        {"source": source, "target": target, "output": source, "exact": source == target}
        for source, target in zip(pairs.sources, pairs.targets, strict=True)
    ]
    return BaselineResult(judge(records, "the source itself"), 0)


# --- labels and numbers ---

LEAST = 1e-6
"""A share that was never met is taken for this, so that its loss is finite."""
Floats = NDArray[np.floating]
Constants = dict[str, Callable[[Any], Floats]]
"""What gives the scores that a floor has for every example, by its name."""


def _of_labels(constants: Constants, estimator: Estimator, kind: str) -> list[Baseline]:
    """Constant answers as floors, and what scikit-learn has for such examples as references."""
    of_tables = [names.LINEAR, *([names.BOOSTING] if estimator.boosting else [])]
    references = {TEXT: [names.TFIDF, names.PAIRS], TABLE: of_tables}.get(kind, [])
    return [
        *(Baseline(name, partial(_judge_constant, scores)) for name, scores in constants.items()),
        *(Baseline(name, partial(_judge_fitted, name, estimator), REFERENCE) for name in references),
    ]


def _judge_constant(scores: Callable[[Any], Floats], prepared: Any, part: str) -> BaselineResult:
    """The same answer for every example."""
    task = prepared.task
    row = torch.from_numpy(scores(task).astype(np.float32))
    return BaselineResult(task.judge(task.parts[part], row.repeat(len(task.parts[part]), 1)), len(row))


def _judge_fitted(name: str, estimator: Estimator, prepared: Any, part: str) -> BaselineResult:
    task = prepared.task
    scores, learned, seconds = fit_and_score(name, estimator, task, part)
    return BaselineResult(task.judge(task.parts[part], scores), learned, seconds)


@baselines.register
def _(family: ClassificationFamily, kind: str) -> list[Baseline]:
    return _of_labels({names.MAJORITY: _class_shares}, CLASSIFIER, kind)


@baselines.register
def _(family: RegressionFamily, kind: str) -> list[Baseline]:
    return _of_labels({names.MEAN: _mean}, REGRESSOR, kind)


@baselines.register
def _(family: MultilabelFamily, kind: str) -> list[Baseline]:
    usual, all_labels = (partial(_label_set, choose) for choose in (_most_frequent, _every_label))
    constants: Constants = {names.SET: usual, names.EACH: _label_shares, names.EVERY: all_labels}
    return _of_labels(constants, MULTILABEL_CLASSIFIER, kind)


# --- constant answers, as scores ---


def _mean(task: Regression) -> Floats:
    return np.array([task.parts["train"].answers.mean()])  # 0, but for rounding: answers lie around the mean


def _class_shares(task: Classification) -> Floats:
    """The logarithm of how frequent each class is: the largest wins, with the smallest loss that a constant has."""
    answers, classes = task.parts["train"].answers, task.classes
    shares = np.bincount(answers, minlength=len(classes.names)) / len(answers)
    return _logit(shares[1:]) if classes.outputs == 1 else np.log(np.maximum(shares, LEAST))


def _label_shares(task: Multilabel) -> Floats:
    """How frequent each label is: those of more than half of the examples are said."""
    return _logit(task.parts["train"].answers.mean(0))


def _label_set(choose: Callable[[Floats], NDArray[np.bool_]], task: Multilabel) -> Floats:
    """Always this set; the score of each label says how often an example agrees with it."""
    answers = task.parts["train"].answers
    chosen = choose(answers)
    agree = np.where(chosen, answers.mean(0), 1 - answers.mean(0))
    return np.where(chosen, 1, -1) * _logit(np.maximum(agree, 0.5 + LEAST))


def _most_frequent(answers: Floats) -> NDArray[np.bool_]:
    """The most frequent set of labels; of two, the one with the first label that they differ in."""
    sets, counts = np.unique(answers > 0.5, axis=0, return_counts=True)
    return sets[np.flatnonzero(counts == counts.max())[-1]]


def _every_label(answers: Floats) -> NDArray[np.bool_]:
    """All labels: the set with the most hits, and the most false ones."""
    return np.ones(answers.shape[1], dtype=np.bool_)


def _logit(shares: Floats) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)
