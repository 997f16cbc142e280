"""Real processes, stopped by SIGTERM, by Ctrl-C, and killed without warning; then resumed to the very same end."""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from glassformer.training.events import Event, Started
from glassformer.verbs.train import train
from helpers.running import DATA, begin, finish, flags, labelled, same_run, steps_saved, tiny, train_here, wait_for
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

    def progressed(further: int) -> None:
        """Until the process has saved this many steps more than it began with."""
        before = max(steps_saved(out), default=0)
        wait_for(lambda: max(steps_saved(out), default=0) >= before + further, process)

    process = begin("train", DATA, "--out", str(out), *flags(SETTINGS))
    progressed(10)
    process.send_signal(signal.SIGTERM)
    code, stdout, stderr = finish(process)
    first = steps_saved(out)[-1]
    assert code == 1
    assert stdout == ""
    assert stderr.splitlines()[-1] == (
        f"stopped after step {first} and saved; go on with: glassformer train --resume --out '{out}'"
    )
    assert "Traceback" not in stderr
    assert json.loads((out / "glassformer.json").read_text())["status"] == "interrupted"

    process = begin("train", "--resume", "--out", str(out))
    progressed(10)
    process.send_signal(signal.SIGINT)
    code, stdout, stderr = finish(process)
    second = steps_saved(out)[-1]
    assert code == 1
    assert f"going on after {first}" in stderr
    assert stderr.splitlines()[-1].startswith(f"stopped after step {second} and saved; go on with:")
    assert "Traceback" not in stderr

    process = begin("train", "--resume", "--out", str(out))
    progressed(5)
    moment = random.uniform(0, 0.3)
    time.sleep(moment)
    process.kill()
    code, stdout, stderr = finish(process)
    killed = steps_saved(out)[-1]
    assert code == -signal.SIGKILL
    assert second < killed < 200, f"killed after {moment} s"

    events: list[Event] = []
    assert train(out=out, resume=True, listen=events.append).steps == 200
    assert next(event for event in events if isinstance(event, Started)).step == killed
    same_run(out, tmp_path / "whole")
    hidden = list(out.rglob(".*"))
    assert len(hidden) <= 1, hidden  # at most what the killed process was writing


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
    process = begin("train", str(table), "--out", str(out), *flags(settings))
    wait_for(lambda: max(steps_saved(out), default=0) >= 10, process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    killed = steps_saved(out)[-1]
    assert 10 <= killed < 150
    events: list[Event] = []
    assert train(out=out, resume=True, listen=events.append).steps == 150
    assert next(event for event in events if isinstance(event, Started)).step == killed
    same_run(out, tmp_path / "whole")
