"""What a trained model shows, on a few examples: in a second or two, when a training has ended or long after."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from glassformer.diagnosis.classes import collapse
from glassformer.diagnosis.gap import gap
from glassformer.diagnosis.held_out import too_small
from glassformer.diagnosis.measure import dead_shares, head_entropies, stuck_shares, training_loss
from glassformer.diagnosis.no_better import no_better
from glassformer.diagnosis.outputs import one_output, unread
from glassformer.diagnosis.patient import Patient
from glassformer.diagnosis.units import dead_units, heads, stuck
from glassformer.families.base import Prepared
from glassformer.tasks.base import Evaluation
from glassformer.tasks.classification import Classification
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.translation import Translating
from glassformer.tasks.windows import WindowTask
from glassformer.training.finding import Finding


def judged_findings(
    prepared: Prepared, evaluation: Evaluation, patient: Patient, step: int
) -> Iterator[Finding | None]:
    """Of an evaluation on the validation part."""
    task, advise = prepared.task, patient.advise
    noun = task.noun if isinstance(task, Labelling) else "window" if isinstance(task, WindowTask) else "pair"
    rows = sum(len(part) for part in task.parts.values()) if isinstance(task, Labelling) else None
    yield too_small(evaluation.records, noun, advise, step, rows)
    yield no_better(evaluation.metrics, evaluation.records, patient.guessing, advise, step, _largest(prepared))
    if isinstance(task, Translating):
        yield one_output(evaluation.records, advise, step) or unread(evaluation.records, advise, step)
    if "confusion" in evaluation.details:
        confusion = evaluation.details["confusion"]
        yield from collapse(confusion["labels"], confusion["matrix"], advise, step)


def _largest(prepared: Prepared) -> str | None:
    """The class that most examples of the training part have."""
    task = prepared.task
    if not isinstance(task, Classification):
        return None
    return task.classes.names[int(np.bincount(task.parts["train"].answers).argmax())]


def inner_findings(
    model: nn.Module, prepared: Prepared, evaluation: Evaluation | None, patient: Patient, step: int
) -> Iterator[Finding | None]:
    """Of the weights that the run ends with. `evaluation`: theirs on the validation part, if there is one."""
    task, advise = prepared.task, patient.advise
    model.eval()
    with torch.random.fork_rng(devices=[]):
        learned = training_loss(model, task)
        if learned is not None and evaluation is not None and "loss" in evaluation.metrics:
            yield gap(learned, evaluation.metrics["loss"], patient.guessing, advise, step)
        yield dead_units(dead_shares(model, task), advise, step)
        yield from heads(head_entropies(model, task), advise, step)
        yield stuck(stuck_shares(model, task), advise, step)
