"""Progress messages: functions call `say`, and the command line or a public function decides who receives the lines.

The receiver is a context variable, so that functions need not pass it on. Threads start without a receiver;
`keep_listener` hands it to a thread that iterates.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")

Say = Callable[[str], None]
"""Receives progress messages, one line per call."""

_listener: ContextVar[Say | None] = ContextVar("listener", default=None)


def say(line: str) -> None:
    """Send a line to the listener; drop it if there is none."""
    if (listener := _listener.get()) is not None:
        listener(line)


def say_or_warn(line: str) -> None:
    """Send a line to the listener; issue a Python warning if there is none."""
    (_listener.get() or warn)(line)


@contextmanager
def listening(listener: Say | None) -> Iterator[None]:
    """Send messages inside this context to `listener`; None and `say` itself keep the present listener."""
    before = _listener.set(_listener.get() if listener in (None, say) else listener)
    try:
        yield
    finally:
        _listener.reset(before)


def keep_listener(items: Iterable[Item]) -> Iterator[Item]:
    """Return an iterator whose messages go to the present listener, also if another thread iterates."""
    return _heard_by(_listener.get(), iter(items))


def _heard_by(listener: Say | None, items: Iterator[Item]) -> Iterator[Item]:
    while True:
        with listening(listener):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def takes_listener(function: Callable[P, R]) -> Callable[P, R]:
    """Make the keyword argument `say` of a function the listener while the function runs."""

    @functools.wraps(function)
    def listened(*args: P.args, **kwargs: P.kwargs) -> R:
        with listening(kwargs.get("say")):  # type: ignore[arg-type]
            return function(*args, **kwargs)

    return listened


def silent(anything: object) -> None:
    """Ignore a message or an event: the listener for work whose messages are not needed."""


WITHIN = ("glassformer", "contextlib")
"""Modules whose frames a warning skips: this package, and the decorators of its functions."""


def warn(line: str) -> None:
    """Issue a Python warning at the line that called this package: the listener for messages that must not get lost."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in WITHIN:
        level, frame = level + 1, frame.f_back
    warnings.warn(line, stacklevel=level)
