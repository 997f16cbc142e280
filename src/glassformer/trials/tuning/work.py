"""The work of one process of a search: trial after trial, until there are enough or the time is up."""

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.config.errors import RunError
from glassformer.config.say import Say
from glassformer.trials.tuning.kept import PLAIN, START, sampler
from glassformer.trials.tuning.one import (
    PROCESS,
    SILENT,
    Stopped,
    Verdict,
    is_gone,
    run_trial,
    settings_of,
    this_process,
)
from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.tried import OUTCOME, best_of, line_of

State = optuna.trial.TrialState
GAVE_UP = "gave up"
"""Marks a trial that says nothing of its settings: its process was killed, or the search was stopped."""
AGAIN = "again"
"""How often a trial was begun before."""
MOST_AGAIN = 2
HOPELESS = 5
"""So many trials, and none of them whole: something else is wrong."""


def work(
    study: "optuna.Study",
    search: Search,
    *,
    trials: int | None,
    until: float | None,
    folder: Path,
    say: Say,
    job: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Trials in `folder` until the study has so many, or (on the clock) `until`; the first is not cut short."""
    while not stop():
        take_back_lost(study, say)
        done = counted(study)
        if (trials is not None and len(done) >= trials) or _late(study, until):
            return
        _check_hope(study)
        study.sampler = sampler(
            int(search.settings.get("training.seed", 0)), len(study.get_trials(deepcopy=False)), job
        )
        trial = study.ask()
        before = [one for one in counted(study) if one.number < trial.number]
        if trials is not None and len(before) >= trials:  # another process was faster
            _give_up(study, trial.number, again=False)
            return
        try:
            verdict = _try(study, trial, search, folder, lambda: stop() or _late(study, until))
            trial.set_user_attr(OUTCOME, {**verdict.more, "why": verdict.why})
        except optuna.exceptions.UpdateFinishedTrialError:
            say(f"trial {trial.number}: another process took it for lost, so it does not count here")
            continue
        except Stopped:
            timely = not stop()
            _give_up(study, trial.number, again=not timely)
            say(f"trial {trial.number}: {'the time is up' if timely else 'stopped'}")
            return
        except BaseException:
            with contextlib.suppress(Exception):
                _give_up(study, trial.number, again=True)
            raise
        study.tell(trial, verdict.value, state=verdict.state)
        clear(study, folder, search)
        say(line_of(study.get_trials(deepcopy=False)[trial.number], study, search))


def _try(
    study: "optuna.Study", trial: "optuna.Trial", search: Search, folder: Path, stop: Callable[[], bool]
) -> Verdict:
    trial.set_user_attr(PROCESS, this_process())
    settings = settings_of(trial, search)
    trial.set_user_attr("settings", settings)
    for other in study.get_trials(deepcopy=False, states=(State.COMPLETE,)):
        if other.user_attrs.get("settings") == settings:  # trained with the same seed, it would come to the same
            more = {**other.user_attrs[OUTCOME], "seconds": 0.0}
            return Verdict(State.COMPLETE, other.value, f"as trial {other.number}", more)
    return run_trial(trial, search, settings, folder / str(trial.number), stop)


def counted(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """Trials that are done or under way: not those that wait, and not those that say nothing."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state != State.WAITING and not trial.user_attrs.get(GAVE_UP)
    ]


def under_way(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    return study.get_trials(deepcopy=False, states=(State.RUNNING,))


def _late(study: "optuna.Study", until: float | None) -> bool:
    """Only once there is a score: a search must come to something."""
    return until is not None and time.time() > until and bool(study.get_trials(False, (State.COMPLETE,)))


def _check_hope(study: "optuna.Study") -> None:
    done = [trial for trial in counted(study) if trial.state.is_finished()]
    if len(done) >= HOPELESS and not any(trial.state == State.COMPLETE for trial in done):
        raise RunError(
            f"none of the first {len(done)} trials came to a score; the last: {done[-1].user_attrs[OUTCOME]['why']}"
        )


# --- trials whose process is no more ---


def take_back_lost(study: "optuna.Study", say: Say) -> None:
    """Trials of processes that were killed: tried again, but not for ever, for they may be what killed them."""
    for trial in under_way(study):
        process = trial.user_attrs.get(PROCESS)
        if process is None:
            began = trial.datetime_start
            gone = began is not None and time.time() - began.timestamp() > SILENT
        else:
            gone = is_gone(process)
        if gone and _give_up(study, trial.number, again=True):
            say(f"trial {trial.number}: its process is gone, so it is tried again")


def _give_up(study: "optuna.Study", number: int, *, again: bool) -> bool:
    """Whether it was this process that closed the trial: of several that try, one does. `again`: it was not its time
    that was up; what a model starts with is tried again in any case.
    """
    trial = study.get_trials(deepcopy=False)[number]
    try:
        study._storage.set_trial_user_attr(trial._trial_id, GAVE_UP, True)
        study.tell(number, state=State.FAIL)
    except (ValueError, RuntimeError):  # it is closed by now
        return False
    times = int(trial.user_attrs.get(AGAIN, 0))
    if (again or START in trial.user_attrs) and times < MOST_AGAIN:
        marks: dict[str, Any] = {AGAIN: times + again}
        marks |= {name: trial.user_attrs[name] for name in (START, PLAIN) if name in trial.user_attrs}
        asked = trial.system_attrs.get("fixed_params", {})  # it may have been killed before it drew them all
        study.enqueue_trial({**asked, **trial.params}, user_attrs=marks)
    return True


# --- what stays ---


def clear(study: "optuna.Study", folder: Path, search: Search) -> None:
    """Of all trials' runs, only that of the best stays, and those under way."""
    best = best_of(study, search)
    finished = {str(trial.number) for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}
    for path in folder.iterdir() if folder.is_dir() else ():
        number = path.name.split("-")[0]
        if number in finished and (best is None or path.name != str(best.number)):
            shutil.rmtree(path, ignore_errors=True)
