"""The doctor at work: hears the lines of a log, and says what they show, each thing once."""

from collections.abc import Iterable, Iterator, Sequence

from glassformer.diagnosis.broken import not_finite
from glassformer.diagnosis.first_loss import first_loss, reads_its_answer, too_good
from glassformer.diagnosis.flat import flat
from glassformer.diagnosis.gap import rising, still_falling
from glassformer.diagnosis.gradients import clipped, vanishing
from glassformer.diagnosis.patient import Patient
from glassformer.diagnosis.rate import too_high, too_low
from glassformer.diagnosis.story import Line, Story
from glassformer.training.events import Broke
from glassformer.training.finding import Finding

A_THIRD = 1 / 3
"""Of the budget: by then a loss that falls at all has fallen."""

Maybe = Iterable[Finding | None]


class Doctor:
    """Its findings follow from the log alone: a run that goes on finds the same as one that was never interrupted."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.story = Story()
        self.said: set[str] = set()
        """Kinds of findings that were told."""
        self._judged_flat = False

    def take_up(self, lines: Iterable[Line]) -> None:
        """Go on after these lines of the log."""
        for line in lines:
            if line.get("event") == "finding":
                self.said.add(line["kind"])
            else:
                self.story.hear(line)
        self._judged_flat = bool(self.story.done) and self.story.done[-1] >= A_THIRD

    def hear(self, line: Line) -> list[Finding]:
        """One more line, and what it shows."""
        self.story.hear(line)
        if line.get("event") == "step":
            return self.new(self._after_step(line))
        return self.new(self._after_validation()) if line.get("event") == "validation" else []

    def broke(self, event: Broke) -> list[Finding]:
        return self.new([not_finite(event, self.patient.advise)])

    def end(self) -> list[Finding]:
        """What shows only when the budget is spent."""
        story, advise = self.story, self.patient.advise
        slow = too_low(story.layers, advise, story.step)
        return self.new([slow, still_falling(story.validations, self.patient.guessing, advise, story.step)])

    def new(self, found: Maybe) -> list[Finding]:
        """Those of a kind that was not told yet."""
        out = []
        for finding in found:
            if finding is not None and finding.kind not in self.said:
                self.said.add(finding.kind)
                out.append(finding)
        return out

    def _after_step(self, line: Line) -> Iterator[Finding | None]:
        story, patient = self.story, self.patient
        if line["step"] == 1:
            if not patient.masked:
                yield reads_its_answer(1)
            if patient.guessing is not None and patient.judges_first:
                yield first_loss(line["loss"], patient.guessing, patient.guess, patient.advise, numbers=patient.numbers)
        if line.get("layers"):
            yield vanishing(story.layers, patient.advise, line["step"])
        if not self._judged_flat and line.get("done", 0.0) >= A_THIRD:
            self._judged_flat = True
            yield flat(story.losses, line["done"], patient.advise)

    def _after_validation(self) -> Iterator[Finding | None]:
        story, patient, advise = self.story, self.patient, self.patient.advise
        yield too_high(story.losses, advise, story.step)
        yield clipped(story.norms, advise.config.training.grad_clip, advise, story.step)
        yield rising(
            story.validations, patient.primary, advise, lower=patient.lower, guessing=patient.guessing, step=story.step
        )
        if "bits_per_byte" in story.validations[-1]:
            yield too_good(story.validations[-1]["bits_per_byte"], advise, story.step)


def replay(patient: Patient, lines: Sequence[Line]) -> tuple[Doctor, list[Finding]]:
    """A doctor who has heard the whole log, and what it shows: as it was told then, and what else is found now."""
    told = [Finding.of(line) for line in lines if line.get("event") == "finding" and not line.get("end")]
    doctor = Doctor(patient)
    doctor.said = {finding.kind for finding in told}
    again = [finding for line in lines if line.get("event") != "finding" for finding in doctor.hear(line)]
    return doctor, [*told, *again]
