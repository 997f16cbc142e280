"""Checkpoints: whole or not there, whatever happens to the process that writes them or to the disk afterwards."""

import itertools
import json
import os
import random
import resource
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.config import parts
from glassformer.config.errors import RunError
from glassformer.config.messages import listening
from glassformer.config.parts import HOST
from glassformer.runs import checkpoints, files, folders, run
from glassformer.runs.checkpoints import Checkpoint, list_checkpoints, load_checkpoint, save_checkpoint
from glassformer.runs.run import Run
from helpers.running import identical, steps_saved
from helpers.support import numbers


def contents(step: int, size: int = 7) -> Checkpoint:
    weights = {"embed.weight": numbers(size, 3, seed=step, dtype=torch.float32), "norm": torch.full((5,), float(step))}
    optimiser = {"embed.weight/average": numbers(size, 3, seed=step + 1), "embed.weight/step": torch.tensor(step)}
    average = {"embed.weight": numbers(size, 3, seed=step + 2, dtype=torch.float32)}
    return weights, optimiser, {"step": step, "best_score": step + 0.5, "best_step": 0}, average


def save(run: Path, step: int, keep: int = 2, size: int = 7) -> Path:
    weights, optimiser, state, average = contents(step, size)
    return save_checkpoint(run / "checkpoints", step, weights, optimiser, state, keep, average)


def newest(run: Path) -> tuple[int | None, list[str]]:
    """The step of the newest whole checkpoint, its content checked; and what was said on the way."""
    said: list[str] = []
    with listening(said.append):
        found = Run(run).newest_checkpoint()
    if found is None:
        return None, said
    weights, optimiser, state, average = contents(found[2]["step"], len(found[0]["embed.weight"]))
    identical(found[0], weights)
    identical(found[1], optimiser)
    assert found[2] == state
    identical(found[3], average)
    return state["step"], said


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = save(tmp_path, 4)
    assert path == tmp_path / "checkpoints" / "step-4"
    weights, optimiser, state, average = load_checkpoint(path)
    identical(weights, contents(4)[0])
    identical(optimiser, contents(4)[1])
    assert state == contents(4)[2]
    identical(average, contents(4)[3])
    assert newest(tmp_path) == (4, [])


def test_without_an_average_there_is_none_in_the_file(tmp_path: Path) -> None:
    weights, optimiser, state, _ = contents(4)
    path = save_checkpoint(tmp_path, 4, weights, optimiser, state, keep=1)
    assert {file.name for file in path.iterdir()} == {*FILES}
    assert set(json.loads((path / "state.json").read_text())["digests"]) == {*FILES}
    loaded = load_checkpoint(path)
    identical(loaded[0], weights)
    assert loaded[2:] == (state, {})


def test_the_newest_are_kept_and_nothing_is_left_lying(tmp_path: Path) -> None:
    for step in (1, 5, 9, 10, 100):
        save(tmp_path, step)
    assert steps_saved(tmp_path) == [10, 100]  # by number, not by name
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-10", "step-100"]
    save(tmp_path, 101, keep=1)
    assert steps_saved(tmp_path) == [101]


def test_a_checkpoint_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 3)
    (tmp_path / "checkpoints" / "step-3" / SHARD).write_bytes(b"torn")
    save(tmp_path, 3)
    assert newest(tmp_path) == (3, [])


def test_none_yet(tmp_path: Path) -> None:
    assert newest(tmp_path) == (None, [])
    assert list_checkpoints(tmp_path / "checkpoints") == []


def test_others_may_read_them(tmp_path: Path) -> None:
    """As readable as any file that is made here: a run may be given to a colleague."""
    before = os.umask(0o022)
    try:
        path = save(tmp_path, 1)
        Run(tmp_path).write_weights(contents(1)[0])
    finally:
        os.umask(before)
    for file in (*path.iterdir(), tmp_path / "model.safetensors"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o644, file


# --- torn ---

SHARD = "shard-00001-of-00001.safetensors"
FILES = (SHARD, "state.json")


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def removed(file: Path) -> None:
    file.unlink()


def lengthened(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"}")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncated, emptied, removed, lengthened])
def test_a_torn_checkpoint_is_passed_over_and_said(tmp_path: Path, name: str, damage: Any) -> None:
    save(tmp_path, 3)
    torn = save(tmp_path, 6)
    damage(torn / name)
    step, said = newest(tmp_path)
    assert step == 3
    assert len(said) == 1
    assert "step-6" in said[0]
    assert name in said[0]
    assert "\n" not in said[0]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_anywhere_is_noticed(tmp_path: Path, name: str) -> None:
    """In the numbers, in their names, in the digests, in the state itself. (Only one blank for another passes.)"""
    save(tmp_path, 3)
    file = save(tmp_path, 6) / name
    whole = file.read_bytes()
    places = range(len(whole)) if name == "state.json" else random.Random(0).sample(range(len(whole)), 60)
    for place in places:
        for bit in (0, place % 8):
            torn = bytearray(whole)
            torn[place] ^= 1 << bit
            file.write_bytes(torn)
            step, said = newest(tmp_path)
            blank = whole[place : place + 1].isspace() and torn[place : place + 1].isspace()
            assert step == 3 or blank, f"bit {bit} of byte {place}, {whole[place : place + 1]!r}"
            assert blank or "step-6" in said[0]


