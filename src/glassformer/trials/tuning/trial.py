"""A trial: its settings, training runs, validation score and record. Trials are never scored on the test part."""

import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError, GlassformerError, Misuse, RunError, SettingError, out_of_memory
from glassformer.config.presets import has_decoder, predicts_next_token
from glassformer.training.events import Event, Stepped, Validated
from glassformer.trials.results.metrics import titled
from glassformer.trials.tuning.search import MODEL, Search
from glassformer.trials.tuning.space import Dimension, sample, to_word
from glassformer.trials.tuning.storage import OUTCOME as OUTCOME
from glassformer.trials.tuning.storage import SETTINGS, START, Outcome, Score, State, heartbeat, optuna
from glassformer.verbs.train import Trained, train

MIN_TRIALS = 8
"""Minimum number of complete trials for the importance of settings."""
BEST_SHARE = 0.25
"""Share of the trials that count as the best ones in PED-ANOVA."""


class Stopped(Exception):
    """The search was asked to stop, or its time is up."""


def settings_of(trial: "optuna.Trial", search: Search) -> dict[str, Any]:
    """Draw the searched settings of a trial, with the model."""
    start = trial.user_attrs.get(START)
    if start is not None and search.start_of(start) is None:
        return {MODEL: start}
    model = trial.suggest_categorical(MODEL, search.models) if len(search.models) > 1 else search.models[0]

    def suggest(dimension: Dimension) -> Any:
        name = search.name_of(model, dimension)
        if dimension.values:
            return trial.suggest_categorical(name, dimension.values)
        if dimension.whole:
            low, high, step = (int(number) for number in (dimension.low, dimension.high, dimension.step or 1))
            return trial.suggest_int(name, low, high, log=dimension.log, step=step)
        value = trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log, step=dimension.step)
        # three digits: readable in a recipe, which trains exactly the same model
        return value if start is not None else float(f"{value:.3g}")

    return {MODEL: model, **sample(search.spaces[model], suggest, search.starts[model])}


