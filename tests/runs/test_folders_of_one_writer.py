"""One writer at a time, told who the other is; folders filled at once; what killed writers left is tidied up."""

import contextlib
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from glassformer.config.errors import Misuse, RunError, SettingError
from glassformer.config.parts import HOST, part_of, sweep
from glassformer.families.load import load
from glassformer.runs.folders import INSTEAD, LOCK, check_writable, complete, contents, fill, locked
from glassformer.training.events import Event, Noted, Stepped
from glassformer.verbs.train import train
from helpers.running import DATA, StopAfter, log_of, same_run, tiny, train_here

SETTINGS = tiny(training__steps=3, training__validate_every=2)


# --- one writer ---


def hold(folder: Path, said: Connection) -> None:
    with locked(folder, "training"):
        said.send("held")
        signal.pause()


def test_a_second_process_is_told_who_is_at_work_until_that_dies(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ours, theirs = multiprocessing.Pipe()
    holder = multiprocessing.get_context("fork").Process(target=hold, args=(out, theirs))
    holder.start()
    assert ours.recv() == "held"
    told = rf"another training is at work in {out} \(process {holder.pid} on {re.escape(socket.gethostname())}, since 2"
    for resume in (False, True):
        with pytest.raises(Misuse, match=told):
            train_here(out, SETTINGS, resume=resume)
    holder.kill()
    holder.join()
    assert train_here(out, SETTINGS).steps == 3
    assert not (out / LOCK).exists()


def test_who_reads_takes_no_lock(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train_here(out, SETTINGS)
    with locked(out, "training"):
        assert load(out)


def test_the_same_thread_may_take_it_again(tmp_path: Path) -> None:
    with locked(tmp_path / "a", "work") as first, locked(tmp_path / "a", "a part of it") as second:
        assert first is second
    assert not (tmp_path / "a").exists()  # nothing came into it


@pytest.mark.slow
def test_trainings_at_once_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inner: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Stepped) and not inner:
            inner.append("begun")
            inner.append(train(DATA, **SETTINGS).run)

    assert train(DATA, listen=listen, **SETTINGS).run == "runs/reverse-transformer-1"
    assert inner[1] == "runs/reverse-transformer-2"


# --- filled at once ---


def test_filled_beside_or_instead(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "both").mkdir()
    with fill(tmp_path, "card") as place:
        for name in ("card", "both"):
            (place / name).write_text("new")
        assert [path.name for path in contents(tmp_path)] == ["both", "old"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "old", "card": "new", "both": "new"}
    with fill(tmp_path, "card", instead=True) as place:
        (place / "card").write_text("newer")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"card": "newer"}


def test_what_was_left_whole_is_finished(tmp_path: Path) -> None:
    for name in ("card", "old"):
        (tmp_path / name).write_text("old")
    (tmp_path / INSTEAD).mkdir()
    (tmp_path / INSTEAD / "card").write_text("new")
    complete(tmp_path, "card")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"card": "new"}


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    with contextlib.suppress(KeyError), fill(tmp_path / "a", "card") as place:
        (place / "card").write_text("new")
        raise KeyError
    assert not (tmp_path / "a").exists()


def test_parts_of_the_dead_are_swept_and_no_others(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    other = "0" * 6 if HOST != "0" * 6 else "1" * 6
    names = {
        f".card.json.{HOST}-{dead.pid}.part": False,
        f".card.json.{HOST}-{os.getppid()}.part": True,
        f".card.json.{HOST}-{os.getpid()}.part": False,  # of a process before us that had our number
        f".card.json.{other}-{dead.pid}.part": True,
        f".weights.{other}-{dead.pid}.part": False,
        ".mine.part": True,
    }
    for name in names:
        (tmp_path / name).write_text("half")
    os.utime(tmp_path / f".weights.{other}-{dead.pid}.part", (0, 0))
    with part_of(tmp_path / "new") as part:
        part.write_text("being written")
        sweep(tmp_path)
        assert part.exists()
    assert {path.name for path in tmp_path.iterdir()} == {name for name, stays in names.items() if stays}


def test_a_disk_that_cannot_be_written_is_told_before_any_work() -> None:
    nowhere = Path("/proc/nowhere/at/all")
    with pytest.raises(RunError, match="cannot write /proc/nowhere/at/all"):
        check_writable(nowhere)
    said: list[Event] = []
    with pytest.raises(RunError, match="cannot write /proc/nowhere/at/all"):
        train(DATA, out=nowhere, listen=said.append, **SETTINGS)
    assert said == []


# --- one spelling for jobs ---


@pytest.mark.slow
def test_one_command_starts_goes_on_and_is_done(tmp_path: Path) -> None:
    train_here(tmp_path / "whole", SETTINGS)
    out = tmp_path / "run"
    assert train_here(out, SETTINGS, resume=True, listen=StopAfter(2)).reason == "interrupted"
    assert train_here(out, SETTINGS, resume=True).steps == 3
    same_run(out, tmp_path / "whole")
    before, log = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}, log_of(out)
    events: list[Event] = []
    again = train_here(out, SETTINGS, resume=True, listen=events.append)
    assert [event.text for event in events if isinstance(event, Noted)] == [
        f"{out} is finished: 3 updates, nothing is left to do"
    ]
    assert (again.reason, again.steps) == ("finished", 3)
    assert again.validation["loss"] == log[-1]["loss"]
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train_here(out, SETTINGS)
    told = (
        r"model.width, training.lr cannot change when a run goes on: model.width was 8, not 16; training.lr was 0.003"
    )
    with pytest.raises(SettingError, match=told):
        train_here(out, {**SETTINGS, "model.width": 16, "training.lr": 0.1}, resume=True)
    with pytest.raises(SettingError, match=r"training settings may change without DATA: --resume --out"):
        train_here(out, SETTINGS, resume=True, lr=0.1)
    assert train(out=out, resume=True, lr=0.1, steps=4).steps == 4


@pytest.mark.slow
def test_missing_papers_are_made_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train_here(out, SETTINGS)
    weights, log = (out / "model.safetensors").read_bytes(), (out / "metrics.jsonl").read_text()
    for name in ("report.html", "README.md", "curves.png"):
        (out / name).unlink()
        train_here(out, SETTINGS, resume=True)
        assert (out / name).stat().st_size
    assert (out / "model.safetensors").read_bytes() == weights
    assert (out / "metrics.jsonl").read_text() == log


# --- nobody reads ---


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone(stream: str) -> None:
    """`| head`: the verb ends quietly; where nobody hears what happens on the way, it goes on."""
    words = ["-m", "glassformer.cli.main", "--help"] if stream == "stdout" else ["-c", (
        "from glassformer.cli.terminal.show import say\n"
        "for _ in range(3): say('a note')\n"
        "print('done')"
    )]  # fmt: skip
    read, write = os.pipe()
    os.close(read)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write}
    process = subprocess.run([sys.executable, *words], text=True, **streams)  # type: ignore[call-overload]
    os.close(write)
    assert process.returncode == 0
    assert (process.stderr or "") == ""
    assert stream == "stdout" or process.stdout == "done\n"
