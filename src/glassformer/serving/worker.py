"""A run's model and the one thread that uses it: texts are written together, step by step, and other work is done
between two steps, so that nothing ever shares a pass with it.
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
"""Texts that are written at once, at most. Always so many rows are computed: what stands beside one changes nothing of
it."""
CACHE = 2**30
"""Bytes that the states of all rows may take; where one row takes more than its share, there are fewer."""
SMALL = 4_000_000
"""Parameters up to which a CPU computes with one thread: the work of a step is too little to share, and who reads the
answer needs a core too."""
THREADS = torch.get_num_threads()
TURN = 5.0
"""Seconds that a view may take while texts, predictions or embeddings of others wait for the same model."""
MAX_UNBOUNDED_TOKENS = 4096
"""Tokens that a prompt may have where the model has no limit of its own."""


class Busy(Refused):
    """More requests already wait than may wait."""

    def __init__(self) -> None:
        super().__init__(429, "as many requests wait already as may wait: try again", "busy")


class Stopping(Refused):
    """The server is being stopped."""

    def __init__(self) -> None:
        super().__init__(503, "the server is being stopped", "stopping")


class Yielded(Refused):
    """Work that was ended because other requests wait for the model."""

    def __init__(self) -> None:
        super().__init__(503, f"stopped after {TURN:g} s because other requests wait; try again later", "yielded")


class _Ended(BaseException):
    """Raised inside cancelled work; not an `Exception`, so that no view handles it as its own error."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason


class Job(Future[Any]):
    """Work on a model. `cancel` also ends running work, between two batches."""

    def __init__(self, work: Callable[[Loaded], Any], *, yields: bool) -> None:
        """`yields`: the work may take long, and ends after a while if texts or other short work wait."""
        super().__init__()
        self.work, self.yields = work, yields
        self.abandoned = False

    def cancel(self) -> bool:
        self.abandoned = True
        return super().cancel()


@dataclass(frozen=True)
class Piece:
    """What was written of a text since the piece before."""

    text: str = ""
    written: Written | None = None
    """The token, unless it is the one that ended the text."""
    finish: str | None = None
    """Why it is over: stop (an end or a stop string), length, or error."""
    error: Exception | None = None


@dataclass(eq=False)
class Ticket:
    """A text that is being written, or waits for it."""

    draft: Draft
    deliver: Callable[[Piece], None]
    """Called from the worker's thread."""
    count: int = 0
    """Tokens written so far."""
    cancelled: bool = False
    """Set from anywhere: nobody waits for it any more."""


class Worker:
    """One loaded run. All of its work is done in one thread, in the order in which it came."""

    def __init__(self, load: Callable[[], Loaded], *, waiting: int, name: str) -> None:
        """`load` is called in the worker's own thread. `waiting`: requests that may wait, texts and jobs each."""
        self._load, self._most = load, waiting
        self._tickets: deque[Ticket] = deque()
        self._jobs: deque[Job] = deque()
        self._writing: dict[int, Ticket] = {}
        self._change = threading.Condition()
        self._over = False
        self._busy = True  # it is loading
        self._batch: RunningBatch | None = None
        self.cache_bytes = 0
        """What the rows of texts take."""
        self.loaded: Loaded | None = None
        self._thread = threading.Thread(target=self._run, name=f"worker of {name}", daemon=True)
        self._thread.start()

    # --- from other threads ---

    def write(self, tickets: list[Ticket]) -> None:
        """Texts that are to be written, as soon as rows are free: all of them wait, or none."""
        with self._change:
            self._admit(self._tickets, len(tickets))
            self._tickets.extend(tickets)
            self._change.notify()

    def call(self, work: Callable[[Loaded], Any], *, yields: bool = False) -> Job:
        """Do work on the model, between two decoding steps of running texts.

        `yields`: the work may take long. It ends with `Yielded` if other requests have to wait for more than `TURN`.
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
        """Whether it could not be loaded, or has been stopped."""
        return self._over

    @property
    def load_of_work(self) -> tuple[int, int]:
        """How many texts are being written, and how much waits."""
        with self._change:
            return len(self._writing), len(self._tickets) + len(self._jobs)

    def stop(self, wait: float | None = None) -> None:
        """Take nothing more; what is being written and what waits is told that it is over. Waits for the thread."""
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
            except Exception as error:  # of the model: whoever waits is told, and the next one starts anew
                self._batch = None
                for ticket in self._take_all():
                    ticket.deliver(Piece(finish="error", error=error))
        self._fail_all(Stopping())
        self.loaded = self._batch = None

    def _wait(self) -> bool:
        """Until there is work; gives whether to go on."""
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
        """Texts take free rows. Each prompt is read in a pass of its own, so that none depends on another."""
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
            assert writer is not None  # `require` has checked it
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
                text += ticket.draft.end()  # which may hold a stop string too
                finish = "stop" if ended or ticket.draft.stopped else "length"
                if not (ended or full):
                    batch.leave(row)
                self._forget(row)
            ticket.deliver(Piece(text, None if ended else written, finish))

    def _forget(self, row: int) -> None:
        with self._change:
            del self._writing[row]

    def _take_all(self) -> list[Ticket]:
        """The texts that are being written, or, where not even one could begin, those that wait: they are no longer."""
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
    """How many texts a model writes at once, and whether its state can be held in place: else it is one alone."""
    state = model.init_state(1, room)
    if not state.fix(room):
        return 1, False
    most = max(1, min(ROWS, CACHE // max(1, state_bytes(state))))
    alike = (rows for rows in range(most, 0, -1) if _rows_are_alike(model, rows))
    return next(alike, 1), True  # NaN equals nothing, so a model that diverged has no equal rows


@torch.inference_mode()
def _rows_are_alike(model: LanguageModel, rows: int, steps: int = 8) -> bool:
    """Whether the same text gets the same numbers, to the last digit, in every row. A kernel that takes rows by tiles
    may add up those of the last, smaller tile in another order: oneDNN's LSTM does, and 12 rows are alike, 16 not.
    """
    state = model.init_state(rows, steps)
    state.fix(steps)
    ids = torch.arange(steps, device=device_of(model)) % model.head.out_features
    scores = [model.head(model.extend(token.expand(rows, 1), state)) for token in ids]
    return all(torch.equal(one, one[:1].expand_as(one)) for one in scores)


def state_bytes(state: State) -> int:
    """The memory of all tensors that a state holds."""
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
    """Return the number of threads that generates text fastest: one for a small model."""
    return 1 if parameter_count(model) <= SMALL else THREADS


def _set_threads(count: int) -> None:
    """How many cores compute for this thread; those that begin later have as many as before."""
    torch.get_num_threads()  # only who has asked keeps what it sets
    torch.set_num_threads(count)
    others = threading.Thread(target=torch.set_num_threads, args=(THREADS,))
    others.start()
    others.join()
