"""The script of docs/clusters.md on a real Slurm of one node: srun starts two processes, which save when their time is
up, are queued again, and end where torchrun's two do.
"""

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.running import DATA, PATIENCE, begin, finish, flags, identical, log_of, steps_saved, tensors_of, tiny
from helpers.slurm_cluster import slurm_commands, slurm_says

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with slurm_commands(tmp_path_factory.mktemp("slurm")) as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def script(out: Path, settings: dict[str, object]) -> str:
    """The page's, with another training, as two processes of one node."""
    (text,) = re.findall(r"```\n(#!/bin/bash\n.*?)```", PAGE.read_text(), re.DOTALL)
    command = [sys.executable, "-m", "glassformer.cli.main", "train", DATA, "--out", str(out), *flags(settings)]
    text = re.sub(r"--nodes=.*?--time=\S+", f"--ntasks=2 --output={out}.txt", text)
    return re.sub(r"(?m)^srun (?:.*\\\n)*.*", f"srun {shlex.join(command)} --resume", text)


def facts_of(job: str) -> dict[str, str]:
    """What Slurm knows of a job."""
    return dict(re.findall(r"(\w+)=(\S+)", slurm_says("scontrol", "show", "job", job)))


def processes_of(out: Path) -> list[int]:
    """The numbers of the processes that train there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(out) in words and b"python" in words[0]:
            found.append(int(path.parent.name))
    return found


def has_pending(process: int, number: int) -> bool:
    """Whether a signal waits for a process that is stopped."""
    (mask,) = re.findall(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process}/status").read_text())
    return bool(int(mask, 16) >> (number - 1) & 1)


def until(true: Callable[[], object], out: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while not true():
        said = Path(f"{out}.txt")
        assert time.monotonic() < give_up, said.read_text() if said.exists() else "it never began"
        time.sleep(0.05)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_srun_trains_saves_and_goes_on(parallel: str, tmp_path: Path) -> None:
    settings = tiny(training__steps=60, training__checkpoint_every=5, training__threads=1, training__parallel=parallel)
    whole, out = tmp_path / "whole", tmp_path / "out"
    code, _, err = finish(begin("train", DATA, "--out", str(whole), *flags(settings), world=2))
    assert code == 0, err
    (tmp_path / "job.sh").write_text(script(out, settings))
    job = slurm_says("sbatch", "--parsable", str(tmp_path / "job.sh")).strip()
    until(lambda: out.exists() and steps_saved(out), out)
    processes = processes_of(out)
    for process in processes:
        os.kill(process, signal.SIGSTOP)  # they are not done before they are told
    stopped = steps_saved(out)[-1]
    slurm_says("scancel", "--signal=USR1", job)
    until(lambda: all(has_pending(process, signal.SIGUSR1) for process in processes), out)
    for process in processes:
        os.kill(process, signal.SIGCONT)
    until(lambda: facts_of(job)["JobState"] in ("COMPLETED", "FAILED", "CANCELLED"), out)
    facts, said = facts_of(job), Path(f"{out}.txt").read_text()
    assert len(processes) == 2
    assert (facts["JobState"], facts["ExitCode"], facts["Restarts"]) == ("COMPLETED", "0:0", "1"), said
    saved = [int(step) for step in re.findall(r"stopped after step (\d+) and saved", said)]
    assert len(saved) == 1
    assert stopped <= saved[0] < 60
    assert f"going on after {saved[0]}" in said
    assert "Traceback" not in said
    identical(tensors_of(out), tensors_of(whole))
    assert log_of(out) == log_of(whole)
