"""A thread that owns a run's model. It generates texts together, one token per step.

Other work runs between two steps and never shares a forward pass with the texts.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.config.progress import interruptible
from glassformer.decoding.running import RunningBatch, Written
from glassformer.encoders.base import State
from glassformer.families.base import Loaded
from glassformer.families.generate import Draft, Writer
from glassformer.models.build import parameter_count
from glassformer.models.modules import LanguageModel, device_of
from glassformer.serving.guard import Refused

ROWS = 16
"""Maximum number of texts generated at once. The batch always has the same number of rows, so texts do not affect
each other."""
CACHE = 2**30
"""Maximum number of bytes for the states of all rows; models with larger states get fewer rows."""
SMALL = 4_000_000
"""Maximum number of parameters for which a CPU computes with one thread. A step of a small model is too short to
divide, and the client needs a core too."""
THREADS = torch.get_num_threads()
TURN = 5.0
"""Seconds that long work may take while texts or short work wait for the same model."""
MAX_UNBOUNDED_TOKENS = 4096
"""Maximum number of tokens of a prompt if the model has no limit."""


class Busy(Refused):
    """Raised when the maximum number of requests is already waiting."""

    def __init__(self) -> None:
        super().__init__(429, "as many requests wait already as may wait: try again", "busy")


class Stopping(Refused):
    """Raised when the server is being stopped."""

    def __init__(self) -> None:
        super().__init__(503, "the server is being stopped", "stopping")


class Yielded(Refused):
    """Raised when long work is ended because other requests wait for the model."""

    def __init__(self) -> None:
        super().__init__(503, f"stopped after {TURN:g} s because other requests wait; try again later", "yielded")


class _Ended(BaseException):
    """Raised inside cancelled work; not an `Exception`, so that no view handles it as its own error."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason


class Job(Future[Any]):
    """Work on a model. `cancel` also ends running work, between two batches."""

    def __init__(self, work: Callable[[Loaded], Any], *, yields: bool) -> None:
        """Create a job that waits to be run.

        `yields`: the work may take long, and ends after `TURN` seconds if texts or short work wait.
        """
        super().__init__()
        self.work, self.yields = work, yields
        self.abandoned = False

    def cancel(self) -> bool:
        self.abandoned = True
        return super().cancel()


@dataclass(frozen=True)
class Piece:
    """Text generated since the previous piece."""

    text: str = ""
    written: Written | None = None
    """The token; None if it ended the text."""
    finish: str | None = None
    """Reason why the text has ended: stop (END or a stop string), length or error. None while it continues."""
    error: Exception | None = None


@dataclass(eq=False)
class Ticket:
    """A text that is being generated or waits for a free row."""

    draft: Draft
    deliver: Callable[[Piece], None]
    """Function that the worker's thread calls with each piece."""
    count: int = 0
    """Number of tokens generated so far."""
    cancelled: bool = False
    """True if the client no longer waits. Any thread may set it."""


