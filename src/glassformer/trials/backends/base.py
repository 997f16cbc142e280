"""A backend starts processes, reports which have ended, and stops them. The processes leave their results in files."""

import contextlib
import os
import signal
import stat
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

LOCAL, SLURM, RAY = "local", "slurm", "ray"
"""Names of the backends, as `--on` takes them."""
STDIN = 0
GRACE_SECONDS = 60.0
"""Seconds that a stopped process has to save a checkpoint."""
OUT_OF_MEMORY = (
    "it was killed by the system, most likely for lack of memory: lower --batch-size, --model.context or --size, or "
    "train fewer at once (--jobs)"
)
STOPPED = 75
"""Exit code of a process that was asked to stop, and that continues when it is restarted."""
RETRIES = 2
"""Maximum number of restarts of a process that was lost on another machine; then it counts as failed."""


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """A process to start: a module of this package with its arguments."""

    name: str
    """Unique among the processes of the same work."""
    module: str
    arguments: tuple[str, ...]
    log: Path
    """File that its output is appended to."""
    result: Path | None = None
    """File that it leaves when it is done, if any."""
    threads: int | None = None
    """Number of threads in its own settings."""
    takes_gpu: bool = True
    """Whether it uses a GPU if it is given one."""

    def command(self, python: str = sys.executable) -> list[str]:
        return [python, "-m", self.module, *self.arguments]


@dataclass(frozen=True)
class ProcessEnd:
    """A process that has ended."""

    name: str
    code: int | None
    """Exit code, below 0 the signal that ended it; None if unknown."""
    why: str
    """Reason why it left no result, in one line."""

    @classmethod
    def of(cls, spec: ProcessSpec, code: int) -> Self:
        """Return the end of a process with an exit code."""
        if code >= 0:
            return cls(spec.name, code, f"it ended with code {code} and no result (see {spec.log})")
        if code == -signal.SIGKILL:
            return cls(spec.name, code, f"{OUT_OF_MEMORY} (see {spec.log})")
        name = signal.Signals(-code).name
        return cls(spec.name, code, f"it was ended by signal {-code} ({name}; see {spec.log})")


class ProcessWatcher(Protocol):
    """Observer of the processes that a backend runs."""

    def prepare(self, specs: Sequence[ProcessSpec]) -> None:
        """Prepare for processes that are about to start."""

    def look(self, running: Sequence[str]) -> None:
        """Read what the running processes, by name, have done since the last call."""

    def restarts(self, end: ProcessEnd) -> bool:
        """Return whether a process that has ended is to be started again."""


Handle = TypeVar("Handle")


@dataclass(kw_only=True)
class Backend(ABC, Generic[Handle]):
    """Base class of backends, which run processes with a handle each."""

    jobs: int | None = None
    """Number of processes at once; None: as many as there is room for."""
    retries: int = RETRIES
    """Maximum number of restarts of a process that left no result."""
    pause: float = 0.2
    """Seconds between two checks of the processes."""
    running: dict[str, Handle] = field(default_factory=dict)
    """Handles of the running processes by name."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """A phrase about how processes run; empty if they run one after the other on this machine."""

    def adopt(self, specs: Sequence[ProcessSpec]) -> set[str]:
        """Return the names of processes that an earlier command started, and that still wait or run."""
        return set()

    def startable(self, specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
        """Return the processes that there is room for now, in their order."""
        return specs if self.jobs is None else specs[: max(0, self.jobs - len(self.running))]

    @abstractmethod
    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start all of these processes, whether or not there is room."""

    @abstractmethod
    def ended(self) -> list[ProcessEnd]:
        """Return the processes that have ended since the last call."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all running processes to save and stop, and wait for them."""

    def run(self, specs: Sequence[ProcessSpec], watcher: ProcessWatcher) -> Generator[ProcessEnd]:
        """Run processes, as many at once as there is room for, and yield each final end; stop the others at exit."""
        by_name = {spec.name: spec for spec in specs}
        try:
            with _interrupted_by_sigterm():
                running = self.adopt(specs)
                waiting = [spec for spec in specs if spec.name not in running]
                while waiting or running:
                    if starting := self.startable(waiting):
                        watcher.prepare(starting)
                        self.start(starting)
                        running = running | {spec.name for spec in starting}
                        waiting = [spec for spec in waiting if spec.name not in running]
                    time.sleep(self.pause)
                    watcher.look(sorted(running))
                    for end in self.ended():
                        running = running - {end.name}
                        if watcher.restarts(end):
                            waiting.append(by_name[end.name])
                        else:
                            yield end
        finally:
            self.stop()


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def when_parent_is_gone(then: Callable[[], None]) -> None:
    """Call `then`, in a thread, when the process that holds the other end of stdin has ended.

    Stdin of a Slurm job is not a pipe: the job outlives the command that submitted it.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(STDIN).st_mode):
            return
    except OSError:  # stdin is closed
        return

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(STDIN, 1024):
                pass
        then()

    threading.Thread(target=watch, daemon=True).start()
