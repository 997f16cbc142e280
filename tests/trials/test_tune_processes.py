"""Several real processes on one search, and one that is killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import RunError
from glassformer.config.messages import listening
from glassformer.runs.files import write_json
from glassformer.trials.backends.base import ProcessSpec
from glassformer.trials.tuning import worker
from glassformer.trials.tuning.search import Search, plan_search
from glassformer.trials.tuning.storage import (
    PROCESS,
    WORKER,
    is_gone,
    open_study,
    optuna,
    retry_lost,
    retry_trials_of,
    storage_of,
    this_process,
    trials_that_count,
)
from helpers.running import PATIENCE, begin, finish, wait_for
from helpers.searching import DATA, study_of

HOW: dict[str, Any] = {"model": "average", "training.batch_size": 8, "model.width": 8}
SPACE = {"training.lr": {"low": 1e-4, "high": 1e-1, "log": True}, "model.dropout": {"low": 0.0, "high": 0.6}}
NAME = "opinions-average"


def write_orders(folder: Path, search: Search) -> str:
    """What a process is told: one trial of a search, in a file."""
    orders = {"where": storage_of(None, folder), "name": NAME, "trials": 1, "until": None}
    write_json(folder / "orders.json", {**orders, "folder": str(folder / "trials"), "search": search.to_dict()})
    return str(folder / "orders.json")


@pytest.mark.slow
def test_two_processes_share_the_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    said: list[str] = []
    out = tmp_path / "search"
    tuned = gf.tune(DATA, out=out, trials=4, jobs=2, space=SPACE, final=False, steps=60, say=said.append, **HOW)
    assert [trial.state for trial in tuned.trials] == ["complete"] * 4
    assert len([line for line in said if line.startswith("trial ")]) == 4
    workers = {trial.user_attrs[PROCESS][1] for trial in study_of(out).trials if PROCESS in trial.user_attrs}
    assert len(workers) == 2
    assert os.getpid() not in workers
    rates = [trial.settings["training.lr"] for trial in tuned.trials]
    assert len(set(rates)) == 4  # they do not draw the same
    assert [path.name for path in (out / "trials").iterdir()] == [str(tuned.best.number)]
    assert {path.name for path in out.iterdir() if path.name.startswith(".")} == set()  # orders and logs are gone


def test_a_trial_that_waits_is_taken_once(tmp_path: Path) -> None:
    """Many ask at once, each with the file opened for itself: two may read that it waits, but one gets it."""
    where, search = storage_of(None, tmp_path), plan_search(DATA, ["average"], {"steps": 3}, space=SPACE)
    with open_study(where, NAME, search) as study:
        for _ in range(40):
            study.enqueue_trial({})

    def take(_: int) -> list[int]:
        with open_study(where, NAME, search) as study:
            return [study.ask().number for _ in range(10)]

    with ThreadPoolExecutor(4) as threads:
        taken = [number for numbers in threads.map(take, range(4)) for number in numbers]
    assert len(set(taken)) == 40


def test_an_error_in_a_process_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print('glassformer: nothing is held out', file=sys.stderr); sys.exit(2)"
    monkeypatch.setattr(ProcessSpec, "command", lambda spec: [sys.executable, "-c", code])
    with pytest.raises(RunError, match=r"^nothing is held out$"):
        gf.tune(DATA, out=tmp_path / "search", trials=2, jobs=2, space=SPACE, steps=3, **HOW)


def test_a_process_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = plan_search(DATA, ["average"], {"data.validation_fraction": 0.0}, space=SPACE)
    assert worker.main([write_orders(tmp_path, search), "0"]) == 2
    assert capsys.readouterr().err.startswith("glassformer: nothing is held out")


@pytest.mark.slow
def test_a_process_stops_when_its_parent_is_gone(tmp_path: Path) -> None:
    search = plan_search(DATA, ["average"], {"steps": 1_000_000_000}, space=SPACE)
    words = [sys.executable, "-m", worker.__name__, write_orders(tmp_path, search), "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: (tmp_path / "trials" / "0" / "metrics.jsonl").exists(), process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    lost, again = study_of(tmp_path).trials
    assert lost.state == optuna.trial.TrialState.FAIL
    assert again.state == optuna.trial.TrialState.WAITING


@pytest.mark.slow
def test_a_killed_process_holds_nothing_up(tmp_path: Path) -> None:
    out = tmp_path / "search"
    space = tmp_path / "space.yaml"
    space.write_text("training.lr: {low: 1e-4, high: 1e-1, log: true}\nmodel.dropout: {low: 0.0, high: 0.6}\n")
    words = ["tune", DATA, "--space", str(space), "--out", str(out), "--no-final", "--model", "average",
             "--training.batch_size", "8", "--model.width", "8", "--steps", "1000000000"]  # fmt: skip
    process = begin(*words, "--trials", "2")
    wait_for(lambda: (out / "trials" / "0" / "metrics.jsonl").exists(), process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    study = study_of(out)
    assert study.trials[0].state == optuna.trial.TrialState.RUNNING
    said: list[str] = []
    with listening(said.append):
        retry_lost(study)
    assert said == ["trial 0: its process has ended, so it is retried"]
    lost, again = study.trials
    assert lost.state == optuna.trial.TrialState.FAIL
    assert again.state == optuna.trial.TrialState.WAITING
    assert again.user_attrs["fixed"] == lost.params != {}
    assert again.user_attrs["start"] == "average"
    assert trials_that_count(study) == []  # it does not count, and another takes its place
    with listening(said.append):
        retry_lost(study)
    assert len(study.trials) == 2


def test_what_a_lost_worker_had_is_tried_again(tmp_path: Path) -> None:
    """One of another machine, which nobody would take for lost yet."""
    where, search = storage_of(None, tmp_path), plan_search(DATA, ["average"], {"steps": 3}, space=SPACE)
    with open_study(where, NAME, search) as study:
        for name in ("orders.json 0", "orders.json 1"):
            trial = study.ask()
            trial.set_user_attr(PROCESS, ["elsewhere", 1, "1", time.time()])
            trial.set_user_attr(WORKER, name)
        retry_lost(study)
        assert len(trials_that_count(study)) == 2
        retry_trials_of(study, "orders.json 1")
        states = [trial.state.name for trial in study.trials]
    assert states == ["RUNNING", "FAIL", "WAITING"]


def test_whether_a_process_is_gone() -> None:
    host, number, began, seen = this_process()
    assert not is_gone([host, number, began, seen])
    assert is_gone([host, number, "another time", seen])  # its number was given to another
    assert not is_gone(["elsewhere", number, began, time.time()])
    assert is_gone(["elsewhere", number, began, time.time() - 3600])
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert is_gone([host, child.pid, "1", seen])
