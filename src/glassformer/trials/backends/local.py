"""Processes of this machine."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from glassformer.data.wording import counted
from glassformer.trials.backends.base import GRACE_SECONDS, Backend, ProcessEnd, ProcessSpec
from glassformer.trials.backends.gpus import VARIABLE, Gpu, Needs, assign_gpus


@dataclass
class _LocalProcess:
    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    gpu: str | None


@dataclass(kw_only=True)
class Local(Backend[_LocalProcess]):
    """Backend on this machine: processes have equal shares of the cores, and one GPU each if there are GPUs."""

    jobs: int | None = 1
    threads: int | None = None
    """Threads per process; None if the environment determines them."""
    lock: IO[str] | None = None
    """Lock file that the processes hold open too, so that the folder stays locked until all of them have ended."""
    gpus: Sequence[Gpu] = ()
    gpu_needs: Needs = field(default_factory=dict)
    """Planned GPU memory by the name of the process."""
    retries: int = 0
    pause: float = 0.05

    @property
    def summary(self) -> str:
        each = "" if self.threads is None else f", {counted(self.threads, 'thread')} each: times depend on it"
        return f"{self.jobs} at once{each}" if self.jobs != 1 else ""

    def startable(self, specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
        assigned = self._assign_gpus(specs)
        able = [spec for spec in specs if spec.name in assigned or not (spec.takes_gpu and self.gpus)]
        return super().startable(able)

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        assigned = self._assign_gpus(specs)
        locks = () if self.lock is None else (self.lock.fileno(),)
        for spec in specs:
            gpu = assigned.get(spec.name)
            environment = {} if self.threads is None else thread_variables(self.threads)
            environment |= {} if gpu is None else {VARIABLE: gpu}
            process = start_process(spec.command(), spec.log, environment, pass_fds=locks)
            self.running[spec.name] = _LocalProcess(spec, process, gpu)

    def _assign_gpus(self, specs: Sequence[ProcessSpec]) -> dict[str, str]:
        needs = {spec.name: self.gpu_needs.get(spec.name) for spec in specs if spec.takes_gpu}
        running = [(one.gpu, self.gpu_needs.get(name)) for name, one in self.running.items() if one.gpu is not None]
        return assign_gpus(needs, self.gpus, running)

    def ended(self) -> list[ProcessEnd]:
        codes = {name: one.process.poll() for name, one in self.running.items()}
        return [ProcessEnd.of(self._forget(name), code) for name, code in codes.items() if code is not None]

    def _forget(self, name: str) -> ProcessSpec:
        one = self.running.pop(name)
        if one.process.stdin is not None:
            one.process.stdin.close()
        return one.spec

    def stop(self) -> None:
        """Terminate all processes; kill them after the grace period, or at a second Ctrl-C."""
        for one in self.running.values():
            one.process.terminate()
        give_up = time.monotonic() + GRACE_SECONDS
        for name, one in list(self.running.items()):
            try:
                one.process.wait(max(0.1, give_up - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                for other in self.running.values():
                    other.process.kill()
                one.process.wait()
            self._forget(name)


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment variables that set the number of threads."""
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))


def start_process(
    command: Sequence[str], log: Path, environment: Mapping[str, str], *, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a process that appends its output to `log`, and stops when this process, which holds its stdin, ends."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches this process only, which passes it on
            pass_fds=pass_fds,
        )
