"""How long a run is, the learning rate over it, and how it is asked to stop before its end."""

import math
import signal
import threading
from types import FrameType
from typing import Any

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


SCHEDULER = 2.0**20
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1] if hasattr(signal, "SIGUSR1") else []))


class Interrupt:
    """Ctrl-C, SIGTERM, and SIGUSR1, by which a scheduler tells that the time is nearly up: finish the step, save, and
    stop. While it is open, the first signal only sets `asked`; a second Ctrl-C stops at once.
    """

    def __init__(self) -> None:
        self.asked = False
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

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
        """Of this process's signal in a sum over all: a scheduler's outweighs every Ctrl-C."""
        return 1.0 if self.signal in (None, signal.SIGINT) else SCHEDULER

    def hear(self, weights: float) -> None:
        """What all processes were told, summed: a scheduler's signal to one of them is everybody's."""
        if weights >= SCHEDULER and self.signal is None:
            self.signal = signal.SIGTERM

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
