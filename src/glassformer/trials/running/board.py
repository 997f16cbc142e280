"""Progress of a comparison: a row per model, over all of its seeds or folds."""

from dataclasses import dataclass, field

from glassformer.trials.results.rows import label_of
from glassformer.trials.running.engine import JobEvent

STATES = {"begun": "reading", "started": "training", "stepped": "training", "validated": "training"}
END_EVENTS = ("found", "done", "failed", "skipped")
COLUMNS = ("", "", "done", "so far", "score")


@dataclass
class BoardRow:
    """A model, with the last event and the last score of each seed or fold."""

    name: str
    events: dict[int, JobEvent] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    metric: str = ""

    def hear(self, event: JobEvent) -> None:
        self.events[event.job.repeat] = event
        if event.score is not None:
            self.scores[event.job.repeat], self.metric = event.score, event.name

    @property
    def over(self) -> int:
        """Number of training runs that have ended."""
        return sum(event.what in END_EVENTS for event in self.events.values())

    @property
    def state(self) -> str:
        """State of a training run that runs now, if any."""
        states = [event.what for event in self.events.values()]
        running = [what for what in states if what not in (*END_EVENTS, "waiting")]
        if running:
            return STATES.get(running[0], running[0])
        if "waiting" in states:
            return "waiting"
        if all(what == "skipped" for what in states):
            return "skipped"
        return "failed" if any(event.error is not None for event in self.events.values()) else "done"

    @property
    def share(self) -> float:
        done = [1.0 if event.what in END_EVENTS else event.done for event in self.events.values()]
        return sum(done) / max(1, len(done))

    @property
    def cells(self) -> list[str]:
        """Texts below the columns."""
        score = f"{self.metric} {sum(self.scores.values()) / len(self.scores):.4g}" if self.scores else ""
        return [self.name, self.state, f"{self.over} of {len(self.events)}", f"{self.share:.0%}", score]


class BoardRows(dict[str, BoardRow]):
    """Rows by their keys."""

    def hear(self, event: JobEvent) -> BoardRow:
        row = self.setdefault(event.job.row, BoardRow(label_of(event.job.name, event.job.varied)))
        row.hear(event)
        return row

    @property
    def all_over(self) -> bool:
        return bool(self) and all(row.over == len(row.events) for row in self.values())

    @property
    def cells(self) -> list[list[str]]:
        return [row.cells for row in self.values()]
