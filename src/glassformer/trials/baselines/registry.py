"""The floors and references of each family, judged as a model is: by the task itself, on the same examples."""

import contextlib
import importlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.errors import DataError, MissingPackage, SettingError, unknown
from glassformer.config.presets import TABLE, TEXT
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.tables import TableInputs
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily, MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation
from glassformer.tasks.prediction import Classification, Multilabel, Regression, most_frequent_set
from glassformer.tasks.translation import judge
from glassformer.trials.baselines import names
from glassformer.trials.baselines.language import judge_hidden, judge_ngrams, judge_unigrams, left_out
from glassformer.trials.jobs import FLOOR, REFERENCE


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
    evaluate: Callable[..., BaselineResult]
    """Evaluates it, given the prepared data, the name of the part to evaluate on and, for a reference, the seconds
    that it may learn."""
    kind: str = FLOOR


def baselines(family: Family, kind: str) -> list[Baseline]:
    """Return what a model must beat on examples of a kind: trivial baselines, and models of scikit-learn."""
    if isinstance(family, LanguageFamily):
        return [Baseline(names.UNIGRAM, _judge_unigrams), Baseline(names.NGRAM, _judge_ngrams)]
    if isinstance(family, MaskedFamily):
        return [Baseline(names.UNIGRAM, lambda data, part: BaselineResult(*judge_hidden(data.task, part)))]
    if isinstance(family, TranslationFamily):
        return [Baseline(names.COPY, _judge_copies)]
    if isinstance(family, ClassificationFamily):
        return _of_labels({names.MAJORITY: _class_shares}, CLASSIFIER, kind)
    if isinstance(family, RegressionFamily):
        return _of_labels({names.MEAN: _mean}, REGRESSOR, kind)
    if isinstance(family, MultilabelFamily):
        usual, all_labels = (partial(_label_set, choose) for choose in (_most_frequent, _every_label))
        constants: Constants = {names.SET: usual, names.EACH: _label_shares, names.EVERY: all_labels}
        return _of_labels(constants, MULTILABEL_CLASSIFIER, kind)
    return []


def evaluate_baseline(
    what: str, name: str, config: Config, prepared: Prepared, part: str, slowest: float | None = None
) -> BaselineResult:
    """Evaluate a trivial baseline or a reference (`what`) on a part.

    `slowest`: seconds of the slowest trained model, None if unknown.
    """
    known = {
        baseline.name: baseline
        for baseline in baselines(FAMILIES[config.task], config.data.kind)
        if baseline.kind == what
    }
    if name not in known:
        raise SettingError(unknown(f"{what} for this task", name, known))
    if what != REFERENCE:
        return known[name].evaluate(prepared, part)
    return known[name].evaluate(prepared, part, SECONDS if slowest is None else max(slowest, LEAST_SECONDS))


# --- texts ---


def _judge_unigrams(data: Any, part: str) -> BaselineResult:
    return BaselineResult(*judge_unigrams(data.task, part, data.shape.vocab))


def _judge_ngrams(data: Any, part: str) -> BaselineResult:
    return BaselineResult(*judge_ngrams(data.task, part, data.shape.vocab), note=left_out(data.task))


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
    return most_frequent_set(answers > 0.5)[0]


def _every_label(answers: Floats) -> NDArray[np.bool_]:
    """All labels: the set with the most hits, and the most false ones."""
    return np.ones(answers.shape[1], dtype=np.bool_)


def _logit(shares: Floats) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)


# --- references: scikit-learn's models as they are usually tuned, fitted to exactly the training part ---

UNSEEN = -50.0
"""The score of a class that no training example has."""
MAX_CATEGORIES = 255
"""Boosted trees split no more into sets: a column with more is to them a number."""
ITERATIONS = 1000
"""The most of logistic regression: its default of 100 is often too few to arrive."""
STRENGTHS = {TEXT: (10.0, 100.0, 1.0, 0.1), TABLE: (1.0, 10.0, 0.1, 100.0)}
"""Values of C (for ridge regression, 1/alpha) that cross-validation tries, the one that is usually best first."""
FOLDS, FEWEST = 3, 30
"""Number of folds of that cross-validation, and minimum number of training examples for it."""
SECONDS, LEAST_SECONDS = 60.0, 10.0
"""Seconds that a reference may learn if the time of the trained models is unknown, and the minimum in any case."""
PROBED = 1000
"""Number of training texts used to estimate the time for all texts, if there are many more."""
LARGE = 5 * PROBED


