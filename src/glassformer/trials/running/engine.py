"""Trainings in processes of their own: a crash, or a kill by the system, is the end of one of them. Whatever becomes of
it, the comparison goes on.
"""

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from glassformer.config.errors import GlassformerError
from glassformer.config.messages import listening, say, silent
from glassformer.config.units import size
from glassformer.planning.build import gpu_step_bytes
from glassformer.planning.setup import from_data
from glassformer.trials.backends.base import Backend, ProcessEnd, ProcessSpec
from glassformer.trials.jobs import GIVEN, TRAINED, Job, Outcome
from glassformer.trials.running.folder import EVENTS, LOG, OUTCOME, Folder

PROCESS = "glassformer.trials.running.job_process"


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """Something that happened to one of the jobs."""

    job: Job
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
        """What a job came to: now (done), or before (found)."""
        score = outcome.metrics[outcome.primary]
        return cls(job=outcome.job, what=what, done=1.0, score=score, name=outcome.primary)


JobListener = Callable[[JobEvent], None]


@dataclass
class _JobProgress:
    """A job as its process goes on."""

    job: Job
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
    """Runs jobs at a backend; a job without an outcome is started again as often as the backend allows."""

    folder: Folder
    part: str
    backend: Backend
    hear: JobListener
    progress: dict[str, _JobProgress] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> Generator[Outcome]:
        """Yield the outcome of each job as soon as it has ended."""
        self.progress = {job.id: _JobProgress(job, self.folder.job_folder(job).resolve()) for job in jobs}
        specs = [_spec(name, progress) for name, progress in self.progress.items()]
        with contextlib.closing(self.backend.run(specs, self)) as ends:
            for end in ends:
                yield self._end(self.progress[end.name], end)

    def prepare(self, specs: Sequence[ProcessSpec]) -> None:
        for spec in specs:
            progress = self.progress[spec.name]
            self.folder.begin(progress.job, part=self.part)
            progress.read = 0

    def look(self, running: Sequence[str]) -> None:
        for name in running:
            self._tell(self.progress[name])

    def starts_again(self, end: ProcessEnd) -> bool:
        progress = self.progress[end.name]
        self._tell(progress)
        if self.folder.outcome(progress.job) is not None or progress.retries >= self.backend.retries:
            return False
        progress.retries += 1
        say(f"{end.name}: {end.why}; it is started again")
        self.hear(JobEvent(job=progress.job, what="waiting"))
        return True

    def _tell(self, progress: _JobProgress) -> None:
        for event in progress.events():
            progress.done = float(event.get("done", progress.done))
            step = int(event.get("step", 0))
            if step > progress.furthest:
                progress.furthest, progress.retries = step, 0
            more = {name: event[name] for name in ("score", "name") if name in event}
            self.hear(JobEvent(job=progress.job, what=str(event["event"]), done=progress.done, step=step, **more))

    def _end(self, progress: _JobProgress, end: ProcessEnd) -> Outcome:
        outcome = self.folder.outcome(progress.job)
        if outcome is None:
            outcome = Outcome(job=progress.job, error=end.why)
            outcome.write(progress.folder / OUTCOME)
        if outcome.error is not None:
            self.hear(JobEvent(job=progress.job, what="skipped" if outcome.skipped else "failed", error=outcome.error))
        else:
            self.hear(JobEvent.over(outcome, "done"))
        return outcome


def _spec(name: str, progress: _JobProgress) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        module=PROCESS,
        arguments=(str(progress.folder),),
        log=progress.folder / LOG,
        result=progress.folder / OUTCOME,
        threads=progress.job.settings.get("training.threads"),
        takes_gpu=takes_gpu(progress.job),
    )


# --- what trainings hold on a GPU, by their plans, so that several can share one ---


def takes_gpu(job: Job) -> bool:
    """Whether a job computes on a GPU if it is given one."""
    return job.kind in (TRAINED, GIVEN) and job.settings.get("training.device", "auto") in ("auto", "cuda")


def gpu_needs(jobs: Iterable[Job]) -> dict[str, int | None]:
    """The most bytes that a step of each job holds, by the job's name; seeds and folds of a row are alike. Jobs that
    take no GPU are left out. None: of such a job no plan is made.
    """
    by_row: dict[str, int | None] = {}
    needs = {}
    for job in filter(takes_gpu, jobs):
        if job.row not in by_row:
            by_row[job.row] = need = _planned_bytes(job)
            say(f"{job.id}: " + ("a GPU of its own, without a plan" if need is None else f"{size(need)} on a GPU"))
        needs[job.id] = by_row[job.row]
    return needs


def _planned_bytes(job: Job) -> int | None:
    if job.kind != TRAINED:
        return None
    try:
        with listening(silent):
            return gpu_step_bytes(from_data(dict(job.settings), None, gpus=1))
    except GlassformerError:  # where it cannot be trained either, its process says why
        return None
