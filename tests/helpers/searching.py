"""Small searches for tests, and trainings that only pretend."""

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.trials.tuning import trial as one_trial
from glassformer.trials.tuning.result import TuneResult
from glassformer.trials.tuning.storage import JournalFileBackend, JournalStorage, optuna
from glassformer.verbs.train import Trained

DATA = "opinions:rows=120"
QUICK: dict[str, Any] = {"model": "average", "steps": 3, "training.batch_size": 8, "model.width": 8}
SPACE = {
    "training.lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "model.dropout": [0.0, 0.5],
    "model.pool": ["mean", "max"],
}


def search(out: Path, trials: int, **more: Any) -> TuneResult:
    return gf.tune(DATA, out=out, trials=trials, **{"space": SPACE, "final": False, **QUICK, **more})


class Pretended:
    """Trainings that only pretend: their score is a function of their settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **scores: Any) -> None:
        self.told: list[dict[str, Any]] = []
        monkeypatch.setattr(one_trial, "train", self)

    def __call__(self, *, out: Path, listen: Any, **settings: Any) -> Trained:
        self.told.append(settings)
        score = self.score(settings)
        listen.primary = "accuracy"
        return Trained(
            run=str(out), task="", model="", parameters=1, learned=1, steps=1, seconds=1.0, reason="finished",
            validation={"accuracy": score, "loss": 1.0}, summary="", best={},
        )  # fmt: skip

    def score(self, settings: dict[str, Any]) -> float:
        return 1 - abs(settings.get("training.lr", 2e-3) - 0.01) + 0.001 * settings["training.seed"]


def study_of(out: Path) -> "optuna.Study":
    """The only study in a search's folder."""
    return optuna.load_study(study_name=None, storage=JournalStorage(JournalFileBackend(str(out / "study.log"))))
