"""The doctor: applies the checks to the log, the data and the model, and reports each kind of finding once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from glassformer.config.errors import GlassformerError, error_line, is_strict
from glassformer.config.messages import say
from glassformer.config.presets import NUMBER
from glassformer.data.wording import counted
from glassformer.diagnosis import layers, loss
from glassformer.diagnosis.advice import Findings as Checks
from glassformer.diagnosis.advice import TrainingFacts, training_facts
from glassformer.diagnosis.data import data_findings
from glassformer.diagnosis.evaluation import evaluation_findings, model_findings
from glassformer.families.base import Loaded, Prepared
from glassformer.families.build import prepare_again
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import View
from glassformer.runs.files import SEVERITIES
from glassformer.runs.run import DONE, Run
from glassformer.tasks.base import Evaluation
from glassformer.training.events import Diverged, Finding

A_THIRD = 1 / 3
"""Part of the budget after which the training loss should have decreased."""
OF_THE_DATA = "unknown and cut tokens, the sizes of the classes"
OF_VALIDATION = "the validation set: enough of it, every class predicted, better than guessing, the gap to training"
OF_THE_MODEL = "dead units, heads, states and gates"
"""Names of the checks that need the data, a validation set, or the model."""

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


@dataclass
class TrainingLog:
    """The log of a training run, on which checks are made during the run or later."""

    step: int = 0
    """The last step."""
    losses: list[float] = field(default_factory=list)
    done: float = 0.0
    """Part of the budget that was spent before the last step, 0 to 1."""
    layers: list[dict[str, dict[str, float]]] = field(default_factory=list)
    """Sizes of gradients, weights and updates by layer, for each step at which they were measured."""
    validations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        if line.get("event") == "step":
            self.step = line["step"]
            self.losses.append(line["loss"])
            self.done = max(self.done, line["done"])
            if line.get("layers"):
                self.layers.append(line["layers"])
        elif line.get("event") == "validation":
            self.validations.append(dict(line))


def visible_in_log(log: TrainingLog, facts: TrainingFacts, *, ended: bool) -> list[str]:
    """Return the names of the checks for which the log is long enough. `ended`: the run has finished."""
    there = {
        "the first loss against that of guessing": bool(log.losses) and facts.judges_first,
        "whether the loss falls": len(log.losses) >= loss.ENOUGH_UPDATES,
        "whether the loss jumps": len(log.losses) >= 2 * loss.BEFORE,
        "the gradient of every layer that learns": len(log.layers) >= layers.MIN_MEASURED_STEPS,
        "validation after its best": len(log.validations) > loss.AFTER and can_overfit(log.step, facts),
        "whether it was still falling at the end": ended and len(log.validations) > 1,
    }
    return [what for what, enough in there.items() if enough]


def can_overfit(step: int, facts: TrainingFacts) -> bool:
    """Return whether there were enough updates for overfitting, which takes at least one epoch."""
    return step >= max(loss.ENOUGH_UPDATES, facts.steps_per_epoch)


class Doctor:
    """The checks of one training run, with its log so far and the kinds of findings that were reported.

    During training, findings follow from the log alone, so a resumed run has the same ones as an uninterrupted run.
    """

    def __init__(self, facts: TrainingFacts) -> None:
        self.facts = facts
        self.log = TrainingLog()
        self.told: set[str] = set()
        """Kinds of findings that were reported."""

    def take_up(self, lines: Iterable[Line]) -> None:
        """Continue after these lines of the log, whose findings are not reported again."""
        for line in lines:
            if line.get("event") == "finding":
                self.told.add(line["kind"])
            else:
                self.log.add(line)

    # --- checks of the log ---

    def hear(self, line: Line) -> list[Finding]:
        """Add a line of the log and return new findings."""
        earlier = self.log.done
        self.log.add(line)
        if line.get("event") == "step":
            return self.new(self._after_step(line, earlier), self.log.step)
        return self.new(self._after_validation(), self.log.step) if line.get("event") == "validation" else []

    def diverged(self, event: Diverged) -> list[Finding]:
        return self.new([loss.divergence(event, self.facts.advise)], event.batch)

    def end(self) -> list[Finding]:
        """Return new findings of checks that need the whole log."""
        log, advise = self.log, self.facts.advise
        too_early = loss.stopped_too_early(log.validations, self.facts.guessing, advise, log.step)
        return self.new([layers.learning_rate_too_low(log.layers, advise), too_early], log.step)

    def _after_step(self, line: Line, earlier: float) -> Checks:
        """Yield findings after a step. `earlier`: part of the budget that was spent before the preceding step."""
        log, facts, advise = self.log, self.facts, self.facts.advise
        if line["step"] == 1:
            if not advise.config.model.causal_mask and advise.config.idle("model.causal_mask") is None:
                yield loss.missing_causal_mask(advise)
            if facts.guessing is not None and facts.judges_first:
                squared = facts.family.label_kind == NUMBER
                yield loss.first_loss(line["loss"], facts.guessing, facts.guess, advise, squared=squared)
        if line.get("layers"):
            yield layers.vanishing_gradients(log.layers, advise)
        if earlier < A_THIRD <= log.done:
            yield loss.flat_loss(log.losses, line["done"], advise)

    def _after_validation(self) -> Checks:
        log, facts, advise = self.log, self.facts, self.facts.advise
        yield loss.learning_rate_too_high(log.losses, advise)
        if can_overfit(log.step, facts):
            primary, lower = facts.family.selection(advise.config)
            yield loss.overfitting(log.validations, primary, advise, lower=lower, guessing=facts.guessing)
        if "bits_per_byte" in log.validations[-1]:
            yield loss.too_good_loss(log.validations[-1]["bits_per_byte"], advise)

    # --- checks of the data and the model ---

    def look_at_data(self, prepared: Prepared) -> list[Finding]:
        return self.new(data_findings(self.facts.family, prepared, self.facts.advise), step=0)

    def look_at_evaluation(self, prepared: Prepared, evaluation: Evaluation) -> list[Finding]:
        """Return new findings on an evaluation of the validation set."""
        findings = evaluation_findings(self.facts.family, prepared, evaluation, self.facts)
        return self.new(findings, self.log.step)

    def look_at_model(self, model: nn.Module, prepared: Prepared, evaluation: Evaluation | None) -> list[Finding]:
        return self.new(model_findings(model, prepared, evaluation, self.facts), self.log.step)

    def new(self, findings: Iterable[Finding | None], step: int | None) -> list[Finding]:
        """Return the findings of kinds that were not reported yet.

        `step`: the step to store in them; None: they already have one.
        """
        out = []
        for finding in findings:
            if finding is not None and finding.kind not in self.told:
                self.told.add(finding.kind)
                out.append(finding if step is None else replace(finding, step=step))
        return out


# --- all findings ---

UNSEEN = "not looked at"
"""Event of the log line with the reason why checks were skipped."""


@dataclass(frozen=True)
class Findings(View):
    """The doctor's findings about a run, the worst first."""

    findings: Sequence[Finding] = ()
    looked: Sequence[str] = ()
    """Names of the checks that were made."""
    missing: str = ""
    """The skipped checks and the reason; empty if none was skipped."""

    def to_dict(self) -> dict[str, Any]:
        view = super().to_dict()
        del view["panels"]
        findings = [finding.to_dict() for finding in self.findings]
        return {**view, "findings": findings, "looked": list(self.looked), "missing": self.missing}


