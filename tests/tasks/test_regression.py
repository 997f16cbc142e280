"""Squared error in spreads, judged in the unit of the data, against torch and scikit-learn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as theirs
from torch import Tensor, nn

from glassformer.tasks.answers import Scale
from glassformer.tasks.prediction import Regression
from helpers.support import numbers, same
from helpers.tables import examples_of_lengths

VALUES = ["12", "40.5", "-3", "8", "101"]
SCALE = Scale.of(np.array([float(value) for value in VALUES]), None)


class Scores(nn.Module):
    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.scores


def task_of(values: list[str], scale: Scale = SCALE) -> Regression:
    examples = examples_of_lengths([3] * len(values), scale.learned(values).tolist())
    return Regression({"train": examples, "validation": examples}, scale, batch_size=len(values))


def test_the_loss_is_torchs_mean_square_but_summed() -> None:
    scores, task = numbers(5, 1, dtype=torch.float32), task_of(VALUES)
    ids, mask, answers = task.batch(0).tensors(torch.device("cpu"))
    same(task.loss(Scores(scores), ids, mask, answers), 5 * F.mse_loss(scores[:, 0], answers), 1e-5)
    spreads = [(float(value) - SCALE.mean) / SCALE.spread for value in VALUES]
    assert sorted(answers.tolist()) == pytest.approx(sorted(spreads))


def test_metrics_are_scikit_learns_in_the_unit_of_the_data() -> None:
    scores = numbers(5, 1, dtype=torch.float32)
    evaluation = task_of(VALUES).evaluate(Scores(scores), "validation")
    true = [float(value) for value in VALUES]
    said = scores[:, 0].double().numpy() * SCALE.spread + SCALE.mean
    metrics = evaluation.metrics
    assert metrics["rmse"] == pytest.approx(theirs.root_mean_squared_error(true, said), rel=1e-5)
    assert metrics["mae"] == pytest.approx(theirs.mean_absolute_error(true, said), rel=1e-5)
    assert metrics["r2"] == pytest.approx(theirs.r2_score(true, said), rel=1e-5)
    assert metrics["loss"] == pytest.approx((metrics["rmse"] / SCALE.spread) ** 2, rel=1e-5)
    assert metrics["texts"] == 5
    assert (evaluation.primary, evaluation.score) == ("rmse", metrics["rmse"])
    assert evaluation.details == {}
    for number in (f"RMSE {metrics['rmse']:.4g}", f"MAE {metrics['mae']:.4g}", f"R² {metrics['r2']:.4f}"):
        assert number in evaluation.summary
    for row, record in enumerate(evaluation.records):
        assert record == {
            "text": f"text {row}",
            "number": pytest.approx(true[row], rel=1e-5),
            "predicted": pytest.approx(said[row], rel=1e-5),
            "error": pytest.approx(said[row] - true[row], rel=1e-4),
        }


def test_a_right_answer_has_no_error() -> None:
    task = task_of(VALUES)
    scores = torch.from_numpy(task.parts["validation"].answers).float()[:, None]
    metrics = task.evaluate(Scores(scores), "validation").metrics
    assert metrics["rmse"] == pytest.approx(0, abs=1e-4)
    assert metrics["r2"] == pytest.approx(1)


@pytest.mark.parametrize("values", [["7"], ["7", "7"]])
def test_without_variance_there_is_no_share_of_it(values: list[str]) -> None:
    evaluation = task_of(values).evaluate(Scores(torch.zeros(len(values), 1)), "validation")
    assert evaluation.metrics.keys() == {"rmse", "mae", "loss", "texts"}
    assert evaluation.summary.endswith(", R² –")
    assert evaluation.metrics["mae"] == pytest.approx(abs(SCALE.mean - 7), rel=1e-5)
