"""The floors and references of each family, judged as a model is: by the task itself, on the same examples."""

import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.errors import DataError, GlassformerError, SettingError, unknown
from glassformer.config.presets import TABLE, TEXT
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.tables import TableInputs
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.label_kinds import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation
from glassformer.tasks.prediction import Classification, Multilabel, Regression
from glassformer.tasks.translation import judge
from glassformer.trials.baselines import names
from glassformer.trials.baselines.language import judge_hidden, judge_ngrams, judge_unigrams, left_out
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
    """Judges it, from the prepared data and the name of the part to judge it on."""
    kind: str = FLOOR


@singledispatch
def baselines(family: Family, kind: str) -> list[Baseline]:
    """What a model must beat, on examples of a kind: floors, which learn nothing, or only count, and models of
    scikit-learn with its defaults, which are what most people would try first.
    """
    return []


def evaluate_baseline(what: str, name: str, config: Config, prepared: Prepared, part: str) -> BaselineResult:
    """A floor or a reference (`what`) on a part."""
    known = {
        baseline.name: baseline
        for baseline in baselines(FAMILIES[config.task], config.data.kind)
        if baseline.kind == what
    }
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


# --- floors of labels and numbers: constant answers, as scores ---

LEAST = 1e-6
"""A share that was never met is taken for this, so that its loss is finite."""
Floats = NDArray[np.floating]
Constants = dict[str, Callable[[Any], Floats]]
"""What gives the scores that a floor has for every example, by its name."""


def _judge_constant(scores: Callable[[Any], Floats], prepared: Any, part: str) -> BaselineResult:
    """The same answer for every example."""
    task = prepared.task
    row = torch.from_numpy(scores(task).astype(np.float32))
    return BaselineResult(task.judge(task.parts[part], row.repeat(len(task.parts[part]), 1)), len(row))


def _mean(task: Regression) -> Floats:
    return np.array([task.parts["train"].answers.mean()])  # 0, but for rounding: answers lie around the mean


def _class_shares(task: Classification) -> Floats:
    """The logarithm of how frequent each class is: the largest wins, with the smallest loss that a constant has."""
    answers, classes = task.parts["train"].answers, task.answers
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


# --- references: scikit-learn's models with its defaults, fitted to exactly the training part ---

MISSING = "scikit-learn is not installed: pip install 'glassformer[samples]'"
UNSEEN = -50.0
"""The score of a class that no training example has."""
MOST_CATEGORIES = 255
"""Boosted trees split no more into sets: a column with more is to them a number."""
ITERATIONS = 1000
"""The most of logistic regression: its default of 100 is often too few to arrive."""


@dataclass(frozen=True)
class Estimator:
    """What scikit-learn has for a family."""

    linear: Callable[[], Any]
    """Makes its linear model."""
    scores: Callable[[Any, Any, Any], Any]
    """Scores as a model of this task gives them, from what was fitted, examples and the task."""
    boosting: str = ""
    """The name of its boosted trees."""


def _judge_fitted(name: str, estimator: Estimator, prepared: Any, part: str) -> BaselineResult:
    task = prepared.task
    model = _model(name, estimator, _categories(task.parts["train"]))
    train, answers = _read(task.parts["train"]), task.parts["train"].answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what did not quite converge, or of a label that every example has
        before = time.perf_counter()
        model.fit(train, answers)
        seconds = time.perf_counter() - before
        scores = estimator.scores(model, _read(task.parts[part]), task)
    evaluation = task.judge(task.parts[part], torch.from_numpy(scores.astype(np.float32)))
    return BaselineResult(evaluation, _size(model), seconds)


def _model(name: str, estimator: Estimator, categories: list[int]) -> Any:
    if name == names.BOOSTING:
        few = [0 < count <= MOST_CATEGORIES for count in categories]
        return getattr(_scikit("ensemble"), estimator.boosting)(categorical_features=few, random_state=0)
    pipeline, head = _scikit("pipeline").make_pipeline, estimator.linear()
    if name in (names.TFIDF, names.PAIRS):
        words = _scikit("feature_extraction.text").TfidfVectorizer(
            ngram_range=(1, 2) if name == names.PAIRS else (1, 1)
        )
        return pipeline(words, head)
    encoder = _scikit("preprocessing").OneHotEncoder(handle_unknown="ignore")
    columns = [("categories", encoder, np.flatnonzero(categories).tolist())]
    return pipeline(_scikit("compose").ColumnTransformer(columns, remainder="passthrough"), head)


def _scikit(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise GlassformerError(MISSING) from None


def _categories(inputs: Inputs) -> list[int]:
    """How many categories each column of a table holds; 0: numbers."""
    if not isinstance(inputs, TableInputs):
        return []
    return [0] * inputs.numbers.shape[1] + [len(np.unique(column)) for column in inputs.categories.T]


def _read(inputs: Inputs) -> Any:
    """The texts; or the columns of a table: numbers in spreads from their mean, categories by number."""
    if not isinstance(inputs, TableInputs):
        return inputs.texts
    return np.concatenate([inputs.numbers.astype(np.float64), inputs.categories], 1)


def _size(model: Any) -> int:
    """Weights; of trees, leaves."""
    if hasattr(model, "_predictors"):
        return sum(tree.get_n_leaf_nodes() for round in model._predictors for tree in round)
    last = model[-1]
    parts = last.estimators_ if hasattr(last, "estimators_") else [last]
    return sum(np.size(getattr(part, "coef_", ())) + np.size(getattr(part, "intercept_", ())) for part in parts)


def _logistic() -> Any:
    return _scikit("linear_model").LogisticRegression(max_iter=ITERATIONS)


def _of_classes(model: Any, examples: Any, task: Any) -> Any:
    chances = np.log(np.maximum(model.predict_proba(examples), np.exp(UNSEEN)))
    scores = np.full((len(chances), len(task.answers.names)), UNSEEN)
    scores[:, model.classes_] = chances
    return scores if task.outputs > 1 else scores[:, 1:] - scores[:, :1]


CLASSIFIER = Estimator(_logistic, _of_classes, "HistGradientBoostingClassifier")
MULTILABEL_CLASSIFIER = Estimator(
    lambda: _scikit("multiclass").OneVsRestClassifier(_logistic()),
    lambda model, examples, task: np.reshape(model.decision_function(examples), (-1, task.outputs)),
)
REGRESSOR = Estimator(
    lambda: _scikit("linear_model").Ridge(),
    lambda model, examples, task: np.reshape(model.predict(examples), (-1, 1)),
    "HistGradientBoostingRegressor",
)


# --- labels and numbers ---


def _of_labels(constants: Constants, estimator: Estimator, kind: str) -> list[Baseline]:
    """Constant answers as floors, and what scikit-learn has for such examples as references."""
    of_tables = [names.LINEAR, *([names.BOOSTING] if estimator.boosting else [])]
    references = {TEXT: [names.TFIDF, names.PAIRS], TABLE: of_tables}.get(kind, [])
    return [
        *(Baseline(name, partial(_judge_constant, scores)) for name, scores in constants.items()),
        *(Baseline(name, partial(_judge_fitted, name, estimator), REFERENCE) for name in references),
    ]


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
