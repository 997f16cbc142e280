"""Storage of a search: an Optuna study in a journal or a database, which several processes can share.

Each trial records its process and a heartbeat. A trial whose process has died is retried.
"""

import contextlib
import datetime
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NotRequired, TypedDict

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
    with warnings.catch_warnings():  # in a notebook, about a package for progress bars
        warnings.filterwarnings("ignore", "IProgress not found")
        import optuna as optuna
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
except ImportError:
    raise MissingPackage.needed("tune", "optuna", "tune") from None

optuna.logging.set_verbosity(optuna.logging.ERROR)  # `line_of` reports trials
State = optuna.trial.TrialState

SEARCH = "search"
START = "start"
"""Mark of a trial: the model whose defaults it tries."""
FIXED = "fixed"
"""Mark of a trial: parameters that were fixed when it was enqueued."""
STARTUP_TRIALS = 5
"""Number of complete trials before any trial is pruned."""
WARMUP_VALIDATIONS = 3
"""Number of validations before a trial can be pruned."""
PROCESS = "process"
"""Mark of a trial: its process, and the time of the last heartbeat."""
WORKER = "worker"
"""Mark of a trial: the name of its worker; a restarted worker has the same name."""
SETTINGS = "settings"
"""Mark of a trial: its values of the searched settings, once all are drawn."""
RETRIES = "again"
"""Mark of a trial: number of earlier starts."""
OUTCOME = "outcome"
"""Mark of a trial, set just before its process closes it: its state, metrics and cost, or why it is not complete."""
MAX_RETRIES = 2
HEARTBEAT_SECONDS = 20.0
DEAD_AFTER_SECONDS = 10 * HEARTBEAT_SECONDS
"""Time without a heartbeat after which a process on another machine counts as dead."""


class Outcome(TypedDict):
    """The outcome of a trial."""

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
    """Marks of a trial, such as PROCESS and WORKER, which are user attributes of Optuna."""

    process: list[str | float]
    worker: str
    settings: dict[str, str | float | bool | None]
    again: int
    start: str
    fixed: dict[str, Any]
    outcome: dict[str, Any]


REMEDY = "restore it from a copy, or name another --out"


class JournalLine(TypedDict):
    """Field of each line of a journal; Optuna checks the others."""

    op_code: int


def storage_of(storage: str | None, out: Path) -> str:
    """Return the path of a journal, or the URL of a database."""
    if storage is None:
        return str((out / "study.log").resolve())
    if storage.startswith("sqlite:") or ("://" not in storage and Path(storage).suffix != ".log"):
        raise Misuse(f"--storage {storage}: name a journal that ends in .log, or the URL of a database server, ://")
    return storage if "://" in storage else str(Path(storage).resolve())


