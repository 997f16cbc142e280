"""The runs that are served: loaded when the first asks for one; where memory is short, the least recently used goes."""

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
"""Seconds in which a run that is being used may make room for another."""
OVERHEAD = 1.2
"""Of weights: what they take in memory, with what a pass needs."""


class UnknownRun(Refused):
    """A name that none of the runs has."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message, "model_not_found")


class ServedRuns:
    """Runs by name; `get` gives one's worker."""

    def __init__(
        self,
        runs: Sequence[str | os.PathLike[str] | Run],
        *,
        device: str,
        precision: str,
        memory: int | None,
        waiting: int,
    ) -> None:
        """`memory`: bytes that all loaded runs may take, or None. `waiting`: requests that may wait for a run."""
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
        """The most recently used last."""
        for name, run in self.runs.items():
            if memory is not None and self.bytes_of(name) > memory:
                needed = f"{self.bytes_of(name) / 2**30:.2g} GiB"
                raise Misuse(f"{run.path} takes about {needed}, more than --model-memory {memory / 2**30:.3g} GiB")
        self._lock = threading.Lock()
        self._over = False

    def bytes_of(self, name: str) -> int:
        """About what a run takes: its weights, those of a moment of its training where they are kept, and once it
        writes what its rows remember.
        """
        run, worker = self.runs[name], self._workers.get(name)
        weights = 4 * self.cards[name]["parameters"] * (2 if history.steps_of(run) else 1)
        return int(weights * OVERHEAD) + (0 if worker is None else worker.cache_bytes)

    def find(self, name: str | None) -> str:
        """Return the name of a run that is served; if only one is served, None means that one."""
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
        """Return whether a run is in memory, or its folder is still there."""
        worker = self._workers.get(name)
        return (worker is not None and not worker.failed) or self.deleted(name) is None

    def deleted(self, name: str) -> UnknownRun | None:
        """Return the error of a run whose folder is no longer there, else None."""
        if self.runs[name].weights_path.exists():
            return None
        return UnknownRun(f"the folder of {name} was moved or deleted while it was served")

    def use(self, name: str, use: Callable[[Worker], Used]) -> Used:
        """What comes of asking a run's worker, which may still be loading it. May wait a while for room; whoever is
        asked is busy from then on, and not let go.
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
        """Let idle runs go until another fits; gives whether it does."""
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
        """The workers of those that are loaded, or being so."""
        with self._lock:
            return dict(self._workers)

    def stop(self) -> None:
        """Whoever is being answered is told that it is over."""
        with self._lock:
            self._over = True
        for worker in self.loaded.values():
            worker.stop(wait=10)


def check_runs(runs: Sequence[str | os.PathLike[str] | Run]) -> None:
    """Refuse what is no run, or has none of its files."""
    if not runs:
        raise Misuse("name at least one RUN to serve")
    for run in runs:
        if not (opened := opened_run(run)).weights_path.exists():
            raise GlassformerError(f"{opened.path} has no weights yet: train it to its end")
