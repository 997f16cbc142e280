"""A backend starts processes, says which have ended, and stops them. What they do, they leave in files."""

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
from typing import Any, Protocol, Self

LOCAL, SLURM, RAY = BACKENDS = "local", "slurm", "ray"
"""The names of the backends, as `--on` takes them."""
STDIN = 0
GRACE = 60.0
"""Seconds that processes have to save where they stand when they are stopped."""
KILLED = (
    "it was killed by the system, most likely for want of memory: lower --batch-size, --model.context or --size, or "
    "train fewer at once (--jobs)"
)
STOPPED = 75
"""The exit code of a process that was asked to stop, and goes on from there when it is started again."""
RETRIES = 2
"""How often a process that was lost on another machine is started again before it counts as failed."""


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """A process that is to be started: a module of ours with its arguments."""

    name: str
    """No other of the same work has it."""
    module: str
    arguments: tuple[str, ...]
    log: Path
    """Where what it prints is added."""
    result: Path | None = None
    """The file that it leaves when it is done, if any."""
    threads: int | None = None
    """How many it is told to take by its own settings."""
    takes_gpu: bool = True
    """Whether it takes a GPU if it is given one."""

    def command(self, python: str = sys.executable) -> list[str]:
        return [python, "-m", self.module, *self.arguments]


@dataclass(frozen=True)
class ProcessEnd:
    """A process that is no more."""

    name: str
    code: int | None
    """Its exit code, below 0 the signal that ended it; None: it was lost, or nobody knows."""
    why: str
    """Why it left no result, in one line."""

    @classmethod
    def of(cls, spec: ProcessSpec, code: int) -> Self:
        """The end of a process with an exit code."""
        if code >= 0:
            return cls(spec.name, code, f"it ended with code {code} and no result (see {spec.log})")
        if code == -signal.SIGKILL:
            return cls(spec.name, code, f"{KILLED} (see {spec.log})")
        name = signal.Signals(-code).name
        return cls(spec.name, code, f"it was ended by signal {-code} ({name}; see {spec.log})")


class Watcher(Protocol):
    """Follows specs while a backend runs them."""

    def prepare(self, specs: Sequence[ProcessSpec]) -> None:
        """Get ready for specs that are about to start."""

    def look(self, running: Sequence[str]) -> None:
        """Read what the running specs, by name, have done since the last look."""

    def starts_again(self, end: ProcessEnd) -> bool:
        """Return whether a spec that has ended is started again."""


@dataclass(kw_only=True)
class Backend(ABC):
    """Where processes run: it starts them, says which have ended, and stops them."""

    jobs: int | None = None
    """How many run at once; None: as many as there is room for."""
    retries: int = RETRIES
    """How often one that left no result is started again."""
    pause: float = 0.2
    """Seconds between two looks at what they have done."""
    running: dict[str, Any] = field(default_factory=dict)
    """What a backend knows of each process that runs, by the name of its spec."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What a person should know of it, in a few words; none, where one process after another is started here."""

    def adopt(self, specs: Sequence[ProcessSpec]) -> set[str]:
        """The names of those that an earlier command has started here, and that still wait or run."""
        return set()

    def startable(self, specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
        """Those that there is room for now, in their order."""
        return specs if self.jobs is None else specs[: max(0, self.jobs - len(self.running))]

    @abstractmethod
    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start them all, whether or not there is room."""

    @abstractmethod
    def ended(self) -> list[ProcessEnd]:
        """What has ended since this was asked last."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all that run to save and stop, and wait for them. Nothing happens where nothing runs."""

    def run(self, specs: Sequence[ProcessSpec], watcher: Watcher) -> Generator[ProcessEnd]:
        """Run specs, as many at once as there is room for, and yield each final end. Stop all that run at the end."""
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
                        if watcher.starts_again(end):
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
    """In a process of a spec: who started it may hold the other end of its stdin, and says nothing; where that ends,
    `then` is called, in a thread. A job of Slurm has no such parent, and lives on.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(STDIN).st_mode):
            return
    except OSError:  # it has none
        return

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(STDIN, 1024):
                pass
        then()

    threading.Thread(target=watch, daemon=True).start()
