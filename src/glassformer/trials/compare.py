"""`compare`: train several models on the same data to find the one that suits it best."""

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import TrainingFailed
from glassformer.config.loggers import logger_names, logging_to
from glassformer.config.messages import Say, say, silent, takes_listener
from glassformer.config.model_section import ModelSettings
from glassformer.config.progress import progress_of
from glassformer.data.io.place import short_name
from glassformer.data.wording import counted
from glassformer.families.base import FAMILIES
from glassformer.families.memory_data import takes_memory
from glassformer.finetuning.sources import refuse_out
from glassformer.notebook.display import progress_bar
from glassformer.pipeline.request import TrainRequest
from glassformer.runs.folders import check_writable
from glassformer.runs.run import RUNS, Run
from glassformer.trials.backends.base import LOCAL, SLURM, Backend
from glassformer.trials.backends.options import BackendOptions
from glassformer.trials.backends.slurm import refuse_live_jobs
from glassformer.trials.jobs import TRAINED, Job
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.results.verdict import more_budget
from glassformer.trials.running.candidates import Varied, parse_models, parse_varied
from glassformer.trials.running.engine import Engine, JobEvent, JobListener, gpu_needs
from glassformer.trials.running.folder import Folder
from glassformer.trials.running.question import FRACTION, SEEDS, SIZE, CompareOptions, Question, ask
from glassformer.trials.settings import (
    check_times,
    count_of,
    read_settings,
    refuse,
    refuse_reserved,
    seeds_or_folds,
    split_words,
)

FROM_KEYS = ("from", "from_run", "model.from_run")
"""Names of the setting for the run to fine-tune from; in a comparison, it may list several runs."""


@takes_memory
@check_arguments
@takes_listener
def compare(
    data: Any = None,
    *,
    models: str | ModelSettings | Sequence[str | ModelSettings] | None = None,
    seeds: int | None = None,
    folds: int | None = None,
    vary: str | Iterable[str] | Varied | None = None,
    ablate: bool = False,
    fractions: str | Sequence[float] | None = None,
    sizes: str | Sequence[str] | None = None,
    parameters: int | str | None = None,
    cpu_seconds: float | None = None,
    jobs: int | str | None = None,
    on: str = LOCAL,
    sbatch: str = "",
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    floors: bool = True,
    references: bool = True,
    out: str | Path | None = None,
    overwrite: bool = False,
    keep_data: bool = True,
    log_to: str | Sequence[str] | None = None,
    config: str | Path | None = None,
    listen: JobListener = silent,
    say: Say = say,
    **settings: Any,
) -> Comparison:
    """Train several models on the same data, split, tokens and budget, and score them on the same examples.

    Trivial baselines and models of scikit-learn are scored next to them.

    - `models`: names, or settings such as `gf.LSTM(layers=2)`.
    - `seeds`: number of training runs per model (3). `folds`: one run per fold instead.
    - `vary`: settings with several values, such as `{"model.heads": [1, 2, 4]}`.
    - `fractions`: shares of the training data. `sizes`: sizes of each model.
    - `ablate`: compare the Transformer with variants that each lack one of its parts.
    - `parameters`: choose the width of each model so that it has about this number of parameters.
    - `cpu_seconds`: train each model for as many updates as one core makes in this time, however busy the machine is.
    - `on`: backend of the jobs: `local` (processes of this machine), `slurm` (with options for `sbatch`) or `ray`.
    - `jobs`: number of training runs at once; by default one on this machine, else as many as there is room for.
      "auto" means one per GPU, or several if they fit by their plans.
    - `runs`: finished runs to score on the same examples.
    - `settings`: as in `train`, such as `steps`, `epochs` or `minutes`. `from_run` names one run or several, and adds
      rows that are fine-tuned from them.
    - `data`, `keep_data`, `log_to`: as in `train`.

    Jobs that already have an outcome in `out` do not run again.
    """
    check_writable(out or RUNS)
    logger_names(log_to)  # refused before anything is made
    request = TrainRequest(data=data, config=config, out=out, overwrite=overwrite, log_to=log_to, settings=settings)
    requested, named, from_runs = _read_flags(request, models)
    refuse(requested.get("model.decoder_from"), "compare --from starts from whole runs: remove --decoder-from")
    refuse_reserved(requested, "compare")
    backends = BackendOptions.parse(on, jobs, sbatch)
    check_times(cpu_seconds=cpu_seconds)
    repeats = seeds_or_folds(seeds, folds, SEEDS)
    options = CompareOptions(
        models=() if named is None else parse_models(named),
        varied=_parse_varied(vary, fractions, sizes),
        ablate=ablate,
        seeds=repeats.seeds,
        folds=repeats.folds,
        parameters=None if parameters is None else count_of("parameters", parameters),
        cpu_seconds=cpu_seconds,
        floors=floors,
        references=references,
        runs=_open_runs(runs),
        from_runs=tuple(str(Path(run).resolve()) for run in _open_runs(from_runs)),
    )
    comparison, folder = _answer(ask(requested, options), request, backends, listen)
    say(f"all results: {folder / 'comparison.html'}")
    recommended = comparison.recommended
    if recommended is not None and recommended.is_trained:
        run = folder / str(recommended.outcomes[0].run)
        run_config = Run.open(run).config()
        say(f"next: {FAMILIES[run_config.task].command(run, run_config)}")
    elif recommended is None and (late := [row for row in comparison.rows if row.undertrained]):
        say(f"next: the same command with {more_budget(late)}, and another --out (or --overwrite)")
    return comparison


