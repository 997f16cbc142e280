"""What is wrong with a training: asked of a run, while it goes on or long after."""

import os

import torch

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.say import Say, silent
from glassformer.diagnosis.after import inner_findings, judged_findings
from glassformer.diagnosis.data import data_findings
from glassformer.diagnosis.findings import (
    OF_THE_DATA,
    OF_THE_MODEL,
    Findings,
    findings_of,
    from_the_log,
    in_a_line,
    strict,
)
from glassformer.diagnosis.listener import Doctor, replay
from glassformer.diagnosis.patient import patient_of
from glassformer.families.base import Loaded, OwnModel, Prepared
from glassformer.families.card import learned_of
from glassformer.families.load import load
from glassformer.families.prepare import prepare_again
from glassformer.runs.run import Run
from glassformer.training.device import choose_device
from glassformer.training.finding import Finding

ENDED = ("finished", "stopped early")


def doctor(
    run: "str | os.PathLike[str] | Run | Loaded",
    *,
    model: OwnModel | None = None,
    device: str = "auto",
    say: Say = silent,
) -> Findings:
    """What a run's log, its data and its weights show. Where data or weights are not there, what was logged of them.

    `model`: a person's own, which a run does not hold.
    """
    choose_device(device)  # what is no device is refused, not taken for a model that cannot be looked at
    known = run if isinstance(run, Loaded) else None
    run = run if isinstance(run, Run) else Run.open(run)
    lines, card = run.read_metrics(), run.card()
    if "imported" in card:
        raise Misuse(
            f"{run.path} was imported: there is no training to look at; glassformer check {run.path} looks at it"
        )
    physician, found = replay(patient_of(run.config(), card), lines)
    ended = card.get("status") in ENDED
    if ended:
        found += physician.end()
    looked, missing = from_the_log(physician.story, physician.patient, ended=ended), ""
    try:
        prepared = prepare_again(run)
    except GlassformerError as error:
        found += _told(physician, lines)
        return findings_of(run.path.name, found, looked, f"data and model, but for what the log tells of them: {error}")
    looked += OF_THE_DATA
    found += physician.new(data_findings(run.config(), prepared, learned_of(card)))
    try:
        loaded = known or load(run, device, model=model)
        say("looking at the model on a few examples")
        found += _of_model(physician, loaded, prepared)
        looked += OF_THE_MODEL
    except Exception as error:  # a person's own model may fail in any way
        if strict() and not isinstance(error, GlassformerError):
            raise
        why = str(error) if isinstance(error, GlassformerError) else in_a_line(error)
        missing = f"the model, but for what the log tells of it: {why}"
        found += _told(physician, lines)
    return findings_of(run.path.name, found, looked, missing)


def _of_model(physician: Doctor, loaded: Loaded, prepared: Prepared) -> list[Finding]:
    step, evaluation, found = physician.story.step, None, []
    if "validation" in prepared.tokens:
        with torch.inference_mode():
            evaluation = prepared.task.evaluate(
                loaded.model, "validation", most=loaded.config.training.validation_tokens
            )
        found = physician.new(judged_findings(prepared, evaluation, physician.patient, step))
    return found + physician.new(inner_findings(loaded.model, prepared, evaluation, physician.patient, step))


def _told(physician: Doctor, lines: list[dict[str, object]]) -> list[Finding]:
    """What the log tells of the end, where it cannot be looked at again."""
    return physician.new(Finding.of(line) for line in lines if line.get("event") == "finding" and line.get("end"))
