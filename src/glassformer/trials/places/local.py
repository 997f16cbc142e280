"""Processes of this machine."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from glassformer.data.wording import counted
from glassformer.trials.places.base import GRACE, Task, TaskEnd


@dataclass
class _Process:
    task: Task
    process: "subprocess.Popen[bytes]"
    device: str | None


@dataclass(kw_only=True)
class Local:
    """So many at once, each with its share of the cores; on a machine with several GPUs, each with one of them."""

    room: int | None
    threads: int | None = None
    """Of each process; None: as the environment says."""
    lock: IO[str] | None = None
    """What the processes hold open as well, so that a folder stays locked until the last of them is gone."""
    devices: Sequence[str] = ()
    """The GPUs, as CUDA_VISIBLE_DEVICES names them."""
    retries: int = 0
    pause: float = 0.05
    running: dict[str, _Process] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        each = "" if self.threads is None else f", {counted(self.threads, 'thread')} each: times depend on it"
        return f"{self.room} at once{each}" if self.room != 1 else ""

    def adopt(self, tasks: Sequence[Task]) -> set[str]:
        return set()

    def start(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            device = self._free_device() if task.takes_gpu else None
            with task.log.open("ab") as log:
                process = subprocess.Popen(
                    task.command(),
                    stdin=subprocess.PIPE,  # held open as long as this process lives
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._environment(device)},
                    start_new_session=True,  # Ctrl-C is for us, and we pass it on
                    pass_fds=() if self.lock is None else (self.lock.fileno(),),
                )
            self.running[task.name] = _Process(task, process, device)

    def _environment(self, device: str | None) -> dict[str, str]:
        names = () if self.threads is None else ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
        own = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
        return {**{name: str(self.threads) for name in names}, **own}

    def _free_device(self) -> str | None:
        """The GPU with the fewest processes; None where there is no choice."""
        if len(self.devices) < 2:
            return None
        taken = Counter(job.device for job in self.running.values())
        return min(self.devices, key=lambda device: taken[device])

    def ended(self) -> list[TaskEnd]:
        ends = []
        for name, job in list(self.running.items()):
            if (code := job.process.poll()) is not None:
                self._forget(name)
                ends.append(TaskEnd(name, code, _why_ended(code, job.task)))
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


def visible_gpus() -> list[str]:
    """This machine's GPUs, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


def _why_ended(code: int, task: Task) -> str:
    if code == -signal.SIGKILL:
        return (
            "it was killed by the system, most likely for want of memory: lower --batch-size, --model.context or "
            "--size, or train fewer at once (--jobs)"
        )
    if code < 0:
        return f"it was ended by signal {-code} ({signal.Signals(-code).name}; see {task.log})"
    return f"it ended with code {code} and no result (see {task.log})"
