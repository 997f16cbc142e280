"""What goes through files must come back the same: weights, and a training that was interrupted."""

import contextlib
import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checks.result import DoesNotApply, Found
from glassformer.checks.subject import Subject, apart
from glassformer.config.say import silent
from glassformer.config.sections import TrainingSettings
from glassformer.families.load import load
from glassformer.models.weights import take_weights
from glassformer.runs.run import CARD, Run
from glassformer.training.checkpointer import RunCheckpointer, restore
from glassformer.training.events import Event, Stepped
from glassformer.training.loop import Trainer
from glassformer.training.schedule import total_steps
from glassformer.training.snapshot import Snapshot

KEPT, LOST, LAST = 2, 3, 4
"""The update that a checkpoint is made after, the one after which the training is stopped, and the last one."""
LONG = 1000
"""Updates of a training that is laid out long enough for no validation to be due among the first few."""


@torch.inference_mode()
def saved(subject: Subject) -> Found:
    """The weights written to a folder, and read back from it into a new model."""
    own = copy.deepcopy(subject.own) if isinstance(subject.own, nn.Module) else subject.own
    with tempfile.TemporaryDirectory() as folder:
        for name in (CARD, "tokenizer.json", "target_tokenizer.json"):
            if (subject.loaded.run.path / name).is_file():
                shutil.copy(subject.loaded.run.path / name, folder)
        run = Run(Path(folder))
        run.write_weights(take_weights(subject.model))
        again = load(run, str(subject.device), model=own).model
    return Found(apart(subject.each(), subject.each(model=again)), "scores with weights as they are and read back")


def resumed(subject: Subject) -> Found:
    """A few updates on from the run's weights, in one go, and stopped on the way."""
    if subject.prepared is None:
        raise DoesNotApply(subject.missing)
    settings = subject.loaded.config.training
    total = total_steps(settings, subject.prepared.task)
    settings = replace(
        settings,
        steps=max(LONG, total or 0),
        epochs=None,
        minutes=None,
        compile="off",
        checkpoint_every=KEPT,
        validate_every=None,
        keep_checkpoints=False,
    )
    straight = _trained(subject, settings, LAST)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        _trained(subject, settings, LOST, run)
        checkpoint = run.newest_checkpoint(silent)
        assert checkpoint is not None
        went_on = _trained(subject, settings, LAST, run, restore(*checkpoint))
    if straight.keys() != went_on.keys():
        return Found(torch.inf, "the two trainings ended with other tensors")
    return Found(
        apart(list(straight.values()), [went_on[name] for name in straight]),
        f"weights and the optimiser's memory after {LAST} updates, in one go and stopped after {LOST}",
    )


class _Stopped(Exception):
    pass


def _trained(
    subject: Subject, settings: TrainingSettings, last: int, run: Run | None = None, snapshot: Snapshot | None = None
) -> dict[str, Tensor]:
    """What a training holds after so many updates; it is stopped there, as by a kill."""
    assert subject.prepared is not None
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            copy.deepcopy(subject.model),
            subject.prepared.task,
            settings,
            device=subject.device,
            checkpointer=RunCheckpointer(run or Run(Path(folder)), keep=1),
            listen=_stop_after(last),
            resume=snapshot,
        )
        with contextlib.suppress(_Stopped):
            trainer.run()
    held = {"weights": take_weights(trainer.model), "optimiser": trainer.optimiser.state()}
    held["average"] = trainer.average.state()
    return {f"{kind} {name}": value.clone() for kind, values in held.items() for name, value in values.items()}


def _stop_after(step: int) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, Stepped) and event.step >= step:
            raise _Stopped

    return listen
