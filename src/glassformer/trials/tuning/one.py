"""One trial: its settings, its trainings, its score on the validation part. The test part is not looked at."""

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.config.errors import GlassformerError, Misuse, RunError, SettingError, out_of_memory
from glassformer.config.presets import LANGUAGE_MODEL, TRANSLATION
from glassformer.training.events import Event, Stepped, Validated
from glassformer.trials.tuning.kept import PLAIN, START
from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import MODEL, Search
from glassformer.trials.tuning.space import Dimension, sample
from glassformer.verbs.train import Trained, train

State = optuna.trial.TrialState
PROCESS = "process"
"""Of a trial: which process has it, and when that was last heard of."""
BEAT = 20.0
"""Seconds between two signs of life."""
SILENT = 10 * BEAT
"""Seconds after which a process on another machine, of which nothing is heard, counts as gone."""


class Stopped(Exception):
    """Someone asked the whole search to stop, or its time is up; the trial is not to blame."""


@dataclass(frozen=True)
class Verdict:
    """What a trial came to."""

    state: State
    value: float | None = None
    why: str = ""
    """In a line, where it is not whole."""
    more: dict[str, Any] = field(default_factory=dict)


def settings_of(trial: "optuna.Trial", search: Search) -> dict[str, Any]:
    """What is searched, as this trial has it; the model among it."""
    if trial.user_attrs.get(PLAIN):
        return {MODEL: trial.user_attrs[START]}
    model = search.models[0]
    if len(search.models) > 1:
        model = trial.suggest_categorical(MODEL, search.models)

    def suggest(dimension: Dimension) -> Any:
        name = search.name_of(model, dimension)
        if dimension.values:
            return trial.suggest_categorical(name, dimension.values)
        if dimension.whole:
            step = 1 if dimension.step is None else int(dimension.step)
            return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log, step=step)
        return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log, step=dimension.step)

    drawn = sample(search.spaces[model], suggest, search.starts[model])
    exact = START in trial.user_attrs
    return {MODEL: model, **{key: value if exact else _short(value) for key, value in drawn.items()}}


def _short(value: Any) -> Any:
    """To three digits: a recipe that a person can read, and trains the very same model."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def run_trial(
    trial: "optuna.Trial", search: Search, settings: dict[str, Any], folder: Path, stop: Callable[[], bool]
) -> Verdict:
    """Train with these settings, once for each seed or fold."""
    try:
        with Beating(trial):
            return _judge(trial, search, settings, folder, stop)
    except optuna.TrialPruned as pruned:
        return Verdict(State.PRUNED, why=str(pruned))
    except RunError:
        raise
    except SettingError as error:
        if START in trial.user_attrs:  # so would all others
            raise
        return Verdict(State.PRUNED, why=str(error))
    except GlassformerError as error:
        if START in trial.user_attrs and isinstance(error, Misuse):
            raise
        return Verdict(State.FAIL, why=str(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return Verdict(State.FAIL, why="out of memory")


def _judge(
    trial: "optuna.Trial", search: Search, settings: dict[str, Any], folder: Path, stop: Callable[[], bool]
) -> Verdict:
    runs: list[Trained] = []
    watch = Watch(trial, search, stop)
    for number, repeat in enumerate(search.repeats):
        out = folder if number == 0 else folder.with_name(f"{folder.name}-{number}")
        watch.reports = number == 0
        trained = train(out=out, draft=True, overwrite=True, listen=watch, **{**whole(search, settings), **repeat})
        if trained.reason == "interrupted":
            raise KeyboardInterrupt
        if number:
            shutil.rmtree(out, ignore_errors=True)
        runs.append(trained)
    values = [run.validation[watch.primary] for run in runs]
    more = {
        "primary": watch.primary,
        "metrics": {name: sum(run.validation[name] for run in runs) / len(runs) for name in runs[0].validation},
        "values": values,
        "parameters": runs[0].parameters,
        "steps": runs[0].steps,
        "seconds": round(sum(run.seconds for run in runs), 2),
    }
    return Verdict(State.COMPLETE, value=sum(values) / len(values), more=more)


def whole(search: Search, settings: dict[str, Any]) -> dict[str, Any]:
    """All that a training of a trial is told; samples on the way are for people who watch one."""
    quiet = {"training.samples": False} if search.task in (LANGUAGE_MODEL, TRANSLATION) else {}
    return {**quiet, **search.settings, **settings}


class Watch:
    """Hears a training: tells the study of each validation, and stops what is not worth going on with."""

    def __init__(self, trial: "optuna.Trial", search: Search, stop: Callable[[], bool]) -> None:
        self.trial = trial
        self.search = search
        self.stop = stop
        self.primary = ""
        self.count = 0
        self.reports = True

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped) and self.stop():
            raise Stopped
        if not isinstance(event, Validated):
            return
        evaluation = event.evaluation
        self.primary = evaluation.primary
        assert evaluation.lower_is_better == self.search.lower_is_better
        if self.reports:
            self.count += 1
            self.trial.report(evaluation.metrics[evaluation.primary], self.count)
            if self.search.prune and START not in self.trial.user_attrs and self.trial.should_prune():
                raise optuna.TrialPruned(f"worse than half of the others at validation {self.count}")


class Beating:
    """While it is open, the study hears every few seconds that this trial's process lives."""

    def __init__(self, trial: "optuna.Trial") -> None:
        self.trial = trial
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with contextlib.suppress(Exception):  # a storage that is away for a moment: the next one is heard
                self.trial.set_user_attr(PROCESS, this_process())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def this_process() -> list[Any]:
    """The machine's name, the process's number, when that began (numbers are used again), and the time."""
    return [socket.gethostname(), os.getpid(), _began(os.getpid()), time.time()]


def is_gone(process: list[Any]) -> bool:
    """Whether a process is no more; on another machine, whether nothing was heard of it for long."""
    host, number, began, seen = process
    if host != socket.gethostname():
        return bool(time.time() - seen > SILENT)
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(_began(number) != began)


def _began(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it does not tell."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""
