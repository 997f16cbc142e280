"""Checkpoints, the best weights and moments: what they contain, and how they are stored."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.config.json_types import JsonObject
from glassformer.runs import history
from glassformer.runs.checkpoints import delete_checkpoint, save_checkpoint
from glassformer.runs.json_shape import WrongShape, from_json
from glassformer.runs.run import CARD_NOTES, Run, card_notes
from glassformer.tasks.base import Evaluation

SCALE_GROWS_AFTER = 2000
"""fp16: updates without overflow after which the loss is scaled up again."""


@dataclass
class Progress:
    """The progress of a run. Batches and random numbers follow from the step, so they are not stored."""

    step: int = 0
    """Number of updates."""
    tokens: int = 0
    seconds: float = 0.0
    """Seconds spent in steps."""
    elapsed: float = 0.0
    """Seconds since the command began, including reading, validations and checkpoints."""
    preparing: float = 0.0
    """Seconds before the first update."""
    validating: float = 0.0
    """Seconds in validations and the checkpoints after them."""
    between: float = 0.0
    """Seconds of the last validation, with its checkpoint."""
    spent: float = 0.0
    """With minutes: the largest budget of seconds that was used up."""
    sample: float | None = None
    """With minutes: share of the validation set that each validation uses."""
    evaluating: float = 0.0
    """With minutes: seconds of the last evaluation of that sample."""
    growing: float = 1.0
    """With minutes: share of these seconds that grows with the sample."""
    best_score: float | None = None
    best_step: int = 0
    since_best: int = 0
    """Validations since the best one."""
    best_loss: float | None = None
    stale: int = 0
    """Validations since the last new best score or loss."""
    improved: float = 0.0
    """`elapsed` at that validation."""
    risen: int = 0
    """Number of latest validations in a row whose score and loss were clearly worse than the best."""
    threads: int = 0
    """CPU threads of the next update, because sums depend on their number."""
    loss_scale: float = 2.0**16
    """fp16: factor of the loss in the backward pass, so that small gradients do not vanish."""
    since_overflow: int = 0
    """fp16: updates since the last overflow."""
    averaged: int = 0
    """Updates whose weights are in the average."""

    def scale_held(self, finite: bool) -> bool:
        """fp16: halve the scale if the gradients were not finite; return whether to make the update."""
        if not finite:
            self.loss_scale, self.since_overflow = self.loss_scale / 2, 0
            return False
        self.since_overflow += 1
        if self.since_overflow == SCALE_GROWS_AFTER:
            self.loss_scale, self.since_overflow = self.loss_scale * 2, 0
        return True


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint in memory."""

    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    progress: Progress
    average: Mapping[str, Tensor] = field(default_factory=dict)
    """Running average of the weights; empty if there is none."""


class Checkpointer:
    """Storage of checkpoints and the best weights, so that the loop knows no folders.

    This base class stores nothing. It is for brief training runs of which only the model is needed.
    """

    folder: Path | None = None
    """Folder of sharded checkpoints; None if checkpoints are not kept."""
    keep = 1
    notes: Mapping[str, object] = {}
    """Further entries of the state of each checkpoint."""

    def checkpoint(self, snapshot: Snapshot) -> str:
        """Store a checkpoint and return its path."""
        return ""

    def before_checkpoint(self) -> None:
        """Write the log, so that a run killed right after the checkpoint resumes without a gap in its log."""

    def forget(self, step: int) -> None:
        """Delete the checkpoint of a step."""

    def best(self, weights: dict[str, Tensor], evaluation: Evaluation, step: int) -> None:
        """Store the best weights so far."""

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        """Store weights for later inspection. `total`: number of updates of the run, if known."""


@dataclass
class RunCheckpointer(Checkpointer):
    """Storage in a run's folder."""

    run: Run
    _: KW_ONLY
    keep: int
    flush_log: Callable[[], None] = lambda: None
    """Writes the log; called before each checkpoint."""
    card: JsonObject | None = None
    """The card whose notes are stored with weights and checkpoints.

    If it is None, checkpoints have no notes, and weights have the notes of the card in the folder.
    """

    def __post_init__(self) -> None:
        self.folder = self.run.checkpoints_path
        self.notes = {} if self.card is None else card_notes(self.card)

    def before_checkpoint(self) -> None:
        self.flush_log()

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
        delete_checkpoint(self.run.checkpoints_path, step)
        history.delete(self.run, step)

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
    """Return a snapshot with the contents of a stored checkpoint."""
    try:
        progress = {name: value for name, value in state.items() if name not in CARD_NOTES}
        return Snapshot(weights, optimiser, from_json(progress, Progress), average)
    except WrongShape as error:
        raise RunError(f"a checkpoint's state is damaged: {error}") from None
