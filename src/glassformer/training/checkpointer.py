"""All that going on with a run needs, and who keeps it, the best weights and moments on the way."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.runs import history
from glassformer.runs.checkpoints import forget_checkpoint, save_checkpoint
from glassformer.runs.json_shape import WrongShape, made
from glassformer.runs.run import CARD_NOTES, Run, card_notes
from glassformer.tasks.base import Evaluation

SCALE_GROWS_AFTER = 2000
"""fp16: updates without overflow after which the loss is scaled up again."""


@dataclass
class Progress:
    """Where a run stands. Batches and random numbers follow from the step; there is nothing of them to save."""

    step: int = 0
    """Updates made."""
    tokens: int = 0
    seconds: float = 0.0
    """Seconds spent in steps."""
    elapsed: float = 0.0
    """Seconds spent in all, since the command began: reading, validations and checkpoints too."""
    preparing: float = 0.0
    """Seconds of these spent before the first update."""
    validating: float = 0.0
    """Seconds of these spent in validations and the checkpoints after them."""
    between: float = 0.0
    """Seconds of the last validation, with its checkpoint."""
    spent: float = 0.0
    """With minutes: a budget of so many seconds has been used up."""
    sample: float | None = None
    """With minutes: the part of what is held out that each validation judges."""
    evaluating: float = 0.0
    """With minutes: seconds that the last validation took to judge it."""
    growing: float = 1.0
    """With minutes: the part of these that grows with how much is judged."""
    best_score: float | None = None
    best_step: int = 0
    since_best: int = 0
    """Validations since the best one."""
    best_loss: float | None = None
    stale: int = 0
    """Validations since one had a better score or a smaller loss than all before."""
    improved: float = 0.0
    """Seconds that were spent when that one was made."""
    risen: int = 0
    """Validations in a row, up to the last one, whose score and loss were clearly worse than the best."""
    threads: int = 0
    """CPU threads of the next update: sums depend on them."""
    loss_scale: float = 2.0**16
    """fp16: what the loss is multiplied by before the backward pass, lest small gradients vanish."""
    since_overflow: int = 0
    """fp16: updates since gradients last grew too large at that scale."""
    averaged: int = 0
    """Updates whose weights are in the average."""

    def scale_held(self, finite: bool) -> bool:
        """fp16: whether gradients are finite at this scale. If not, the update is left out and the scale halved."""
        if not finite:
            self.loss_scale, self.since_overflow = self.loss_scale / 2, 0
            return False
        self.since_overflow += 1
        if self.since_overflow == SCALE_GROWS_AFTER:
            self.loss_scale, self.since_overflow = self.loss_scale * 2, 0
        return True


@dataclass(frozen=True)
class Snapshot:
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    progress: Progress
    average: Mapping[str, Tensor] = field(default_factory=dict)
    """The average of the weights; empty: there is none."""


class Checkpointer:
    """Who keeps checkpoints and the best weights; the loop knows no folders. This one keeps nothing, for a training
    that takes seconds, and of which the model alone is wanted.
    """

    folder: Path | None = None
    """Where processes write the shards of checkpoints; None: they are not kept."""
    keep = 1
    notes: Mapping[str, Any] = {}
    """What the state of each checkpoint holds beside the progress."""

    def checkpoint(self, snapshot: Snapshot) -> str:
        """Keep a checkpoint; gives where it is."""
        return ""

    def before_checkpoint(self) -> None:
        """What a checkpoint stands for must be logged before it is there, or a run that is killed right after it would
        go on with a hole in its log.
        """

    def forget(self, step: int) -> None:
        """This step's checkpoint is no good."""

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        """These weights are the best so far."""

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        """These weights are to be looked at later. `total`: updates in all, where that is known."""


@dataclass
class RunCheckpointer(Checkpointer):
    """Keeps them in a run's folder."""

    run: Run
    _: KW_ONLY
    keep: int
    first: Callable[[], None] = lambda: None
    """Writes the log, before each checkpoint."""
    card: dict[str, Any] | None = None
    """The card whose notes are stored with weights and checkpoints; None: checkpoints hold no notes, and weights those
    on the card in the folder.
    """

    def __post_init__(self) -> None:
        self.folder = self.run.checkpoints_path
        self.notes = {} if self.card is None else card_notes(self.card)

    def before_checkpoint(self) -> None:
        self.first()

    def checkpoint(self, snapshot: Snapshot) -> str:
        self.before_checkpoint()
        path = save_checkpoint(
            self.run.checkpoints_path,
            snapshot.progress.step,
            dict(snapshot.weights),
            dict(snapshot.optimiser),
            {**asdict(snapshot.progress), **self.notes},
            keep=self.keep,
            average=dict(snapshot.average),
        )
        return str(path)

    def forget(self, step: int) -> None:
        forget_checkpoint(self.run.checkpoints_path, step)
        history.forget(self.run, step)

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        self.run.write_weights(weights, self.card)
        self.run.update_card(best={"step": step, **evaluation.metrics})

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        history.keep(self.run, step, weights, total=total)


def restore(
    weights: Mapping[str, Tensor],
    optimiser: Mapping[str, Tensor],
    state: dict[str, object],
    average: Mapping[str, Tensor],
) -> Snapshot:
    """A snapshot from what a checkpoint held."""
    try:
        progress = {name: value for name, value in state.items() if name not in CARD_NOTES}
        return Snapshot(weights, optimiser, made(progress, Progress), average)
    except WrongShape as error:
        raise RunError(f"a checkpoint's state is damaged: {error}") from None
