"""Trainings in processes of their own: a crash, or a kill by the system, is the end of one of them. Whatever becomes of
it, the comparison goes on.
"""

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from glassformer.config.errors import GlassformerError, Say, silent
from glassformer.config.units import size
from glassformer.planning.build import gpu_step_bytes
from glassformer.planning.setup import from_data
from glassformer.trials.outcome import GIVEN, TRAINED, Cell, Outcome
from glassformer.trials.places.base import Place, Task, TaskEnd
from glassformer.trials.running.folder import EVENTS, LOG, OUTCOME, Folder, id_of

PROCESS = "glassformer.trials.running.cell_process"


@dataclass(frozen=True, kw_only=True)
class CellEvent:
    """Something that happened to one of the cells."""

    cell: Cell
    what: str
    """waiting, found (it was done before), begun, started, stepped, validated, judging, done, failed."""
    done: float = 0.0
    """How far its training is, 0 to 1."""
    step: int = 0
    score: float | None = None
    """The primary metric: of a validation, or at the end."""
    name: str = ""
    """The metric's name."""
    error: str | None = None

    @classmethod
    def over(cls, outcome: Outcome, what: str) -> Self:
        """What a cell came to: now (done), or before (found)."""
        score = outcome.metrics[outcome.primary]
        return cls(cell=outcome.cell, what=what, done=1.0, score=score, name=outcome.primary)


CellListener = Callable[[CellEvent], None]


@dataclass
class _Job:
    """A cell as its process goes on."""

    cell: Cell
    folder: Path
    read: int = 0
    """How many bytes of its events were read."""
    done: float = 0.0
    furthest: int = 0
    """The last step that any of its processes came to."""
    retries: int = 0
    """How often it was started again since it last came further."""

    def events(self) -> Iterator[dict[str, Any]]:
        """What its process has added to its events: whole lines alone."""
        with contextlib.suppress(OSError), (self.folder / EVENTS).open("rb") as file:
            file.seek(self.read)
            lines, _, _ = file.read().rpartition(b"\n")
            self.read += len(lines) + bool(lines)
            for line in lines.splitlines():
                with contextlib.suppress(ValueError):  # torn, where a disk was full
                    yield json.loads(line)


@dataclass(kw_only=True)
class Engine:
    """Runs jobs at a place; a job without an outcome is started again as often as the place allows."""

    folder: Folder
    part: str
    place: Place
    hear: CellListener
    say: Say = silent
    jobs: dict[str, _Job] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell]) -> Generator[Outcome]:
        """Yield the outcome of each job as soon as it has ended."""
        self.jobs = {id_of(cell): _Job(cell, self.folder.cell_path(cell).resolve()) for cell in cells}
        tasks = [_task(name, job) for name, job in self.jobs.items()]
        with contextlib.closing(self.place.run(tasks, self)) as ends:
            for end in ends:
                yield self._end(self.jobs[end.name], end)

    def prepare(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            job = self.jobs[task.name]
            self.folder.begin(job.cell, part=self.part)
            job.read = 0

    def look(self, running: Sequence[str]) -> None:
        for name in running:
            self._tell(self.jobs[name])

    def starts_again(self, end: TaskEnd) -> bool:
        job = self.jobs[end.name]
        self._tell(job)
        if self.folder.outcome(job.cell) is not None or job.retries >= self.place.retries:
            return False
        job.retries += 1
        self.say(f"{end.name}: {end.why}; it is started again")
        self.hear(CellEvent(cell=job.cell, what="waiting"))
        return True

    def _tell(self, job: _Job) -> None:
        for event in job.events():
            job.done = float(event.get("done", job.done))
            step = int(event.get("step", 0))
            if step > job.furthest:
                job.furthest, job.retries = step, 0
            more = {name: event[name] for name in ("score", "name") if name in event}
            self.hear(CellEvent(cell=job.cell, what=str(event["event"]), done=job.done, step=step, **more))

    def _end(self, job: _Job, end: TaskEnd) -> Outcome:
        outcome = self.folder.outcome(job.cell)
        if outcome is None:
            outcome = Outcome(cell=job.cell, error=end.why)
            outcome.write(job.folder / OUTCOME)
        if outcome.error is not None:
            self.hear(CellEvent(cell=job.cell, what="skipped" if outcome.skipped else "failed", error=outcome.error))
        else:
            self.hear(CellEvent.over(outcome, "done"))
        return outcome


def _task(name: str, job: _Job) -> Task:
    return Task(
        name=name,
        module=PROCESS,
        arguments=(str(job.folder),),
        log=job.folder / LOG,
        result=job.folder / OUTCOME,
        threads=job.cell.settings.get("training.threads"),
        takes_gpu=takes_gpu(job.cell),
    )


# --- what trainings hold on a GPU, by their plans, so that several can share one ---


def takes_gpu(cell: Cell) -> bool:
    """Whether a cell computes on a GPU if it is given one."""
    return cell.kind in (TRAINED, GIVEN) and cell.settings.get("training.device", "auto") in ("auto", "cuda")


def gpu_needs(cells: Iterable[Cell], say: Say = silent) -> dict[str, int | None]:
    """The most bytes that a step of each cell holds, by the cell's name; seeds and folds of a row are alike. Cells that
    take no GPU are left out. None: of such a cell no plan is made.
    """
    by_row: dict[str, int | None] = {}
    needs = {}
    for cell in filter(takes_gpu, cells):
        if cell.row not in by_row:
            by_row[cell.row] = need = _planned_bytes(cell)
            say(f"{id_of(cell)}: " + ("a GPU of its own, without a plan" if need is None else f"{size(need)} on a GPU"))
        needs[id_of(cell)] = by_row[cell.row]
    return needs


def _planned_bytes(cell: Cell) -> int | None:
    if cell.kind != TRAINED:
        return None
    try:
        return gpu_step_bytes(from_data(dict(cell.settings), None, silent, gpus=1))
    except GlassformerError:  # where it cannot be trained either, its process says why
        return None
