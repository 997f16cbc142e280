"""A comparison as it goes: a table of its rows on a terminal, a line an event elsewhere."""

import time
from dataclasses import dataclass, field

from rich.live import Live
from rich.table import Table
from rich.text import Text

from glassformer.cli.terminal.show import errors, say
from glassformer.trials.results.rows import label_of
from glassformer.trials.running.engine import CellEvent

STATES = {"begun": "reading", "started": "training", "stepped": "training", "validated": "training"}
OVER = ("found", "done", "failed")


@dataclass
class _Row:
    """A model, over all of its seeds or folds."""

    name: str
    states: dict[int, str] = field(default_factory=dict)
    """By seed."""
    begun: dict[int, float] = field(default_factory=dict)
    done: dict[int, float] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    metric: str = ""
    error: str = ""

    def hear(self, event: CellEvent) -> None:
        repeat = event.cell.repeat
        self.states[repeat] = event.what
        self.done[repeat] = 1.0 if event.what in OVER else event.done
        if event.what == "started":
            self.begun[repeat] = time.monotonic()
        if event.score is not None:
            self.scores[repeat], self.metric = event.score, event.name
        if event.error is not None:
            self.error = event.error

    @property
    def over(self) -> int:
        return sum(state in OVER for state in self.states.values())

    @property
    def state(self) -> str:
        """The one that tells most."""
        if (running := [state for state in self.states.values() if state not in (*OVER, "waiting")]) != []:
            return STATES.get(running[0], running[0])
        if self.over < len(self.states):
            return "waiting"
        return "failed" if self.error else "done"

    @property
    def share(self) -> float:
        return sum(self.done.get(repeat, 0.0) for repeat in self.states) / max(1, len(self.states))

    def left(self) -> float | None:
        """Seconds until what trains now is through, as far as one can tell."""
        times = [
            (time.monotonic() - self.begun[repeat]) * (1 - done) / done
            for repeat, done in self.done.items()
            if repeat in self.begun and self.states[repeat] not in OVER and done > 0.02
        ]
        return max(times) if times else None


class Board:
    """Hears what happens to cells. On a terminal the table stands below what is said."""

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.live: Live | None = None
        self.after: list[str] = []
        """What was said once all was done: it belongs below the result."""

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def say(self, text: str) -> None:
        if self.rows and all(row.over == len(row.states) for row in self.rows.values()):
            self.after.append(text)
        elif self.live is not None:
            self.live.console.print(Text(text))
        else:
            say(text)

    def __call__(self, event: CellEvent) -> None:
        row = self.rows.setdefault(event.cell.row, _Row(label_of(event.cell.name, event.cell.varied)))
        row.hear(event)
        if errors.is_terminal:
            self._draw()
        else:
            self._line(event, row)

    def _line(self, event: CellEvent, row: _Row) -> None:
        which = f"{row.name}, {event.cell.repeat + 1} of {len(row.states)}" if len(row.states) > 1 else row.name
        if event.what == "failed":
            say(f"{which}: {event.error}")
        elif event.what in ("done", "found"):
            before = " (done before)" if event.what == "found" else ""
            say(f"{which}: {event.name} {event.score:.4g}{before}")
        elif event.what == "started":
            say(f"{which}: training")

    def _draw(self) -> None:
        if self.live is None:
            self.live = Live(self.table(), console=errors, transient=True, refresh_per_second=4)
            self.live.start()
        self.live.update(self.table())

    def table(self) -> Table:
        made = Table(box=None, pad_edge=False, header_style="bold")
        for number, column in enumerate(("", "", "done", "so far", "score", "time left")):
            made.add_column(column, justify="left" if number < 2 else "right", no_wrap=True)
        for row in self.rows.values():
            left = row.left()
            score = f"{row.metric} {sum(row.scores.values()) / len(row.scores):.4g}" if row.scores else ""
            made.add_row(
                row.name,
                row.state,
                f"{row.over} of {len(row.states)}",
                f"{row.share:.0%}",
                score,
                "" if left is None else f"{left // 60:.0f}:{left % 60:02.0f}",
            )
        return made