@dataclass(frozen=True)
class Estimator:
    """What scikit-learn has for a family."""

    linear: Callable[[str, float], Any]
    """Makes the linear model for a kind of examples and a value of C."""
    scoring: str
    """scikit-learn's name of the metric for ranking in cross-validation."""
    scores: Callable[[Any, Any, Any], Any]
    """Scores as a model of this task gives them, from what was fitted, examples and the task."""
    boosting: str = ""
    """The name of its boosted trees."""


MODULES = (
    *("compose", "ensemble", "feature_extraction.text", "linear_model", "model_selection", "multiclass", "pipeline"),
    "preprocessing",
)
"""Modules of scikit-learn that references need."""


class _Fitted(NamedTuple):
    model: Any
    note: str


def _judge_fitted(name: str, estimator: Estimator, prepared: Any, part: str, seconds: float) -> BaselineResult:
    """Fit and evaluate a model in about `seconds`; if it has to try less, its note says so."""
    for module in MODULES:
        _scikit(module)  # importing can take longer than fitting, so it happens before the clock starts
    task = prepared.task
    train, answers = _read(task.parts["train"]), task.parts["train"].answers
    categories = _categories(task.parts["train"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what did not quite converge, or of a label that every example has
        before = time.perf_counter()
        if name == names.BOOSTING:
            few = [0 < count <= MAX_CATEGORIES for count in categories]
            trees = getattr(_scikit("ensemble"), estimator.boosting)(categorical_features=few, random_state=0)
            fitted = _Fitted(trees.fit(train, answers), "")
        else:
            fitted = _fit_linear(name, estimator, categories, train, answers, seconds)
        took = time.perf_counter() - before
        scores = estimator.scores(fitted.model, _read(task.parts[part]), task)
    evaluation = task.judge(task.parts[part], torch.from_numpy(scores.astype(np.float32)))
    return BaselineResult(evaluation, _size(fitted.model), took, fitted.note)


def _fit_linear(
    name: str, estimator: Estimator, categories: list[int], train: Any, answers: Any, seconds: float
) -> _Fitted:
    """Fit a linear model, with C chosen by cross-validation on the training part, in about the given seconds."""
    deadline = time.perf_counter() + seconds
    kind = TEXT if name in (names.TFIDF, names.NGRAMS) else TABLE
    notes = []
    features = _features(name, categories)
    if name == names.NGRAMS and len(train) > LARGE:
        sample = slice(0, PROBED)
        began = time.perf_counter()
        _fit(estimator.linear(kind, STRENGTHS[kind][0]), features.fit_transform(train[sample]), answers[sample])
        now = time.perf_counter()
        if now + (now - began) * len(train) / PROBED > deadline:
            features = _features(names.NGRAMS, categories, characters=False)
            notes.append(f"no character n-grams: they would take longer than {seconds:.0f} s")
    matrix = features.fit_transform(train)
    began = time.perf_counter()
    model = estimator.linear(kind, STRENGTHS[kind][0]).fit(matrix, answers)
    scores = _cross_validate(estimator, kind, matrix, answers, deadline, time.perf_counter() - began)
    chosen = max(scores, key=scores.__getitem__, default=STRENGTHS[kind][0])
    if chosen != STRENGTHS[kind][0]:
        model = estimator.linear(kind, chosen).fit(matrix, answers)
    notes.insert(0, f"C = {chosen:g}")
    if len(scores) < len(STRENGTHS[kind]) and len(answers) >= FEWEST:
        tried = f"only {len(scores)} of {len(STRENGTHS[kind])} values of C" if scores else "no other value of C"
        notes.append(f"{tried} tried: more would take longer than {seconds:.0f} s")
    return _Fitted(_scikit("pipeline").make_pipeline(features, model), "; ".join(notes))


def _cross_validate(
    estimator: Estimator, kind: str, matrix: Any, answers: Any, deadline: float, fit_seconds: float
) -> dict[float, float]:
    """Return cross-validated scores by value of C, for as many values as fit into the time; none if only one fits.

    `fit_seconds`: time of one fit to all examples. A fit of the chosen value follows.
    """
    selection, scores = _scikit("model_selection"), dict[float, float]()
    folds = selection.KFold(FOLDS, shuffle=True, random_state=0)
    value_seconds = (FOLDS - 1) * fit_seconds  # each fold leaves 1/FOLDS of the examples out
    if len(answers) < FEWEST or time.perf_counter() + 2 * value_seconds + fit_seconds > deadline:
        return {}
    for strength in STRENGTHS[kind]:
        if len(scores) > 1 and time.perf_counter() + value_seconds + fit_seconds > deadline:
            break
        model = estimator.linear(kind, strength)
        found = selection.cross_val_score(model, matrix, answers, cv=folds, scoring=estimator.scoring)
        scores[strength] = float(np.nan_to_num(np.mean(found), nan=-math.inf))  # a fold of one class has no score
    return scores


def _fit(model: Any, matrix: Any, answers: Any) -> None:
    """Fit a model only to measure the time; a few examples may all have the same class."""
    with contextlib.suppress(ValueError):
        model.fit(matrix, answers)


def _features(name: str, categories: list[int], *, characters: bool = True) -> Any:
    if name in (names.TFIDF, names.NGRAMS):
        tfidf = _scikit("feature_extraction.text").TfidfVectorizer
        words = tfidf(ngram_range=(1, 2) if name == names.NGRAMS else (1, 1))
        if name == names.TFIDF or not characters:
            return words
        return _scikit("pipeline").make_union(words, tfidf(analyzer="char", ngram_range=(2, 5)))
    encoder = _scikit("preprocessing").OneHotEncoder(handle_unknown="ignore")
    columns = [("categories", encoder, np.flatnonzero(categories).tolist())]
    return _scikit("compose").ColumnTransformer(columns, remainder="passthrough")


def _scikit(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise MissingPackage.needed("a reference of compare", "scikit-learn", "sklearn") from None


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


def _logistic(kind: str, strength: float, *, per_label: bool = False) -> Any:
    """Return logistic regression; for the many features of texts one-vs-rest, which takes half as long."""
    solver = "lbfgs" if kind == TABLE else "liblinear"
    model = _scikit("linear_model").LogisticRegression(C=strength, solver=solver, max_iter=ITERATIONS)
    return model if kind == TABLE and not per_label else _scikit("multiclass").OneVsRestClassifier(model)


def _of_classes(model: Any, examples: Any, task: Any) -> Any:
    chances = np.log(np.maximum(model.predict_proba(examples), np.exp(UNSEEN)))
    scores = np.full((len(chances), len(task.answers.names)), UNSEEN)
    scores[:, model.classes_] = chances
    return scores if task.outputs > 1 else scores[:, 1:] - scores[:, :1]


CLASSIFIER = Estimator(_logistic, "accuracy", _of_classes, "HistGradientBoostingClassifier")
MULTILABEL_CLASSIFIER = Estimator(
    partial(_logistic, per_label=True),
    "f1_micro",
    lambda model, examples, task: np.reshape(model.decision_function(examples), (-1, task.outputs)),
)
REGRESSOR = Estimator(
    lambda kind, strength: _scikit("linear_model").Ridge(alpha=1 / strength),
    "neg_mean_squared_error",
    lambda model, examples, task: np.reshape(model.predict(examples), (-1, 1)),
    "HistGradientBoostingRegressor",
)


# --- labels and numbers ---


def _of_labels(constants: Constants, estimator: Estimator, kind: str) -> list[Baseline]:
    """Constant answers as floors, and what scikit-learn has for such examples as references."""
    of_tables = [names.LINEAR, *([names.BOOSTING] if estimator.boosting else [])]
    references = {TEXT: [names.TFIDF, names.NGRAMS], TABLE: of_tables}.get(kind, [])
    return [
        *(Baseline(name, partial(_judge_constant, scores)) for name, scores in constants.items()),
        *(Baseline(name, partial(_judge_fitted, name, estimator), REFERENCE) for name in references),
    ]
