"""All that going on with a run needs."""

from dataclasses import dataclass, field

from torch import Tensor

SCALE_GROWS_AFTER = 2000
"""fp16: updates without overflow after which the loss is scaled up again."""


@dataclass
class Progress:
    """Where a run stands. Batches and random numbers follow from the step; there is nothing of them to save."""

    step: int = 0
    """Updates made."""
    tokens: int = 0
    seconds: float = 0.0
    """Spent in steps."""
    elapsed: float = 0.0
    """Spent in all: validations and checkpoints too."""
    validating: float = 0.0
    """Of that, in validations."""
    best_score: float | None = None
    best_step: int = 0
    since_best: int = 0
    """Validations since the best one."""
    threads: int = 0
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
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    progress: Progress
    average: dict[str, Tensor] = field(default_factory=dict)
    """The average of the weights; empty: there is none."""
