"""The progress of a training run as a line of text, and as a bar in notebooks."""

import time
from typing import Self

from glassformer.config.messages import warn
from glassformer.config.progress import clock
from glassformer.config.units import metric_name
from glassformer.notebook.display import Area
from glassformer.notebook.html import bar
from glassformer.training.events import Ended, Event, Failed, Noted, Started, Stepped, Validated

SMOOTHING = 0.95
"""Weight of earlier steps in the loss that is shown."""


class TrainingProgress:
    """The progress of a training run, updated by its events."""

    def __init__(self) -> None:
        self.done = 0.0
        """Part of the run that is done, 0 to 1."""
        self._loss: float | None = None
        self._step = ""
        self._validation = ""
        self._speed = ""
        self._first: tuple[int, float] | None = None
        self._per_example: int | None = None
        self._began: tuple[float, float] | None = None
        """Time at the end of the first step, and the part of the run that was done."""
        self._seconds_after = 0.0

    def hear(self, event: Event) -> None:
        if isinstance(event, Started):
            self._per_example = event.tokens_per_example
        elif isinstance(event, Stepped):
            self.done, self._step = event.done, f"step {event.step:,}"
            self._loss = event.loss if self._loss is None else SMOOTHING * self._loss + (1 - SMOOTHING) * event.loss
            self._first = self._first or (event.tokens, event.seconds)
            self._began = self._began or (time.monotonic(), event.done)
            self._speed = self._speed_of(event.tokens - self._first[0], event.seconds - self._first[1])
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            name, value = metric_name(evaluation.primary), evaluation.metrics[evaluation.primary]
            self._validation = f"validation {name} {value:.4f}"
            self._seconds_after = event.seconds_after

    def _speed_of(self, tokens: int, seconds: float) -> str:
        if seconds <= 0 or self._per_example == 0:
            return ""
        unit = "tokens" if self._per_example is None else "examples"
        return f"{tokens / (self._per_example or 1) / seconds:,.0f} {unit}/s"

    @property
    def left(self) -> str:
        """The estimated time left, with the evaluation that follows the last step; empty before the second step."""
        if self._began is None or not self._began[1] < self.done < 1:
            return ""
        began, first = self._began
        training = (time.monotonic() - began) * (1 - self.done) / (self.done - first)
        return f"{clock(training + self._seconds_after)} left"

    @property
    def text(self) -> str:
        loss = "" if self._loss is None else f"loss {self._loss:.4f}"
        return "  ".join(filter(None, (self._step, loss, self._validation, self._speed)))


def warn_of(event: Event) -> None:
    """Issue a Python warning for a `Failed` event; ignore other events. The default listener outside of notebooks."""
    if isinstance(event, Failed):
        warn(event.text)


class NotebookTraining:
    """Listener that shows a progress bar in a notebook, and one line at the end."""

    def __init__(self) -> None:
        self.area = Area()
        self.progress = TrainingProgress()
        self.what = "preparing"

    def __enter__(self) -> Self:
        return self

    def __call__(self, event: Event) -> None:
        warn_of(event)
        if isinstance(event, Noted):
            return
        self.progress.hear(event)
        if isinstance(event, Ended):
            self.progress.done, self.what = 1.0, "judging it, and writing the report"
            self.area.put(bar(1.0, self.what), self.what)
            return
        if isinstance(event, Started):
            self.what = "training"
        text = "  ".join(filter(None, (self.progress.text, self.progress.left))) or self.what
        self.area.show(lambda: bar(self.progress.done, text), text)

    def end(self, line: str) -> None:
        self.area.end(line)

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None and self.area.is_drawn:
            self.area.end(f"stopped: {self.progress.text or self.what}")
