"""Processes of this machine."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from glassformer.data.wording import counted
from glassformer.trials.backends.base import GRACE, Backend, ProcessEnd, ProcessSpec
from glassformer.trials.backends.gpus import VARIABLE, Gpu, Needs, assign_gpus


@dataclass
class _Process:
    spec: ProcessSpec
    process: "subprocess.Popen[bytes]"
    gpu: str | None


@dataclass(kw_only=True)
class Local(Backend):
    """So many at once, each with its share of the cores; on a machine with GPUs, each with one of them, alone or
    beside others.
    """

    jobs: int | None = 1
    threads: int | None = None
    """Of each process; None: as the environment says."""
    lock: IO[str] | None = None
    """What the processes hold open as well, so that a folder stays locked until the last of them is gone."""
    gpus: Sequence[Gpu] = ()
    gpu_needs: Needs = field(default_factory=dict)
    """Of specs, by their names, where they were planned."""
    retries: int = 0
    pause: float = 0.05
    running: dict[str, _Process] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        each = "" if self.threads is None else f", {counted(self.threads, 'thread')} each: times depend on it"
        return f"{self.jobs} at once{each}" if self.jobs != 1 else ""

    def startable(self, specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
        assigned = self._assign_gpus(specs)
        return super().startable(
            [spec for spec in specs if spec.name in assigned or not (spec.takes_gpu and self.gpus)]
        )

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        assigned = self._assign_gpus(specs)
        locks = () if self.lock is None else (self.lock.fileno(),)
        for spec in specs:
            gpu = assigned.get(spec.name)
            process = start_process(spec.command(), spec.log, self._environment(gpu), pass_fds=locks)
            self.running[spec.name] = _Process(spec, process, gpu)

    def _environment(self, gpu: str | None) -> dict[str, str]:
        names = () if self.threads is None else ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
        own = {} if gpu is None else {VARIABLE: gpu}
        return {**{name: str(self.threads) for name in names}, **own}

    def _assign_gpus(self, specs: Sequence[ProcessSpec]) -> dict[str, str]:
        needs = {spec.name: self.gpu_needs.get(spec.name) for spec in specs if spec.takes_gpu}
        running = [(job.gpu, self.gpu_needs.get(name)) for name, job in self.running.items() if job.gpu is not None]
        return assign_gpus(needs, self.gpus, running)

    def ended(self) -> list[ProcessEnd]:
        ends = []
        for name, job in list(self.running.items()):
            if (code := job.process.poll()) is not None:
                self._forget(name)
                ends.append(ProcessEnd.of(job.spec, code))
        return ends

    def _forget(self, name: str) -> None:
        job = self.running.pop(name)
        if job.process.stdin is not None:
            job.process.stdin.close()

    def stop(self) -> None:
        """What does not stop in time is killed, and a second Ctrl-C kills at once."""
        for job in self.running.values():
            job.process.terminate()
        give_up = time.monotonic() + GRACE
        for name, job in list(self.running.items()):
            try:
                job.process.wait(max(0.1, give_up - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                for other in self.running.values():
                    other.process.kill()
                job.process.wait()
            self._forget(name)


def start_process(
    command: Sequence[str], log: Path, environment: Mapping[str, str], *, pass_fds: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a process that adds its output to `log`, and stops when this process, which holds its stdin, is gone."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for this process, which passes it on
            pass_fds=pass_fds,
        )