@contextlib.contextmanager
def open_study(where: str, name: str, search: Search) -> "Iterator[optuna.Study]":
    """Open the study of this name, or create it if missing.

    Raise an error if it belongs to a different search, or if its journal is damaged.
    """
    address = where.split("@")[-1]  # without a password
    with contextlib.ExitStack() as opened:
        try:
            study = optuna.create_study(
                storage=opened.enter_context(_database(where)) if "://" in where else _journal(Path(where)),
                study_name=name,
                direction="minimize" if search.lower_is_better else "maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARMUP_VALIDATIONS),
            )
        except GlassformerError:
            raise
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or f"{error!s:.160}"
            raise Misuse(f"--storage {address} needs a package that is not installed: {missing}") from None
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
    """Check all fields of a study and its trials that are read later."""
    numbers = {one.key for space in search.spaces.values() for one in space if not one.values}
    check_shape(study.user_attrs, dict[str, Any])
    check_shape(study.user_attrs.get(SEARCH), dict[str, Any] | None, SEARCH)
    for trial in study.get_trials(deepcopy=False):
        place = f"trial {trial.number}"
        check_shape(trial.user_attrs, Marks, place)
        check_shape(trial.system_attrs, dict[str, dict[str, Any]], place)
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
    """Lock on the journal itself, which the system releases when its holder dies.

    Optuna's own lock is a file: if its holder died, other processes would wait for half a minute.
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
    """Drop an incomplete last line of a journal, to which Optuna would append its next line; refuse other damage."""
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
    """Store the search in a new study, and enqueue the defaults of each model; refuse a different search."""
    identity = study.user_attrs.get(SEARCH)
    if identity is None:
        study.set_user_attr(SEARCH, search.identity())
        for model in search.models:
            _enqueue(study, search.start_of(model) or {}, {START: model})
    elif (what := search.difference(identity)) is not None:
        raise Misuse(
            f"the search {study.study_name} in {address} is a different one: {what}; give another --out or --study"
        )


def _enqueue(study: "optuna.Study", params: Mapping[str, Any], marks: Mapping[str, Any]) -> None:
    """Enqueue a trial with fixed parameters; the others are drawn when it starts."""
    fixed = {FIXED: dict(params)} if params else {}
    study.enqueue_trial(dict(params), user_attrs={**marks, **fixed, PROCESS: list(this_process())})


# --- processes of trials ---


def ask(study: "optuna.Study") -> "optuna.Trial":
    """Return the next trial. It is enqueued first, so that it names its process from the start."""
    if not study.get_trials(deepcopy=False, states=(State.WAITING,)):
        _enqueue(study, {}, {})
    return study.ask()


def gave_up(trial: "optuna.trial.FrozenTrial") -> bool:
    """Return whether a trial ended without a result: its process was killed, or the search was stopped."""
    return trial.state == State.FAIL and not _has_failed(trial)


def _has_failed(trial: "optuna.trial.FrozenTrial") -> bool:
    """Return whether training failed: the process recorded that before it closed the trial."""
    return bool(trial.user_attrs.get(OUTCOME, {}).get("state") == State.FAIL.name)


def begun(study: "optuna.Study") -> int:
    """Return the number of trials without those that were given up: the random draws of the next trial depend on it.

    Of waiting trials, only the first of each model counts.
    """
    return sum(
        not gave_up(trial)
        and (trial.state != State.WAITING or (START in trial.user_attrs and RETRIES not in trial.user_attrs))
        for trial in study.get_trials(deepcopy=False)
    )


@contextlib.contextmanager
def heartbeat(trial: "optuna.Trial") -> Iterator[None]:
    """Record every few seconds that the process of a trial is alive."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(Exception):  # the storage may be unavailable for a moment
                trial.set_user_attr(PROCESS, list(this_process()))

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class TrialProcess(NamedTuple):
    """The process of a trial, stored as a list."""

    host: str
    pid: int
    started: str
    """Start of the process in kernel ticks, because process ids are reused."""
    seen: float
    """Time of the last heartbeat."""


def this_process() -> TrialProcess:
    return TrialProcess(socket.gethostname(), os.getpid(), _start_time(os.getpid()), time.time())


NOBODY = TrialProcess("", 0, "", 0.0)
"""A process that does not exist."""


def is_gone(process: Sequence[Any]) -> bool:
    """Return whether a process has ended; on another machine, whether its last heartbeat is long ago."""
    host, pid, started, seen = TrialProcess(*process)
    if host != socket.gethostname():
        return bool(time.time() - seen > DEAD_AFTER_SECONDS)
    return not is_alive(pid) or _start_time(pid) != started


def _start_time(number: int) -> str:
    """Return the start of a process in kernel ticks; empty if unknown."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def under_way(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    return study.get_trials(deepcopy=False, states=(State.RUNNING,))


def trials_that_count(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """Return trials that are done or running, without those that were given up."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state != State.WAITING and not gave_up(trial)]


def retry_lost(study: "optuna.Study") -> None:
    """Retry trials whose process was killed, a few times at most: the trial may be the cause."""
    for trial in under_way(study):
        assert trial.datetime_start is not None
        unnamed = NOBODY._replace(seen=trial.datetime_start.timestamp())
        if is_gone(trial.user_attrs.get(PROCESS, unnamed)) and give_up(study, trial.number, retry=True):
            say(f"trial {trial.number}: its process has ended, so it is retried")


def retry_trials_of(study: "optuna.Study", worker: str) -> None:
    """Retry the trials that a lost worker of this name was running."""
    for trial in under_way(study):
        if trial.user_attrs.get(WORKER) == worker:
            give_up(study, trial.number, retry=True)


def give_up(study: "optuna.Study", number: int, *, retry: bool) -> bool:
    """Close a trial without a result; return whether this process closed it, which one of several does.

    `retry`: enqueue it again; the defaults of a model are always enqueued again.
    """
    trial = study.get_trials(deepcopy=False)[number]
    try:
        study.tell(number, state=State.FAIL)
    except (ValueError, RuntimeError):  # another process closed it
        return False
    if _has_failed(trial):  # its process was killed after it recorded the failure
        return True
    start = {START: trial.user_attrs[START]} if START in trial.user_attrs else {}
    retries = int(trial.user_attrs.get(RETRIES, 0))
    if (retry or start) and retries < MAX_RETRIES:
        drawn = (
            trial.params if SETTINGS in trial.user_attrs else {}
        )  # otherwise all are drawn again, with the same result
        _enqueue(study, {**trial.user_attrs.get(FIXED, {}), **drawn}, {RETRIES: retries + retry, **start})
    return True
