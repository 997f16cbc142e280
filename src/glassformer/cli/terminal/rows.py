"""Many rows, as they are done: a bar on a terminal, and how many a second in a line at the end."""

import sys
import time
from typing import TYPE_CHECKING, Self

from glassformer.cli.terminal.show import console, is_live, say
from glassformer.data.wording import counted

if TYPE_CHECKING:
    from rich.progress import Progress

WORTH_SAYING = 1.0
"""Seconds below which nobody asks how fast it was."""


class RowProgress:
    """Hears how many rows are done. Where results go to the terminal themselves, there is no bar among them."""

    def __init__(self, noun: str = "row", *, printed: bool = False) -> None:
        """`printed`: results go to stdout."""
        self.noun = noun
        self.has_bar = is_live() and not (printed and sys.stdout.isatty())
        self.done = 0
        self.began: float | None = None
        self.now = 0.0
        self.bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        self.now, self.done = time.monotonic(), done
        if self.began is None:
            self.began = self.now
        if self.has_bar and self.bar is None:
            self._start(total)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, total=total, speed=self.speed)

    def _start(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
        self.bar = Progress(
            *columns,
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.bar.add_task("", total=total, speed="")
        self.bar.start()

    @property
    def seconds(self) -> float:
        """From the first call to the last."""
        return 0.0 if self.began is None else self.now - self.began

    @property
    def speed(self) -> str:
        return f"{self.done / self.seconds:,.0f} {self.noun}s/s" if self.seconds > 0 else ""

    def __exit__(self, failed: object, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        if failed is None and self.seconds >= WORTH_SAYING:
            say(f"{counted(self.done, self.noun)} in {self.seconds:,.1f} s: {self.speed}")
