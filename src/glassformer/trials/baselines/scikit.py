"""scikit-learn's models, fitted to exactly the training part: what most people would try first, with its defaults."""

import importlib
import time
import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.config.errors import GlassformerError
from glassformer.config.presets import CLASSIFICATION, REGRESSION
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.tables import TableInputs
from glassformer.tasks.classification import Classification
from glassformer.tasks.labelling import Labelling
from glassformer.trials.baselines.names import BOOSTING, PAIRS, TFIDF

MISSING = "scikit-learn is not installed: pip install 'glassformer[samples]'"
UNSEEN = -50.0
"""The score of a class that no training example has."""
MOST_CATEGORIES = 255
"""Boosted trees split no more into sets: a column with more is to them a number."""
ITERATIONS = 1000
"""At most, of logistic regression: its default of 100 is often too few to arrive."""


def fit_and_score(name: str, task: Labelling, part: str) -> tuple[Float[Tensor, "N outputs"], int, float]:
    """The scores of each example of a part, how many numbers were learned, and in how many seconds."""
    model = _model(name, task.name, _categories(task.parts["train"]))
    train, answers = _read(task.parts["train"]), task.parts["train"].answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what did not quite converge, or of a label that every example has
        before = time.perf_counter()
        model.fit(train, answers)
        seconds = time.perf_counter() - before
        scores = _scores(model, _read(task.parts[part]), task)
    return torch.from_numpy(scores.astype(np.float32)), _size(model), seconds


def _model(name: str, task: str, categories: list[int]) -> Any:
    if name == BOOSTING:
        which = "HistGradientBoostingRegressor" if task == REGRESSION else "HistGradientBoostingClassifier"
        few = [0 < count <= MOST_CATEGORIES for count in categories]
        return getattr(_scikit("ensemble"), which)(categorical_features=few, random_state=0)
    pipeline = _scikit("pipeline").make_pipeline
    head = _head(task)
    if name in (TFIDF, PAIRS):
        words = _scikit("feature_extraction.text").TfidfVectorizer(ngram_range=(1, 2) if name == PAIRS else (1, 1))
        return pipeline(words, head)
    encoder = _scikit("preprocessing").OneHotEncoder(handle_unknown="ignore")
    columns = [("categories", encoder, np.flatnonzero(categories).tolist())]
    return pipeline(_scikit("compose").ColumnTransformer(columns, remainder="passthrough"), head)


def _head(task: str) -> Any:
    linear = _scikit("linear_model")
    if task == REGRESSION:
        return linear.Ridge()
    logistic = linear.LogisticRegression(max_iter=ITERATIONS)
    return logistic if task == CLASSIFICATION else _scikit("multiclass").OneVsRestClassifier(logistic)


def _scikit(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise GlassformerError(MISSING) from None


def _categories(inputs: Inputs) -> list[int]:
    """Of each column of a table, how many categories it holds; 0: numbers."""
    if not isinstance(inputs, TableInputs):
        return []
    return [0] * inputs.numbers.shape[1] + [len(np.unique(column)) for column in inputs.categories.T]


def _read(inputs: Inputs) -> Any:
    """The texts; or the columns of a table: numbers in spreads from their mean, categories by number."""
    if not isinstance(inputs, TableInputs):
        return inputs.texts
    return np.concatenate([inputs.numbers.astype(np.float64), inputs.categories], 1)


def _scores(model: Any, examples: Any, task: Labelling) -> Any:
    """As a model of this task gives them."""
    if task.name == REGRESSION:
        return np.reshape(model.predict(examples), (-1, 1))
    if not isinstance(task, Classification):
        return np.reshape(model.decision_function(examples), (-1, task.outputs))
    chances = np.log(np.maximum(model.predict_proba(examples), np.exp(UNSEEN)))
    scores = np.full((len(chances), len(task.classes.names)), UNSEEN)
    scores[:, model.classes_] = chances
    return scores if task.outputs > 1 else scores[:, 1:] - scores[:, :1]


def _size(model: Any) -> int:
    """Weights; of trees, leaves."""
    if hasattr(model, "_predictors"):
        return sum(tree.get_n_leaf_nodes() for round in model._predictors for tree in round)
    last = model[-1]
    parts = last.estimators_ if hasattr(last, "estimators_") else [last]
    return sum(np.size(getattr(one, "coef_", ())) + np.size(getattr(one, "intercept_", ())) for one in parts)
