"""Jobs in processes of their own: if one crashes or the system kills it, the comparison continues."""

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
from glassformer.trials.jobs import EXISTING, TRAINED, Job, Outcome
from glassformer.trials.running.folder import EVENTS, LOG, OUTCOME, Folder

JOB_MODULE = "glassformer.trials.running.job_process"


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """An event of a job."""

    job: Job
    what: str
    """waiting, found (it was done before), begun, started, stepped, validated, scoring, done, failed or skipped."""
    done: float = 0.0
    """Progress of training, 0 to 1."""
    step: int = 0
    score: float | None = None
    """The primary metric of a validation, or at the end."""
    name: str = ""
    """Name of the metric."""
    error: str | None = None

    @classmethod
    def over(cls, outcome: Outcome, what: str) -> Self:
        """Return the event of an outcome: "done" now, or "found" from an earlier command."""
        score = outcome.metrics[outcome.primary]
        return cls(job=outcome.job, what=what, done=1.0, score=score, name=outcome.primary)


JobListener = Callable[[JobEvent], None]


@dataclass
class _JobProgress:
    """Progress of a job, read from the file that its process appends events to."""

    job: Job
    folder: Path
    read: int = 0
    """Number of bytes read from the file of events."""
    done: float = 0.0
    furthest: int = 0
    """The last step that any process of the job reached."""
    retries: int = 0
    """Number of restarts since the job last got further."""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield new events: complete lines only."""
        with contextlib.suppress(OSError), (self.folder / EVENTS).open("rb") as file:
            file.seek(self.read)
            lines, _, _ = file.read().rpartition(b"\n")
            self.read += len(lines) + bool(lines)
            for line in lines.splitlines():
                with contextlib.suppress(ValueError):  # torn by a full disk
                    yield json.loads(line)

    def spec(self) -> ProcessSpec:
        return ProcessSpec(
            name=self.job.id,
            module=JOB_MODULE,
            arguments=(str(self.folder),),
            log=self.folder / LOG,
            result=self.folder / OUTCOME,
            threads=self.job.settings.get("training.threads"),
            takes_gpu=takes_gpu(self.job),
        )


@dataclass(kw_only=True)
class Engine:
    """The jobs of a comparison on a backend, which restarts a job without an outcome a limited number of times."""

    folder: Folder
    part: str
    backend: Backend[Any]
    hear: JobListener
    progress: dict[str, _JobProgress] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> Generator[Outcome]:
        """Yield the outcome of each job as soon as it has ended."""
        self.progress = {job.id: _JobProgress(job, self.folder.job_folder(job).resolve()) for job in jobs}
        specs = [progress.spec() for progress in self.progress.values()]
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
            self._pass_on(self.progress[name])

    def restarts(self, end: ProcessEnd) -> bool:
        progress = self.progress[end.name]
        self._pass_on(progress)
        if self.folder.outcome(progress.job) is not None or progress.retries >= self.backend.retries:
            return False
        progress.retries += 1
        say(f"{end.name}: {end.why}; it is restarted")
        self.hear(JobEvent(job=progress.job, what="waiting"))
        return True

    def _pass_on(self, progress: _JobProgress) -> None:
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
        if outcome.error is None:
            self.hear(JobEvent.over(outcome, "done"))
        else:
            self.hear(JobEvent(job=progress.job, what="skipped" if outcome.skipped else "failed", error=outcome.error))
        return outcome


# --- GPU memory of jobs by their plans, so that several can share a GPU ---


def takes_gpu(job: Job) -> bool:
    """Return whether a job computes on a GPU if it is given one."""
    return job.kind in (TRAINED, EXISTING) and job.settings.get("training.device", "auto") in ("auto", "cuda")


def gpu_needs(jobs: Iterable[Job]) -> dict[str, int | None]:
    """Return the peak bytes of a training step by the id of the job, for jobs that use a GPU; None without a plan.

    Seeds and folds of a row have the same plan.
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
    except GlassformerError:  # its process will report the error
        return None
