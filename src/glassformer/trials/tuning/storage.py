"""Where a search is kept: an Optuna study in a journal or a database, which several processes can share; and signs of
life: which process has a trial. A trial whose process is gone is tried again.
"""

import contextlib
import datetime
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NotRequired, TypedDict

from glassformer.config.errors import (
    GlassformerError,
    MissingPackage,
    Misuse,
    RunError,
    error_line,
    first_line,
    read_failure,
)
from glassformer.config.limits import LimitExceeded, parse_json
from glassformer.config.messages import say
from glassformer.config.parts import is_alive, lock_file
from glassformer.runs.json_shape import WrongShape, check_shape
from glassformer.trials.tuning.search import Search

try:
    with warnings.catch_warnings():  # in a notebook, its bars miss a package that ours do without
        warnings.filterwarnings("ignore", "IProgress not found")
        import optuna as optuna
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
except ImportError:
    raise MissingPackage.needed("tune", "optuna", "tune") from None

optuna.logging.set_verbosity(optuna.logging.ERROR)  # what a trial came to is said here, in one line
State = optuna.trial.TrialState

SEARCH = "search"
START = "start"
"""Marks the trial of a model with nothing searched."""
STARTUP = 5
"""The number of trials that are whole before any is stopped early."""
WARMUP = 3
"""The validation of a trial at which it can be stopped first: earlier ones say little."""
PROCESS = "process"
"""A trial's mark: which process has it, and when that was last heard of."""
WORKER = "worker"
"""A trial's mark: the name of the worker that has it, which is that of the one that is started in its place."""
SETTINGS = "settings"
"""A trial's mark: what was searched, as this one has it, once all of it is drawn."""
RETRIES = "again"
"""A trial's mark: how often it was begun before."""
OUTCOME = "outcome"
"""A trial's mark, set just before its process closes it: its state, its metrics and cost, or why it is not whole."""
MOST_RETRIES = 2
BEAT = 20.0
"""Seconds between two signs of life."""
SILENT = 10 * BEAT
"""Seconds after which a process on another machine, of which nothing is heard, counts as gone."""


class Outcome(TypedDict):
    """How a trial ended."""

    state: str
    """The name of one of Optuna's states: COMPLETE, PRUNED or FAIL."""
    why: str
    value: NotRequired[float]
    seconds: NotRequired[float]


class Score(Outcome):
    """The outcome of a complete trial."""

    primary: str
    metrics: dict[str, float]
    values: NotRequired[list[float]]
    parameters: NotRequired[int]
    steps: NotRequired[int]


class Marks(TypedDict, total=False):
    process: list[str | float]
    worker: str
    settings: dict[str, str | float | bool | None]
    again: int
    start: str
    outcome: dict[str, Any]


"""The structure of a trial's marks, which are user attributes of Optuna: PROCESS, WORKER …"""
REMEDY = "restore it from a copy, or name another --out"


class JournalLine(TypedDict):
    """The field that each line of a journal has; Optuna checks the others."""

    op_code: int


def storage_of(storage: str | None, out: Path) -> str:
    """The path of a file, or a database's URL."""
    if storage is None:
        return str((out / "study.log").resolve())
    if storage.startswith("sqlite:") or ("://" not in storage and Path(storage).suffix != ".log"):
        raise Misuse(f"--storage {storage}: name a journal that ends in .log, or the URL of a database server, ://")
    return storage if "://" in storage else str(Path(storage).resolve())


