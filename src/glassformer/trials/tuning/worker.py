"""Workers of a search, which run trials in this process or in several. Run as a module, this is one worker."""

import contextlib
import shutil
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.config.errors import GlassformerError, RunError
from glassformer.config.messages import listening, say, silent
from glassformer.config.plugins import load_plugins
from glassformer.config.progress import progress_of, watched
from glassformer.runs.files import read_json, write_json
from glassformer.trials.backends.base import STOPPED, Backend, ProcessEnd, ProcessSpec, when_parent_is_gone
from glassformer.trials.tuning import storage
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.storage import Outcome, State, optuna
from glassformer.trials.tuning.trial import OUTCOME, Stopped, best_of, line_of, run_trial, settings_of

MAX_FAILURES = 5
"""A search ends with an error if its first trials, this many, are all without a score."""
ORDERS = "orders.json"
ERROR_PREFIX = "glassformer: "
"""Prefix of a line with an error message of a process."""
POLL_SECONDS = 0.5
"""Minimum seconds between two checks of the processes."""


@dataclass(frozen=True)
class Worker:
    """A worker of a search: asks for trials, trains them and records their outcomes."""

    study: "optuna.Study"
    search: Search
    folder: Path
    """Folder for the runs of the trials."""
    trials: int | None
    """Total number of trials, with those of other processes; None: until the time is up."""
    until: float | None
    """Monotonic time at which the search ends, which all processes of a machine share."""
    job: int = 0
    name: str = ""
    """Unique name, which a worker that is restarted keeps."""
    stop: Callable[[], bool] = lambda: False

    def work(self) -> None:
        """Run trials until there are enough or the time is up; the first trial is not cut short."""
        while not self.stop():
            storage.retry_lost(self.study)
            progress_of("trial")(len(storage.trials_that_count(self.study)), self.trials or 0)
            if self.is_done:
                return
            self._check_failures()
            self.study.sampler = sampler(
                int(self.search.settings.get("training.seed", 0)), storage.begun(self.study), self.job
            )
            trial = storage.ask(self.study)
            if self._enough(trial.number):
                storage.give_up(self.study, trial.number, retry=False)  # another process was faster
                return
            try:
                with watched(None), listening(silent):
                    outcome = self._try(trial)
                trial.set_user_attr(OUTCOME, outcome)
            except optuna.exceptions.UpdateFinishedTrialError:
                say(f"trial {trial.number}: another process gave it up, so it does not count here")
                continue
            except Stopped:
                timely = not self.stop()
                storage.give_up(self.study, trial.number, retry=not timely)
                say(f"trial {trial.number}: {'the time is up' if timely else 'stopped'}")
                return
            except BaseException:
                with contextlib.suppress(Exception):
                    storage.give_up(self.study, trial.number, retry=True)
                raise
            self.study.tell(trial, outcome.get("value"), state=State.__members__[outcome["state"]])
            self._remove_runs()
            say(line_of(trial.number, self.study, self.search))

    @property
    def is_done(self) -> bool:
        """Whether there are enough trials, or the time is up and one of them has a score."""
        return self._enough() or self._late()

    def _enough(self, before: int | None = None) -> bool:
        """Return whether there are enough trials. `before`: count only trials with smaller numbers."""
        counted = [trial.number for trial in storage.trials_that_count(self.study)]
        return self.trials is not None and sum(before is None or number < before for number in counted) >= self.trials

    def _late(self) -> bool:
        late = self.until is not None and time.monotonic() > self.until
        return late and bool(self.study.get_trials(False, (State.COMPLETE,)))

    def _check_failures(self) -> None:
        """Raise an error if the first trials have all failed."""
        ended = [trial for trial in storage.trials_that_count(self.study) if trial.state.is_finished()]
        if len(ended) >= MAX_FAILURES and not any(trial.state == State.COMPLETE for trial in ended):
            last = ended[-1].user_attrs[OUTCOME]["why"]
            raise RunError(f"none of the first {len(ended)} trials has a score; the last: {last}")

    def _try(self, trial: "optuna.Trial") -> Outcome:
        trial.set_user_attr(storage.PROCESS, list(storage.this_process()))
        trial.set_user_attr(storage.WORKER, self.name)
        settings = settings_of(trial, self.search)
        trial.set_user_attr(storage.SETTINGS, settings)
        for other in self.study.get_trials(deepcopy=False, states=(State.COMPLETE,)):
            if other.user_attrs.get(storage.SETTINGS) == settings:
                # with the same seed, training would have the same result
                outcome: Outcome = other.user_attrs[OUTCOME]
                return {**outcome, "seconds": 0.0, "why": f"as trial {other.number}"}
        return run_trial(
            trial, self.search, settings, self.folder / str(trial.number), lambda: self.stop() or self._late()
        )

    def _remove_runs(self) -> None:
        """Remove the runs of finished trials but the best one."""
        trials = self.study.get_trials(deepcopy=False)
        best = best_of(trials, self.search)
        finished = {str(trial.number) for trial in trials if trial.state.is_finished()}
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name.split("-")[0] in finished and (best is None or path.name != str(best.number)):
                shutil.rmtree(path, ignore_errors=True)


