"""The doctor at work: hears the lines of a log, looks at data and model, and says what they show, each thing once."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import nn

from glassformer.config.errors import GlassformerError, error_line
from glassformer.config.say import Say
from glassformer.diagnosis.data import data_findings
from glassformer.diagnosis.evaluation import evaluation_findings, model_findings
from glassformer.diagnosis.facts import Line, TrainingFacts, TrainingLog, training_facts
from glassformer.diagnosis.findings import (
    OF_THE_DATA,
    OF_THE_MODEL,
    Findings,
    findings_view,
    is_strict,
    visible_in_log,
)
from glassformer.diagnosis.gradients import clipped_gradients, learning_rate_too_low, vanishing_gradients
from glassformer.diagnosis.loss import (
    divergence,
    first_loss,
    flat_loss,
    learning_rate_too_high,
    missing_causal_mask,
    too_good_loss,
)
from glassformer.diagnosis.overfitting import overfitting, stopped_too_early
from glassformer.families.base import Loaded, Prepared
from glassformer.families.card import learned_of
from glassformer.families.prepare import prepare_again
from glassformer.runs.run import DONE, Run
from glassformer.tasks.base import Evaluation
from glassformer.training.events import Diverged
from glassformer.training.finding import Finding

A_THIRD = 1 / 3
"""Of the budget: by then a loss that falls at all has fallen."""


class Doctor:
    """Its findings follow from the log alone: a run that goes on finds the same as one that was never interrupted."""

    def __init__(self, facts: TrainingFacts) -> None:
        self.facts = facts
        self.log = TrainingLog()
        self.told: set[str] = set()
        """Kinds of findings that were told."""
        self._judged_flat = False

    def take_up(self, lines: Iterable[Line]) -> None:
        """Go on after these lines of the log."""
        for line in lines:
            if line.get("event") == "finding":
                self.told.add(line["kind"])
            else:
                self.log.add(line)
        self._judged_flat = bool(self.log.done) and self.log.done[-1] >= A_THIRD

    # --- what the log shows ---

    def hear(self, line: Line) -> list[Finding]:
        """One more line, and what it shows."""
        self.log.add(line)
        if line.get("event") == "step":
            return self.new(self._after_step(line))
        return self.new(self._after_validation()) if line.get("event") == "validation" else []

    def diverged(self, event: Diverged) -> list[Finding]:
        return self.new([divergence(event, self.facts.advise)])

    def end(self) -> list[Finding]:
        """What shows only when the budget is spent."""
        log, advise = self.log, self.facts.advise
        slow = learning_rate_too_low(log.layers, advise, log.step)
        return self.new([slow, stopped_too_early(log.validations, self.facts.guessing, advise, log.step)])

    def _after_step(self, line: Line) -> Iterator[Finding | None]:
        log, facts, advise = self.log, self.facts, self.facts.advise
        if line["step"] == 1:
            if not facts.causal:
                yield missing_causal_mask(1)
            if facts.guessing is not None and facts.judges_first:
                squared = facts.family.squared_loss
                yield first_loss(line["loss"], facts.guessing, facts.guess, advise, squared=squared)
        if line.get("layers"):
            yield vanishing_gradients(log.layers, advise, line["step"])
        if not self._judged_flat and line.get("done", 0.0) >= A_THIRD:
            self._judged_flat = True
            yield flat_loss(log.losses, line["done"], advise)

    def _after_validation(self) -> Iterator[Finding | None]:
        log, facts, advise, family = self.log, self.facts, self.facts.advise, self.facts.family
        yield learning_rate_too_high(log.losses, advise, log.step)
        yield clipped_gradients(log.norms, advise.config.training.grad_clip, advise, log.step)
        yield overfitting(
            log.validations,
            family.primary,
            advise,
            lower=family.lower_is_better,
            guessing=facts.guessing,
            step=log.step,
        )
        if "bits_per_byte" in log.validations[-1]:
            yield too_good_loss(log.validations[-1]["bits_per_byte"], advise, log.step)

    # --- what data and model show ---

    def look_at_data(self, prepared: Prepared, parameters: int) -> list[Finding]:
        """`parameters`: how many are learned."""
        return self.new(data_findings(self.facts.family, prepared, parameters, self.facts.advise))

    def look_at_evaluation(self, prepared: Prepared, evaluation: Evaluation) -> list[Finding]:
        """`evaluation`: on the validation part."""
        return self.new(evaluation_findings(self.facts.family, prepared, evaluation, self.facts, self.log.step))

    def look_at_model(self, model: nn.Module, prepared: Prepared, evaluation: Evaluation | None) -> list[Finding]:
        return self.new(model_findings(model, prepared, evaluation, self.facts, self.log.step))

    def new(self, findings: Iterable[Finding | None]) -> list[Finding]:
        """Those of a kind that was not told yet."""
        out = []
        for finding in findings:
            if finding is not None and finding.kind not in self.told:
                self.told.add(finding.kind)
                out.append(finding)
        return out


def replay(facts: TrainingFacts, lines: Sequence[Line]) -> tuple[Doctor, list[Finding]]:
    """A doctor who has heard the whole log, and what it shows: as it was told then, and what else is found now."""
    told = [Finding.of(line) for line in lines if line.get("event") == "finding" and not line.get("end")]
    doctor = Doctor(facts)
    doctor.told = {finding.kind for finding in told}
    again = [finding for line in lines if line.get("event") != "finding" for finding in doctor.hear(line)]
    return doctor, [*told, *again]


def diagnose(run: Run, load_model: Callable[[], Loaded], say: Say) -> Findings:
    """What a run's log, its data and its weights show. Where data or weights are not there, what was logged of them."""
    lines, card, name = run.read_metrics(), run.card(), run.path.name
    at_end = [Finding.of(line) for line in lines if line.get("event") == "finding" and line.get("end")]
    doctor, findings = replay(training_facts(run.config(), card), lines)
    ended = card.get("status") in DONE
    if ended:
        findings += doctor.end()
    looked = visible_in_log(doctor.log, doctor.facts, ended=ended)
    try:
        prepared = prepare_again(run)
    except GlassformerError as error:
        findings += doctor.new(at_end)
        return findings_view(name, findings, looked, f"data and model, but for what the log tells of them: {error}")
    looked += OF_THE_DATA
    findings += doctor.look_at_data(prepared, learned_of(card))
    missing = ""
    try:
        loaded = load_model()
        say("looking at the model on a few examples")
        findings += _look_at_loaded(doctor, loaded, prepared)
        looked += OF_THE_MODEL
    except Exception as error:  # a person's own model may fail in any way
        if is_strict() and not isinstance(error, GlassformerError):
            raise
        why = str(error) if isinstance(error, GlassformerError) else error_line(error)
        missing = f"the model, but for what the log tells of it: {why}"
        findings += doctor.new(at_end)
    return findings_view(name, findings, looked, missing)


def _look_at_loaded(doctor: Doctor, loaded: Loaded, prepared: Prepared) -> list[Finding]:
    evaluation, findings = None, []
    if "validation" in prepared.tokens:
        most = loaded.config.training.validation_tokens
        with torch.inference_mode():
            evaluation = prepared.task.evaluate(loaded.model, "validation", most=most)
        findings = doctor.look_at_evaluation(prepared, evaluation)
    return findings + doctor.look_at_model(loaded.model, prepared, evaluation)
