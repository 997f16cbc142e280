"""Search for the best settings of a model: many short training runs, and one complete run at the end."""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.config.arguments import check_arguments
from glassformer.config.encoders import model_name
from glassformer.config.errors import GlassformerError, Misuse, SettingError
from glassformer.config.loggers import logger_names, logging_to
from glassformer.config.messages import Say, say, silent, takes_listener
from glassformer.config.model_section import ModelSettings
from glassformer.config.resolve import flatten
from glassformer.data.wording import counted
from glassformer.families.memory_data import takes_memory
from glassformer.finetuning.sources import refuse_out
from glassformer.notebook.display import progress_bar
from glassformer.runs.files import read_json, write_json
from glassformer.runs.folders import check_writable, contents, locked
from glassformer.runs.run import RUNS
from glassformer.training.events import Listener
from glassformer.trials.backends.base import LOCAL
from glassformer.trials.backends.gpus import visible_gpus
from glassformer.trials.backends.options import BackendOptions
from glassformer.trials.settings import (
    AUTO,
    check_data,
    check_out,
    check_times,
    count_of,
    data_stem,
    free_folder,
    seeds_or_folds,
    split_words,
)
from glassformer.trials.tuning.search import Search, plan_search
from glassformer.trials.tuning.space import plain

if TYPE_CHECKING:
    from glassformer.trials.tuning.result import TuneResult

DEFAULT_TRIALS = 30
"""Number of trials if neither that nor a time is given."""
SEARCH, JOURNAL = "search.json", "study.log"


