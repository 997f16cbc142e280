"""scikit-learn's models, fitted to exactly the training part: what most people would try first, with its defaults."""

import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.config.errors import GlassformerError
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.tables import TableInputs
from glassformer.tasks.labelling import Labelling
from glassformer.trials.baselines.names import BOOSTING, PAIRS, TFIDF

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
    """From what was fitted, examples and the task: scores as a model of this task gives them."""
    boosting: str = ""
    """The name of its boosted trees."""


def fit_and_score(
    name: str, estimator: Estimator, task: Labelling, part: str
) -> tuple[Float[Tensor, "N outputs"], int, float]:
    """The scores of each example of a part, how many numbers were learned, and in how many seconds."""
    model = _model(name, estimator, _categories(task.parts["train"]))
    train, answers = _read(task.parts["train"]), task.parts["train"].answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what did not quite converge, or of a label that every example has
        before = time.perf_counter()
        model.fit(train, answers)
        seconds = time.perf_counter() - before
        scores = estimator.scores(model, _read(task.parts[part]), task)
    return torch.from_numpy(scores.astype(np.float32)), _size(model), seconds


def _model(name: str, estimator: Estimator, categories: list[int]) -> Any:
    if name == BOOSTING:
        few = [0 < count <= MOST_CATEGORIES for count in categories]
        return getattr(_scikit("ensemble"), estimator.boosting)(categorical_features=few, random_state=0)
    pipeline, head = _scikit("pipeline").make_pipeline, estimator.linear()
    if name in (TFIDF, PAIRS):
        words = _scikit("feature_extraction.text").TfidfVectorizer(ngram_range=(1, 2) if name == PAIRS else (1, 1))
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
    return sum(np.size(getattr(one, "coef_", ())) + np.size(getattr(one, "intercept_", ())) for one in parts)


# --- one for each family ---


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
