"""Number of updates, the schedule of the learning rate, and signals that stop a run."""

import math
import signal
import threading
from collections.abc import Callable
from types import FrameType

from glassformer.config.sections import TrainingSettings
from glassformer.tasks.base import Task


def total_steps(settings: TrainingSettings, task: Task) -> int | None:
    """Return the number of updates; None if the budget of minutes decides."""
    if settings.epochs is not None:
        return max(1, math.ceil(settings.epochs * task.steps_per_epoch))
    return settings.steps


def rate_factor(settings: TrainingSettings, step: int, progress: float, total: int | None) -> float:
    """Return the factor of the learning rate after `step` updates; `progress`: part of the run that is done."""
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


SCHEDULER_WEIGHT = 2.0**20
"""Weight of a scheduler's signal in a sum over all processes; larger than any number of Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1] if hasattr(signal, "SIGUSR1") else []))


Handler = Callable[[int, FrameType | None], object] | int | None
"""A signal handler as `signal.signal` returns it."""


class Interrupt:
    """Context in which a signal asks the loop to finish its step, save and stop.

    The signals are Ctrl-C, SIGTERM and SIGUSR1, which schedulers send shortly before the time limit. The first one only
    sets `asked`; a second Ctrl-C raises `KeyboardInterrupt`.
    """

    def __init__(self) -> None:
        self.asked = False
        self.signal: int | None = None
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked, self.signal = True, number

    @property
    def weight(self) -> float:
        """Weight of this process's signal in the sum over all processes."""
        return 1.0 if self.signal in (None, signal.SIGINT) else SCHEDULER_WEIGHT

    def hear(self, weights: float) -> None:
        """Take over a scheduler's signal to any process, given the sum of all weights."""
        if weights >= SCHEDULER_WEIGHT and self.signal is None:
            self.signal = signal.SIGTERM

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
