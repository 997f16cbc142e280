"""Workers and machines that are lost: the training goes on, and ends where one that nobody disturbed does."""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.killing_workers import ENDS, STARTS, TRAINS, WRITES, WorkerKiller, workers_of
from helpers.running import (
    DATA,
    Rendezvous,
    begin,
    finish,
    flags,
    free_port,
    identical,
    log_of,
    losses_of,
    steps_saved,
    tensors_of,
    tiny,
    wait_for,
)

FSDP = {"training.parallel": "fsdp"}

pytestmark = pytest.mark.slow


def test_a_killed_worker_is_started_again_and_the_run_goes_on(tmp_path: Path) -> None:
    """torchrun --max-restarts: killed at any moment, it ends where a run that nobody killed does. By hand: KILLS=20."""
    kills = int(os.environ.get("KILLS", "2"))
    steps = 30 * (kills + 2)  # more than are made between any two of them
    settings = tiny(training__steps=steps, training__checkpoint_every=5, training__batch_size=4, **FSDP)
    code, _, err = finish(begin("train", DATA, "--out", str(tmp_path / "whole"), *flags(settings), world=2))
    assert code == 0, err
    out = tmp_path / "killed"
    process = begin("train", DATA, "--out", str(out), *flags(settings), world=2, restarts=kills)
    killer = WorkerKiller(process, out, world=2, steps=steps)
    for moment in itertools.islice(itertools.cycle([WRITES, STARTS, TRAINS]), kills - 1):
        killer.kill(moment)
    killer.kill(ENDS)
    code, _, err = finish(process)
    assert code == 0, err
    assert killer.kills.total() == kills
    assert err.count("going on after") >= 1
    identical(tensors_of(out), tensors_of(tmp_path / "whole"))
    assert log_of(out) == log_of(tmp_path / "whole")


# --- machines: agents of torchrun that meet on this one ---


@contextlib.contextmanager
def machines(out: Path, settings: dict[str, object], nodes: str) -> "Iterator[list[subprocess.Popen[str]]]":
    """Two machines of one process each, on one training; the first is where they meet."""
    port = free_port()
    words = ["train", DATA, "--out", str(out), *flags(settings)]
    agents = [begin(*words, rendezvous=Rendezvous(nodes, port, hosts), restarts=3) for hosts in (True, False)]
    try:
        yield agents
    finally:
        for agent in agents:
            lose(agent)


def lose(agent: "subprocess.Popen[str]") -> None:
    """A machine is gone, with all that it does."""
    if agent.poll() is None:
        for process in (agent.pid, *workers_of(agent.pid)):
            os.kill(process, signal.SIGKILL)
        agent.communicate()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_machines_one_of_which_loses_its_worker(parallel: str, tmp_path: Path) -> None:
    """They end where two processes of one machine do, bit for bit."""
    settings = tiny(training__steps=60, training__checkpoint_every=5, training__parallel=parallel)
    whole, out = tmp_path / "whole", tmp_path / "out"
    code, _, err = finish(begin("train", DATA, "--out", str(whole), *flags(settings), world=2))
    assert code == 0, err
    with machines(out, settings, nodes="2") as (here, there):
        wait_for(lambda: steps_saved(out) >= [10], there)
        for worker in workers_of(there.pid):
            os.kill(worker, signal.SIGKILL)
        ended = [finish(agent) for agent in (here, there)]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert any("going on after" in err for _, _, err in ended)
    identical(tensors_of(out), tensors_of(whole))
    assert log_of(out) == log_of(whole)


def test_a_machine_is_lost_and_the_other_goes_on_alone(tmp_path: Path) -> None:
    """--nnodes 1:2: from the last checkpoint of two to the losses of two, to rounding."""
    settings = tiny(training__steps=60, training__checkpoint_every=5, **FSDP)
    whole, out = tmp_path / "whole", tmp_path / "out"
    code, _, err = finish(begin("train", DATA, "--out", str(whole), *flags(settings), world=2))
    assert code == 0, err
    with machines(out, settings, nodes="1:2") as (here, there):
        wait_for(lambda: bool(list(out.glob("checkpoints/step-*/shard-*-of-00002.safetensors"))), here)
        lose(there)
        code, _, err = finish(here)
    assert code == 0, err
    assert "going on after" in err
    assert list(out.glob("checkpoints/step-60/shard-00001-of-00001.safetensors"))
    assert losses_of(out) == pytest.approx(losses_of(whole), rel=2e-5)