class Worker:
    """Worker of one loaded run. A single thread does all work in order of arrival."""

    def __init__(self, load: Callable[[], Loaded], *, waiting: int, name: str) -> None:
        """Start the worker's thread, which calls `load`.

        `waiting`: maximum number of waiting texts, and of waiting jobs.
        """
        self._load, self._most = load, waiting
        self._tickets: deque[Ticket] = deque()
        self._jobs: deque[Job] = deque()
        self._writing: dict[int, Ticket] = {}
        self._change = threading.Condition()
        self._over = False
        self._busy = True  # until the model is loaded
        self._batch: RunningBatch | None = None
        self.cache_bytes = 0
        """Bytes of the states of all rows."""
        self.loaded: Loaded | None = None
        self._thread = threading.Thread(target=self._run, name=f"worker of {name}", daemon=True)
        self._thread.start()

    # --- from other threads ---

    def write(self, tickets: list[Ticket]) -> None:
        """Queue texts, which start as soon as rows are free. Raise `Busy` unless all of them may wait."""
        with self._change:
            self._admit(self._tickets, len(tickets))
            self._tickets.extend(tickets)
            self._change.notify()

    def call(self, work: Callable[[Loaded], Any], *, yields: bool = False) -> Job:
        """Do work on the model, between two decoding steps of running texts.

        `yields`: the work may take long. It ends with `Yielded` after `TURN` seconds if other requests wait.
        """
        job = Job(work, yields=yields)
        with self._change:
            self._admit(self._jobs, 1)
            self._jobs.append(job)
            self._change.notify()
        return job

    def _admit(self, line: deque[Any], count: int) -> None:
        if self._over:
            raise Stopping
        if len(line) + count > max(self._most, count if not line else 0):
            raise Busy

    @property
    def idle(self) -> bool:
        with self._change:
            return not (self._tickets or self._jobs or self._writing or self._busy)

    @property
    def failed(self) -> bool:
        """True if the run could not be loaded, or the worker has been stopped."""
        return self._over

    @property
    def load_of_work(self) -> tuple[int, int]:
        """Number of texts being generated, and number of waiting texts and jobs."""
        with self._change:
            return len(self._writing), len(self._tickets) + len(self._jobs)

    def stop(self, wait: float | None = None) -> None:
        """Accept no more work, and end all texts and jobs with `Stopping`.

        `wait`: maximum number of seconds to wait for the thread; None waits until it ends.
        """
        with self._change:
            self._over = True
            self._change.notify()
        self._thread.join(wait)

    # --- the thread ---

    def _run(self) -> None:
        try:
            self.loaded = self._load()
            _set_threads(_threads_for(self.loaded.model))
        except Exception as error:
            self._fail_all(error)
            return
        while self._wait():
            try:
                self._do_job()
                self._admit_texts()
                if self._writing:
                    self._step()
            except Exception as error:  # its texts get the error, and the next texts use a new batch
                self._batch = None
                for ticket in self._take_all():
                    ticket.deliver(Piece(finish="error", error=error))
        self._fail_all(Stopping())
        self.loaded = self._batch = None

    def _wait(self) -> bool:
        """Wait until there is work; return False if the worker has been stopped."""
        with self._change:
            self._busy = False
            self._change.wait_for(lambda: self._over or self._tickets or self._jobs or self._writing)
            self._busy = not self._over
            return self._busy

    def _do_job(self) -> None:
        with self._change:
            job = self._jobs.popleft() if self._jobs else None
        if job is None or not job.set_running_or_notify_cancel():
            return
        assert self.loaded is not None
        began = time.monotonic()

        def check() -> None:
            if self._over:
                raise _Ended(Stopping())
            if job.abandoned:
                raise _Ended(TimeoutError())
            if job.yields and time.monotonic() - began > TURN and self._others_wait():
                raise _Ended(Yielded())

        try:
            with interruptible(check):
                job.set_result(job.work(self.loaded))
        except _Ended as ended:
            job.set_exception(ended.reason)
        except BaseException as error:
            job.set_exception(error)

    def _others_wait(self) -> bool:
        """Return whether texts or short work wait for the running job."""
        with self._change:
            return bool(self._tickets or self._writing or any(not job.yields for job in self._jobs))

    def _admit_texts(self) -> None:
        """Assign free rows to waiting texts.

        Each prompt has its own forward pass, so that texts do not affect each other.
        """
        for row in self._running().free if self._tickets else ():
            with self._change:
                while self._tickets and self._tickets[0].cancelled:
                    self._tickets.popleft()
                if not self._tickets:
                    return
                ticket = self._tickets.popleft()
                self._writing[row] = ticket
            self._running().join({row: ticket.draft.request})

    def _running(self) -> RunningBatch:
        if self._batch is None:
            writer = None if self.loaded is None else self.loaded.capability(Writer)
            assert writer is not None  # `require` has checked it before the text was queued
            room = writer.model.encoder.limit or MAX_UNBOUNDED_TOKENS
            rows, fixable = rows_of(writer.model, room)
            self._batch = RunningBatch(writer.model, rows, room, never=writer.never_written, fixed=fixable)
            self.cache_bytes = state_bytes(self._batch.state)
        return self._batch

    def _step(self) -> None:
        batch = self._running()
        for row, ticket in list(self._writing.items()):
            if ticket.cancelled:
                batch.leave(row)
                self._forget(row)
        for row, written in batch.step().items():
            ticket = self._writing[row]
            ended = written.token in ticket.draft.request.ends
            ticket.count += 1
            text = "" if ended else ticket.draft.push(written.token)
            full = ticket.count == ticket.draft.request.max_tokens
            finish: str | None = None
            if ended or full or ticket.draft.stopped:
                text += ticket.draft.end()  # the rest may contain a stop string too
                finish = "stop" if ended or ticket.draft.stopped else "length"
                if not (ended or full):
                    batch.leave(row)
                self._forget(row)
            ticket.deliver(Piece(text, None if ended else written, finish))

    def _forget(self, row: int) -> None:
        with self._change:
            del self._writing[row]

    def _take_all(self) -> list[Ticket]:
        """Remove and return the running texts, or the waiting texts if none is running."""
        with self._change:
            some = list((self._writing or dict(enumerate(self._tickets))).values())
            if not self._writing:
                self._tickets.clear()
            self._writing = {}
        return some

    def _fail_all(self, error: Exception) -> None:
        with self._change:
            self._over = True
            tickets, jobs = [*self._writing.values(), *self._tickets], list(self._jobs)
            self._writing = {}
            self._tickets.clear()
            self._jobs.clear()
        for ticket in tickets:
            ticket.deliver(Piece(finish="error", error=error))
        for job in jobs:
            if job.set_running_or_notify_cancel():
                job.set_exception(error)


