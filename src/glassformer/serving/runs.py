"""The served runs. A run is loaded on first use; if memory is short, the least recently used run is unloaded."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.families.load import load, opened_run
from glassformer.runs import history
from glassformer.runs.run import Run
from glassformer.serving.guard import Refused
from glassformer.serving.worker import Busy, Stopping, Worker

Used = TypeVar("Used")

ROOM_WAIT = 10.0
"""Seconds to wait for busy runs to become idle, so that they can be unloaded for another run."""
OVERHEAD = 1.2
"""Memory of a loaded run, including the memory of a forward pass, relative to its weights."""


class UnknownRun(Refused):
    """A name that no served run has."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message, "model_not_found")


class ServedRuns:
    """Runs by name. `use` calls a function with the worker of a run."""

    def __init__(
        self,
        runs: Sequence[str | os.PathLike[str] | Run],
        *,
        device: str,
        precision: str,
        memory: int | None,
        waiting: int,
    ) -> None:
        """Open the runs without loading their models.

        `memory`: maximum number of bytes of all loaded runs, or None. `waiting`: maximum number of requests that wait
        for a run.
        """
        self._device, self._precision, self._memory, self._waiting = device, precision, memory, waiting
        self.runs: dict[str, Run] = {}
        for run in map(opened_run, runs):
            name = run.path.resolve().name
            if name in self.runs and self.runs[name].path.resolve() != run.path.resolve():
                raise Misuse(f"two runs are called {name}, {self.runs[name].path} and {run.path}: rename one of them")
            self.runs[name] = run
        for run in self.runs.values():
            run.verify_card()
        self.cards = {name: run.card() for name, run in self.runs.items()}
        self.created = {name: int(run.weights_path.stat().st_mtime) for name, run in self.runs.items()}
        """Modification time of each run's weights, read once like the card: a run may be deleted while it is served."""
        self._workers: dict[str, Worker] = {}
        """Workers by run name, the most recently used last."""
        for name, run in self.runs.items():
            if memory is not None and self.bytes_of(name) > memory:
                needed = f"{self.bytes_of(name) / 2**30:.2g} GiB"
                raise Misuse(f"{run.path} takes about {needed}, more than --model-memory {memory / 2**30:.3g} GiB")
        self._lock = threading.Lock()
        self._over = False

    def bytes_of(self, name: str) -> int:
        """Return an estimate of the bytes that a run takes.

        This includes its weights, a second copy of them if it kept checkpoints, and the caches of its texts.
        """
        run, worker = self.runs[name], self._workers.get(name)
        weights = 4 * self.cards[name]["parameters"] * (2 if history.steps_of(run) else 1)
        return int(weights * OVERHEAD) + (0 if worker is None else worker.cache_bytes)

    def find(self, name: str | None) -> str:
        """Return the name of a served run; None means the only run if just one is served."""
        if name is None and len(self.runs) == 1:
            name = next(iter(self.runs))
        if name is None:
            raise UnknownRun(f"say which run (`model` under /v1, `run` under /api): one of {', '.join(self.runs)}")
        if name not in self.runs:
            raise UnknownRun(f"there is no model '{name[:80]}' here; there is {', '.join(self.runs)}")
        if not self.can_answer(name) and (error := self.deleted(name)):
            raise error
        return name

    def can_answer(self, name: str) -> bool:
        """Return whether a run is in memory or its folder still exists."""
        worker = self._workers.get(name)
        return (worker is not None and not worker.failed) or self.deleted(name) is None

    def deleted(self, name: str) -> UnknownRun | None:
        """Return the error for a run whose folder no longer exists, else None."""
        if self.runs[name].weights_path.exists():
            return None
        return UnknownRun(f"the folder of {name} was moved or deleted while it was served")

    def use(self, name: str, use: Callable[[Worker], Used]) -> Used:
        """Call `use` with the worker of a run, which may still be loading, and return the result.

        This may wait for memory. The worker cannot be unloaded before `use` has given it work.
        """
        until = time.monotonic() + ROOM_WAIT
        while True:
            with self._lock:
                if self._over:
                    raise Stopping
                worker = self._workers.pop(name, None)
                if worker is not None and worker.failed:
                    worker = None
                if worker is None and self._make_room(name):
                    loading = partial(load, self.runs[name], self._device, precision=self._precision)
                    worker = Worker(loading, waiting=self._waiting, name=name)
                if worker is not None:
                    self._workers[name] = worker
                    return use(worker)
            if time.monotonic() > until:
                raise Busy
            time.sleep(0.05)

    def _make_room(self, name: str) -> bool:
        """Unload idle runs until another run fits; return whether it does."""
        while self._memory is not None and self.bytes_of(name) + self.bytes_held() > self._memory:
            idle = next((other for other, worker in self._workers.items() if worker.idle), None)
            if idle is None:
                return False
            self._workers.pop(idle).stop()
        return True

    def bytes_held(self) -> int:
        return sum(map(self.bytes_of, self._workers))

    @property
    def loaded(self) -> dict[str, Worker]:
        """Workers of the runs that are loaded or being loaded."""
        with self._lock:
            return dict(self._workers)

    def stop(self) -> None:
        """Stop all workers. Requests that are still running end with `Stopping`."""
        with self._lock:
            self._over = True
        for worker in self.loaded.values():
            worker.stop(wait=10)


def check_runs(runs: Sequence[str | os.PathLike[str] | Run]) -> None:
    """Raise an error if there are no runs, or if a run has no weights."""
    if not runs:
        raise Misuse("name at least one RUN to serve")
    for run in runs:
        if not (opened := opened_run(run)).weights_path.exists():
            raise GlassformerError(f"{opened.path} has no weights yet: train it to its end")
