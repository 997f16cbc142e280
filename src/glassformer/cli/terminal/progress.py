"""Progress of training runs and comparisons: a bar or a live table in a terminal, elsewhere one line per event."""

import time
from typing import Self

from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from glassformer.cli.terminal.show import console, is_live, make_table, say
from glassformer.data.wording import counted
from glassformer.training import events
from glassformer.training.progress import TrainingProgress
from glassformer.trials.running.board import COLUMNS, BoardRow, BoardRows
from glassformer.trials.running.engine import JobEvent


class _Display:
    """A live part of a terminal. Messages that `say` prints in the meantime appear above it."""

    live: Live | Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


class Board(_Display):
    """Listener for the events of jobs, which shows a live table below the messages."""

    live: Live | None = None

    def __init__(self) -> None:
        self.rows = BoardRows()
        self.after: list[str] = []
        """Messages after the last job has ended, which belong below the result."""

    def say(self, text: str) -> None:
        if self.rows.all_over:
            self.after.append(text)
        else:
            say(text)

    def __call__(self, event: JobEvent) -> None:
        row = self.rows.hear(event)
        if is_live():
            self._draw()
        else:
            self._line(event, row)

    def _line(self, event: JobEvent, row: BoardRow) -> None:
        which = f"{row.name}, {event.job.repeat + 1} of {len(row.events)}" if len(row.events) > 1 else row.name
        if event.what in ("failed", "skipped"):
            say(f"{which}: {'skipped: ' if event.what == 'skipped' else ''}{event.error}")
        elif event.what in ("done", "found"):
            before = " (done before)" if event.what == "found" else ""
            say(f"{which}: {event.name} {event.score:.4g}{before}")
        elif event.what == "started":
            say(f"{which}: training")

    def _draw(self) -> None:
        if self.live is None:
            self.live = Live(self.table(), console=console(stderr=True), transient=True, refresh_per_second=4)
            self.live.start()
        self.live.update(self.table())

    def table(self) -> Table:
        return make_table(COLUMNS, self.rows.cells, left=(0, 1), no_wrap=True)


class Watcher(_Display):
    """Listener for the events of a training run, which shows a bar in a terminal, and occasional lines elsewhere."""

    live: Progress | None = None

    def __init__(self) -> None:
        self.task: TaskID
        self.progress = TrainingProgress()
        self.last_line = time.monotonic()

    def __call__(self, event: events.Event) -> None:
        self.progress.hear(event)
        if isinstance(event, events.Noted):
            say(event.text, always=isinstance(event, events.Failed))
        elif isinstance(event, events.Started):
            self._start(event)
        elif isinstance(event, events.Stepped):
            self._step()
        elif isinstance(event, events.Validated):
            evaluation = event.evaluation
            self._line(f"step {event.step:,}: validation {evaluation.summary}{'  best so far' if event.best else ''}")
        elif isinstance(event, events.Sampled):
            self._line("  │ " + event.text.strip("\n").replace("\n", "\n  │ "))
        elif isinstance(event, events.FindingReported):
            if event.finding.severity != events.NOTE:  # notes are for the report and for `glassformer doctor`
                self._line(f"doctor: {event.finding.line}")
        elif isinstance(event, events.Ended):
            self.close()
        else:
            assert isinstance(event, events.Checkpointed | events.Diverged)

    def _start(self, event: events.Started) -> None:
        if event.steps is not None:
            budget = counted(event.steps, "update")
        else:
            budget = f"{event.minutes:g} minute{'s' * (event.minutes != 1)} for all of it"
        gone = f", going on after {event.step:,}" if event.step else ""
        say(f"training: {budget}{gone}; {'; '.join(event.notes)}")
        if is_live():
            self.live = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[text]}"),
                TextColumn("{task.fields[left]}"),
                console=console(stderr=True),
                transient=True,
            )
            self.task = self.live.add_task("", total=1.0, text="", left="")
            self.live.start()

    def _step(self) -> None:
        done, text = self.progress.done, self.progress.text
        if self.live is not None:
            self.live.update(self.task, completed=done, text=text, left=self.progress.left)
        elif time.monotonic() - self.last_line > 10:
            self._line(f"{done:4.0%}  {text}")

    def _line(self, text: str) -> None:
        self.last_line = time.monotonic()
        say(text)
