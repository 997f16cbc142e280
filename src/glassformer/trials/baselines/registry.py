"""Trivial baselines and references of each family, scored by the task itself on the same examples as models."""

import contextlib
import importlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
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
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation
from glassformer.tasks.prediction import Classification, Multilabel, Regression, most_frequent_set
from glassformer.tasks.translation import judge
from glassformer.trials.baselines.language import coverage_note, judge_hidden, judge_ngrams, judge_unigrams
from glassformer.trials.jobs import FLOOR, REFERENCE

MAJORITY, MEAN, UNIGRAM, NGRAM, COPY = "majority class", "mean", "unigram", "n-gram", "copy the source"
MOST_FREQUENT_SET, MAJORITY_PER_LABEL, ALL_LABELS = "most frequent set", "each label's majority", "every label"
TFIDF, NGRAMS = "sklearn:tfidf", "sklearn:tfidf-ngrams"
LINEAR, BOOSTING = "sklearn:linear", "sklearn:boosting"
REFERENCES = {TEXT: (TFIDF, NGRAMS), TABLE: (LINEAR, BOOSTING)}
"""Models of scikit-learn by kind of examples."""
DEFAULT_SECONDS, MIN_SECONDS = 60.0, 10.0
"""Seconds that a reference may take if the time of the trained models is unknown, and the minimum in any case."""


@dataclass(frozen=True)
class BaselineResult:
    """Result of a baseline on a part of the data."""

    evaluation: Evaluation
    parameters: int
    """Number of values that it learned or counted."""
    seconds: float | None = None
    """Training time; None if that is all of the time that the baseline took."""
    note: str = ""
    """A remark for its row."""


@dataclass(frozen=True)
class Baseline:
    """A trivial baseline or a reference of a family."""

    name: str
    evaluate: Callable[[Any, str, float], BaselineResult]
    """Function of the prepared data, the part to score, and the seconds that a reference may take."""
    kind: str = FLOOR


def baselines(family: Family, kind: str) -> list[Baseline]:
    """Return trivial baselines and models of scikit-learn for examples of a kind."""
    if isinstance(family, LanguageFamily):
        return [Baseline(UNIGRAM, _judge_unigrams), Baseline(NGRAM, _judge_ngrams)]
    if isinstance(family, MaskedFamily):
        return [Baseline(UNIGRAM, lambda data, part, _: BaselineResult(*judge_hidden(data.task, part)))]
    if isinstance(family, TranslationFamily):
        return [Baseline(COPY, _judge_copies)]
    if isinstance(family, ClassificationFamily):
        return _of_labels({MAJORITY: _class_shares}, CLASSIFIER, kind)
    if isinstance(family, RegressionFamily):
        return _of_labels({MEAN: _mean}, REGRESSOR, kind)
    if isinstance(family, MultilabelFamily):
        usual, every = (partial(_label_set, choose) for choose in (_most_frequent, _every_label))
        constants: Constants = {MOST_FREQUENT_SET: usual, MAJORITY_PER_LABEL: _label_shares, ALL_LABELS: every}
        return _of_labels(constants, MULTILABEL_CLASSIFIER, kind)
    return []


def evaluate_baseline(
    kind: str, name: str, config: Config, prepared: Prepared, part: str, slowest: float | None = None
) -> BaselineResult:
    """Evaluate a trivial baseline or a reference (`kind`) on a part.

    `slowest`: seconds of the slowest trained model, None if unknown.
    """
    known = {one.name: one for one in baselines(FAMILIES[config.task], config.data.kind) if one.kind == kind}
    if name not in known:
        raise SettingError(unknown(f"{kind} for this task", name, known))
    return known[name].evaluate(prepared, part, DEFAULT_SECONDS if slowest is None else max(slowest, MIN_SECONDS))


# --- texts ---


def _judge_unigrams(data: Any, part: str, _: float) -> BaselineResult:
    return BaselineResult(*judge_unigrams(data.task, part, data.shape.vocab))


