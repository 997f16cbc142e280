"""Signs of life: which process has a trial; a trial whose process is gone is tried again."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.config.errors import Say
from glassformer.trials.tuning.storage import START, State, optuna

PROCESS = "process"
"""A trial's mark: which process has it, and when that was last heard of."""
GAVE_UP = "gave up"
"""Marks a trial that says nothing of its settings: its process was killed, or the search was stopped."""
RETRIES = "again"
"""A trial's mark: how often it was begun before."""
MOST_RETRIES = 2
BEAT = 20.0
"""Seconds between two signs of life."""
SILENT = 10 * BEAT
"""Seconds after which a process on another machine, of which nothing is heard, counts as gone."""


@contextlib.contextmanager
def heartbeat(trial: "optuna.Trial") -> Iterator[None]:
    """While it is open, the study hears every few seconds that this trial's process lives."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with contextlib.suppress(Exception):  # a storage that is away for a moment: the next one is heard
                trial.set_user_attr(PROCESS, this_process())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def this_process() -> list[Any]:
    """The machine's name, the process's number, when that began (numbers are used again), and the time."""
    return [socket.gethostname(), os.getpid(), _start_time(os.getpid()), time.time()]


def is_gone(process: list[Any]) -> bool:
    """Whether a process is no more; on another machine, whether nothing was heard of it for long."""
    host, number, started, seen = process
    if host != socket.gethostname():
        return bool(time.time() - seen > SILENT)
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(_start_time(number) != started)


def _start_time(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it does not tell."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def under_way(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    return study.get_trials(deepcopy=False, states=(State.RUNNING,))


def counted(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """Trials that are done or under way: not those that wait, and not those that say nothing."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if trial.state != State.WAITING and not trial.user_attrs.get(GAVE_UP)]


def retry_lost(study: "optuna.Study", say: Say) -> None:
    """Trials of processes that were killed: tried again, but not for ever, for they may be what killed them."""
    for trial in under_way(study):
        assert trial.datetime_start is not None
        unnamed = ["", 0, "", trial.datetime_start.timestamp()]
        gone = is_gone(trial.user_attrs.get(PROCESS, unnamed))
        if gone and give_up(study, trial.number, retry=True):
            say(f"trial {trial.number}: its process is gone, so it is tried again")


def give_up(study: "optuna.Study", number: int, *, retry: bool) -> bool:
    """Whether it was this process that closed the trial: of several that try, one does. `retry`: it was not its time
    that was up; what a model starts with is tried again in any case.
    """
    trial = study.get_trials(deepcopy=False)[number]
    try:
        study._storage.set_trial_user_attr(trial._trial_id, GAVE_UP, True)
        study.tell(number, state=State.FAIL)
    except (ValueError, RuntimeError):  # it is closed by now
        return False
    start = {START: trial.user_attrs[START]} if START in trial.user_attrs else {}
    retries = int(trial.user_attrs.get(RETRIES, 0))
    if (retry or start) and retries < MOST_RETRIES:
        fixed = trial.system_attrs.get("fixed_params", {})  # it may have been killed before it drew them all
        study.enqueue_trial({**fixed, **trial.params}, user_attrs={RETRIES: retries + retry, **start})
    return True
