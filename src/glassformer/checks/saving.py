"""What goes through files must come back the same: weights, a training that was interrupted, an export."""

import contextlib
import copy
import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import Subject, relative_difference
from glassformer.config.errors import MissingPackage, silent
from glassformer.config.sections import TrainingSettings
from glassformer.exchange.exporting import exports_of
from glassformer.exchange.huggingface.export import is_huggingface, read_back
from glassformer.exchange.onnx.graph import OnnxModel, is_onnx
from glassformer.families.load import load
from glassformer.models.weights import take_weights
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Answers
from glassformer.training.checkpointer import Checkpointer, RunCheckpointer, Snapshot, restore
from glassformer.training.events import Event, Stepped
from glassformer.training.loop import Trainer
from glassformer.training.schedule import total_steps

KEPT, LOST, LAST = 2, 3, 4
"""The update that a checkpoint is made after, the one after which the training is stopped, and the last one."""
LONG = 1000
"""Updates of a training that is laid out long enough for no validation to be due among the first few."""

READERS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, Answers | None], nn.Module]]] = {
    "onnxruntime": (is_onnx, lambda folder, answers: OnnxModel(folder)),
    "what was imported again": (is_huggingface, read_back),
}
"""Whether a folder holds such an export, and the model in it, called as the run's own, by what computes it."""


@torch.inference_mode()
def check_saved(subject: Subject) -> Deviation:
    """The weights written to a folder, and read back from it into a new model."""
    own = copy.deepcopy(subject.own_model) if isinstance(subject.own_model, nn.Module) else subject.own_model
    with tempfile.TemporaryDirectory() as folder:
        for name in (CARD, "tokenizer.json", "target_tokenizer.json"):
            if (subject.loaded.run.path / name).is_file():
                shutil.copy(subject.loaded.run.path / name, folder)
        run = Run(Path(folder))
        run.write_weights(take_weights(subject.model))
        again = load(run, str(subject.device), model=own, verify=False).model
    return Deviation(
        relative_difference(subject.scores(), subject.scores(model=again)),
        "scores with weights as they are and read back",
    )


def check_resumed(subject: Subject) -> Deviation:
    """A few updates on from the run's weights, in one go, and stopped on the way."""
    if subject.prepared is None:
        raise DoesNotApply(subject.missing)
    settings = subject.loaded.config.training
    settings = replace(
        settings,
        steps=max(LONG, total_steps(settings, subject.prepared.task) or 0),
        epochs=None,
        minutes=None,
        compile="off",
        checkpoint_every=KEPT,
        validate_every=None,
        keep_checkpoints=False,
    )
    straight = _train(subject, settings, LAST)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        _train(subject, settings, LOST, run)
        checkpoint = run.newest_checkpoint(silent)
        assert checkpoint is not None
        went_on = _train(subject, settings, LAST, run, restore(*checkpoint))
    if straight.keys() != went_on.keys():
        return Deviation(torch.inf, "the two trainings ended with other tensors")
    return Deviation(
        relative_difference(list(straight.values()), [went_on[name] for name in straight]),
        f"weights and the optimiser's memory after {LAST} updates, in one go and stopped after {LOST}",
    )


@torch.inference_mode()
def check_exported(subject: Subject) -> Deviation:
    """The scores of examples, alone and padded together, of the run and of what it was exported to."""
    loaded, calls = subject.loaded, subject.calls
    folders = exports_of(loaded.run.path) if subject.export is None else [subject.export]
    if not folders:
        raise DoesNotApply("not exported")
    if not any(folder.is_dir() for folder in folders):
        raise DoesNotApply(f"not exported any more: {folders[-1]} is gone (--export: where it is now)")
    answers = loaded.family.read_processor(loaded.run, loaded.config).answers
    models, missing = [], list[MissingPackage]()
    for folder, (name, (holds, read)) in itertools.product(folders, READERS.items()):
        if holds(folder):
            try:
                models.append((name, read(folder, answers)))
            except MissingPackage as error:
                missing.append(error)
    if missing and not models:
        raise missing[0]
    if not models:
        raise DoesNotApply(f"nothing is known of how to read {folders[-1]}")
    batch = subject.batch(calls) if subject.token_places else None

    def scores(model: nn.Module | None = None) -> list[Tensor]:
        together = [] if batch is None else subject.batch_scores(batch, calls, model)
        return [*subject.scores(model=model), *together]

    difference = max(relative_difference(scores(), scores(model)) for _, model in models)
    together = ", alone and padded together" if batch is not None else ""
    names = ", ".join(dict.fromkeys(name for name, _ in models))
    skipped = "".join(f"; skipped: {error}" for error in missing)
    return Deviation(difference, f"the scores of {len(calls)} examples{together}, here and by {names}{skipped}")


# --- a training that is stopped ---


class _Stopped(Exception):
    pass


def _train(
    subject: Subject, settings: TrainingSettings, last: int, run: Run | None = None, snapshot: Snapshot | None = None
) -> dict[str, Tensor]:
    """What a training holds after so many updates; it is stopped there, as by a kill. `run`: for its checkpoints."""
    assert subject.prepared is not None

    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.step >= last:
            raise _Stopped

    trainer = Trainer(
        copy.deepcopy(subject.model),
        subject.prepared.task,
        settings,
        device=subject.device,
        checkpointer=Checkpointer() if run is None else RunCheckpointer(run, keep=1),
        listen=stop,
        resume=snapshot,
    )
    with contextlib.suppress(_Stopped):
        trainer.run()
    held = {
        "weights": take_weights(trainer.model),
        "optimiser": trainer.optimiser.state(),
        "average": trainer.average.state(),
    }
    return {f"{kind} {name}": value.clone() for kind, values in held.items() for name, value in values.items()}