def findings_view(name: str, findings: Iterable[Finding], looked: Sequence[str], missing: str = "") -> Findings:
    ordered = _worst_first(findings)
    at = ("; ".join(looked) or "nothing") + "." + (f" Not looked at: {missing}" if missing else "")
    return Findings(
        title=f"{name}: what the doctor found",
        panels=[findings_panel(ordered, missing), Words(title="Looked at", text=at)],
        note=summary(ordered, missing),
        about=name,
        findings=tuple(ordered),
        looked=tuple(looked),
        missing=missing,
    )


def summary(findings: Sequence[Finding], missing: str = "") -> str:
    """Return the number of findings by severity as text.

    `missing`: the skipped checks and the reason, in which case a run without findings is not called healthy.
    """
    if not findings and missing:
        return f"Nothing found in what was looked at. Not looked at: {missing}"
    if not findings:
        return "Nothing found: as far as these checks go, the training is healthy."
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}
    return ", ".join(counted(count, name) for name, count in counts.items() if count) + "."


def findings_panel(findings: Sequence[Finding], missing: str = "") -> Panel:
    """Return a table of the findings, or the summary if there are none."""
    title = "What the doctor found"
    if not findings:
        return Words(title=title, text=summary(findings, missing))
    return Table(
        title=title,
        columns=["how bad", "step", "what", "try"],
        rows=[[finding.severity, finding.step, finding.words, finding.advice] for finding in findings],
    )


def logged_panel(metrics: Sequence[Mapping[str, Any]]) -> Panel:
    """Return a panel with the findings in a run's log, for its report."""
    findings = [Finding.of(line) for line in metrics if line.get("event") == "finding"]
    missing = next((line["why"] for line in metrics if line.get("event") == UNSEEN), "")
    return findings_panel(_worst_first(findings), missing)


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.step))


# --- a run ---


def diagnose(run: Run, load_model: Callable[[], Loaded]) -> Findings:
    """Return findings about a run from its log, its data and its weights.

    If the data or the weights cannot be used, the findings about them are taken from the log.
    """
    lines, card, name = run.read_metrics(), run.card(), run.path.name
    logged = [line for line in lines if line.get("event") == "finding"]
    at_end = [Finding.of(line) for line in logged if line.get("end")]
    findings = [Finding.of(line) for line in logged if not line.get("end")]
    doctor = Doctor(training_facts(run.config(), card))
    doctor.told = {finding.kind for finding in findings}
    for line in lines:
        findings += doctor.hear(line)
    ended = card.get("status") in DONE
    if ended:
        findings += doctor.end()
    looked = visible_in_log(doctor.log, doctor.facts, ended=ended)
    try:
        prepared = prepare_again(run)
    except GlassformerError as error:
        findings += doctor.new(at_end, step=None)
        return findings_view(name, findings, looked, f"data and model, but for what the log tells of them: {error}")
    looked.append(OF_THE_DATA)
    findings += doctor.look_at_data(prepared)
    missing = ""
    try:
        loaded = load_model()
        say("looking at the model on a few examples")
        findings += _look_at_loaded(doctor, loaded, prepared)
        looked += [OF_VALIDATION, OF_THE_MODEL] if "validation" in prepared.tokens else [OF_THE_MODEL]
    except Exception as error:  # a user's own model may raise any exception
        if is_strict() and not isinstance(error, GlassformerError):
            raise
        why = str(error) if isinstance(error, GlassformerError) else error_line(error)
        missing = f"the model, but for what the log tells of it: {why}"
        findings += doctor.new(at_end, step=None)
    return findings_view(name, findings, looked, missing)


def _look_at_loaded(doctor: Doctor, loaded: Loaded, prepared: Prepared) -> list[Finding]:
    evaluation, findings = None, []
    if "validation" in prepared.tokens:
        with torch.inference_mode():
            most = loaded.config.training.validation_tokens
            evaluation = prepared.task.evaluate(loaded.model, "validation", most=most)
        findings = doctor.look_at_evaluation(prepared, evaluation)
    return findings + doctor.look_at_model(loaded.model, prepared, evaluation)
