"""A place in a notebook's output that is drawn again and again, and the bar that stands there."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from glassformer.config.progress import Meter, is_watched
from glassformer.notebook.html import bar, line

EVERY = 0.2
"""Seconds between two pictures."""
PATIENCE = 0.5
"""Seconds that work may take before there is a bar."""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; IPython is not imported to find out."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get() if callable(get) else None, "kernel", None) is not None


class Area:
    """HTML in the output of a cell, which takes the place of the HTML before."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0

    @property
    def is_drawn(self) -> bool:
        return self._handle is not None

    def show(self, html: Callable[[], str], text: str) -> None:
        """Now and then; `text`: where no HTML can be shown."""
        if time.monotonic() >= self._next:
            self.put(html(), text)

    def put(self, html: str, text: str) -> None:
        """At once."""
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
        self._next = time.monotonic() + EVERY

    def end(self, text: str) -> None:
        """One line of what was done, instead of all else."""
        self.put(line(text), text)


class NotebookMeter(Meter):
    """How far work is, as a bar; at the end, how much was done, and how fast."""

    def __init__(self) -> None:
        super().__init__()
        self.area = Area()

    def draw(self) -> None:
        if self.seconds < PATIENCE and not self.area.is_drawn:
            return
        text = "  ".join(filter(None, (self.amount, self.speed, self.left)))
        self.area.show(lambda: bar(self.done / self.total if self.total else None, text), text)

    def end(self, *, stopped: bool) -> None:
        if self.area.is_drawn:
            done = f"stopped: {self.amount}" if stopped else self.whole if self.done else "done"
            self.area.end(done + self.took)


@contextmanager
def progress_bar() -> Iterator[None]:
    """In a notebook, long work inside shows how far it is, unless somebody watches it already."""
    if is_watched() or not in_notebook():
        yield
        return
    with NotebookMeter():
        yield