class _Flags(NamedTuple):
    settings: dict[str, Any]
    """Settings by dotted key."""
    models: str | ModelSettings | Sequence[str | ModelSettings] | None
    from_runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _read_flags(request: TrainRequest, models: str | ModelSettings | Sequence[str | ModelSettings] | None) -> _Flags:
    """Separate settings, names of models (flags override the file), and runs to fine-tune from."""
    flags = dict(request.settings)
    several = [flags.pop(key) for key in FROM_KEYS if isinstance(flags.get(key), list | tuple)]
    typed = [flags.pop(key) for key in ("model", "model.encoder") if isinstance(flags.get(key), str | ModelSettings)]
    refuse(typed and models is not None, "--model and --models: give one of them")
    settings = read_settings(replace(request, settings=flags))
    of_file = settings.pop("model.encoder", None)
    from_runs = next(iter(several), settings.pop("model.from_run", None)) or ()
    return _Flags(settings, models if models is not None else next(iter(typed), of_file), from_runs)


def _parse_varied(
    vary: str | Iterable[str] | Varied | None,
    fractions: str | Sequence[float] | None,
    sizes: str | Sequence[str] | None,
) -> dict[str, list[Any]]:
    varied = parse_varied(vary)
    for key, flag, values in ((FRACTION, "fractions", fractions), (SIZE, "sizes", sizes)):
        if values is not None:
            refuse(key in varied, f"--{flag} and --vary {key} are the same: give one of them")
            varied |= parse_varied({key: _words(flag, values)})
    return varied


def _open_runs(runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the paths of runs as they were named; a run that is named twice occurs once."""
    several = _words("runs", runs) if isinstance(runs, str) else [runs] if isinstance(runs, os.PathLike) else list(runs)
    paths = [Run.open(run).path for run in several]
    return tuple(str(path) for path in {path.resolve(): path for path in reversed(paths)}.values())[::-1]


def _words(flag: str, values: object) -> list[str]:
    words = split_words(values)
    refuse(not words, f"--{flag}: give at least one value")
    return words


# --- running the jobs ---


def _answer(
    question: Question, request: TrainRequest, backends: BackendOptions, listen: JobListener
) -> tuple[Comparison, Path]:
    """Run the jobs that have no outcome yet, save the table, and return it with its folder."""
    settings, part = question.shared.settings, question.shared.part
    data = str(settings.get("data.path") or settings.get("data.source_file"))
    folder = Folder.choose(request.out, data, question.asked)
    refuse_out(settings, folder.path)
    for run in question.options.from_runs if request.overwrite else ():
        refuse_out({"model.from_run": run}, folder.jobs)
    with logging_to(request.log_to), folder.locked() as lock:
        if backends.on != SLURM or request.overwrite:
            refuse_live_jobs(folder.path / SLURM, "go on with --on slurm, without --overwrite")
        folder.open(question.asked, overwrite=request.overwrite)
        waiting = _waiting(folder, question.jobs, listen)
        backend = backends.make(folder.path, "compare", lock=lock, plan=partial(gpu_needs, waiting))
        say(_plan(question, folder, len(waiting), backend))
        if any(job.settings.get("training.minutes") for job in waiting if job.kind == TRAINED):
            say(f"minutes are for training: starting each run, and scoring it on all of the {part} part, comes on top")
        engine = Engine(folder=folder, part=part, backend=backend, hear=listen)
        try:
            with progress_bar(), contextlib.closing(engine.run(waiting)) as outcomes:
                for done, _ in enumerate(outcomes, 1):
                    progress_of("job")(done, len(waiting))
        except KeyboardInterrupt:
            _save_table(folder, question, short_name(data))
            raise KeyboardInterrupt(
                f"stopped; finished jobs are kept in {folder.path}, and the same command continues there"
            ) from None
        comparison = _save_table(folder, question, short_name(data))
        folder.finish()
    if comparison is None:
        raise TrainingFailed(f"nothing was compared: {folder.path} holds no result")
    return comparison, folder.path


def _waiting(folder: Folder, jobs: Sequence[Job], listen: JobListener) -> list[Job]:
    """Return the jobs without an outcome, including failed jobs and jobs whose outcome is invalid."""
    mine = {folder.job_folder(job) for job in jobs}
    for path in folder.invalid_outcomes(jobs):
        consequence = "its job runs again" if path.parent in mine else "the table omits it"
        say(f"{path} is damaged, was changed after it was written, or is another job's: {consequence}")
    for job in jobs:
        listen(JobEvent(job=job, what="waiting"))
    waiting = []
    for job in jobs:
        outcome = folder.outcome(job)
        if outcome is None or outcome.error is not None:
            waiting.append(job)
        else:
            listen(JobEvent.over(outcome, "found"))
    return waiting


def _plan(question: Question, folder: Folder, waiting: int, backend: Backend[Any]) -> str:
    """Return a line with the number of models and jobs, the budget, the backend and the folder."""
    rows, options = len({job.row for job in question.jobs if job.kind == TRAINED}), question.options
    done = len(question.jobs) - waiting
    parts = [
        f"{counted(rows, 'model')}, {counted(options.repeats, 'fold' if options.folds else 'seed')} each, "
        f"{question.budget}",
        f"{done} of {len(question.jobs)} are done already" if done else "",
        backend.summary,
        f"in {shlex.quote(str(folder.path))}",
    ]
    return "; ".join(filter(None, parts))


def _save_table(folder: Folder, question: Question, data: str) -> Comparison | None:
    """Save the table of all outcomes so far; return None if there are none."""
    outcomes = folder.outcomes(question.jobs)
    if not outcomes:
        return None
    comparison = summarise(
        outcomes,
        title=f"{question.shared.config.task} on {data}",
        budget=question.budget,
        mode=question.options.mode,
        notes=question.shared.notes,
    )
    comparison.save(folder.path)
    return comparison
