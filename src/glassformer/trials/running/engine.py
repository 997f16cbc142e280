"""Trainings in processes of their own, some at a time: a crash, or a kill by the system, is the end of one of them.

Run as a module, `python -m glassformer.trials.running.engine FOLDER`, this is one of them: it reads cell.json, says on
stdout what happens (a JSON object a line), and leaves outcome.json. Whatever becomes of it, the comparison goes on.
When the comparison is gone, it saves where it stands and stops.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Self

from glassformer.config.errors import GlassformerError, out_of_memory
from glassformer.config.plugins import load_plugins
from glassformer.runs.files import read_json
from glassformer.trials.outcome import Cell, Outcome
from glassformer.trials.running.folder import CELL, LOG, OUTCOME, Folder

GRACE = 60.0
"""Seconds that trainings have to save where they stand when they are stopped."""
LEFT_ALONE = 30.0
"""Seconds that a training has to save where it stands once the comparison is gone."""
TOO_LARGE = (
    "out of memory: lower --batch-size (for translation --batch-tokens), --model.context or --size, or train fewer at "
    "once (--jobs)"
)


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
    cell: Cell
    folder: Path
    process: "subprocess.Popen[str]"
    log: IO[bytes]
    done: float = 0.0


@dataclass(kw_only=True)
class Engine:
    """Does cells. `threads`: of each process."""

    folder: Folder
    part: str
    jobs: int
    threads: int
    lock: IO[str]
    hear: CellListener
    running: list[_Job] = field(default_factory=list)
    lines: "queue.Queue[tuple[_Job, str | None]]" = field(default_factory=queue.Queue)

    def run(self, cells: Sequence[Cell]) -> Generator[Outcome]:
        """What each cell came to, as soon as it is done. However this is left, no process stays behind."""
        waiting = list(cells)
        try:
            with _terminated():
                while waiting or self.running:
                    while waiting and len(self.running) < self.jobs:
                        self._begin(waiting.pop(0))
                    try:
                        job, line = self.lines.get(timeout=0.5)  # so that Ctrl-C is heard on every system
                    except queue.Empty:
                        continue
                    if line is not None:
                        self._tell(job, line)
                    else:
                        yield self._end(job)
        finally:
            self._stop()

    def _begin(self, cell: Cell) -> None:
        folder = self.folder.begin(cell, part=self.part, threads=self.threads)
        threads = str(self.threads)
        log = (folder / LOG).open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)],
            stdin=subprocess.PIPE,  # held open as long as this process lives
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            start_new_session=True,  # Ctrl-C is for us, and we pass it on
            pass_fds=(self.lock.fileno(),),  # so the folder stays locked until the last of them is gone
        )
        job = _Job(cell, folder, process, log)
        self.running.append(job)
        threading.Thread(target=self._read, args=(job,), daemon=True).start()
        self.hear(CellEvent(cell=cell, what="begun"))

    def _read(self, job: _Job) -> None:
        """A process's lines, and None at their end; in a thread of its own."""
        assert job.process.stdout is not None
        with contextlib.suppress(ValueError):  # closed while we read
            for line in job.process.stdout:
                self.lines.put((job, line))
        self.lines.put((job, None))

    def _tell(self, job: _Job, line: str) -> None:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        job.done = float(event.get("done", job.done))
        self.hear(
            CellEvent(
                cell=job.cell,
                what=str(event["event"]),
                done=job.done,
                step=int(event.get("step", 0)),
                score=event.get("score"),
                name=str(event.get("name", "")),
            )
        )

    def _end(self, job: _Job) -> Outcome:
        code = job.process.wait()
        self._close(job)
        outcome = self.folder.outcome(job.cell)
        if outcome is None:
            outcome = Outcome(cell=job.cell, error=_why_ended(code, job.folder), threads=self.threads)
            outcome.write(job.folder / OUTCOME)
        if outcome.error is not None:
            self.hear(CellEvent(cell=job.cell, what="failed", error=outcome.error))
        else:
            self.hear(CellEvent.over(outcome, "done"))
        return outcome

    def _close(self, job: _Job) -> None:
        self.running.remove(job)
        job.log.close()
        for pipe in (job.process.stdin, job.process.stdout):
            if pipe is not None:
                pipe.close()

    def _stop(self) -> None:
        """Ask what still runs to save and stop; what does not is killed, and a second Ctrl-C kills at once."""
        for job in self.running:
            job.process.terminate()
        give_up = time.monotonic() + GRACE
        for job in list(self.running):
            try:
                job.process.wait(max(0.1, give_up - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                for other in self.running:
                    other.process.kill()
                job.process.wait()
            self._close(job)


def _why_ended(code: int, folder: Path) -> str:
    """Why a process ended without an outcome, in one line."""
    if code == -signal.SIGKILL:
        return (
            "it was killed by the system, most likely for want of memory: lower --batch-size, --model.context or "
            "--size, or train fewer at once (--jobs)"
        )
    if code < 0:
        return f"it was ended by signal {-code} ({signal.Signals(-code).name}; see {folder / LOG})"
    return f"it ended with code {code} and no result (see {folder / LOG})"


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM is like Ctrl-C: trainings are stopped, and what is done is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- one of the processes ---


def main(folder: Path) -> int:
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what anything else prints goes to the log
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), daemon=True).start()
    job = read_json(folder / CELL)
    cell = Cell(**job["cell"])
    try:
        load_plugins()
        from glassformer.trials.running.execution import run_cell  # torch: what cannot even be imported is a row, too

        outcome = run_cell(cell, folder, str(job["part"]), lambda **event: _write_event(events, event))
    except GlassformerError as error:
        outcome = Outcome(cell=cell, error=str(error))
    except KeyboardInterrupt:
        outcome = None
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(cell=cell, error=_why_failed(error, folder))
    if outcome is None:  # stopped on the way; its run can go on
        return 1
    replace(outcome, threads=int(job["threads"])).write(folder / OUTCOME)
    return 0


def _why_failed(error: Exception, folder: Path) -> str:
    """Why a cell failed, in one line."""
    text = next(iter(str(error).strip().splitlines()), "")
    if out_of_memory(error):
        return TOO_LARGE
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or text}"
    return f"it crashed with {type(error).__name__}{f': {text[:200]}' if text else ''} (see {folder / LOG})"


def _write_event(events: IO[str], event: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the comparison is gone, and `_watch` knows it
        events.write(json.dumps(event) + "\n")
        events.flush()


def _watch(stdin: int) -> None:
    """The comparison holds the other end of stdin, and says nothing: where it ends, so does this."""
    while os.read(stdin, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # the training loop finishes its step and saves
    time.sleep(LEFT_ALONE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
