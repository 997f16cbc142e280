"""A comparison as it goes: a row for each model, over all of its seeds or folds; in a notebook, with a bar."""

import time
from dataclasses import dataclass, field
from typing import Self

from glassformer.config.progress import clock
from glassformer.data.wording import counted
from glassformer.notebook.display import Area
from glassformer.notebook.html import bar, table
from glassformer.trials.results.rows import label_of
from glassformer.trials.running.engine import CellEvent

STATES = {"begun": "reading", "started": "training", "stepped": "training", "validated": "training"}
OVER = ("found", "done", "failed", "skipped")
COLUMNS = ("", "", "done", "so far", "score", "time left")
"""What is told of each row."""


@dataclass
class BoardRow:
    """A model; what is kept of each of its trainings stands by its number."""

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
    def is_over(self) -> bool:
        return self.over == len(self.events)

    @property
    def state(self) -> str:
        """The state that tells most."""
        running = [event.what for event in self.events.values() if event.what not in (*OVER, "waiting")]
        if running:
            return STATES.get(running[0], running[0])
        if not self.is_over:
            return "waiting"
        if all(event.what == "skipped" for event in self.events.values()):
            return "skipped"
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
        return "" if seconds is None else clock(seconds)

    @property
    def score(self) -> str:
        return f"{self.metric} {sum(self.scores.values()) / len(self.scores):.4g}" if self.scores else ""

    @property
    def cells(self) -> list[str]:
        """What stands under the columns."""
        return [self.name, self.state, f"{self.over} of {len(self.events)}", f"{self.share:.0%}", self.score,
                self.time_left]  # fmt: skip


class BoardRows(dict[str, BoardRow]):
    """The rows by their ids."""

    def hear(self, event: CellEvent) -> BoardRow:
        row = self.setdefault(event.cell.row, BoardRow(label_of(event.cell.name, event.cell.varied)))
        row.hear(event)
        return row

    @property
    def all_over(self) -> bool:
        return bool(self) and all(row.is_over for row in self.values())

    @property
    def cells(self) -> list[list[str]]:
        return [row.cells for row in self.values()]


class NotebookBoard:
    """Hears what happens to cells: a bar for all of them, and a row for each model."""

    def __init__(self) -> None:
        self.rows = BoardRows()
        self.area = Area()

    def __call__(self, event: CellEvent) -> None:
        self.rows.hear(event)
        self.area.show(self._html, self.words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None and self.area.is_drawn:
            self.area.end(f"stopped: {self.done}")

    def end(self, where: str) -> None:
        self.area.end(f"{self.words}: {where}")

    @property
    def trainings(self) -> int:
        return sum(len(row.events) for row in self.rows.values())

    @property
    def done(self) -> str:
        return f"{sum(row.over for row in self.rows.values())} of {self.trainings} done"

    @property
    def words(self) -> str:
        return f"{counted(len(self.rows), 'model')} compared, {counted(self.trainings, 'training')}"

    def _html(self) -> str:
        rows = self.rows.values()
        share = sum(row.share * len(row.events) for row in rows) / self.trainings
        return bar(share, self.done) + table(COLUMNS, self.rows.cells)