@contextlib.contextmanager
def open_study(where: str, name: str, search: Search) -> "Iterator[optuna.Study]":
    """Open the study of this name, or create it if missing. Raise an error if it searches for something else, or if
    its journal is damaged.
    """
    address = where.split("@")[-1]  # without a password
    with contextlib.ExitStack() as opened:
        try:
            study = optuna.create_study(
                storage=opened.enter_context(_database(where)) if "://" in where else _journal(Path(where)),
                study_name=name,
                direction="minimize" if search.lower_is_better else "maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
            )
        except GlassformerError:
            raise
        except ImportError as error:
            lacking = getattr(error.__cause__, "name", None) or f"{error!s:.160}"
            raise Misuse(f"--storage {address} needs a package that is not installed: {lacking}") from None
        except Exception as error:  # any error of a database, or of Optuna reading a journal
            if "://" not in where:
                raise RunError(read_failure(address, error, remedy=REMEDY)) from None
            raise Misuse(f"--storage {address} cannot be used: {REMEDY} ({error_line(error)[:160]})") from None
        try:
            _check_marks(study, search)
        except Exception as error:
            raise RunError(f"{address} is damaged: {REMEDY} ({first_line(error)[:160]})") from None
        _check_search(study, address, search)
        yield study


def _check_marks(study: "optuna.Study", search: Search) -> None:
    """Check all fields of a study's trials that are read later."""
    numbers = {one.key for space in search.spaces.values() for one in space if not one.values}
    check_shape(study.user_attrs, dict[str, Any])
    check_shape(study.user_attrs.get(SEARCH), dict[str, Any] | None, SEARCH)
    for trial in study.get_trials(deepcopy=False):
        place = f"trial {trial.number}"
        check_shape(trial.user_attrs, Marks, place)
        check_shape(trial.system_attrs.get("fixed_params", {}), dict[str, Any], f"{place}.fixed_params")
        check_shape(list(trial.intermediate_values), list[int], f"{place}.steps")
        check_shape(list(trial.intermediate_values.values()), list[float], f"{place}.intermediate_values")
        is_gone(trial.user_attrs.get(PROCESS, NOBODY))
        if trial.state == State.RUNNING and not isinstance(trial.datetime_start, datetime.datetime):
            raise WrongShape(f"{place} has no start time")
        if trial.state == State.COMPLETE:
            check_shape(trial.value, float, f"{place}.value")
            check_shape(trial.user_attrs.get(OUTCOME), Score, f"{place}.{OUTCOME}")
            settings = trial.user_attrs.get(SETTINGS, {})
            check_shape(settings.get("model"), str, f"{place}.{SETTINGS}.model")
            for name in numbers & settings.keys():
                check_shape(settings[name], float | None, f"{place}.{SETTINGS}.{name}")
        elif trial.state.is_finished() and not gave_up(trial):
            check_shape(trial.user_attrs.get(OUTCOME), Outcome, f"{place}.{OUTCOME}")


@contextlib.contextmanager
def _database(url: str) -> "Iterator[optuna.storages.RDBStorage]":
    database = optuna.storages.RDBStorage(url)
    try:
        yield database
    finally:
        database.remove_session()
        database.engine.dispose()