def _judge_ngrams(data: Any, part: str, _: float) -> BaselineResult:
    return BaselineResult(*judge_ngrams(data.task, part, data.shape.vocab), note=coverage_note(data.task))


def _judge_copies(prepared: Any, part: str, _: float) -> BaselineResult:
    """Score the source as its own translation: names, numbers and equal words are right."""
    pairs = prepared.task.parts[part]
    if not len(pairs):
        raise DataError(f"the {part} part holds no pair")
    records = [
        {"source": source, "target": target, "output": source, "exact": source == target}
        for source, target in zip(pairs.sources, pairs.targets, strict=True)
    ]
    return BaselineResult(judge(records, "the source itself"), 0)


# --- constant answers ---

MIN_SHARE = 1e-6
"""Smallest share of a class or label, so that its loss is finite."""
Floats = NDArray[np.floating]
Constants = Mapping[str, Callable[[Any], Floats]]
"""Functions of the task that return the constant scores of a baseline, by its name."""


def _judge_constant(scores: Callable[[Any], Floats], prepared: Any, part: str, _: float) -> BaselineResult:
    """Score the same answer for every example."""
    task = prepared.task
    row = torch.from_numpy(scores(task).astype(np.float32))
    return BaselineResult(task.judge(task.parts[part], row.repeat(len(task.parts[part]), 1)), len(row))


def _mean(task: Regression) -> Floats:
    return np.array([task.parts["train"].answers.mean()])  # about 0: answers are centred


def _class_shares(task: Classification) -> Floats:
    """Return the logarithm of each class's share: the most frequent class, with the smallest loss of a constant."""
    answers, classes = task.parts["train"].answers, task.answers
    shares = np.bincount(answers, minlength=len(classes.names)) / len(answers)
    return _logit(shares[1:]) if classes.outputs == 1 else np.log(np.maximum(shares, MIN_SHARE))


def _label_shares(task: Multilabel) -> Floats:
    """Return the logit of each label's share: the labels of more than half of the examples."""
    return _logit(task.parts["train"].answers.mean(0))


def _label_set(choose: Callable[[Floats], NDArray[np.bool_]], task: Multilabel) -> Floats:
    """Return constant scores that predict this set of labels; each is the share of examples that agree, as a logit."""
    answers = task.parts["train"].answers
    chosen = choose(answers)
    agree = np.where(chosen, answers.mean(0), 1 - answers.mean(0))
    return np.where(chosen, 1, -1) * _logit(np.maximum(agree, 0.5 + MIN_SHARE))


def _most_frequent(answers: Floats) -> NDArray[np.bool_]:
    return most_frequent_set(answers > 0.5)[0]


def _every_label(answers: Floats) -> NDArray[np.bool_]:
    return np.ones(answers.shape[1], dtype=np.bool_)


def _logit(shares: Floats) -> NDArray[np.float64]:
    clipped = np.clip(shares.astype(np.float64), MIN_SHARE, 1 - MIN_SHARE)
    return np.log(clipped) - np.log1p(-clipped)


# --- references: models of scikit-learn with common settings, fitted to the training part ---

UNSEEN_SCORE = -50.0
"""Score of a class without a training example."""
MAX_CATEGORIES = 255
"""Maximum number of categories that boosted trees split into sets; they read a column with more as numbers."""
MAX_ITERATIONS = 1000
"""Iterations of logistic regression, whose default of 100 is often too few to converge."""
C_VALUES = {TEXT: (10.0, 100.0, 1.0, 0.1), TABLE: (1.0, 10.0, 0.1, 100.0)}
"""Values of C (for ridge regression, 1/alpha) to cross-validate, the default first."""
FOLDS, MIN_EXAMPLES = 3, 30
"""Number of folds of that cross-validation, and minimum number of training examples for it."""
PROBED = 1000
"""Number of training texts used to estimate the time for all texts, if there are many more."""
LARGE = 5 * PROBED
MODULES = (
    *("compose", "ensemble", "feature_extraction.text", "linear_model", "model_selection", "multiclass", "pipeline"),
    "preprocessing",
)
"""Modules of scikit-learn that references need."""


