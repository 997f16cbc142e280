"""What a trained model shows, on a few examples: in a second or two, when a training has ended or long after."""

from collections.abc import Iterator

import torch
from torch import nn

from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.finding import Finding
from glassformer.verbs.doctor.classes import collapse
from glassformer.verbs.doctor.gap import gap
from glassformer.verbs.doctor.held_out import too_small
from glassformer.verbs.doctor.measure import dead_shares, head_entropies, stuck_shares, training_loss
from glassformer.verbs.doctor.no_better import no_better
from glassformer.verbs.doctor.patient import Patient
from glassformer.verbs.doctor.units import dead_units, heads, stuck
from glassformer.verbs.prepare import Prepared


def judged_findings(
    prepared: Prepared, evaluation: Evaluation, patient: Patient, step: int
) -> Iterator[Finding | None]:
    """Of an evaluation on the validation part."""
    task = prepared.task
    noun = task.noun if isinstance(task, Labelling) else "window" if isinstance(task, LanguageModelling) else "pair"
    yield too_small(evaluation.records, noun, step)
    yield no_better(evaluation.metrics, len(evaluation.records), patient.guessing, step)
    if "confusion" in evaluation.details:
        confusion = evaluation.details["confusion"]
        yield from collapse(confusion["labels"], confusion["matrix"], step)


def inner_findings(
    model: nn.Module, prepared: Prepared, evaluation: Evaluation | None, patient: Patient, step: int
) -> Iterator[Finding | None]:
    """Of the weights that the run ends with. `evaluation`: theirs on the validation part, if there is one."""
    task = prepared.task
    model.eval()
    with torch.random.fork_rng(devices=[]):
        learned = training_loss(model, task)
        if learned is not None and evaluation is not None and "loss" in evaluation.metrics:
            yield gap(learned, evaluation.metrics["loss"], patient.guessing, step)
        yield dead_units(dead_shares(model, task), step)
        yield from heads(head_entropies(model, task), step)
        yield stuck(stuck_shares(model, task), step)