class _JournalLock(JournalFileOpenLock):
    """A lock on the journal itself, which the system frees when its holder dies: after Optuna's own, which is a file,
    everyone would wait for half a minute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        self._file = self._path.open("ab")
        return lock_file(self._file, wait=True)

    def release(self) -> None:
        assert self._file is not None
        self._file.close()


def _drop_torn_line(path: Path) -> None:
    """Drop an incomplete last line of a journal, as a full disk leaves it: Optuna would append its next line to it.

    Any other damage is an error.
    """
    offset = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                os.truncate(path, offset)
                say(f"{path}: dropped the incomplete last line (was the disk full?)")
                return
            offset += len(line)
            try:
                check_shape(parse_json(line.decode("utf-8"), str(path)), JournalLine)
            except (ValueError, LimitExceeded) as error:
                raise RunError(f"{path} is damaged in line {number:,}: {REMEDY} ({first_line(error)[:160]})") from None


def _journal(path: Path) -> "JournalStorage":
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("ab") as file:
            lock_file(file, wait=True)
            _drop_torn_line(path)
    except OSError:  # a disk without locks
        return JournalStorage(JournalFileBackend(str(path)))
    return JournalStorage(JournalFileBackend(str(path), lock_obj=_JournalLock(path)))


def _check_search(study: "optuna.Study", address: str, search: Search) -> None:
    """A new study gets the search, and each model as it starts for its first trials."""
    identity = study.user_attrs.get(SEARCH)
    if identity is None:
        study.set_user_attr(SEARCH, search.identity())
        for model in search.models:
            study.enqueue_trial(search.start_of(model) or {}, user_attrs={START: model, PROCESS: this_process()})
    elif (what := search.difference(identity)) is not None:
        raise Misuse(
            f"the search {study.study_name} in {address} was another one: {what}; give another --out or --study"
        )


# --- signs of life ---


def ask(study: "optuna.Study") -> "optuna.Trial":
    """Return the next trial. It waits for a moment first, and names its process from then on."""
    if not study.get_trials(deepcopy=False, states=(State.WAITING,)):
        study.enqueue_trial({}, user_attrs={PROCESS: this_process()})
    return study.ask()


def gave_up(trial: "optuna.trial.FrozenTrial") -> bool:
    """Whether a trial says nothing of its settings: its process was killed, or the search was stopped."""
    return trial.state == State.FAIL and not _has_failed(trial)


def _has_failed(trial: "optuna.trial.FrozenTrial") -> bool:
    """Whether the trial itself failed: its process noted that before it closed the trial."""
    return bool(trial.user_attrs.get(OUTCOME, {}).get("state") == State.FAIL.name)


def begun(study: "optuna.Study") -> int:
    """Return the number of trials if none had been given up: the random draws of the next trial depend on it.

    Of those that wait, only the first trial of each model counts.
    """
    return sum(
        not gave_up(trial)
        and (trial.state != State.WAITING or (START in trial.user_attrs and RETRIES not in trial.user_attrs))
        for trial in study.get_trials(deepcopy=False)
    )


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


NOBODY = ["", 0, "", 0.0]
"""A process that no longer exists."""


def is_gone(process: list[Any]) -> bool:
    """Whether a process is no more; on another machine, whether nothing was heard of it for long."""
    host, number, started, seen = process
    if host != socket.gethostname():
        return bool(time.time() - seen > SILENT)
    return not is_alive(number) or _start_time(number) != started


def _start_time(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it does not tell."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def under_way(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    return study.get_trials(deepcopy=False, states=(State.RUNNING,))


def trials_that_count(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """Trials that are done or under way: not those that wait, and not those that say nothing."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state != State.WAITING and not gave_up(trial)]


def retry_lost(study: "optuna.Study") -> None:
    """Trials of processes that were killed: tried again, but not for ever, for they may be what killed them."""
    for trial in under_way(study):
        assert trial.datetime_start is not None
        unnamed = ["", 0, "", trial.datetime_start.timestamp()]
        if is_gone(trial.user_attrs.get(PROCESS, unnamed)) and give_up(study, trial.number, retry=True):
            say(f"trial {trial.number}: its process is gone, so it is tried again")


def retry_trials_of(study: "optuna.Study", worker: str) -> None:
    """What a worker of this name had when it was lost is tried again: whoever starts another knows that it is gone."""
    for trial in under_way(study):
        if trial.user_attrs.get(WORKER) == worker:
            give_up(study, trial.number, retry=True)


def give_up(study: "optuna.Study", number: int, *, retry: bool) -> bool:
    """Whether it was this process that closed the trial: of several that try, one does. `retry`: it was not its time
    that was up; what a model starts with is tried again in any case.
    """
    trial = study.get_trials(deepcopy=False)[number]
    try:
        study.tell(number, state=State.FAIL)
    except (ValueError, RuntimeError):  # it is closed by now
        return False
    if _has_failed(trial):  # its process was killed between its last two words
        return True
    start = {START: trial.user_attrs[START]} if START in trial.user_attrs else {}
    retries = int(trial.user_attrs.get(RETRIES, 0))
    if (retry or start) and retries < MOST_RETRIES:
        drawn = trial.params if SETTINGS in trial.user_attrs else {}  # else they are all drawn again, the same
        study.enqueue_trial(
            {**trial.system_attrs.get("fixed_params", {}), **drawn},
            user_attrs={RETRIES: retries + retry, PROCESS: this_process(), **start},
        )
    return True
