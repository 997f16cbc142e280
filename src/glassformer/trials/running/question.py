"""The question that a comparison answers: its rows, and the jobs that they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.messages import listening, say, silent
from glassformer.config.plugins import own_files
from glassformer.config.resolve import BUDGETS, check_ranges, resolve, that_writes
from glassformer.families.base import FAMILIES
from glassformer.families.recognition import infer_config
from glassformer.training.device import choose_device
from glassformer.trials.baselines.registry import baselines
from glassformer.trials.jobs import EXISTING, FLOOR, REFERENCE, Job
from glassformer.trials.running.candidates import MAIN_MODELS, ablations, grid, model_settings, models_of
from glassformer.trials.running.folder import AskedQuestion
from glassformer.trials.running.row_settings import (
    SharedSettings,
    finetuned_jobs,
    settings_for,
    share_settings,
    width_for,
)
from glassformer.trials.settings import refuse

LADDER, FRACTIONS, SIZES, VARY, ABLATION = "ladder", "fractions", "sizes", "vary", "ablation"
SEEDS = 3
"""Default number of seeds."""
FRACTION, SIZE = "data.train_fraction", "model.size"


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison, besides the data and the settings of training."""

    models: tuple[str, ...] = ()
    """Names of models; empty: the models for the task, or the Transformer if settings are varied."""
    varied: Mapping[str, Sequence[Any]]
    """Values to try by dotted key, `FRACTION` and `SIZE` among them."""
    ablate: bool = False
    seeds: int = SEEDS
    folds: int | None = None
    parameters: int | None = None
    cpu_seconds: float | None = None
    """Budget of each training run in seconds of one core."""
    floors: bool = True
    references: bool = True
    runs: tuple[str, ...] = ()
    from_runs: tuple[str, ...] = ()
    """Runs to fine-tune from."""

    def __post_init__(self) -> None:
        for flag, is_set in (("--ablate", self.ablate), ("--parameters", self.parameters is not None)):
            both = self.from_runs and is_set
            refuse(both, f"{flag} builds other models, and --from keeps the body of a run: give one")
        refuse(self.ablate and self.varied, f"--ablate does not go with varying {', '.join(self.varied)}")
        other = self.ablate and any(model_settings(name)["model.encoder"] != "transformer" for name in self.models)
        refuse(other, "--ablate takes the Transformer apart: remove --models and --model")
        for key in (SIZE, "model.width"):
            both = self.parameters is not None and key in self.varied
            refuse(both, f"--parameters chooses model.width for each model: it does not go with varying {key}")

    @property
    def mode(self) -> str:
        if self.ablate:
            return ABLATION
        if not self.varied:
            return LADDER
        (only, *more) = self.varied
        return VARY if more else {FRACTION: FRACTIONS, SIZE: SIZES}.get(only, VARY)

    @property
    def repeats(self) -> int:
        return self.folds or self.seeds


@dataclass(frozen=True)
class Question:
    """A comparison's jobs, and the facts that jobs added later must share."""

    options: CompareOptions
    shared: SharedSettings
    jobs: list[Job]
    """Jobs in the order of their start: baselines, every model with the first seed, then the next, references."""

    @property
    def asked(self) -> AskedQuestion:
        """Ids of the jobs, and the identity, which all outcomes in a folder share."""
        identity = {
            **self.shared.settings,
            "data": self.shared.fingerprint,
            "mode": self.options.mode,
            "part": self.shared.part,
            "--folds": self.options.folds,
            "--parameters": self.options.parameters,
            "--cpu-seconds": self.options.cpu_seconds,
            "--brick": own_files() or None,
        }
        return AskedQuestion(identity, [job.id for job in self.jobs])

    @property
    def budget(self) -> str:
        """Budget of each training run, as a phrase."""
        words = "each model's usual number of updates"
        if set(BUDGETS) & set(self.options.varied):
            words = "the budget in each row"
        for key, unit in (("steps", "update"), ("epochs", "epoch"), ("minutes", "minute")):
            if (value := self.shared.settings.get(f"training.{key}")) is not None:
                words = f"{value:,} {unit}{'s' * (value != 1)} each".replace(".0 ", " ")
        if self.options.cpu_seconds is not None:
            words = f"{self.options.cpu_seconds:g} CPU seconds each"
        if self.options.parameters is not None:
            words += f"; about {self.options.parameters:,} parameters each"
        return words


