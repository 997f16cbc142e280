"""`compare`: which model suits this data, and is the Transformer worth it?"""

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import TrainingFailed
from glassformer.config.loggers import logger_names, logging_to
from glassformer.config.messages import Say, say, silent, takes_listener
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
    AUTO,
    check_times,
    count_of,
    read_settings,
    refuse,
    refuse_reserved,
    seeds_or_folds,
    split_words,
)

FROM = ("from", "from_run", "model.from_run")
"""What names runs to begin from: here there may be several."""


@takes_memory
@check_arguments
@takes_listener
def compare(
    data: Any = None,
    *,
    models: str | Sequence[str] | None = None,
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
    """Train the models of the ladder on the same data, with the same split, tokens and budget, and judge them on the
    same examples; beside them floors, which learn nothing, and references, another library's models.

    `models`: names as `train` takes them. `seeds` trainings of each (3), or one for each of `folds`. `vary` tries
    settings with several values ({"model.heads": [1, 2, 4]}), `fractions` parts of the training data, `sizes` models of
    these sizes, `ablate` the Transformer with its parts taken out one by one. `parameters`: each model is made so wide
    that it has about so many. `cpu_seconds`: each is trained for as many updates as one core makes in that time,
    however busy the machine is. `on`: where they are trained: `local` (processes of this machine), `slurm` (jobs, with
    options for `sbatch`) or `ray` (a cluster). `jobs` trainings at once: one here, elsewhere as many as there is room
    for; "auto": one on each GPU, or several where they fit by their plans. `runs`: trained before, judged on the same
    examples.
    `settings` are those of `train`, `steps`, `epochs` or `minutes` among them; `from_run` names one run or several, and
    adds rows that begin from these. What is in `out` already is not trained again. `data`, `keep_data`, `log_to`:
    as in `train`.
    """
    check_writable(out or RUNS)
    logger_names(log_to)  # refused before anything is made
    requested, named, from_runs = _read_flags(TrainRequest(data=data, config=config, settings=settings), models)
    refuse(requested.get("model.decoder_from"), "compare --from starts from whole runs: remove --decoder-from")
    refuse_reserved(requested, "compare")
    backends = BackendOptions(on, None if jobs in (None, AUTO) else count_of("jobs", jobs, instead=AUTO), sbatch)
    backends.check()
    check_times(cpu_seconds=cpu_seconds)
    seeds, folds = seeds_or_folds(seeds, folds, SEEDS)
    options = CompareOptions(
        models=() if named is None else parse_models(named),
        varied=_parse_varied(vary, fractions, sizes),
        ablate=ablate,
        seeds=seeds,
        folds=folds,
        parameters=None if parameters is None else count_of("parameters", parameters),
        cpu_seconds=cpu_seconds,
        floors=floors,
        references=references,
        runs=_open_runs(runs),
        from_runs=tuple(str(Path(run).resolve()) for run in _open_runs(from_runs)),
    )
    question = ask(requested, options)
    where = str(requested.get("data.path") or requested.get("data.source_file"))
    folder = Folder.choose(out, where, question.asked)
    refuse_out(requested, folder.path)
    for before in options.from_runs if overwrite else ():
        refuse_out({"model.from_run": before}, folder.path / "jobs")
    with logging_to(log_to), folder.locked() as lock:
        if on != SLURM or overwrite:
            refuse_live_jobs(folder.path / SLURM, "go on with --on slurm, without --overwrite")
        folder.open(question.asked, overwrite=overwrite)
        waiting = _waiting(folder, question.jobs, listen)
        plan = partial(gpu_needs, waiting) if jobs == AUTO else None
        backend = backends.make(folder.path, "compare", lock=lock, plan=plan)
        say(_plan(question, folder, len(waiting), backend))
        part = question.shared.part
        if any(job.settings.get("training.minutes") for job in waiting if job.kind == TRAINED):
            say(f"minutes are for the training: starting each, and judging it on all of the {part} part, comes on top")
        engine = Engine(folder=folder, part=part, backend=backend, hear=listen)
        try:
            with progress_bar(), contextlib.closing(engine.run(waiting)) as outcomes:
                for done, _ in enumerate(outcomes, 1):
                    progress_of("job")(done, len(waiting))
        except KeyboardInterrupt:
            _save_table(folder, question, short_name(where))
            raise KeyboardInterrupt(
                f"stopped; what is done is kept in {folder.path}, and the same command goes on from there"
            ) from None
        comparison = _save_table(folder, question, short_name(where))
        folder.finish()
        if comparison is None:
            raise TrainingFailed(f"nothing was compared: {folder.path} holds no result")
    say(f"all of it: {folder.path / 'comparison.html'}")
    chosen = comparison.recommended
    if chosen is not None and chosen.is_trained:
        run = folder.path / str(chosen.outcomes[0].run)
        config_of_run = Run.open(run).config()
        say(f"next: {FAMILIES[config_of_run.task].command(run, config_of_run)}")
    elif chosen is None and (late := [row for row in comparison.rows if row.undertrained]):
        say(f"next: the same command with {more_budget(late)}, and another --out (or --overwrite)")
    return comparison


def _read_flags(
    request: TrainRequest, models: str | Sequence[str] | None
) -> tuple[dict[str, Any], str | Sequence[str] | None, Any]:
    """Settings by dotted key; the models by the names that were typed, or else that of the file; and the runs to begin
    from.
    """
    flags = dict(request.settings)
    several = [flags.pop(key) for key in FROM if isinstance(flags.get(key), list | tuple)]
    typed = [flags.pop(key) for key in ("model", "model.encoder") if isinstance(flags.get(key), str)]
    refuse(typed and models is not None, "--model and --models: give one of them")
    requested = read_settings(replace(request, settings=flags))
    of_file = requested.pop("model.encoder", None)
    from_runs = next(iter(several), requested.pop("model.from_run", None)) or ()
    return requested, models if models is not None else next(iter(typed), of_file), from_runs


def _parse_varied(vary: Any, fractions: Any, sizes: Any) -> dict[str, list[Any]]:
    varied = parse_varied(vary)
    for key, flag, values in ((FRACTION, "fractions", fractions), (SIZE, "sizes", sizes)):
        if values is not None:
            refuse(key in varied, f"--{flag} and --vary {key} are the same: give one of them")
            varied |= parse_varied({key: _words(flag, values)})
    return varied


def _open_runs(runs: Any) -> tuple[str, ...]:
    """The paths of runs as they were named, the newest by its folder. One that is named twice is judged once."""
    several = _words("runs", runs) if isinstance(runs, str) else [runs] if isinstance(runs, os.PathLike) else list(runs)
    paths = [Run.open(run).path for run in several]
    return tuple(str(path) for path in {path.resolve(): path for path in reversed(paths)}.values())[::-1]


def _words(flag: str, values: Any) -> list[str]:
    words = split_words(values)
    refuse(not words, f"--{flag}: give at least one value")
    return words


def _waiting(folder: Folder, jobs: list[Job], listen: JobListener) -> list[Job]:
    """Return the jobs without an outcome, including failed jobs and jobs whose outcome is invalid."""
    mine = {folder.job_folder(job) for job in jobs}
    for path in folder.invalid_outcomes(jobs):
        then = "its job runs again" if path.parent in mine else "the table omits it"
        say(f"{path} is damaged, was changed after it was written, or is another job's: {then}")
    for job in jobs:
        listen(JobEvent(job=job, what="waiting"))
    outcomes = [outcome for job in jobs if (outcome := folder.outcome(job)) is not None and outcome.error is None]
    for outcome in outcomes:
        listen(JobEvent.over(outcome, "found"))
    done = {outcome.job.id for outcome in outcomes}
    return [job for job in jobs if job.id not in done]


def _plan(question: Question, folder: Folder, waiting: int, backend: Backend) -> str:
    rows, repeats = len({job.row for job in question.jobs if job.kind == TRAINED}), question.options.repeats
    what = "fold" if question.options.folds else "seed"
    again = len(question.jobs) - waiting
    return (
        f"{counted(rows, 'model')}, {counted(repeats, what)} each, {question.budget}"
        + (f"; {again} of {len(question.jobs)} are there already" if again else "")
        + (f"; {backend.summary}" if backend.summary else "")
        + f"; in {shlex.quote(str(folder.path))}"
    )


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
