"""How long a run is, and the learning rate over it."""

import math

from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Task


def total_steps(settings: TrainingSettings, task: Task) -> int | None:
    """Updates to make in all; None: the time decides."""
    if settings.epochs is not None:
        return max(1, math.ceil(settings.epochs * task.steps_per_epoch))
    return settings.steps


def rate_factor(settings: TrainingSettings, step: int, progress: float, total: int | None) -> float:
    """What the rate is multiplied by for the update after `step` updates, `progress` (0 to 1) through the run."""
    if settings.schedule_steps is not None:
        total = settings.schedule_steps
        progress = step / total
    warmup = settings.warmup if total is None else min(settings.warmup, max(1, total // 10))
    if step < warmup and (total is not None or progress < 0.1):  # a tenth of the run at most, in minutes too
        through = 10 * progress if total is None else 0.0
        return max((step + 1) / warmup, through)
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "inverse-sqrt":
        return min(1.0, math.sqrt(max(1, warmup) / (step + 1)))
    wave = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return settings.lr_floor + (1 - settings.lr_floor) * wave


def part_done(settings: TrainingSettings, total: int | None, step: int, elapsed: float) -> float:
    """How far through the budget, 0 to 1: of updates, or where there is none of these, of minutes."""
    if total is not None:
        return step / total
    assert settings.minutes is not None
    return elapsed / (60 * settings.minutes)
