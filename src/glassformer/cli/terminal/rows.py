"""Long work, as it is done: a bar on a terminal, and how many rows a second in a line at the end."""

import sys
from typing import TYPE_CHECKING

from glassformer.cli.terminal.show import console, is_live, say
from glassformer.config.progress import BYTE, Meter

if TYPE_CHECKING:
    from rich.progress import Progress

WORTH_SAYING = 1.0
"""Seconds below which nobody asks how fast it was."""


class RowProgress(Meter):
    """Hears of the rows, tokens, weights … that are done inside. Where results go to the terminal themselves, there is
    no bar among them."""

    def __init__(self, *, printed: bool = False) -> None:
        """`printed`: results go to stdout."""
        super().__init__()
        self.has_bar = is_live() and not (printed and sys.stdout.isatty())
        self.bar: Progress | None = None

    def draw(self) -> None:
        if self.has_bar and self.bar is None:
            self._start()
        if self.bar is not None:
            shown = {"amount": self.amount, "speed": self.speed, "left": self.left}
            self.bar.update(self.bar.task_ids[0], completed=self.done, total=self.total, shown=shown)

    def _start(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        texts = (TextColumn(f"{{task.fields[shown][{name}]}}") for name in ("amount", "speed", "left"))
        self.bar = Progress(
            BarColumn(bar_width=24),
            *texts,
            console=console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.bar.add_task("", total=None, shown={"amount": "", "speed": "", "left": ""})
        self.bar.start()

    def end(self, *, stopped: bool) -> None:
        if self.bar is not None:
            self.bar.stop()
        if not stopped and self.unit != BYTE and self.seconds >= WORTH_SAYING:
            say(self.whole + self.took)