Scores = dict[float, float]
"""Cross-validated scores by value of C."""


@dataclass(frozen=True)
class Estimator:
    """Models of scikit-learn for a family."""

    linear: Callable[[str, float], Any]
    """Makes the linear model for a kind of examples and a value of C."""
    scoring: str
    """scikit-learn's name of the metric for cross-validation."""
    scores: Callable[[Any, Any, Any], Any]
    """Function of the fitted model, the examples and the task that returns scores as a model of the task would."""
    boosting: str = ""
    """The name of its boosted trees; empty if there are none."""

    def cross_validate(self, kind: str, matrix: Any, answers: Any, deadline: float, fit_seconds: float) -> Scores:
        """Return cross-validated scores by value of C, for as many values as fit into the time; none if only one fits.

        `fit_seconds`: time of one fit to all examples. A fit of the chosen value follows.
        """
        selection, scores = _scikit("model_selection"), dict[float, float]()
        folds = selection.KFold(FOLDS, shuffle=True, random_state=0)
        value_seconds = (FOLDS - 1) * fit_seconds  # each fold leaves 1/FOLDS of the examples out
        if len(answers) < MIN_EXAMPLES or time.perf_counter() + 2 * value_seconds + fit_seconds > deadline:
            return {}
        for c in C_VALUES[kind]:
            if len(scores) > 1 and time.perf_counter() + value_seconds + fit_seconds > deadline:
                break
            values = selection.cross_val_score(self.linear(kind, c), matrix, answers, cv=folds, scoring=self.scoring)
            scores[c] = float(np.nan_to_num(np.mean(values), nan=-math.inf))  # a fold with one class has no score
        return scores


class _Fitted(NamedTuple):
    model: Any
    note: str


