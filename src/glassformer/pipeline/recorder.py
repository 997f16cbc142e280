"""The log of a training: metrics.jsonl, samples on the way, and what the doctor finds in it."""

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from torch import nn

from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.diagnosis.listener import Doctor
from glassformer.families.base import Prepared
from glassformer.families.generate import Writer
from glassformer.models.language_model import LanguageModel
from glassformer.runs.run import Run
from glassformer.training.events import Broke, Ended, Event, Found, Listener, Sampled, Stepped, Validated
from glassformer.training.finding import Finding


class Recorder:
    """Writes metrics.jsonl and samples, asks the doctor, if there is one, and passes every event on."""

    def __init__(self, run: Run, model: nn.Module, prepared: Prepared, config: Config, listen: Listener) -> None:
        self.run = run
        self.writer = None
        if config.training.samples and isinstance(model, LanguageModel):
            assert prepared.tokenizer is not None
            if prepared.tokenizer.start is not None:  # samples begin with START
                self.writer = Writer(model, prepared.tokenizer)
        self.translations = config.training.samples and config.task == TRANSLATION
        self.listen = listen
        self.doctor: Doctor | None = None
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
        elif isinstance(event, Broke) and self.doctor is not None:
            self._note(self.doctor.broke(event))  # the error that ends the training says it aloud
        if isinstance(event, Ended | Broke) or time.monotonic() - self.flushed > 1:
            self.flush()

    def _log(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.doctor is not None:
            self.tell(self.doctor.hear(line))

    def tell(self, findings: Iterable[Finding], *, end: bool = False) -> None:
        """`end`: of a training that is over; if it goes on, they are forgotten."""
        for finding in self._note(findings, end=end):
            self.listen(Found(finding))

    def _note(self, findings: Iterable[Finding], *, end: bool = False) -> list[Finding]:
        noted = list(findings)
        self.lines += [{"event": "finding", **one.to_dict(), **({"end": True} if end else {})} for one in noted]
        return noted

    def _sample(self, event: Validated) -> str | None:
        """What the model writes by now, or how it translates one of the sources held out."""
        if self.writer is not None:
            return self.writer.generate(tokens=60, temperature=0.8, seed=event.step)
        if not self.translations:
            return None
        record = event.evaluation.records[event.step % len(event.evaluation.records)]
        right = "" if record["exact"] else f"   ({record['target']})"
        return f"{record['source']} → {record['output']}{right}"

    def flush(self) -> None:
        self.run.add_metrics(*self.lines)
        self.lines, self.flushed = [], time.monotonic()
