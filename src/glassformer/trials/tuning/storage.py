"""Where a search is kept: an Optuna study in a journal or a database, which several processes can share."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from glassformer.config.errors import Misuse
from glassformer.trials.tuning.search import Search

try:
    import optuna as optuna
    from optuna.storages.journal import JournalFileBackend, JournalStorage
except ImportError:
    raise Misuse("tune needs optuna: pip install 'glassformer[tune]'") from None

optuna.logging.set_verbosity(optuna.logging.ERROR)  # what a trial came to is said here, in one line
State = optuna.trial.TrialState

SEARCH = "search"
START = "start"
"""Marks the trial of a model with nothing searched."""
SQLITE = (".db", ".sqlite", ".sqlite3")
STARTUP = 5
"""So many trials are whole before any is stopped early."""
WARMUP = 3
"""The validation of a trial at which it can be stopped first: earlier ones say little."""


def storage_of(storage: str | None, out: Path) -> str:
    """The path of a file, or a database's URL."""
    if storage is None:
        written_before = out / "study.db"
        return str((written_before if written_before.is_file() else out / "study.log").resolve())
    name = storage.removeprefix("sqlite:///")
    if "://" in name:
        return name
    if Path(name).suffix not in (".log", *SQLITE):
        raise Misuse(f"--storage {storage}: a file ends in .db (SQLite) or .log (a journal), a database is a URL, ://")
    return str(Path(name).resolve())


@contextlib.contextmanager
def open_study(where: str, name: str, search: Search) -> "Iterator[optuna.Study]":
    """The study of this name, made if it is not there; one that searches for something else is refused."""
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
        except ImportError as error:
            lacking = getattr(error.__cause__, "name", None)
            why = (
                f"needs a package that is not installed: {lacking}" if lacking else f"cannot be opened: {error!s:.160}"
            )
            raise Misuse(f"--storage {address} {why}") from None
        except Exception as error:  # whatever a database may say
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise Misuse(f"--storage {address} cannot be used: {why[:160]}") from None
        _check_search(study, address, search)
        yield study


@contextlib.contextmanager
def _database(url: str) -> "Iterator[optuna.storages.RDBStorage]":
    database = optuna.storages.RDBStorage(url)
    try:
        yield database
    finally:
        database.remove_session()
        database.engine.dispose()


def _journal(path: Path) -> "JournalStorage":
    """A journal; of an SQLite file, the journal beside it, with all that earlier versions kept in the file itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Path(f"{path}.log") if path.suffix in SQLITE else path
    if journal != path and path.is_file() and not journal.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch, _database(f"sqlite:///{path}") as old:
            file = Path(scratch) / journal.name
            copy = JournalStorage(JournalFileBackend(str(file)))
            for name in optuna.get_all_study_names(old):
                optuna.copy_study(from_study_name=name, from_storage=old, to_storage=copy)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(file, journal)
    return JournalStorage(JournalFileBackend(str(journal)))


def _check_search(study: "optuna.Study", address: str, search: Search) -> None:
    """A new study gets the search, and each model as it starts for its first trials."""
    identity = study.user_attrs.get(SEARCH)
    if identity is None:
        study.set_user_attr(SEARCH, search.identity())
        for model in search.models:
            study.enqueue_trial(search.start_of(model) or {}, user_attrs={START: model})
    elif (what := search.difference(identity)) is not None:
        raise Misuse(
            f"the search {study.study_name} in {address} was another one: {what}; give another --out or --study"
        )
