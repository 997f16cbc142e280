"""Moments of a training are kept beside it: it goes as it would without them, and going on leaves the same ones."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.cli.train import PARSER
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.resolve import resolve
from glassformer.runs.checkpoints import load_checkpoint
from glassformer.runs.history import due, steps_of, weights_at
from glassformer.runs.run import Run
from glassformer.training.context import TrainerOptions
from glassformer.training.distributed.processes import Processes
from glassformer.training.loop import Trainer
from glassformer.verbs.train import train
from helpers.fitting import CPU, Fit, Memory, linear, trained
from helpers.running import (
    StopAfter,
    identical,
    log_of,
    move_clock,
    same_run,
    steps_saved,
    tensors_of,
    tiny,
    train_here,
)
from helpers.settings import training_settings

KEEPING = {"training.keep_checkpoints": True}


@pytest.fixture(autouse=True)
def no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.reporting.papers.leave_report", lambda *args, **more: None)


class Moments(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.moments: dict[int, dict[str, Tensor]] = {}

    def moment(self, weights: dict[str, Tensor], step: int, total: int | None) -> None:
        self.moments[step] = {name: value.clone() for name, value in weights.items()}


def moments_of(run: Path) -> dict[str, Tensor]:
    opened = Run(run)
    return {f"{step}: {name}": value for step in steps_of(opened) for name, value in weights_at(opened, step).items()}


@pytest.mark.parametrize("average", [None, 3])
def test_a_training_goes_as_it_would_without_them(tmp_path: Path, average: int | None) -> None:
    settings = tiny("cnn", training__steps=9, model__dropout=0.3, model__norm="batch", training__validate_every=4)
    settings["training.average"] = average
    train_here(tmp_path / "without", settings)
    train_here(tmp_path / "with", {**settings, **KEEPING})
    identical(tensors_of(tmp_path / "with"), tensors_of(tmp_path / "without"))
    assert log_of(tmp_path / "with") == log_of(tmp_path / "without")
    assert not (tmp_path / "without" / "history").exists()
    assert steps_of(Run(tmp_path / "with")) == list(range(10))


@pytest.mark.parametrize("average", [None, 3])
def test_they_are_what_a_validation_sees(tmp_path: Path, average: int | None) -> None:
    settings = {**tiny(training__steps=5, training__checkpoint_every=1), **KEEPING, "training.checkpoints": 9}
    train_here(tmp_path / "run", {**settings, "training.average": average})
    for step in range(1, 6):
        weights, _, _, averaged = load_checkpoint(tmp_path / "run" / "checkpoints" / f"step-{step}")
        assert bool(averaged) == (average is not None)
        identical(weights_at(Run(tmp_path / "run"), step), {**weights, **averaged})
    untrained = {**settings, "training.lr": 0.0, "training.weight_decay": 0.0, "training.steps": 1}
    train_here(tmp_path / "start", untrained)
    first = weights_at(Run(tmp_path / "run"), 0)
    identical(first, weights_at(Run(tmp_path / "start"), 1))
    assert any(not torch.equal(first[name], value) for name, value in weights_at(Run(tmp_path / "run"), 1).items())


@pytest.mark.slow
@pytest.mark.parametrize("stops", [(1,), (4, 13), (30,)])
def test_going_on_leaves_the_same_moments(tmp_path: Path, stops: tuple[int, ...]) -> None:
    settings = {**tiny(training__steps=60, model__dropout=0.2, training__validate_every=30), **KEEPING}
    train_here(tmp_path / "whole", settings)
    for number, step in enumerate(stops):
        train_here(tmp_path / "again", settings, listen=StopAfter(step), resume=number > 0)
    train_here(tmp_path / "again", settings, resume=True)
    same_run(tmp_path / "again", tmp_path / "whole")
    assert steps_of(Run(tmp_path / "whole")) == [step for step in range(61) if due(step, 60)]
    identical(moments_of(tmp_path / "again"), moments_of(tmp_path / "whole"))


def test_going_back_forgets_later_ones(tmp_path: Path) -> None:
    """The newest checkpoint is torn: from the one before it, the run goes another way now."""
    settings = {**tiny(training__steps=12, training__checkpoint_every=4, training__schedule="constant"), **KEEPING}
    train_here(tmp_path / "run", settings, listen=StopAfter(9))
    assert (steps_saved(tmp_path / "run"), steps_of(Run(tmp_path / "run"))) == ([8, 9], list(range(10)))
    before = moments_of(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "step-9" / "state.json").unlink()
    train(out=tmp_path / "run", resume=True, listen=StopAfter(10), lr=0.1)
    after = moments_of(tmp_path / "run")
    assert steps_of(Run(tmp_path / "run")) == list(range(11))
    for name, value in before.items():
        assert torch.equal(after[name], value) == (not name.startswith("9:")), name


def test_starting_again_forgets_all(tmp_path: Path) -> None:
    settings = {**tiny(training__steps=40, training__validate_every=40), **KEEPING}
    train_here(tmp_path / "run", settings, listen=StopAfter(9))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    train(out=tmp_path / "run", resume=True, listen=StopAfter(3))
    assert steps_of(Run(tmp_path / "run")) == [0, 1, 2]


@pytest.mark.slow
def test_a_run_that_is_given_more_has_what_a_longer_one_has(tmp_path: Path) -> None:
    settings = {**tiny(training__schedule="constant", training__warmup=1, training__validate_every=25), **KEEPING}
    train_here(tmp_path / "whole", {**settings, "training.steps": 75})
    train_here(tmp_path / "again", {**settings, "training.steps": 25})
    assert steps_of(Run(tmp_path / "again"))[-1] == 25
    train(out=tmp_path / "again", resume=True, steps=75)
    identical(moments_of(tmp_path / "again"), moments_of(tmp_path / "whole"))


def test_the_last_of_a_run_that_had_enough(tmp_path: Path) -> None:
    settings = tiny(training__steps=400, training__validate_every=3, training__patience=2, training__lr=0.8)
    settings |= {"training.warmup": 0, **KEEPING}
    whole = train_here(tmp_path / "whole", settings)
    assert whole.reason == "patience"
    assert not due(whole.steps, 400)
    steps = [*(step for step in range(whole.steps) if due(step, 400)), whole.steps]
    assert steps_of(Run(tmp_path / "whole")) == steps
    before = moments_of(tmp_path / "whole")
    train_here(tmp_path / "whole", settings, resume=True)  # once more changes nothing
    identical(moments_of(tmp_path / "whole"), before)


@pytest.mark.slow
def test_where_the_time_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_clock(monkeypatch, "training.budget")
    run = train_here(tmp_path / "run", {**tiny(training__minutes=0.04), **KEEPING})
    steps = steps_of(Run(tmp_path / "run"))
    assert steps[-1] == run.steps
    assert steps == [step for step in range(run.steps + 1) if due(step, run.steps)]


def kept_by(rank: int, **more: Any) -> Moments:
    kept = Moments()
    settings = training_settings(batch_size=12, steps=3, **more)
    processes = Processes(rank=rank)
    Trainer(linear(), Fit(), settings, TrainerOptions(CPU, checkpointer=kept, processes=processes)).run()
    return kept


def test_the_last_where_the_time_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.training.budget.Budget.part_done", lambda budget, progress: progress.step / 37)
    kept, settings = Moments(), training_settings(batch_size=12, minutes=1, keep_checkpoints=True)
    Trainer(linear(), Fit(), settings, TrainerOptions(CPU, checkpointer=kept)).run()
    assert not due(37, None)
    assert list(kept.moments) == [*(step for step in range(37) if due(step, None)), 37]


def test_only_the_first_process_keeps_them_and_only_if_asked() -> None:
    assert list(kept_by(0, keep_checkpoints=True).moments) == [0, 1, 2, 3]
    assert kept_by(1, keep_checkpoints=True).moments == {}
    assert kept_by(0).moments == {}
    trained(linear(), Fit(), steps=3)  # a checkpointer that knows no moments is never asked for them


def test_weights_that_failed_are_forgotten(tmp_path: Path) -> None:
    from glassformer.training.checkpointer import RunCheckpointer

    checkpointer = RunCheckpointer(Run(tmp_path), keep=2)
    for step in (0, 1, 2):
        checkpointer.moment({"w": torch.ones(2)}, step, 9)
    checkpointer.forget(2)
    assert steps_of(checkpointer.run) == [0, 1]


# --- the flag ---


@pytest.mark.parametrize(("words", "kept", "data"), [
    ("--keep-checkpoints iris", "true", "iris"),
    ("iris --keep-checkpoints", "true", "iris"),
    ("--steps 3 --keep-checkpoints --seed 1 iris", "true", "iris"),
    ("--keep-checkpoints false iris", "false", "iris"),
    ("iris --keep-checkpoints OFF", "OFF", "iris"),
    ("--keep-checkpoints=no iris", "no", "iris"),
    ("--training.keep_checkpoints iris", "true", "iris"),
    ("--training.keep_checkpoints true iris", "true", "iris"),
])  # fmt: skip
def test_the_flag_may_stand_alone_anywhere(words: str, kept: str, data: str) -> None:
    options = PARSER.read(words.split())
    assert (getattr(options, "training.keep_checkpoints"), options.data) == (kept, data)


def test_other_truths_still_want_a_value() -> None:
    with pytest.raises(Misuse, match="expected one argument"):
        PARSER.read(["iris", "--model.bias"])
    assert not hasattr(PARSER.read(["iris"]), "training.keep_checkpoints")


def test_the_two_settings() -> None:
    plain = resolve({}, {}).training
    assert (plain.checkpoints, plain.keep_checkpoints) == (2, False)
    asked = resolve({}, {"keep_checkpoints": "yes", "training.checkpoints": 5}).training
    assert (asked.checkpoints, asked.keep_checkpoints) == (5, True)
    with pytest.raises(SettingError, match=r"training\.checkpoints is 0, but must be at least 1"):
        resolve({}, {"training.checkpoints": 0})
    with pytest.raises(SettingError, match=r"training\.keep_checkpoints wants true or false, not 2"):
        resolve({}, {"keep_checkpoints": 2})


def test_newest_checkpoints_are_kept_as_many_as_asked_for(tmp_path: Path) -> None:
    train_here(tmp_path / "run", tiny(training__steps=5, training__checkpoint_every=1, training__checkpoints=3))
    assert steps_saved(tmp_path / "run") == [3, 4, 5]