def _judge_fitted(name: str, estimator: Estimator, prepared: Any, part: str, seconds: float) -> BaselineResult:
    """Fit and evaluate a model in about `seconds`; its note lists the steps that were omitted for lack of time."""
    for module in MODULES:
        _scikit(module)  # importing can take longer than fitting, so it happens before the clock starts
    task = prepared.task
    train, answers = _read(task.parts["train"]), task.parts["train"].answers
    categories = _categories(task.parts["train"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models that did not quite converge, labels that every example has
        before = time.perf_counter()
        if name == BOOSTING:
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
    name: str, estimator: Estimator, categories: Sequence[int], train: Any, answers: Any, seconds: float
) -> _Fitted:
    """Fit a linear model, with C chosen by cross-validation on the training part, in about the given seconds."""
    deadline = time.perf_counter() + seconds
    kind = TEXT if name in REFERENCES[TEXT] else TABLE
    default, notes = C_VALUES[kind][0], []
    features = _features(name, categories)
    if name == NGRAMS and len(train) > LARGE:
        sample = slice(0, PROBED)
        began = time.perf_counter()
        with contextlib.suppress(ValueError):  # a few examples may all have the same class
            estimator.linear(kind, default).fit(features.fit_transform(train[sample]), answers[sample])
        now = time.perf_counter()
        if now + (now - began) * len(train) / PROBED > deadline:
            features = _features(NGRAMS, categories, characters=False)
            notes.append(f"no character n-grams: they would take longer than {seconds:.0f} s")
    matrix = features.fit_transform(train)
    began = time.perf_counter()
    model = estimator.linear(kind, default).fit(matrix, answers)
    scores = estimator.cross_validate(kind, matrix, answers, deadline, time.perf_counter() - began)
    best = max(scores, key=scores.__getitem__, default=default)
    if best != default:
        model = estimator.linear(kind, best).fit(matrix, answers)
    notes.insert(0, f"C = {best:g}")
    if len(scores) < len(C_VALUES[kind]) and len(answers) >= MIN_EXAMPLES:
        tried = f"only {len(scores)} of {len(C_VALUES[kind])} values of C" if scores else "no other value of C"
        notes.append(f"{tried} tried: more would take longer than {seconds:.0f} s")
    return _Fitted(_scikit("pipeline").make_pipeline(features, model), "; ".join(notes))


def _features(name: str, categories: Sequence[int], *, characters: bool = True) -> Any:
    """Return the transformer of the inputs: TF-IDF of texts, one-hot categories of tables."""
    if name in REFERENCES[TEXT]:
        tfidf = _scikit("feature_extraction.text").TfidfVectorizer
        words = tfidf(ngram_range=(1, 2) if name == NGRAMS else (1, 1))
        if name == TFIDF or not characters:
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
    """Return the number of categories of each column of a table; 0 for numbers."""
    if not isinstance(inputs, TableInputs):
        return []
    return [0] * inputs.numbers.shape[1] + [len(np.unique(column)) for column in inputs.categories.T]


def _read(inputs: Inputs) -> Any:
    """Return the texts; of a table, its standardised numbers and the numbers of its categories."""
    if not isinstance(inputs, TableInputs):
        return inputs.texts
    return np.concatenate([inputs.numbers.astype(np.float64), inputs.categories], 1)


def _size(model: Any) -> int:
    """Return the number of weights; for trees, of leaves."""
    if hasattr(model, "_predictors"):
        return sum(tree.get_n_leaf_nodes() for round in model._predictors for tree in round)
    last = model[-1]
    parts = last.estimators_ if hasattr(last, "estimators_") else [last]
    return sum(np.size(getattr(part, "coef_", ())) + np.size(getattr(part, "intercept_", ())) for part in parts)


def _logistic(kind: str, c: float, *, per_label: bool = False) -> Any:
    """Return logistic regression; one-vs-rest for the many features of texts, which takes half as long."""
    solver = "lbfgs" if kind == TABLE else "liblinear"
    model = _scikit("linear_model").LogisticRegression(C=c, solver=solver, max_iter=MAX_ITERATIONS)
    return model if kind == TABLE and not per_label else _scikit("multiclass").OneVsRestClassifier(model)


def _class_scores(model: Any, examples: Any, task: Any) -> Any:
    log_probabilities = np.log(np.maximum(model.predict_proba(examples), np.exp(UNSEEN_SCORE)))
    scores = np.full((len(log_probabilities), len(task.answers.names)), UNSEEN_SCORE)
    scores[:, model.classes_] = log_probabilities
    return scores if task.outputs > 1 else scores[:, 1:] - scores[:, :1]


CLASSIFIER = Estimator(_logistic, "accuracy", _class_scores, "HistGradientBoostingClassifier")
MULTILABEL_CLASSIFIER = Estimator(
    partial(_logistic, per_label=True),
    "f1_micro",
    lambda model, examples, task: np.reshape(model.decision_function(examples), (-1, task.outputs)),
)
REGRESSOR = Estimator(
    lambda kind, c: _scikit("linear_model").Ridge(alpha=1 / c),
    "neg_mean_squared_error",
    lambda model, examples, task: np.reshape(model.predict(examples), (-1, 1)),
    "HistGradientBoostingRegressor",
)


def _of_labels(constants: Constants, estimator: Estimator, kind: str) -> list[Baseline]:
    """Return constant answers as baselines, and the models of scikit-learn for such examples as references."""
    references = [name for name in REFERENCES.get(kind, ()) if name != BOOSTING or estimator.boosting]
    return [
        *(Baseline(name, partial(_judge_constant, scores)) for name, scores in constants.items()),
        *(Baseline(name, partial(_judge_fitted, name, estimator), REFERENCE) for name in references),
    ]
