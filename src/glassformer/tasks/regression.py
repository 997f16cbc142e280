"""Say a number of an example."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.bricks.losses import squared_loss
from glassformer.config.presets import REGRESSION
from glassformer.data.features.inputs import Inputs
from glassformer.tasks.answers import Scale
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling


class Regression(Labelling):
    """The loss is the squared error in spreads of the training part; the metrics are in the unit of the data."""

    name = REGRESSION

    def __init__(self, parts: Mapping[str, Inputs], scale: Scale, *, batch_size: int = 1, seed: int = 0) -> None:
        super().__init__(parts, outputs=1, batch_size=batch_size, seed=seed)
        self.scale = scale
        self.unit = "squared error, in spreads"

    def losses(self, scores: Float[Tensor, "B 1"], answers: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
        return squared_loss(scores[:, 0], answers)

    def judge(self, examples: Inputs, scores: Float[Tensor, "N 1"]) -> Evaluation:
        answers = torch.from_numpy(examples.answers)
        true = self.scale.values(answers[:, None])
        predicted = self.scale.values(scores)
        errors = predicted - true
        variance = float((true - true.mean()).square().mean())
        metrics = {
            "rmse": math.sqrt(float(errors.square().mean())),
            "mae": float(errors.abs().mean()),
            "r2": 1 - float(errors.square().mean()) / variance if variance > 0 else 0.0,
            "loss": float(self.losses(scores, answers).double().mean()),
            f"{self.noun}s": len(examples),
        }
        records = [
            {self.noun: text, "number": float(number), "predicted": float(guess), "error": float(error)}
            for text, number, guess, error in zip(examples.texts, true, predicted, errors, strict=True)
        ]
        summary = f"RMSE {metrics['rmse']:.4g}, MAE {metrics['mae']:.4g}, R² {metrics['r2']:.4f}"
        return Evaluation(metrics, "rmse", lower_is_better=True, summary=summary, records=records)
