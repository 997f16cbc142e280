"""The work on a search: trial after trial, in this process or in several. Run as a module, this is one of them."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.config.errors import GlassformerError, RunError, Say, silent
from glassformer.config.plugins import load_plugins
from glassformer.config.progress import progress_of, watched
from glassformer.config.resolve import with_new_names
from glassformer.runs.files import read_json, write_json
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.storage import (
    GAVE_UP,
    PROCESS,
    SETTINGS,
    State,
    ask,
    begun,
    give_up,
    open_study,
    optuna,
    retry_lost,
    this_process,
    trials_that_count,
)
from glassformer.trials.tuning.trial import OUTCOME, Stopped, Verdict, best_of, line_of, run_trial, settings_of

HOPELESS = 5
"""The number of trials after which, if none is whole, something else is wrong."""
POLL = 0.5
"""Seconds between two looks at what the processes have done."""


@dataclass(frozen=True)
class Worker:
    """What one process of a search needs to know."""

    study: "optuna.Study"
    search: Search
    folder: Path
    """Where the trials' runs lie."""
    trials: int | None
    """The number of trials in all, with those of other processes; None: until the time is up."""
    until: float | None
    """When the time is up, on the clock that nobody sets: all processes of a machine share it."""
    say: Say = silent
    job: int = 0
    stop: Callable[[], bool] = lambda: False

    def work(self) -> None:
        """Trial after trial, until there are enough or the time is up; the first is not cut short."""
        while not self.stop():
            retry_lost(self.study, self.say)
            done = trials_that_count(self.study)
            progress_of("trial")(len(done), self.trials or 0)
            if self._enough(done) or self._late():
                return
            ended = [trial for trial in done if trial.state.is_finished()]
            if len(ended) >= HOPELESS and not any(trial.state == State.COMPLETE for trial in ended):
                raise RunError(
                    f"none of the first {len(ended)} trials came to a score; the last: "
                    f"{ended[-1].user_attrs[OUTCOME]['why']}"
                )
            self.study.sampler = sampler(
                int(self.search.settings.get("training.seed", 0)),
                begun(self.study),
                self.job,
            )
            trial = ask(self.study)
            if self._enough([other for other in trials_that_count(self.study) if other.number < trial.number]):
                give_up(self.study, trial.number, retry=False)  # another process was faster
                return
            try:
                with watched(None):
                    verdict = self._try(trial)
                trial.set_user_attr(OUTCOME, verdict.outcome)
            except optuna.exceptions.UpdateFinishedTrialError:
                self.say(f"trial {trial.number}: another process took it for lost, so it does not count here")
                continue
            except Stopped:
                timely = not self.stop()
                give_up(self.study, trial.number, retry=not timely)
                self.say(f"trial {trial.number}: {'the time is up' if timely else 'stopped'}")
                return
            except BaseException:
                with contextlib.suppress(Exception):
                    give_up(self.study, trial.number, retry=True)
                raise
            self.study.tell(trial, verdict.value, state=verdict.state)
            self._clear()
            self.say(line_of(trial.number, self.study, self.search))

    def _enough(self, trials: "list[optuna.trial.FrozenTrial]") -> bool:
        return self.trials is not None and len(trials) >= self.trials

    def _late(self) -> bool:
        """Only once there is a score: a search must come to something."""
        late = self.until is not None and time.monotonic() > self.until
        return late and bool(self.study.get_trials(False, (State.COMPLETE,)))

    def _try(self, trial: "optuna.Trial") -> Verdict:
        trial.set_user_attr(PROCESS, this_process())
        settings = settings_of(trial, self.search)
        trial.set_user_attr(SETTINGS, settings)
        for other in self.study.get_trials(deepcopy=False, states=(State.COMPLETE,)):
            if with_new_names(other.user_attrs.get(SETTINGS, {})) == settings:
                # trained with the same seed, it would come to the same
                same = {**other.user_attrs[OUTCOME], "seconds": 0.0, "why": f"as trial {other.number}"}
                return Verdict(State.COMPLETE, other.value, same)
        return run_trial(
            trial, self.search, settings, self.folder / str(trial.number), lambda: self.stop() or self._late()
        )

    def _clear(self) -> None:
        """Of all trials' runs, only that of the best stays, and those under way."""
        trials = self.study.get_trials(deepcopy=False)
        best = best_of(trials, self.search)
        finished = {str(trial.number) for trial in trials if trial.state.is_finished()}
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name.split("-")[0] in finished and (best is None or path.name != str(best.number)):
                shutil.rmtree(path, ignore_errors=True)


