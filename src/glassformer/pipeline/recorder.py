"""The log of a training run: metrics.jsonl, samples and findings of the doctor."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from torch import nn

from glassformer.config.errors import error_line, is_strict
from glassformer.config.json_types import JsonObject
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
    """Listener that writes metrics.jsonl, sends each line to loggers and the doctor, and passes every event on."""

    run: Run
    model: nn.Module
    prepared: Prepared
    config: Config
    listen: events.Listener
    loggers: Loggers
    doctor: Doctor | None = None
    lines: list[JsonObject] = field(default_factory=list)
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
            self._note(self.doctor.diverged(event))  # the error that ends training reports it
        if isinstance(event, events.Ended | events.Diverged) or time.monotonic() - self.flushed > 1:
            self.flush()

    def _training_loss(self) -> dict[str, float]:
        """Return the training loss without label smoothing, which compares with the validation loss.

        The result is empty if training uses no label smoothing, or if there are no examples.
        """
        if not self.prepared.task.smoothing:
            return {}
        self.model.eval()
        loss = training_loss(self.model, self.prepared.task)
        return {} if loss is None else {"training_loss": loss}

    def _log(self, line: JsonObject) -> None:
        self.lines.append(line)
        if self.doctor is not None:
            self.tell(self.doctor.hear(line))

    def tell(self, findings: Iterable[events.Finding], *, end: bool = False) -> None:
        """Log and report findings. `end`: findings at the end, which are deleted if the run is resumed."""
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
        """Give the doctor the log so far and all later lines; report findings about the data."""
        lines = self.run.read_metrics()
        kept = [line for line in lines if not line.get("end")]
        if len(kept) < len(lines):  # findings at the end of a run are outdated when it is resumed
            write_text(self.run.metrics_path, "".join(json.dumps(line) + "\n" for line in kept))
        self.doctor = Doctor(training_facts(self.config, self.run.card()))
        self.doctor.take_up(kept)
        if not self.doctor.log.step:
            self.tell(self.doctor.look_at_data(self.prepared))

    def conclude_diagnosis(self, model: nn.Module | None, evaluation: Evaluation | None) -> None:
        """Report findings at the end. An error of a check is reported, but does not fail the run.

        `model`: has the weights that are kept; None: it is not examined. `evaluation`: its validation scores, if any.
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
