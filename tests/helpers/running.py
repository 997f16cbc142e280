"""Real trainings of tiny models: in this process through the verb, or in one of their own through the command line."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer.config.encoders import ENCODERS
from glassformer.config.resolve import used_keys
from glassformer.runs.checkpoints import list_checkpoints, load_checkpoint
from glassformer.runs.run import Run
from glassformer.training.events import Event, Stepped
from glassformer.verbs.train import Trained, train

DATA = "reverse:rows=300"
CAUSAL = [name for name, info in ENCODERS.items() if info.causal]
SMALL = {"layers": 2, "heads": 2, "width": 8, "hidden": 11, "window": 3, "kernel": 3, "context": 16}
QUICK = {"tokenizer.kind": "char", "training.batch_size": 4, "training.samples": False}

PATIENCE = 900
"""Seconds after which a process is taken to hang: the machine may be busy."""

TINY = ["--size", "nano", "--steps", "2", "--batch-size", "2", "--model.context", "8", "--tokenizer.kind", "char"]

Settings = Mapping[str, Any]
Command = Callable[..., tuple[int, str, str]]
"""Words of the command line → exit code, stdout, stderr."""


def tiny(encoder: str = "transformer", **more: Any) -> dict[str, Any]:
    """Settings of a model that trains in milliseconds; `more` by dotted key, with __ for the dot."""
    used = used_keys(encoder)
    sizes = {f"model.{key}": value for key, value in SMALL.items() if key in used}
    return {
        "model.encoder": encoder,
        **sizes,
        **QUICK,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


PLAIN = {"dropout": 0.0, "word_dropout": 0.0, "pool": "mean", "head_layers": 0}


def labelled(encoder: str, **more: Any) -> dict[str, Any]:
    """The same for what learns labels or numbers, of every word; nothing is left to what a default may become."""
    used = used_keys(encoder)
    plain = {f"model.{key}": value for key, value in PLAIN.items() if key in used}
    settings = {**plain, "tokenizer.min_count": 1, **tiny(encoder, **more)}
    return {key: value for key, value in settings.items() if key not in ("training.samples", "tokenizer.kind")}


def train_here(out: Path, settings: Settings, **more: Any) -> Trained:
    return train(DATA, out=out, **more, **settings)


def flags(settings: Settings) -> list[str]:
    """The same settings as words of the command line."""
    return [word for key, value in settings.items() for word in (f"--{key}", str(value).lower())]


class SignalAfter(NamedTuple):
    """A signal that comes right after a step of a training, to the process of this rank."""

    step: int
    number: int
    rank: int = 0


class Rendezvous(NamedTuple):
    """Where several machines meet; here, agents of torchrun on this one. Who is lost is missed soon."""

    nodes: str
    """How many, or from how many to how many: 1:2."""
    port: int
    hosts: bool
    """Whether they meet at this one."""

    def flags(self) -> list[str]:
        soon = "last_call_timeout=15,keep_alive_interval=2,keep_alive_max_attempt=6"
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{self.port}", "--rdzv-id", "1"]
        return ["--nnodes", self.nodes, *where, "--rdzv-conf", f"is_host={int(self.hosts)},{soon}"]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def begin(
    *words: str,
    world: int = 1,
    restarts: int = 0,
    rendezvous: Rendezvous | None = None,
    signal: SignalAfter | None = None,
    **more: Any,
) -> "subprocess.Popen[str]":
    """`glassformer …` in a process of its own, or in several through torchrun, which may start them again; with a
    `rendezvous`, as one of several machines.
    """
    python = [sys.executable]
    if world > 1 or rendezvous is not None:
        where = ["--standalone"] if rendezvous is None else rendezvous.flags()
        python += ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(world)]
        python += ["--max-restarts", str(restarts), "--monitor-interval", "0.5"]
    script = ["-m", "glassformer.cli.main"]
    if signal is not None:
        script = [str(Path(__file__).with_name("signalled.py")), *(str(int(part)) for part in signal)]
    return subprocess.Popen(
        [*python, *script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **more,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code, stdout and stderr, without waiting forever."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def command(*words: str, **more: Any) -> tuple[int, str, str]:
    return finish(begin(*words, **more))


def wait_for(true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Until something is true of what a process does."""
    give_up = time.monotonic() + PATIENCE
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, f"waited {PATIENCE} s"
        time.sleep(0.002)


class StopAfter:
    """A listener that sends this process a real signal after a step, as Ctrl-C or a cluster would; keeps all events."""

    def __init__(self, step: int, number: int = signal.SIGTERM) -> None:
        self.step = step
        self.number = number
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Stepped) and event.step == self.step:
            os.kill(os.getpid(), self.number)


def move_clock(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """In these modules, a clock that goes on by a hundredth of a second each time it is looked at."""
    ticks = itertools.count()
    for module in modules:
        patch.setattr(f"glassformer.{module}.time", SimpleNamespace(perf_counter=lambda: next(ticks) / 100))


def steps_saved(run: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in list_checkpoints(run / "checkpoints")]


def tensors_of(run: Path) -> dict[str, Tensor]:
    """Every number that a run leaves: the best weights, and the newest checkpoint's weights, their average where there
    is one, and optimiser state.
    """
    checkpoint = load_checkpoint(list_checkpoints(run / "checkpoints")[-1])
    parts = {"model": load_file(run / "model.safetensors"), **checkpoint._asdict()}
    return {f"{part}: {name}": value for part in parts if part != "state" for name, value in parts[part].items()}


def log_of(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl, without what depends on the clock."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in Run(run).read_metrics()]


def losses_of(run: Path) -> list[float]:
    return [line["loss"] for line in log_of(run) if line["event"] == "step"]


def identical(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert not different, f"{len(different)} of {len(one)} differ: {different[:3]}"


def same_run(one: Path, other: Path) -> None:
    """Two runs that cannot be told apart, but for the time they took."""
    mine, theirs = (
        {key: value for key, value in Run(run).card().items() if key not in ("seconds", "command")}
        for run in (one, other)
    )
    assert mine == theirs
    assert steps_saved(one)[-1] == steps_saved(other)[-1]
    identical(tensors_of(one), tensors_of(other))
    assert log_of(one) == log_of(other)


def one_line(err: str) -> str:
    """The line that says what is wrong: the last, and the only one of its kind."""
    *before, last = err.strip().splitlines()
    assert last.startswith("glassformer: ")
    assert not any(line.startswith("glassformer: ") for line in before)
    assert "Traceback" not in err
    return last