def sampler(*entropy: int) -> "optuna.samplers.BaseSampler":
    """Return a multivariate TPE sampler, seeded with these numbers."""
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


# --- several processes ---


@dataclass
class WorkerTeam:
    """Processes that work on the same search."""

    jobs: int
    worker: Worker
    where: str
    """Storage of the study."""
    backend: Backend[Any]
    folder: Path
    """Folder for the orders and logs of the processes."""
    reported: set[int] = field(default_factory=set)
    retries: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Run the processes, and print a line for each trial that ends.

        A lost process is restarted as often as the backend allows; an error message of a process ends the search.
        """
        self.reported = {trial.number for trial in self.worker.study.get_trials(False) if trial.state.is_finished()}
        self.backend.pause = max(POLL_SECONDS, self.backend.pause)
        self._write_orders()
        for _ in self.backend.run([self._spec(job) for job in range(self.jobs)], self):
            pass
        self.look(())
        if self.failures:
            raise RunError(self.failures[0])

    def prepare(self, specs: Sequence[ProcessSpec]) -> None:
        for spec in specs:
            if not self.retries[spec.name]:
                spec.log.unlink(missing_ok=True)

    def look(self, running: Sequence[str]) -> None:
        worker = self.worker
        for trial in worker.study.get_trials(deepcopy=False):
            if trial.state.is_finished() and trial.number not in self.reported:
                self.reported.add(trial.number)
                if not storage.gave_up(trial):
                    progress_of("trial")(len(storage.trials_that_count(worker.study)), worker.trials or 0)
                    say(line_of(trial.number, worker.study, worker.search))

    def restarts(self, end: ProcessEnd) -> bool:
        if end.code == 0 and self.worker.is_done:
            return False
        line = _last_line(self.folder / f"{end.name}.log")
        restarts = not line.startswith(ERROR_PREFIX) and self.retries[end.name] < self.backend.retries
        if restarts:
            self.retries[end.name] += 1
        elif end.code != 0:
            self.failures.append(line.removeprefix(ERROR_PREFIX) or end.why)
        return restarts

    def _write_orders(self) -> None:
        worker = self.worker
        left = None if worker.until is None else worker.until - time.monotonic()
        write_json(self.folder / ORDERS, {
            "where": self.where, "name": worker.study.study_name, "search": worker.search.to_dict(),
            "folder": str(worker.folder.resolve()), "trials": worker.trials,
            "until": None if left is None else time.time() + left,
        })  # fmt: skip

    def _spec(self, job: int) -> ProcessSpec:
        settings = self.worker.search.settings
        return ProcessSpec(
            name=f"worker-{job}",
            module=__name__,
            arguments=(str(self.folder / ORDERS), str(job)),
            log=self.folder / f"worker-{job}.log",
            threads=settings.get("training.threads"),
            takes_gpu=settings.get("training.device", "auto") in ("auto", "cuda"),
        )


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        return log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    return ""


def main(argv: list[str]) -> int:
    """Work until the search is done, or until the process that started this one has ended.

    `argv`: the file with the orders, and the number of this job.
    """
    orders, job = read_json(Path(argv[0])), int(argv[1])
    gone = threading.Event()
    when_parent_is_gone(gone.set)
    try:
        load_plugins()
        search = Search.from_dict(orders["search"])
        with storage.open_study(orders["where"], orders["name"], search) as study:
            folder, trials = Path(orders["folder"]), orders["trials"]
            until = None if orders["until"] is None else time.monotonic() + orders["until"] - time.time()
            name = " ".join(argv)
            storage.retry_trials_of(study, name)
            Worker(study, search, folder, trials, until, job=job, name=name, stop=gone.is_set).work()
    except GlassformerError as error:
        print(f"{ERROR_PREFIX}{error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # `Worker.work` has returned its trial to the study
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
