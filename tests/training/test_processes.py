"""Two processes, as torchrun starts them, against one with the whole batch: the same to rounding."""

import json
import signal
from pathlib import Path

import pytest
import torch

from glassformer.config.errors import SettingError
from glassformer.training.context import TrainerOptions
from glassformer.training.distributed.processes import Processes
from glassformer.training.loop import Trainer
from glassformer.verbs.train import train
from helpers.fitting import Fit, Memory, linear
from helpers.running import (
    DATA,
    SignalAfter,
    begin,
    finish,
    flags,
    labelled,
    log_of,
    losses_of,
    steps_saved,
    tensors_of,
    tiny,
    train_here,
)
from helpers.settings import training_settings
from helpers.tables import opinions, write_table


def close(one: Path, other: Path, tolerance: float) -> None:
    """Weights, optimiser and losses of two runs, equal to rounding; and they did learn something."""
    assert losses_of(one) == pytest.approx(losses_of(other), rel=1e-5)
    mine, theirs = tensors_of(one), tensors_of(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        far = (value - theirs[name]).abs().max()
        assert far <= tolerance * (1 + theirs[name].abs().max()), name
    assert losses_of(one)[-1] < losses_of(one)[0] - 0.05


@pytest.mark.slow
def test_two_processes_are_one_and_stop_together(tmp_path: Path) -> None:
    """Each batch shared by two, each share in two pieces. One of the two is told to stop: both do, at the same step,
    with one checkpoint. Two go on, without pieces now, to where one process with whole batches would have come.
    """
    out = tmp_path / "two"
    settings = tiny(
        "lstm",
        training__steps=100,
        training__batch_size=8,
        training__accumulation_steps=2,
        training__optimizer="momentum",
        training__lr=0.2,
        training__l2=0.0001,
        training__label_smoothing=0.1,
        training__average=9,
        training__checkpoint_every=5,
        training__validate_every=50,
    )
    process = begin(
        "train", DATA, "--out", str(out), *flags(settings), world=2, signal=SignalAfter(12, signal.SIGTERM, rank=1)
    )
    code, stdout, stderr = finish(process)
    stopped = steps_saved(out)[-1]
    assert code == 1
    assert stdout == ""
    assert "2 processes" in stderr
    assert stderr.count(f"stopped after step {stopped} and saved; go on with:") == 1
    assert stopped == 13  # heard of after the step, told to the other one with the next
    assert json.loads((out / "glassformer.json").read_text())["status"] == "interrupted"

    words = ["train", "--resume", "--out", str(out), "--training.accumulation_steps", "1", "--json"]
    code, stdout, stderr = finish(begin(*words, world=2))
    assert code == 0, stderr
    assert f"going on after {stopped}" in stderr
    assert len(stdout.splitlines()) == 1  # only the first process speaks
    one = train_here(tmp_path / "one", {**settings, "training.accumulation_steps": 1})
    close(out, tmp_path / "one", 1e-5)
    assert json.loads(stdout)["validation"]["loss"] == pytest.approx(one.validation["loss"], rel=1e-6)
    assert [line["step"] for line in log_of(out) if line["event"] == "step"] == list(range(1, 101))


@pytest.mark.slow
def test_two_processes_are_one_where_a_batch_has_a_single_text(tmp_path: Path) -> None:
    """17 texts in batches of 8: of the third batch, the first process has nothing, and takes part all the same."""
    train_on = write_table(tmp_path / "train.csv", opinions(17))
    validate_on = write_table(tmp_path / "validation.csv", opinions(10, seed=1))
    settings = labelled(
        "lstm",
        training__steps=45,
        training__batch_size=8,
        training__optimizer="momentum",
        training__lr=0.1,
        training__l2=0.0001,
        data__validation=str(validate_on),
    )
    words = ["train", str(train_on), "--out", str(tmp_path / "two"), *flags(settings), "--json"]
    code, stdout, stderr = finish(begin(*words, world=2))
    assert code == 0, stderr
    assert len(stdout.splitlines()) == 1
    one = train(train_on, out=tmp_path / "one", **settings)
    close(tmp_path / "two", tmp_path / "one", 1e-5)
    assert json.loads(stdout)["validation"] == pytest.approx(one.validation, rel=1e-5)
    tokens = [line["tokens"] for line in log_of(tmp_path / "two") if line["event"] == "step"]
    assert tokens == [line["tokens"] for line in log_of(tmp_path / "one") if line["event"] == "step"]


@pytest.mark.slow
def test_processes_agree_on_a_sample_within_minutes(tmp_path: Path) -> None:
    """How much is judged depends on the clock, which is the first one's: no process waits for an evaluation that the
    others do not make.
    """
    rows = write_table(tmp_path / "rows.csv", opinions(2000))
    settings = labelled("transformer", training__minutes=0.25, model__width=64, model__layers=4)
    code, out, err = finish(
        begin("train", str(rows), "--out", str(tmp_path / "run"), *flags(settings), "--json", world=2)
    )
    assert code == 0, err
    assert json.loads(out)["validation"]["loss"] > 0


def test_a_batch_that_cannot_be_shared() -> None:
    with pytest.raises(SettingError, match="batch_size 2 is too small for 3 processes"):
        Trainer(
            linear(),
            Fit(8),
            training_settings(batch_size=2),
            TrainerOptions(torch.device("cpu"), checkpointer=Memory(), processes=Processes(0, 3)),
        )
