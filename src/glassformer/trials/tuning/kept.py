"""Where a search is kept: a study in an SQLite file, a journal or a database, which several processes can share."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.say import Say
from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import MODEL, Search, differs
from glassformer.trials.tuning.space import Dimension, sample

SEARCH = "search"
START = "start"
"""Marks the trial of a model with nothing searched."""
PLAIN = "plain"
"""Of such a trial: that some value of it is not in the space, so that nothing is drawn."""
PATIENT = 60
"""Seconds that a process waits while another writes to the same file."""
STARTUP = 5
"""So many trials are whole before any is stopped early."""
WARMUP = 3
"""The validation of a trial at which it can be stopped first: earlier ones say little."""
NETWORKS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "sshfs", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph", "9p")


def where_kept(storage: str | None, out: Path) -> str:
    """As a database's URL, or the path of a journal."""
    if storage is None:
        return f"sqlite:///{(out / 'study.db').resolve()}"
    if "://" in storage:
        return storage
    path = Path(storage).resolve()
    if path.suffix == ".log":
        return str(path)
    if path.suffix not in (".db", ".sqlite", ".sqlite3"):
        raise Misuse(f"--storage {storage}: a file ends in .db (SQLite) or .log (a journal), a database is a URL, ://")
    return f"sqlite:///{path}"


def say_network(where: str, say: Say, mounts: Path = Path("/proc/mounts")) -> None:
    """SQLite trusts locks that network disks do not keep."""
    if not where.startswith("sqlite:///") or not mounts.is_file():
        return
    folder = Path(where.removeprefix("sqlite:///")).parent
    best, kind = "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, mount, fs, *_ = line.split(" ")
        if folder.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, fs
    if kind in NETWORKS:
        say(f"{folder} is on a network disk ({kind}), where SQLite can lose what several machines write at once: "
            "give --storage FILE.log, or a database's URL")  # fmt: skip


@contextlib.contextmanager
def open_study(where: str, name: str, search: Search) -> "Iterator[optuna.Study]":
    """The study of this name, made if it is not there; one that searches for something else is refused."""
    shown = where.split("@")[-1].removeprefix("sqlite:///")  # without a password
    try:
        storage = _storage(where)
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="minimize" if search.lower_is_better else "maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
        )
    except ImportError as error:
        lacking = next((one.name for one in _causes(error) if isinstance(one, ImportError) and one.name), None)
        why = f"needs a package that is not installed: {lacking}" if lacking else f"cannot be opened: {error!s:.160}"
        raise Misuse(f"--storage {shown} {why}") from None
    except GlassformerError:
        raise
    except Exception as error:  # whatever a database may say
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise Misuse(f"--storage {shown} cannot be used: {why[:160]}") from None
    try:
        _begin(study, name, shown, search)
        yield study
    finally:
        if isinstance(storage, optuna.storages.RDBStorage):
            storage.remove_session()
            storage.engine.dispose()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _storage(where: str) -> "optuna.storages.BaseStorage":
    path = where.removeprefix("sqlite:///")
    if where.startswith("sqlite:///") or "://" not in where:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    if "://" not in where:
        from optuna.storages import journal

        return journal.JournalStorage(journal.JournalFileBackend(where))
    if not where.startswith("sqlite"):
        return optuna.storages.RDBStorage(where)
    storage = optuna.storages.RDBStorage(where, engine_kwargs={"connect_args": {"timeout": PATIENT}})
    _one_at_a_time(storage)
    return storage


def _one_at_a_time(storage: "optuna.storages.RDBStorage") -> None:
    """SQLite's driver begins a transaction only when something is written, so two processes that both read that a
    trial waits would both take it. Here a transaction holds the file from its first word.
    """
    from sqlalchemy import event

    @event.listens_for(storage.engine, "connect")
    def leave_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(storage.engine, "begin")
    def hold(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.remove_session()
    storage.engine.dispose()  # those that are open were not told


def _begin(study: "optuna.Study", name: str, shown: str, search: Search) -> None:
    begun = study.user_attrs.get(SEARCH)
    if begun is not None:
        if (what := differs(search.identity(), begun)) is not None:
            raise Misuse(f"the search {name} in {shown} was another one: {what}; give another --out or --study")
        return
    study.set_user_attr(SEARCH, search.identity())
    for model in search.models:
        start = start_of(model, search)
        study.enqueue_trial(start or {}, user_attrs={START: model, PLAIN: start is None})


def start_of(model: str, search: Search) -> dict[str, Any] | None:
    """What the dimensions are in a training of the model with nothing searched; None where one does not hold it."""
    starts, outside = search.starts[model], []
    out: dict[str, Any] = {MODEL: model} if len(search.spaces) > 1 else {}

    def start(dimension: Dimension) -> Any:
        value = starts[dimension.key]
        if not dimension.holds(value):
            outside.append(dimension.key)
        out[search.name_of(model, dimension)] = int(value) if dimension.whole and value is not None else value
        return value

    sample(search.spaces[model], start, starts)
    return None if outside else out


def sampler(*chance: int) -> "optuna.samplers.BaseSampler":
    """Tree-structured Parzen estimators, of settings together; what it draws follows from these numbers."""
    seed = int(np.random.SeedSequence(chance).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)
