"""The doctor beside a training: called in before the first update, and asked once more when it has ended."""

import json

from torch import nn

from glassformer.config.errors import error_line
from glassformer.config.resolve import Config
from glassformer.diagnosis.advice import training_facts
from glassformer.diagnosis.doctor import Doctor
from glassformer.diagnosis.findings import UNSEEN, is_strict
from glassformer.families.base import Prepared
from glassformer.pipeline.recorder import Recorder
from glassformer.runs.files import write_text
from glassformer.tasks.base import Evaluation
from glassformer.training.events import Noted


class TrainingDoctor:
    """A doctor who knows the log so far, and hears from now on all that is logged."""

    def __init__(self, recorder: Recorder, config: Config, prepared: Prepared) -> None:
        self.recorder, self.prepared = recorder, prepared
        self.doctor = Doctor(training_facts(config, recorder.run.card()))

    def begin(self, parameters: int) -> None:
        """The log so far is read, and what the data shows is told."""
        run = self.recorder.run
        lines = run.read_metrics()
        kept = [line for line in lines if not line.get("end")]
        if len(kept) < len(lines):  # a training that goes on has not ended: what was found at its end may be so no more
            write_text(run.metrics_path, "".join(json.dumps(line) + "\n" for line in kept))
        self.recorder.observer = self.doctor
        self.doctor.take_up(kept)
        if not self.doctor.log.step:
            self.recorder.tell(self.doctor.look_at_data(self.prepared, parameters))

    def conclude(self, model: nn.Module | None, evaluation: Evaluation | None) -> None:
        """What shows at the end. `model`: with the weights that are kept; None: it is not looked at. `evaluation`:
        theirs on the validation part, if there is one.

        A training that is done does not fail for its sake: what is wrong is said.
        """
        recorder, doctor, prepared = self.recorder, self.doctor, self.prepared
        recorder.tell(doctor.end(), end=True)
        if evaluation is not None:
            recorder.tell(doctor.look_at_evaluation(prepared, evaluation), end=True)
        if model is not None:
            try:
                findings = doctor.look_at_model(model, prepared, evaluation)
            except Exception as error:
                if is_strict():
                    raise
                why = error_line(error)
                recorder.lines.append({"event": UNSEEN, "why": f"the model: {why}", "end": True})
                recorder.listen(Noted(f"the doctor could not look at the model: {why}"))
            else:
                recorder.tell(findings, end=True)
        recorder.flush()