def run_trial(
    trial: "optuna.Trial", search: Search, settings: dict[str, Any], folder: Path, stop: Callable[[], bool]
) -> Outcome:
    """Train with these settings, once per seed or fold."""
    try:
        with heartbeat(trial):
            return _train_and_score(Watch(trial, search, stop), settings, folder)
    except optuna.TrialPruned as pruned:
        return Outcome(state=State.PRUNED.name, why=str(pruned))
    except GlassformerError as error:
        fails_always = START in trial.user_attrs and isinstance(error, Misuse)
        if fails_always or isinstance(error, RunError):
            raise
        state = State.PRUNED if isinstance(error, SettingError) else State.FAIL
        return Outcome(state=state.name, why=str(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return Outcome(state=State.FAIL.name, why="out of memory")


@dataclass
class Watch:
    """Listener that reports each validation to the study, and prunes the trial if it falls behind."""

    trial: "optuna.Trial"
    search: Search
    stop: Callable[[], bool]
    primary: str = ""
    validations: int = 0
    reports: bool = True
    """Whether validations are reported: those of the first training run of a trial."""

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


def _train_and_score(watch: Watch, settings: dict[str, Any], folder: Path) -> Outcome:
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
    if not all(run.validation for run in runs):
        raise DataError("nothing is held out to score a trial by: see --data.validation_fraction")
    values = [run.validation[watch.primary] for run in runs]
    return Score(
        state=State.COMPLETE.name,
        value=sum(values) / len(values),
        primary=watch.primary,
        metrics={name: sum(run.validation[name] for run in runs) / len(runs) for name in runs[0].validation},
        values=values,
        parameters=runs[0].parameters,
        steps=runs[0].steps,
        seconds=round(sum(run.seconds for run in runs), 2),
        why="",
    )


# --- records of trials ---


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str
    """complete, pruned or failed."""
    value: float | None
    """Primary metric on the validation part; of a pruned trial, its last value."""
    settings: dict[str, Any]
    """Values of the searched settings."""
    summary: str
    """The searched settings that differ from the defaults, for people."""
    why: str = ""
    parameters: int | None = None
    steps: int | None = None
    seconds: float | None = None


def record_of(trial: "optuna.trial.FrozenTrial", search: Search) -> TrialRecord:
    last = None if trial.last_step is None else trial.intermediate_values[trial.last_step]
    settings, outcome = trial.user_attrs.get(SETTINGS, {}), trial.user_attrs.get(OUTCOME, {})
    return TrialRecord(
        number=trial.number,
        state={State.COMPLETE: "complete", State.PRUNED: "pruned"}.get(trial.state, "failed"),
        value=trial.value if trial.state == State.COMPLETE else last,
        settings=settings,
        summary=_summary(settings, search, start=START in trial.user_attrs),
        why=outcome.get("why", ""),
        parameters=outcome.get("parameters"),
        steps=outcome.get("steps"),
        seconds=outcome.get("seconds"),
    )


def best_of(trials: "Sequence[optuna.trial.FrozenTrial]", search: Search) -> "optuna.trial.FrozenTrial | None":
    """Return the trial with the best score; of equal ones, the one with the lower loss, then the earlier one."""
    sign = 1 if search.lower_is_better else -1

    def rank(trial: "optuna.trial.FrozenTrial") -> tuple[float, float, int]:
        assert trial.value is not None
        return sign * trial.value, trial.user_attrs[OUTCOME]["metrics"].get("loss", 0.0), trial.number

    return min((trial for trial in trials if trial.state == State.COMPLETE), key=rank, default=None)


def line_of(number: int, study: "optuna.Study", search: Search) -> str:
    """Return a line about a trial that has just ended: its score, the best so far, and its settings."""
    trials = study.get_trials(deepcopy=False)
    record, best = record_of(trials[number], search), best_of(trials, search)
    if record.state == "complete":
        score = f"{titled(trials[number].user_attrs[OUTCOME]['primary'])} {record.value:.4f}"
        score += f", {record.why}" if record.why else ""
    else:
        score = f"{'stopped early' if record.state == 'pruned' else 'failed'}: {record.why}"
    so_far = ""
    if best is not None:
        so_far = "  (best so far)" if best.number == number else f"  (best {best.value:.4f}, trial {best.number})"
    return f"trial {number}: {score}{so_far}  {record.summary}"


def _summary(settings: dict[str, Any], search: Search, *, start: bool) -> str:
    """Return the settings that differ from the defaults, `lr 0.002, dropout 0.3`; of several models, its name too."""
    model = [str(settings[MODEL])] if len(search.models) > 1 and MODEL in settings else []
    if start:
        return ", ".join([*model, "settings as they start"])
    starts = search.starts.get(settings.get(MODEL, ""), {})
    other = {key: value for key, value in settings.items() if key != MODEL and starts.get(key) != value}
    return ", ".join([*model, *(f"{key.split('.')[-1]} {format_value(value)}" for key, value in other.items())])


def format_value(value: Any) -> str:
    return "none" if value is None else to_word(value)


def importance(study: "optuna.Study", search: Search) -> dict[str, float]:
    """Return how far the settings of the best trials differ from those of all trials (PED-ANOVA), as shares.

    Only trials of the best model count, and settings that all of them have. Empty if there are too few trials.
    """
    done = study.get_trials(states=(State.COMPLETE,))
    best = best_of(done, search)
    same = [trial for trial in done if trial.params and best and trial.params.get(MODEL) == best.params.get(MODEL)]
    if len(same) < MIN_TRIALS or len({trial.value for trial in same}) < 3:
        return {}
    copy = optuna.create_study(direction=study.direction)
    copy.add_trials(same)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Target and region quantiles")  # many equal scores
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST_SHARE)
        shares = optuna.importance.get_param_importances(copy, evaluator=evaluator)
    return {name.split(": ")[-1]: float(share) for name, share in shares.items() if name != MODEL}
