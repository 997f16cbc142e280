"""Who keeps checkpoints, the best weights and moments on the way; of a run, in its folder."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.runs import history
from glassformer.runs.checkpoints import forget_checkpoint, save_checkpoint
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.training.snapshot import Progress, Snapshot


class Checkpointer(Protocol):
    """Who keeps checkpoints and the best weights; the loop knows no folders."""

    def checkpoint(self, snapshot: Snapshot) -> str: ...

    def forget(self, step: int) -> None:
        """This step's checkpoint is no good."""

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None: ...

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        """These weights are to be looked at later. `total`: updates in all, where that is known."""


class RunCheckpointer:
    """`first` is called before a checkpoint is written: what it stands for must be logged, or a run that is killed
    right after it would go on with a hole in its log.
    """

    def __init__(self, run: Run, *, keep: int, first: Callable[[], None] = lambda: None) -> None:
        self.run = run
        self.keep = keep
        self.first = first

    def checkpoint(self, snapshot: Snapshot) -> str:
        self.first()
        path = save_checkpoint(
            self.run.checkpoints_path,
            snapshot.progress.step,
            snapshot.weights,
            snapshot.optimiser,
            dataclasses.asdict(snapshot.progress),
            keep=self.keep,
            average=snapshot.average,
        )
        return str(path)

    def forget(self, step: int) -> None:
        forget_checkpoint(self.run.checkpoints_path, step)
        history.forget(self.run, step)

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        self.run.write_weights(weights)
        self.run.update_card(best={"step": step, **evaluation.metrics})

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        history.keep(self.run, step, weights, total=total)


def restore(
    weights: dict[str, Tensor], optimiser: dict[str, Tensor], state: dict[str, object], average: dict[str, Tensor]
) -> Snapshot:
    """A snapshot from what a checkpoint held."""
    try:
        return Snapshot(weights, optimiser, Progress(**state), average)  # type: ignore[arg-type]
    except TypeError:
        raise RunError(f"a checkpoint's state is of another version: it has {', '.join(state)}") from None


class NoCheckpoints:
    """Keeps nothing: for a training that takes seconds, and of which the model alone is wanted."""

    def checkpoint(self, snapshot: Snapshot) -> str:
        return ""

    def forget(self, step: int) -> None: ...

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None: ...

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None: ...
