"""What goes on: a training as a bar, a comparison as a table of its rows on a terminal; elsewhere a line an event."""

import time
from dataclasses import dataclass, field
from typing import Self

from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from glassformer.cli.terminal.show import console, is_live, make_table, say
from glassformer.data.wording import counted
from glassformer.training.events import (
    Checkpointed,
    Diverged,
    Ended,
    Event,
    FindingReported,
    Noted,
    Sampled,
    Started,
    Stepped,
    Validated,
)
from glassformer.training.finding import NOTE
from glassformer.trials.results.rows import label_of
from glassformer.trials.running.engine import CellEvent

STATES = {"begun": "reading", "started": "training", "stepped": "training", "validated": "training"}
OVER = ("found", "done", "failed")


@dataclass
class _Row:
    """A model, over all of its seeds or folds; what is kept of each stands by its number."""

    name: str
    events: dict[int, CellEvent] = field(default_factory=dict)
    """The last event of each."""
    starts: dict[int, float] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    metric: str = ""
    error: str = ""

    def hear(self, event: CellEvent) -> None:
        repeat = event.cell.repeat
        self.events[repeat] = event
        if event.what == "started":
            self.starts[repeat] = time.monotonic()
        if event.score is not None:
            self.scores[repeat], self.metric = event.score, event.name
        if event.error is not None:
            self.error = event.error

    @property
    def over(self) -> int:
        return sum(event.what in OVER for event in self.events.values())

    @property
    def state(self) -> str:
        """The state that tells most."""
        running = [event.what for event in self.events.values() if event.what not in (*OVER, "waiting")]
        if running:
            return STATES.get(running[0], running[0])
        if self.over < len(self.events):
            return "waiting"
        return "failed" if self.error else "done"

    @property
    def share(self) -> float:
        done = [1.0 if event.what in OVER else event.done for event in self.events.values()]
        return sum(done) / max(1, len(done))

    @property
    def time_left(self) -> str:
        """The time until what trains now is through, as far as one can tell."""
        seconds = max(
            (
                (time.monotonic() - self.starts[repeat]) * (1 - event.done) / event.done
                for repeat, event in self.events.items()
                if repeat in self.starts and event.what not in OVER and event.done > 0.02
            ),
            default=None,
        )
        return "" if seconds is None else f"{seconds // 60:.0f}:{seconds % 60:02.0f}"

    @property
    def score(self) -> str:
        return f"{self.metric} {sum(self.scores.values()) / len(self.scores):.4g}" if self.scores else ""


class _Display:
    """A part of a terminal that is drawn again and again; what `say` prints meanwhile stands above it."""

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
    """Hears what happens to cells. On a terminal the table stands below what is said."""

    live: Live | None = None

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.after: list[str] = []
        """What was said once all was done: it belongs below the result."""

    def say(self, text: str) -> None:
        if self.rows and all(row.over == len(row.events) for row in self.rows.values()):
            self.after.append(text)
        else:
            say(text)

    def __call__(self, event: CellEvent) -> None:
        row = self.rows.setdefault(event.cell.row, _Row(label_of(event.cell.name, event.cell.varied)))
        row.hear(event)
        if is_live():
            self._draw()
        else:
            self._line(event, row)

    def _line(self, event: CellEvent, row: _Row) -> None:
        which = f"{row.name}, {event.cell.repeat + 1} of {len(row.events)}" if len(row.events) > 1 else row.name
        if event.what == "failed":
            say(f"{which}: {event.error}")
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
        rows = [
            [row.name, row.state, f"{row.over} of {len(row.events)}", f"{row.share:.0%}", row.score, row.time_left]
            for row in self.rows.values()
        ]
        return make_table(("", "", "done", "so far", "score", "time left"), rows, left=(0, 1), no_wrap=True)


class Watcher(_Display):
    """Shows a training as it goes: a bar on a terminal, a line now and then elsewhere."""

    live: Progress | None = None

    def __init__(self) -> None:
        self.task: TaskID
        self.smooth: float | None = None
        self.validation = ""
        self.last_line = time.monotonic()
        self.first_step: tuple[int, float] | None = None
        self.per_example: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Noted):
            say(event.text)
        elif isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Stepped):
            self._step(event)
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            self.validation = f"validation {evaluation.metrics[evaluation.primary]:.4f}"
            self._line(f"step {event.step:,}: validation {evaluation.summary}{'  best so far' if event.best else ''}")
        elif isinstance(event, Sampled):
            self._line("  │ " + event.text.strip("\n").replace("\n", "\n  │ "))
        elif isinstance(event, FindingReported):
            if event.finding.severity != NOTE:  # those are for the report, and for glassformer doctor
                self._line(f"doctor: {event.finding.line}")
        elif isinstance(event, Ended):
            self.close()
        else:
            assert isinstance(event, Checkpointed | Diverged)

    def _start(self, event: Started) -> None:
        self.per_example = event.tokens_per_example
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
                TimeRemainingColumn(compact=True),
                console=console(stderr=True),
                transient=True,
            )
            self.task = self.live.add_task("", total=1.0, text="")
            self.live.start()

    def _step(self, event: Stepped) -> None:
        self.smooth = event.loss if self.smooth is None else 0.95 * self.smooth + 0.05 * event.loss
        if self.first_step is None:
            self.first_step = (event.tokens, event.seconds)
        tokens, seconds = event.tokens - self.first_step[0], event.seconds - self.first_step[1]
        speed = ""
        if seconds > 0 and self.per_example is None:
            speed = f"{tokens / seconds:,.0f} tokens/s"
        elif seconds > 0 and self.per_example:
            speed = f"{tokens / self.per_example / seconds:,.0f} examples/s"
        text = "  ".join(
            part for part in (f"step {event.step:,}", f"loss {self.smooth:.4f}", self.validation, speed) if part
        )
        if self.live is not None:
            self.live.update(self.task, completed=event.done, text=text)
        elif time.monotonic() - self.last_line > 10:
            self._line(f"{event.done:4.0%}  {text}")

    def _line(self, text: str) -> None:
        self.last_line = time.monotonic()
        say(text)
