"""Linear models trained by gradient descent come to where the closed form, or another solver, puts them."""

from typing import Any

import numpy as np
import pytest
import torch

from glassformer.config.sections import DataSettings
from glassformer.data.features.build import learn_features
from glassformer.data.features.inputs import Inputs
from glassformer.data.io.table import read_table
from glassformer.data.split.labelled import Labelled
from glassformer.models.build import build_predictor
from glassformer.tasks.answers import Answers, Classes, Scale
from glassformer.tasks.labelling import score
from glassformer.tasks.prediction import Classification, Regression
from helpers.fitting import trained
from helpers.kinds import config_of, part_of

DESCENT = {"optimizer": "momentum", "weight_decay": 0.0, "grad_clip": None, "validate_every": 10_000}


def fitted(part: Labelled, answers: Answers, **how: Any) -> tuple[Inputs, torch.Tensor]:
    """A linear model after updates on the whole part at once: what it read, and its scores."""
    kind = "regression" if isinstance(answers, Scale) else "classification"
    features = learn_features(config_of("table", "linear", kind), part, None)
    inputs = features.inputs(part, answers.learned(part.labels))
    parts = {"train": inputs, "validation": inputs}
    task: Regression | Classification
    if isinstance(answers, Scale):
        task = Regression(parts, answers, batch_size=len(part))
    else:
        task = Classification(parts, answers, batch_size=len(part))
    settings = config_of("table", "linear", kind).model
    model = build_predictor(settings, shape=features.shape, outputs=answers.outputs)
    trained(model, task, **DESCENT, **how)
    return inputs, score(model, inputs, answers.outputs)


@pytest.mark.slow
def test_linear_regression_is_least_squares() -> None:
    chance = np.random.default_rng(0)
    numbers = chance.normal(size=(80, 3)) * [1, 50, 0.01] + [5, -300, 0]
    city = chance.integers(0, 3, 80)
    target = numbers @ [3, 0.1, 200] + np.array([0, 10, -4])[city] + chance.normal(size=80) * 5
    columns = {name: [str(value) for value in numbers[:, place]] for place, name in enumerate("abc")}
    part = part_of(labels=[str(value) for value in target], **columns, city=[f"city {one}" for one in city])
    scale = Scale.of(target, None)
    _, scores = fitted(part, scale, steps=400, lr=0.05)
    design = np.column_stack([numbers, city == 1, city == 2, np.ones(80)])
    expected = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(scale.values(scores).numpy(), expected, atol=1e-3 * target.std())


def compared(part: Labelled, loss: str, penalty: float, **how: Any) -> None:
    """Probabilities and loss, beside scikit-learn's on the same numbers."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    classes = Classes.of(sorted(set(part.labels)), loss)
    inputs, scores = fitted(part, classes, l2=penalty, **how)
    x = np.column_stack([np.array(values, float) for values in part.columns.values()])
    x = (x - x.mean(0)) / x.std(0)
    weight = 1 / (2 * penalty * len(part)) if penalty else np.inf
    peer = linear_model.LogisticRegression(C=weight, max_iter=10_000, tol=1e-8).fit(x, part.labels)
    ours, theirs = classes.probabilities(scores).numpy(), peer.predict_proba(x)
    assert np.abs(ours - theirs).max() < 2e-3
    rows = np.arange(len(part))
    losses = [-np.log(one[rows, inputs.answers]).mean() for one in (ours, theirs)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def irises(*names: str, species: tuple[str, ...] = ("setosa", "versicolor", "virginica")) -> Labelled:
    table = read_table("iris", DataSettings())
    rows = [row for row, one in enumerate(table.columns["species"]) if one in species]
    read = {name: [table.columns[name][row] for row in rows] for name in names}
    return part_of(labels=[table.columns["species"][row] for row in rows], **read)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_logistic_regression_is_scikit_learns(loss: str) -> None:
    """Without a penalty there is a best answer only where no line tells the classes apart."""
    part = irises("sepal_length", "sepal_width", species=("versicolor", "virginica"))
    compared(part, loss, 0.0, steps=600, lr=0.5)


@pytest.mark.slow
def test_softmax_regression_is_scikit_learns() -> None:
    pytest.importorskip("sklearn")
    compared(irises("sepal_length", "sepal_width", "petal_length", "petal_width"), "softmax", 1e-3, steps=2500, lr=0.5)
