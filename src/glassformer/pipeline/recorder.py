"""The log of a training: metrics.jsonl, samples on the way, and what a doctor finds in it."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from glassformer.config.errors import error_line, is_strict
from glassformer.config.resolve import Config
from glassformer.diagnosis.advice import training_facts
from glassformer.diagnosis.doctor import UNSEEN, Doctor
from glassformer.diagnosis.layers import training_loss
from glassformer.families.base import FAMILIES, Prepared
from glassformer.pipeline.loggers import Loggers
from glassformer.runs.files import write_text
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.training import events


@dataclass(eq=False)
class Recorder:
    """Writes metrics.jsonl and samples, tells loggers and a doctor of each line, and passes every event on."""

    run: Run
    model: nn.Module
    prepared: Prepared
    config: Config
    listen: events.Listener
    loggers: Loggers
    doctor: Doctor | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)
    flushed: float = field(default_factory=time.monotonic)

    def __call__(self, event: events.Event) -> None:
        self.listen(event)
        if isinstance(event, events.Stepped):
            measured = {name: value for name, value in asdict(event).items() if value is not None or name != "layers"}
            self._log({"event": "step", **measured})
        elif isinstance(event, events.Validated):
            numbers = {"step": event.step, "best": event.best, **event.evaluation.metrics, **self._training_loss()}
            self._log({"event": "validation", **numbers})
            family, samples = FAMILIES[self.config.task], self.config.training.samples
            text = family.training_sample(self.model, self.prepared, event.evaluation, event.step) if samples else None
            if text is not None:
                self.lines.append({"event": "sample", "step": event.step, "text": text})
                self.listen(events.Sampled(event.step, text))
        elif isinstance(event, events.Diverged) and self.doctor is not None:
            self._note(self.doctor.diverged(event))  # the error that ends the training says it aloud
        if isinstance(event, events.Ended | events.Diverged) or time.monotonic() - self.flushed > 1:
            self.flush()

    def _training_loss(self) -> dict[str, float]:
        """With label smoothing, that of some training examples without it, which can be compared with validation's."""
        if not self.prepared.task.smoothing:
            return {}
        self.model.eval()
        loss = training_loss(self.model, self.prepared.task)
        return {} if loss is None else {"training_loss": loss}

    def _log(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.doctor is not None:
            self.tell(self.doctor.hear(line))

    def tell(self, findings: Iterable[events.Finding], *, end: bool = False) -> None:
        """`end`: of a training that is over; if it goes on, they are forgotten."""
        for finding in self._note(findings, end=end):
            self.listen(events.FindingReported(finding))

    def _note(self, findings: Iterable[events.Finding], *, end: bool = False) -> list[events.Finding]:
        noted = list(findings)
        self.lines += [{"event": "finding", **finding.to_dict(), **({"end": True} if end else {})} for finding in noted]
        return noted

    def flush(self) -> None:
        self.run.add_metrics(*self.lines)
        self.loggers.add(self.lines)
        self.lines, self.flushed = [], time.monotonic()

    def begin_diagnosis(self) -> None:
        """Let a doctor read the log so far and hear all that is logged from now on; report what the data shows."""
        lines = self.run.read_metrics()
        kept = [line for line in lines if not line.get("end")]
        if len(kept) < len(lines):  # a training that goes on has not ended: what was found at its end may be so no more
            write_text(self.run.metrics_path, "".join(json.dumps(line) + "\n" for line in kept))
        self.doctor = Doctor(training_facts(self.config, self.run.card()))
        self.doctor.take_up(kept)
        if not self.doctor.log.step:
            self.tell(self.doctor.look_at_data(self.prepared))

    def conclude_diagnosis(self, model: nn.Module | None, evaluation: Evaluation | None) -> None:
        """Report what shows at the end. `model`: with the weights that are kept; None: it is not looked at.

        `evaluation`: theirs on the validation part, if there is one. A training that is done does not fail for its
        sake: what is wrong is said.
        """
        doctor = self.doctor
        assert doctor is not None
        self.tell(doctor.end(), end=True)
        if evaluation is not None:
            self.tell(doctor.look_at_evaluation(self.prepared, evaluation), end=True)
        if model is not None:
            try:
                findings = doctor.look_at_model(model, self.prepared, evaluation)
            except Exception as error:
                if is_strict():
                    raise
                why = error_line(error)
                self.lines.append({"event": UNSEEN, "why": f"the model: {why}", "end": True})
                self.listen(events.Noted(f"the doctor could not look at the model: {why}"))
            else:
                self.tell(findings, end=True)
        self.flush()