def test_a_folder_of_checkpoints_all_torn(tmp_path: Path) -> None:
    for step in (3, 6):
        truncated(save(tmp_path, step) / SHARD)
    step, said = newest(tmp_path)
    assert step is None
    assert len(said) == 2


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_torn_one_is_never_kept_in_place_of_a_whole_one(tmp_path: Path, keep: int) -> None:
    """Step 100 is torn, so the run goes on from 50: what it saves from there on must stay."""
    save(tmp_path, 50, keep=2)
    truncated(save(tmp_path, 100, keep=2) / SHARD)
    for step in (60, 70, 80):
        save(tmp_path, step, keep=keep)
        assert newest(tmp_path)[0] == step
    assert steps_saved(tmp_path) == [50, 60, 70, 80][-keep:]


def test_loading_says_what_is_wrong(tmp_path: Path) -> None:
    path = save(tmp_path, 6)
    lengthened(path / SHARD)
    with pytest.raises(RunError, match=r"step-6/shard-.*\.safetensors is not as it was written"):
        load_checkpoint(path)
    (path / "state.json").write_text(json.dumps([1]))
    with pytest.raises(RunError, match=r"step-6/state\.json"):
        load_checkpoint(path)


def test_a_write_that_fails_leaves_the_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 3)
    folder = tmp_path / "checkpoints"
    (folder / f".step-6.{HOST}-{os.getpid()}.part").write_text("a file where a folder should be made")
    monkeypatch.setattr("glassformer.config.parts.sweep", lambda *args: None)
    with pytest.raises(RunError, match=r"cannot write .*step-6"):
        save(tmp_path, 6)
    assert newest(tmp_path) == (3, [])


# --- killed ---


WRITERS = {module.__file__ for module in (checkpoints, files, folders, parts, run, shutil)}
"""Where lines of code change what is on the disk."""


def before_line(number: int) -> None:
    """This process is killed when it comes to a line of what writes: of every seven lines, the so-manieth."""
    left = itertools.count(7 * number, -1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in WRITERS:
            return None
        if event == "line" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def within_file(number: int) -> None:
    """This process is killed when it writes more than so many pieces of 50 bytes into one file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50 * number, 50 * number))


def deaths(work: Callable[[], object]) -> Iterator[int]:
    """Let processes of their own work, each killed a moment later than the one before, until one comes to the end."""
    for kill in (before_line, within_file):
        for moment in itertools.count():
            child = os.fork()
            if child == 0:
                try:
                    kill(moment)
                    work()
                    os._exit(0)
                finally:
                    os._exit(1)
            status = os.waitpid(child, 0)[1]
            if status == 0:
                break
            assert os.WIFSIGNALED(status), "it failed by itself"
            yield moment
        assert moment > 5, "hardly ever killed: this test shows nothing"


def hidden(folder: Path) -> int:
    return sum(path.name.startswith(".") for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("keep", [1, 2])
def test_killed_at_any_moment_there_is_a_whole_checkpoint(tmp_path: Path, keep: int) -> None:
    """Again and again; each time the last checkpoint, or the one that was being written, is whole, and it goes on."""
    last = interrupted = done = 0
    save(tmp_path, last, keep)

    def work() -> None:
        save(tmp_path, last + 1, keep)

    for _ in deaths(work):
        interrupted += hidden(tmp_path / "checkpoints")
        step, said = newest(tmp_path)
        assert step in (last, last + 1)
        assert said == []  # renamed as a whole: never half there
        done += step == last + 1
        last = step + 1
        save(tmp_path, last, keep)
        assert len(steps_saved(tmp_path)) <= keep
    assert interrupted > 9, "hardly ever killed while writing: this test shows nothing"
    assert done > 3, "hardly ever killed after writing: this test shows nothing"


def test_who_reads_while_it_is_written_reads_the_old_file_to_its_end(tmp_path: Path) -> None:
    """New files take the place of old ones whole; none is ever written into."""
    run = Run(tmp_path)
    for step in (1, 2):
        run.write_weights({"weight": torch.full((7,), float(step))})
        run.write_card({"step": step})
        run.rewind_metrics(0)
        if step == 1:
            files = ("model.safetensors", "glassformer.json", "metrics.jsonl")
            before = {name: ((tmp_path / name).open("rb"), (tmp_path / name).read_bytes()) for name in files}
    for name, (file, content) in before.items():
        with file:
            assert file.read() == content
            assert os.fstat(file.fileno()).st_ino != (tmp_path / name).stat().st_ino, name
    assert run.card()["step"] == 2


@pytest.mark.slow
def test_killed_at_any_moment_weights_and_card_are_whole(tmp_path: Path) -> None:
    run = Run(tmp_path)
    last = interrupted = 0

    def work() -> None:
        run.write_weights({"weight": torch.full((100,), float(last + 1))})
        run.write_card({"step": last + 1, "long": [last + 1] * 100})

    run.write_weights({"weight": torch.zeros(100)})
    run.write_card({"step": 0, "long": [0] * 100})
    for _ in deaths(work):
        weight = load_file(tmp_path / "model.safetensors")["weight"]
        card = run.card()
        assert len(weight) == 100
        assert (weight == weight[0]).all()
        assert card["long"] == [card["step"]] * 100
        assert last <= card["step"] <= weight[0] <= last + 1
        last = card["step"]
        interrupted += hidden(tmp_path)
    work()
    assert not hidden(tmp_path)  # who writes next takes it away
    assert interrupted > 9, "hardly ever killed while writing: this test shows nothing"
    assert last > 0, "never killed after writing: this test shows nothing"