def rows_of(model: LanguageModel, room: int) -> tuple[int, bool]:
    """Return the number of texts that a model generates at once, and whether its state is updated in place.

    A model whose state cannot be updated in place generates one text at a time.
    """
    state = model.init_state(1, room)
    if not state.fix(room):
        return 1, False
    most = max(1, min(ROWS, CACHE // max(1, state_bytes(state))))
    alike = (rows for rows in range(most, 0, -1) if _rows_are_alike(model, rows))
    return next(alike, 1), True  # NaN is unequal to itself, so a model that diverged has no equal rows


@torch.inference_mode()
def _rows_are_alike(model: LanguageModel, rows: int, steps: int = 8) -> bool:
    """Return whether the same text gets bit-identical scores in every row.

    Kernels that process rows in tiles may sum the last, smaller tile in another order. With oneDNN's LSTM, 12 rows are
    identical, but 16 are not.
    """
    state = model.init_state(rows, steps)
    state.fix(steps)
    ids = torch.arange(steps, device=device_of(model)) % model.head.out_features
    scores = [model.head(model.extend(token.expand(rows, 1), state)) for token in ids]
    return all(torch.equal(one, one[:1].expand_as(one)) for one in scores)


def state_bytes(state: State) -> int:
    """Return the number of bytes of all tensors in a state."""
    return sum(tensor.numel() * tensor.element_size() for tensor in {id(one): one for one in _tensors(state)}.values())


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif not isinstance(value, torch.nn.Module) and hasattr(value, "__dict__"):
        yield from _tensors(list(vars(value).values()))


def _threads_for(model: torch.nn.Module) -> int:
    """Return the number of CPU threads with which a model generates text fastest: one for a small model."""
    return 1 if parameter_count(model) <= SMALL else THREADS


def _set_threads(count: int) -> None:
    """Set the number of CPU threads for the calling thread; later threads keep the default."""
    torch.get_num_threads()  # a thread keeps its own number only if it has read it before
    torch.set_num_threads(count)
    others = threading.Thread(target=torch.set_num_threads, args=(THREADS,))
    others.start()
    others.join()
