"""How far long work has come: whoever works tells it, whoever watches shows it, and neither knows the other."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self, TypeVar

from glassformer.config.units import duration, size

Progress = Callable[[int, int], None]
"""Who is told how much is done, and of how much."""
Watch = Callable[[int, int, str], None]
"""The same, and what is counted."""

T = TypeVar("T")

BYTE = "byte"
"""What reading a file counts: it is heard only while nothing else is counted."""

_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def unheard(done: int, total: int) -> None:
    """Progress that nobody watches."""


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """What is done inside is told to `watch`."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """While this is open, long work calls `check` between its batches; an exception that `check` raises ends the work.

    The exception should not be an `Exception`: code that expects errors of the work would handle it.
    """
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def may_stop() -> None:
    """Raise an error here if the caller cancelled this work. Nothing is half done at this point."""
    if (check := _check.get()) is not None:
        check()


def is_watched() -> bool:
    """Whether somebody is told already."""
    return _watch.get() is not None


def progress_of(unit: str) -> Progress:
    """Whom to tell how many rows, tokens … are done."""
    watch = _watch.get()
    return unheard if watch is None else lambda done, total: watch(done, total, unit)


def counted_batches(batches: Iterable[T], size: Callable[[T], int], total: int, unit: str) -> Iterator[T]:
    """Yield the same batches and report progress whenever the next batch is requested. The caller can cancel the
    work before each batch.
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
    """What is done inside is a part of something larger, of which so many were done before."""
    watch = _watch.get()

    def add(done: int, _: int, inner: str) -> None:
        if watch is not None and inner != BYTE:
            watch(before + done, total, unit)

    with watched(None if watch is None else add):
        yield


class Meter:
    """Hears how far the work inside is, and says it in words: how much of it, how fast, and how long it still takes."""

    def __init__(self) -> None:
        self.unit = ""
        self.first = self.done = self.total = 0
        """`first`: how much was done when this was counted first, so that going on does not count as speed."""
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
        """Show it."""

    def end(self, *, stopped: bool) -> None:
        """`stopped`: before all was done."""

    @property
    def seconds(self) -> float:
        """From the first time that this was counted to the last."""
        return self.now - self.began

    @property
    def amount(self) -> str:
        if self.unit == BYTE:
            return f"reading {size(self.done)} of {size(self.total)}"
        return f"{self.done:,} of {self.total:,} {self.unit}{'s' * (self.total != 1)}" if self.total else self.whole

    @property
    def whole(self) -> str:
        """All of it, once it is done."""
        return f"{size(self.done)} read" if self.unit == BYTE else f"{self.done:,} {self.unit}{'s' * (self.done != 1)}"

    @property
    def took(self) -> str:
        """How long it took, and how fast that is; nothing, where all was counted at once."""
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
    """A time that runs down: 0:07, 2:31, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
