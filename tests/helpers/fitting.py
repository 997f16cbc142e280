"""The smallest task there is, a linear map to fit, its every update written out; a checkpointer in memory."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.tasks.base import Batch, Evaluation, Task
from glassformer.training.checkpointer import Checkpointer, Snapshot
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Ended, Event
from glassformer.training.loop import Trainer
from helpers.settings import training_settings
from helpers.support import numbers

CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Pairs(Batch):
    """Inputs with a wanted output each; rows whose output is not a number are not judged."""

    x: Tensor
    y: Tensor

    @property
    def size(self) -> int:
        return len(self.x)

    @property
    def count(self) -> int:  # type: ignore[override]
        return int((~self.y.isnan().any(1)).sum())

    @property
    def tokens(self) -> int:
        return len(self.x)

    def rows(self, first: int, last: int) -> "Pairs":
        return Pairs(self.x[first:last], self.y[first:last])

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        return self.x, self.y


class Fit(Task):
    """Squared error of a linear map. `scores`, if given, are what the validations say, one after the other."""

    name = "fit"
    steps_per_epoch = 2.5

    def __init__(self, batch_size: int = 12, scores: Sequence[float] = ()) -> None:
        self.batch_size = batch_size
        self.scores = list(scores)

    def batch(self, step: int) -> Pairs:
        x = numbers(self.batch_size, 3, seed=step, dtype=torch.float32)
        y = x[:, :2].sin() + 0.1 * numbers(self.batch_size, 2, seed=1000 + step, dtype=torch.float32)
        y[::5] = torch.nan
        return Pairs(x, y)

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        x, y = tensors
        judged = ~y.isnan().any(1)
        return (model(x[judged]) - y[judged]).square().sum()

    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        if self.scores:
            return Evaluation({"loss": self.scores.pop(0)}, "loss", lower_is_better=True)
        batch = self.batch(999)
        with torch.no_grad():
            loss = float(self.loss(model, batch.x, batch.y)) / batch.count
        return Evaluation({"loss": loss}, "loss", lower_is_better=True)


class Memory(Checkpointer):
    """Keeps what a run folder would."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.bests: list[tuple[int, dict[str, Tensor]]] = []
        self.forgotten: list[int] = []

    def checkpoint(self, snapshot: Snapshot) -> str:
        def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: value.clone() for name, value in tensors.items()}

        progress = dataclasses.replace(snapshot.progress)
        weights, optimiser, average = map(copied, (snapshot.weights, snapshot.optimiser, snapshot.average))
        self.snapshots.append(Snapshot(weights, optimiser, progress, average))
        return f"step-{progress.step}"

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        self.bests.append((step, {name: value.clone() for name, value in weights.items()}))

    def forget(self, step: int) -> None:
        self.forgotten.append(step)


def linear(seed: int = 0) -> nn.Linear:
    model = nn.Linear(3, 2)
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(numbers(*weight.shape, seed=seed + number, dtype=torch.float32))
    return model


class Training:
    """One training, with all that it told and kept."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        *,
        resume: Snapshot | None = None,
        describe: Callable[[Batch, int], str] = lambda batch, row: "",
        **settings: Any,
    ) -> None:
        self.model = model
        self.kept = Memory()
        self.events: list[Event] = []
        self.listen: Callable[[Event], object] = self.events.append
        plain = {"batch_size": getattr(task, "batch_size", 12), "schedule": "constant", "warmup": 0}
        self.trainer = Trainer(
            model,
            task,
            training_settings(**{**plain, **settings}),
            TrainerOptions(
                CPU, checkpointer=self.kept, listen=lambda event: self.listen(event), resume=resume, describe=describe
            ),
        )

    def run(self) -> Ended:
        return self.trainer.run()

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def trained(model: nn.Module, task: Task, **settings: Any) -> Training:
    training = Training(model, task, **settings)
    training.run()
    return training
