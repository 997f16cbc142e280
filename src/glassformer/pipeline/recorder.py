"""The log of a training: metrics.jsonl, samples on the way, and what is found in it."""

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Protocol

from torch import nn

from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Prepared
from glassformer.runs.run import Run
from glassformer.training.events import Broke, Ended, Event, Found, Listener, Sampled, Stepped, Validated
from glassformer.training.finding import Finding


class Observer(Protocol):
    """Who reads the log as it is written, and finds something in it."""

    def hear(self, line: dict[str, Any]) -> list[Finding]: ...
    def broke(self, event: Broke) -> list[Finding]: ...


class Recorder:
    """Writes metrics.jsonl and samples, tells an observer of each line, if there is one, and passes every event on."""

    def __init__(self, run: Run, model: nn.Module, prepared: Prepared, config: Config, listen: Listener) -> None:
        self.run = run
        self.model = model
        self.prepared = prepared
        self.config = config
        self.listen = listen
        self.observer: Observer | None = None
        self.lines: list[dict[str, Any]] = []
        self.flushed = time.monotonic()

    def __call__(self, event: Event) -> None:
        self.listen(event)
        if isinstance(event, Stepped):
            measured = {name: value for name, value in asdict(event).items() if value is not None or name != "layers"}
            self._log({"event": "step", **measured})
        elif isinstance(event, Validated):
            self._log({"event": "validation", "step": event.step, "best": event.best, **event.evaluation.metrics})
            if (text := self._sample(event)) is not None:
                self.lines.append({"event": "sample", "step": event.step, "text": text})
                self.listen(Sampled(event.step, text))
        elif isinstance(event, Broke) and self.observer is not None:
            self._note(self.observer.broke(event))  # the error that ends the training says it aloud
        if isinstance(event, Ended | Broke) or time.monotonic() - self.flushed > 1:
            self.flush()

    def _log(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.observer is not None:
            self.tell(self.observer.hear(line))

    def tell(self, findings: Iterable[Finding], *, end: bool = False) -> None:
        """`end`: of a training that is over; if it goes on, they are forgotten."""
        for finding in self._note(findings, end=end):
            self.listen(Found(finding))

    def _note(self, findings: Iterable[Finding], *, end: bool = False) -> list[Finding]:
        noted = list(findings)
        self.lines += [{"event": "finding", **one.to_dict(), **({"end": True} if end else {})} for one in noted]
        return noted

    def _sample(self, event: Validated) -> str | None:
        if not self.config.training.samples:
            return None
        family = FAMILIES[self.config.task]
        return family.training_sample(self.model, self.prepared, event.evaluation, event.step)

    def flush(self) -> None:
        self.run.add_metrics(*self.lines)
        self.lines, self.flushed = [], time.monotonic()
