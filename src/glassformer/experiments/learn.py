"""A short training that leaves nothing behind but the model."""

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.say import silent
from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Evaluation, Task
from glassformer.training.loop import Trainer
from glassformer.training.snapshot import Snapshot


class NothingKept:
    """No checkpoints and no moments: what takes seconds is done again."""

    def checkpoint(self, snapshot: Snapshot) -> str:
        return ""

    def forget(self, step: int) -> None:
        pass

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        pass

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        pass


def brief(steps: int, seed: int) -> dict[str, Any]:
    """Settings of a training of so many updates: alike for every model, judged once, at its end."""
    return {
        "steps": steps,
        "seed": seed,
        "training.validate_every": steps,
        "training.validation_tokens": 1000,
        "training.keep": "last",
        "training.compile": "off",
        "training.precision": "fp32",
    }


def learn(model: nn.Module, task: Task, settings: TrainingSettings, device: torch.device) -> None:
    """The model as it is after its last update, ready for use. Ctrl-C stops everything."""
    trainer = Trainer(model, task, settings, device=device, checkpointer=NothingKept(), listen=silent)
    if trainer.run().reason == "interrupted":
        raise KeyboardInterrupt
    model.eval()
