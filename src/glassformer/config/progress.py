"""Progress of long work. The code that reports progress does not depend on the code that displays it."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self, TypeVar

from glassformer.config.units import duration, size

Progress = Callable[[int, int], None]
"""Receives the amount done and the total."""
Watch = Callable[[int, int, str], None]
"""Receives the amount done, the total, and the unit."""

T = TypeVar("T")

BYTE = "byte"
"""Unit of reading files; reported only while nothing else is counted."""

_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def unheard(done: int, total: int) -> None:
    """Ignore the progress: the default without a watcher."""


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Report progress within the context to `watch`."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` between the batches of long work inside this context; an exception that it raises ends the work.

    The exception should not be a subclass of `Exception`, which code around the work might handle.
    """
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def may_stop() -> None:
    """Raise an error if the caller cancelled this work. Code calls it only where nothing is left half done."""
    if (check := _check.get()) is not None:
        check()


def is_watched() -> bool:
    """Return whether there is a watcher."""
    return _watch.get() is not None


def progress_of(unit: str) -> Progress:
    """Return the function that reports how many of a unit (rows, tokens …) are done."""
    watch = _watch.get()
    return unheard if watch is None else lambda done, total: watch(done, total, unit)


def counted_batches(batches: Iterable[T], size: Callable[[T], int], total: int, unit: str) -> Iterator[T]:
    """Yield the same batches and report progress whenever the next batch is requested.

    The caller can cancel the work before each batch.
    """
    done, progress = 0, progress_of(unit)
    progress(done, total)
    for batch in batches:
        may_stop()
        yield batch
        done += size(batch)
        progress(done, total)


@contextmanager
def counting_on(before: int, total: int, unit: str) -> Iterator[None]:
    """Report work within the context as part of a larger total, of which `before` was done earlier."""
    watch = _watch.get()

    def add(done: int, _: int, inner: str) -> None:
        if watch is not None and inner != BYTE:
            watch(before + done, total, unit)

    with watched(None if watch is None else add):
        yield


class Meter:
    """A watcher that describes the amount done, the speed, and the time left."""

    def __init__(self) -> None:
        self.unit = ""
        self.first = self.done = self.total = 0
        """`first`: the amount at the first report, so that resumed work does not count as speed."""
        self.began = self.now = 0.0

    def __enter__(self) -> Self:
        self._before = _watch.set(self)
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        _watch.reset(self._before)
        self.end(stopped=failed is not None)

    def __call__(self, done: int, total: int, unit: str) -> None:
        if unit == BYTE != self.unit and self.done < self.total:
            return
        self.now = time.monotonic()
        if unit != self.unit or done < self.done:
            self.unit, self.began, self.first = unit, self.now, done
        self.done, self.total = done, total
        self.draw()

    def draw(self) -> None:
        """Show the progress."""

    def end(self, *, stopped: bool) -> None:
        """Finish; `stopped` if not everything was done."""

    @property
    def seconds(self) -> float:
        """Seconds between the first and the last report."""
        return self.now - self.began

    @property
    def amount(self) -> str:
        if self.unit == BYTE:
            return f"reading {size(self.done)} of {size(self.total)}"
        return f"{self.done:,} of {self.total:,} {self.unit}{'s' * (self.total != 1)}" if self.total else self.whole

    @property
    def whole(self) -> str:
        """The whole amount, after the end."""
        return f"{size(self.done)} read" if self.unit == BYTE else f"{self.done:,} {self.unit}{'s' * (self.done != 1)}"

    @property
    def took(self) -> str:
        """Duration and speed; empty if everything was reported at once."""
        if self.seconds <= 0:
            return ""
        return f" in {self.seconds:,.1f} s" + (f": {self.speed}" if self.unit != BYTE and self.speed else "")

    @property
    def speed(self) -> str:
        if self.seconds <= 0 or self.done == self.first:
            return ""
        per_second = (self.done - self.first) / self.seconds
        if self.unit == BYTE:
            return f"{size(per_second)}/s"
        return f"{per_second:,.0f} {self.unit}s/s" if per_second >= 1 else f"{duration(1 / per_second)} a {self.unit}"

    @property
    def left(self) -> str:
        if self.done == self.first or not self.total or self.seconds <= 0:
            return ""
        return f"{clock(self.seconds * max(0, self.total - self.done) / (self.done - self.first))} left"


def clock(seconds: float) -> str:
    """Format a countdown: 0:07, 2:31, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