@takes_memory
@check_arguments
@takes_listener
def tune(
    data: Any = None,
    *,
    model: str | ModelSettings | Sequence[str | ModelSettings] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    trial_minutes: float | None = None,
    space: str | Path | Mapping[str, Any] | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    jobs: int | str = 1,
    on: str = LOCAL,
    sbatch: str = "",
    seeds: int | None = None,
    folds: int | None = None,
    out: str | Path | None = None,
    config: str | Path | None = None,
    prune: bool = True,
    final: bool = True,
    keep_data: bool = True,
    log_to: str | Sequence[str] | None = None,
    say: Say = say,
    listen: Listener = silent,
    **settings: Any,
) -> "TuneResult":
    """Search for the best settings of a model, or of the best of several models.

    - `model`: a name or settings (`gf.LSTM(layers=2)`), or several of them (`"bag,cnn"`).
    - `settings`: fixed settings, as in `train`, which are not searched.
    - `trials`: total number of trials, including earlier calls; the same call continues a search.
    - `minutes`: time for all trials together. `trial_minutes`: time for each trial.
    - `space`: a YAML file or a mapping (`{"model.width": [64, 128]}`) that replaces the default space.
    - `seeds`: number of training runs whose mean is a trial's score. `folds`: use the mean over this number of folds,
      which is more reliable with few rows.
    - `final`: at the end, train the best settings again as a complete run, which is scored on the test set.
    - `jobs`: number of processes that work on the search; "auto" means one per GPU.
    - `on`: backend of these processes: this machine (`local`), Slurm jobs (`slurm`, with options for `sbatch`) or a
      Ray cluster (`ray`).
    - `data`, `keep_data`, `log_to`: as in `train`.
    """
    check_writable(out or RUNS)
    logger_names(log_to)  # refused before anything is made
    check_times(minutes=minutes, trial_minutes=trial_minutes)
    options = TuneOptions(
        trials=None if trials is None else count_of("trials", trials),
        minutes=minutes,
        jobs=_jobs(jobs, on),
        storage=None if storage is None else str(storage),
        study=study,
        final=final,
    )
    backends = BackendOptions.parse(on, options.jobs, sbatch)
    repeats = seeds_or_folds(seeds, folds, 1)
    if trial_minutes is not None:
        settings["training.minutes"] = trial_minutes
    search = plan_search(data, _models(model), settings, config=config, space=space)
    search = replace(search, seeds=repeats.seeds, folds=repeats.folds, prune=prune)
    folder = free_folder(f"tune-{_stem(search)}", lambda path: _holds(path, search)) if out is None else Path(out)
    with logging_to(log_to):
        return _search(search, folder, options, backends, listen)


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of a search."""

    trials: int | None
    minutes: float | None
    jobs: int
    storage: str | None
    study: str | None
    final: bool


def _search(
    search: Search, folder: Path, options: TuneOptions, backends: BackendOptions, listen: Listener
) -> "TuneResult":
    """Run the trials that are missing, train the best settings, and save the result in the folder."""
    from glassformer.trials.tuning.result import finish
    from glassformer.trials.tuning.storage import open_study, retry_lost, storage_of, trials_that_count
    from glassformer.trials.tuning.worker import Worker, WorkerTeam

    refuse_out(search.settings, folder)
    where = storage_of(options.storage, folder)
    _check_folder(folder, search)
    check_data({**search.settings, **flatten({"model": search.models[0]}), **search.repeats[0]})
    with open_study(where, options.study or _stem(search), search) as study:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / SEARCH, search.identity())
        retry_lost(study)
        done = len(trials_that_count(study))
        if done:
            say(f"continuing {folder}: {counted(done, 'trial')} so far")
        trials = DEFAULT_TRIALS if options.trials is None and options.minutes is None else options.trials
        until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
        worker = Worker(study, search, folder / "trials", trials, until)
        with progress_bar():
            if options.jobs == 1 and backends.on == LOCAL:
                worker.work()
            elif trials is None or done < trials:
                with _team_folder(folder, backends.on) as scratch:
                    WorkerTeam(options.jobs, worker, where, backends.make(folder, "tune"), scratch).work()
        return finish(study, search, folder, final=options.final, listen=listen)


def _jobs(jobs: int | str, on: str) -> int:
    if jobs != AUTO:
        return count_of("jobs", jobs, instead=AUTO)
    if on != LOCAL:
        raise Misuse(f"tune --jobs auto is a process for each GPU of this machine: with --on {on}, say how many")
    return max(1, len(visible_gpus()))


@contextlib.contextmanager
def _team_folder(folder: Path, on: str) -> Iterator[Path]:
    """Yield the folder for the orders and logs of the processes.

    On this machine that is a temporary folder, since several commands may work on the same search. Elsewhere it is in
    the folder of the search, which one command at a time uses.
    """
    if on == LOCAL:
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
        return
    with locked(folder / on, "search"):
        yield (folder / on).resolve()
        for path in contents(folder / on):
            path.unlink()


@takes_listener
def default_spaces(
    data: str | Path | None = None,
    *,
    model: str | ModelSettings | Sequence[str | ModelSettings] | None = None,
    config: str | Path | None = None,
    say: Say = say,
    **settings: Any,
) -> dict[str, Any]:
    """Return the default space as YAML spells it: by setting, or for several models by model."""
    search = plan_search(data, _models(model), settings, config=config)
    spaces = {name: plain(space) for name, space in search.spaces.items()}
    return spaces if len(spaces) > 1 else next(iter(spaces.values()))


def _models(model: str | ModelSettings | Sequence[str | ModelSettings] | None) -> list[str]:
    names = split_words(model or ())
    for name in names:
        model_name(name)  # raises an error for an unknown name
    if len(set(names)) < len(names):
        raise SettingError(f"--model {','.join(names)} names a model twice")
    return names


# --- the folder ---


def _stem(search: Search) -> str:
    """Return the name of the data and the models."""
    data = data_stem(search.settings.get("data.path") or search.settings.get("data.source_file") or "data")
    return "-".join([data, *(name.replace(":", "-") for name in search.models)])


def _holds(folder: Path, search: Search) -> bool:
    """Return whether a folder holds the same search."""
    if not (folder / SEARCH).is_file():
        return False
    try:
        return search.difference(read_json(folder / SEARCH)) is None
    except GlassformerError:  # damaged
        return False


def _check_folder(folder: Path, search: Search) -> None:
    begun = (folder / SEARCH).is_file()
    only_journal = folder.is_dir() and all(path.name == JOURNAL for path in contents(folder))  # killed after its start
    check_out(folder, "search", holds=begun or only_journal)
    if begun and (what := search.difference(read_json(folder / SEARCH))) is not None:
        raise Misuse(f"{folder} holds another search: {what}; name another --out")
