"""Real processes, stopped by SIGTERM, by Ctrl-C, and killed without warning; then resumed to the very same end."""

import json
import signal
from pathlib import Path

import pytest

from glassformer.cli.train import REQUEUE
from glassformer.training.events import Event, Started
from glassformer.verbs.train import train
from helpers.running import DATA, SignalAfter, begin, finish, flags, labelled, same_run, steps_saved, tiny, train_here
from helpers.tables import opinions, write_table

SETTINGS = tiny(
    training__steps=200,
    training__validate_every=40,
    training__checkpoint_every=5,
    model__dropout=0.2,
)


@pytest.mark.slow
def test_stopped_three_ways_and_resumed_is_never_stopped(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    train_here(tmp_path / "whole", SETTINGS)
    first, second, third = 13, 56, 98

    code, stdout, stderr = finish(
        begin("train", DATA, "--out", str(out), *flags(SETTINGS), signal=SignalAfter(first, signal.SIGTERM))
    )
    assert steps_saved(out)[-1] == first
    assert code == REQUEUE  # a scheduler's signal: it may be started again
    assert stdout == ""
    assert stderr.splitlines()[-1] == (
        f"stopped after step {first} and saved; go on with: glassformer train --resume --out '{out}'"
    )
    assert "Traceback" not in stderr
    assert json.loads((out / "glassformer.json").read_text())["status"] == "interrupted"

    code, stdout, stderr = finish(
        begin("train", "--resume", "--out", str(out), signal=SignalAfter(second, signal.SIGINT))
    )
    assert steps_saved(out)[-1] == second
    assert code == 1
    assert f"going on after {first}" in stderr
    assert stderr.splitlines()[-1].startswith(f"stopped after step {second} and saved; go on with:")
    assert "Traceback" not in stderr

    code, stdout, stderr = finish(
        begin("train", "--resume", "--out", str(out), signal=SignalAfter(third, signal.SIGKILL))
    )
    assert code == -signal.SIGKILL
    assert steps_saved(out)[-1] == 95  # there is one every five steps

    events: list[Event] = []
    assert train(out=out, resume=True, listen=events.append).steps == 200
    assert next(event for event in events if isinstance(event, Started)).step == 95
    same_run(out, tmp_path / "whole")
    assert list(out.rglob(".*")) == []  # it was not writing


@pytest.mark.slow
def test_a_classifier_killed_and_resumed_is_never_killed(tmp_path: Path) -> None:
    """With dropout of numbers and of words, and ragged batches."""
    table = write_table(tmp_path / "table.csv", opinions(61, classes=3))
    settings = labelled(
        "gru",
        training__steps=150,
        training__validate_every=30,
        training__checkpoint_every=5,
        training__batch_size=8,
        model__dropout=0.2,
        model__word_dropout=0.2,
        model__pool="attention",
    )
    train(table, out=tmp_path / "whole", **settings)
    out = tmp_path / "killed"
    process = begin("train", str(table), "--out", str(out), *flags(settings), signal=SignalAfter(44, signal.SIGKILL))
    assert finish(process)[0] == -signal.SIGKILL
    assert steps_saved(out)[-1] == 40
    events: list[Event] = []
    assert train(out=out, resume=True, listen=events.append).steps == 150
    assert next(event for event in events if isinstance(event, Started)).step == 40
    same_run(out, tmp_path / "whole")
