"""One trial: its settings, its trainings, its score on the validation part. The test part is not looked at."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import GlassformerError, Misuse, RunError, SettingError, out_of_memory
from glassformer.config.presets import has_decoder, predicts_next_token
from glassformer.training.events import Event, Stepped, Validated
from glassformer.trials.tuning.search import MODEL, Search
from glassformer.trials.tuning.space import Dimension, sample
from glassformer.trials.tuning.storage import START, State, heartbeat, optuna
from glassformer.verbs.train import Trained, train


class Stopped(Exception):
    """Someone asked the whole search to stop, or its time is up; the trial is not to blame."""


@dataclass(frozen=True)
class Verdict:
    """What a trial came to."""

    state: State
    value: float | None
    outcome: dict[str, Any]
    """Its metrics and what it cost, or why it is not whole, in a line."""


def settings_of(trial: "optuna.Trial", search: Search) -> dict[str, Any]:
    """What is searched, as this trial has it; the model among it."""
    start = trial.user_attrs.get(START)
    if start is not None and search.start_of(start) is None:
        return {MODEL: start}
    model = trial.suggest_categorical(MODEL, search.models) if len(search.models) > 1 else search.models[0]

    def suggest(dimension: Dimension) -> Any:
        name = search.name_of(model, dimension)
        if dimension.values:
            return trial.suggest_categorical(name, dimension.values)
        if dimension.whole:
            step = int(dimension.step or 1)
            return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log, step=step)
        value = trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log, step=dimension.step)
        # to three digits: a recipe that a person can read, and trains the very same model
        return value if start is not None else float(f"{value:.3g}")

    return {MODEL: model, **sample(search.spaces[model], suggest, search.starts[model])}


def run_trial(
    trial: "optuna.Trial", search: Search, settings: dict[str, Any], folder: Path, stop: Callable[[], bool]
) -> Verdict:
    """Train with these settings, once for each seed or fold."""
    try:
        with heartbeat(trial):
            return _judge(Watch(trial, search, stop), settings, folder)
    except optuna.TrialPruned as pruned:
        return Verdict(State.PRUNED, None, {"why": str(pruned)})
    except GlassformerError as error:
        fails_always = START in trial.user_attrs and isinstance(error, Misuse)
        if fails_always or isinstance(error, RunError):
            raise
        state = State.PRUNED if isinstance(error, SettingError) else State.FAIL
        return Verdict(state, None, {"why": str(error)})
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return Verdict(State.FAIL, None, {"why": "out of memory"})


@dataclass
class Watch:
    """Hears a training: tells the study of each validation, and stops what is not worth going on with."""

    trial: "optuna.Trial"
    search: Search
    stop: Callable[[], bool]
    primary: str = ""
    validations: int = 0
    reports: bool = True
    """Only the first training of a trial is compared with others on the way."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped) and self.stop():
            raise Stopped
        if not isinstance(event, Validated):
            return
        self.primary = event.evaluation.primary
        if self.reports:
            self.validations += 1
            self.trial.report(event.evaluation.metrics[self.primary], self.validations)
            if self.search.prune and START not in self.trial.user_attrs and self.trial.should_prune():
                raise optuna.TrialPruned(f"worse than half of the others at validation {self.validations}")


def _judge(watch: Watch, settings: dict[str, Any], folder: Path) -> Verdict:
    search = watch.search
    quiet = {"training.samples": False} if predicts_next_token(search.task) or has_decoder(search.task) else {}
    runs: list[Trained] = []
    for number, repeat in enumerate(search.repeats):
        out = folder.with_name(f"{folder.name}-{number}") if number else folder
        watch.reports = number == 0
        whole = {**quiet, **search.settings, **settings, **repeat}
        trained = train(out=out, draft=True, overwrite=True, listen=watch, **whole)
        if trained.reason == "interrupted":
            raise KeyboardInterrupt
        if number:
            shutil.rmtree(out, ignore_errors=True)
        runs.append(trained)
    values = [run.validation[watch.primary] for run in runs]
    outcome = {
        "primary": watch.primary,
        "metrics": {name: sum(run.validation[name] for run in runs) / len(runs) for name in runs[0].validation},
        "values": values,
        "parameters": runs[0].parameters,
        "steps": runs[0].steps,
        "seconds": round(sum(run.seconds for run in runs), 2),
        "why": "",
    }
    return Verdict(State.COMPLETE, sum(values) / len(values), outcome)
