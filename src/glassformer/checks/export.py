"""What a run was exported to, against the run."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from glassformer.checks.result import DoesNotApply, Found
from glassformer.checks.subject import Subject, apart
from glassformer.exchange.huggingface.export import is_huggingface, read_back
from glassformer.exchange.onnx.parts import OnnxModel, is_onnx
from glassformer.tasks.answers import Answers

EXPORT = "export"
"""Where in a run's folder it would be."""

READERS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, Answers | None], nn.Module]]] = {
    "onnxruntime": (is_onnx, lambda folder, answers: OnnxModel(folder)),
    "what was imported again": (is_huggingface, read_back),
}
"""By what computes it: whether a folder holds such an export, and the model in it, called as the run's own."""


@torch.inference_mode()
def exported(subject: Subject) -> Found:
    """The scores of examples, alone and padded together, of both."""
    folder = subject.loaded.run.path / EXPORT
    if not folder.exists():
        raise DoesNotApply("not exported")
    answers = getattr(subject.loaded, "answers", None)
    found = {name: read(folder, answers) for name, (holds, read) in READERS.items() if holds(folder)}
    if not found:
        raise DoesNotApply(f"nothing is known of how to read {folder}")
    examples = subject.examples
    batch = subject.together(examples) if subject.places else None
    differences = []
    for model in found.values():
        here, there = subject.each(), subject.each(model=model)
        if batch is not None:
            here, there = [*here, *subject.rows(batch, examples)], [*there, *subject.rows(batch, examples, model)]
        differences.append(apart(here, there))
    together = ", alone and padded together" if batch is not None else ""
    return Found(max(differences), f"the scores of {len(examples)} examples{together}, here and by {', '.join(found)}")