def ask(settings: Mapping[str, Any], options: CompareOptions) -> Question:
    """Return the question with its jobs; raise errors about settings before anything is trained."""
    check_ranges(settings)
    _refuse_contradictions(settings, options)
    folded = {} if options.folds is None else {"data.folds": options.folds, "data.fold": 0}
    shared = share_settings({**settings, **folded}, options.models or ("transformer",), list(options.varied))
    models = options.models or _models(options.mode, shared.config.task, shared.config.data.kind)
    own = {name: model_settings(name) for name in models}
    if options.ablate:
        rows = ablations(shared.resolve(settings_for(shared, own[models[0]])[0]))
    else:
        rows = grid(options.varied)
    if options.parameters is not None:
        each = {name: settings_for(shared, own[name])[0] for name in models}
        for name, (key, width) in width_for(options.parameters, each, shared).items():
            own[name][key] = width
    _refuse_unused(settings, [own[name] for name in models], shared)
    rows_of_models = [
        Job(name=name, settings=settings_for(shared, {**own[name], **varied})[0], varied=varied)
        for name in models
        for varied in rows
    ]
    trained = [*rows_of_models, *finetuned_jobs(options.from_runs, shared, rows)]
    _refuse_if_all_invalid(trained, shared)
    untrained = _baseline_jobs(options, shared, rows)
    jobs = [
        *(job for job in untrained if job.kind == FLOOR),
        *(
            Job(name=run, kind=EXISTING, settings={**shared.data_settings, "run": str(Path(run).resolve())})
            for run in options.runs
        ),
        *(_with_repeat(job, options, repeat) for repeat in range(options.repeats) for job in trained),
        *(job for job in untrained if job.kind == REFERENCE),  # last: they may take as long as the slowest model
    ]
    return Question(options, shared, jobs)


def _refuse_contradictions(settings: Mapping[str, Any], options: CompareOptions) -> None:
    if options.folds is not None:
        refuse("data.validation_fraction" in settings, "--folds and --data.validation_fraction: give one of them")
        refuse(options.runs, "--runs are scored on one part of the data, and --folds has several: give one of them")
    if options.cpu_seconds is not None:
        for key in BUDGETS:
            both = settings.get(key) is not None or key in options.varied
            refuse(both, f"{key} and --cpu-seconds: give one of them")
        on_gpu = choose_device(settings.get("training.device", "auto")).type != "cpu"
        refuse(on_gpu, "--cpu-seconds is the time of a CPU core: add --device cpu, or give --minutes")
    for key in ("training.last_blocks", "training.layer_decay"):
        both = bool(options.from_runs) and settings.get(key) is not None
        refuse(both, f"--{key}: each run of --from is fine-tuned and frozen anyway: remove it")


def _models(mode: str, task: str, kind: str) -> tuple[str, ...]:
    if mode not in (LADDER, FRACTIONS):
        return ("transformer",)
    return tuple(name for name in models_of(task, kind) if mode == LADDER or name in MAIN_MODELS)


def _with_repeat(job: Job, options: CompareOptions, repeat: int) -> Job:
    """Return a job with the seed or the fold of a repeat."""
    seed = {"training.seed": job.settings.get("training.seed", 0) + repeat}
    own = seed if options.folds is None else {"data.fold": repeat}
    return replace(job, settings={**job.settings, **own}, repeat=repeat, cpu_seconds=options.cpu_seconds)


def _baseline_jobs(options: CompareOptions, shared: SharedSettings, rows: Sequence[Mapping[str, Any]]) -> list[Job]:
    """Return the jobs of baselines and references: one, or one per fold and share of the training data."""
    wanted = {FLOOR: options.floors, REFERENCE: options.references and options.mode in (LADDER, FRACTIONS)}
    known = baselines(FAMILIES[shared.config.task], shared.config.data.kind)
    fractions = [varied for varied in rows if varied and set(varied) == {FRACTION}] or [{}]
    folds = [{}] if options.folds is None else [{"data.fold": fold} for fold in range(options.folds)]
    return [
        Job(
            name=baseline.name,
            kind=baseline.kind,
            settings={**shared.data_settings, **varied, **fold},
            varied=dict(varied),
            repeat=repeat,
        )
        for repeat, fold in enumerate(folds)
        for baseline in known
        if wanted[baseline.kind]
        for varied in fractions
    ]


def _refuse_if_all_invalid(rows: Sequence[Job], shared: SharedSettings) -> None:
    """Raise the error of the first row if every row is invalid; otherwise an invalid row reports its error."""
    inferred = {"task": shared.config.task, "data.kind": shared.config.data.kind}
    for job in rows:
        try:
            that_writes(resolve({}, job.settings, inferred))
        except SettingError:
            continue
        return
    with listening(silent):
        infer_config({}, rows[0].settings)  # raises the error of its training run


def _refuse_unused(settings: Mapping[str, Any], models: list[dict[str, Any]], shared: SharedSettings) -> None:
    """Raise an error for a setting that no model uses; report one that some models do not use."""
    idle = [settings_for(shared, own)[1] for own in models]
    for key in settings:
        without = [own["model.encoder"] for own, unused in zip(models, idle, strict=True) if key in unused]
        if without and len(without) == len(models):
            raise SettingError(idle[0][key])
        if without:
            say(f"{key} is not used by {', '.join(dict.fromkeys(without))}: omitted there")