def sampler(*entropy: int) -> "optuna.samplers.BaseSampler":
    """Tree-structured Parzen estimators, of settings together; what it draws follows from these numbers."""
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


# --- several processes ---


def work_in_processes(jobs: int, worker: Worker, where: str) -> None:
    """So many processes, and a line for each trial that any of them finishes; all end before this does."""
    reported = {trial.number for trial in worker.study.get_trials(deepcopy=False) if trial.state.is_finished()}
    with tempfile.TemporaryDirectory() as scratch:  # others may work on the same search, in the same folder
        orders = Path(scratch) / "orders.json"
        write_json(orders, {
            "where": where, "name": worker.study.study_name, "search": worker.search.to_dict(),
            "folder": str(worker.folder), "trials": worker.trials, "until": worker.until,
        })  # fmt: skip
        logs = [Path(scratch) / f"{job}.log" for job in range(jobs)]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for job, log in enumerate(logs):
                processes.append(_start(orders, job, log, _share(job, jobs, worker.search)))
            while any(process.poll() is None for process in processes):
                time.sleep(POLL)
                _report(worker, reported)
        finally:
            for process in processes:
                process.terminate()  # where it still runs, it finishes its step, and gives its trial back
            for process in processes:
                process.wait()
        _report(worker, reported)
        for process, log in zip(processes, logs, strict=True):
            if process.returncode:
                lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                why = lines[-1] if lines else f"a process of the search ended with code {process.returncode}"
                raise RunError(why.removeprefix("glassformer: "))


def _start(orders: Path, job: int, log: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", __name__, str(orders), str(job), str(os.getpid())]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **environment}
        )


def _share(job: int, jobs: int, search: Search) -> dict[str, str]:
    """A process's part of the machine's cores, and of its GPUs one each, in turn, unless someone decided that."""
    out = {}
    if "OMP_NUM_THREADS" not in os.environ and "training.threads" not in search.settings:
        out["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    if search.settings.get("training.device", "auto") == "auto":
        import torch

        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]
        if len(gpus) > 1:
            out["CUDA_VISIBLE_DEVICES"] = gpus[job % len(gpus)]
    return out


def _report(worker: Worker, reported: set[int]) -> None:
    for trial in worker.study.get_trials(deepcopy=False):
        if trial.state.is_finished() and trial.number not in reported:
            reported.add(trial.number)
            if not trial.user_attrs.get(GAVE_UP):
                progress_of("trial")(len(trials_that_count(worker.study)), worker.trials or 0)
                worker.say(line_of(trial.number, worker.study, worker.search))


def main(argv: list[str]) -> int:
    """ORDERS JOB PARENT: works until there is no more to do, or its parent is no more."""
    orders, job, parent = read_json(Path(argv[0])), int(argv[1]), int(argv[2])
    try:
        load_plugins()
        search = Search.from_dict(orders["search"])
        with open_study(orders["where"], orders["name"], search) as study:
            folder, trials, until = Path(orders["folder"]), orders["trials"], orders["until"]
            Worker(study, search, folder, trials, until, job=job, stop=lambda: os.getppid() != parent).work()
    except GlassformerError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        pass  # the parent says that it was stopped
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
