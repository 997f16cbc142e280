"""A region of a notebook's output that is redrawn in place, and a progress bar."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from glassformer.config.progress import Meter, is_watched
from glassformer.notebook.html import bar, line

MIN_INTERVAL = 0.2
"""Minimum number of seconds between two updates."""
DELAY = 0.5
"""Seconds of work before a bar appears."""


def in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this code, without importing IPython."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get() if callable(get) else None, "kernel", None) is not None


class Area:
    """HTML in the output of a cell that replaces its previous HTML."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0

    @property
    def is_drawn(self) -> bool:
        return self._handle is not None

    def show(self, html: Callable[[], str], text: str) -> None:
        """Update at most every MIN_INTERVAL seconds; `text` is for frontends without HTML."""
        if time.monotonic() >= self._next:
            self.put(html(), text)

    def put(self, html: str, text: str) -> None:
        """Update immediately."""
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
        self._next = time.monotonic() + MIN_INTERVAL

    def end(self, text: str) -> None:
        """Replace everything by one line."""
        self.put(line(text), text)


class NotebookMeter(Meter):
    """A progress bar that ends with the amount of work and its speed."""

    def __init__(self) -> None:
        super().__init__()
        self.area = Area()

    def draw(self) -> None:
        if self.seconds < DELAY and not self.area.is_drawn:
            return
        text = "  ".join(filter(None, (self.amount, self.speed, self.left)))
        self.area.show(lambda: bar(self.done / self.total if self.total else None, text), text)

    def end(self, *, stopped: bool) -> None:
        if self.area.is_drawn:
            done = f"stopped: {self.amount}" if stopped else self.whole if self.done else "done"
            self.area.end(done + self.took)


@contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of long work in a notebook, unless it is already reported."""
    if is_watched() or not in_notebook():
        yield
        return
    with NotebookMeter():
        yield
