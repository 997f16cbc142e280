"""The question that a comparison answers: its rows, their settings, and the jobs that they need."""

import dataclasses
import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening, say, silent
from glassformer.config.model_section import ModelSettings
from glassformer.config.plugins import own_files
from glassformer.config.presets import TEXT
from glassformer.config.resolve import BUDGETS, Config, check_ranges, resolve, that_writes
from glassformer.config.sections import TokenizerSettings
from glassformer.config.sentences import sentence
from glassformer.data.wording import LOST
from glassformer.families.base import FAMILIES, Prepared
from glassformer.families.build import build_model, prepare
from glassformer.families.recognition import infer_config
from glassformer.finetuning.settings import fixed_settings
from glassformer.finetuning.sources import FinetuneSources
from glassformer.models.build import parameter_count
from glassformer.models.weights import shapes_alone
from glassformer.runs.weight_files import digest_of
from glassformer.training.device import choose_device
from glassformer.trials.baselines.registry import baselines
from glassformer.trials.jobs import EXISTING, FLOOR, REFERENCE, Job
from glassformer.trials.running.candidates import MAIN_MODELS, ablations, grid, model_settings, models_of
from glassformer.trials.running.folder import AskedQuestion
from glassformer.trials.settings import check_split, refuse

LADDER, FRACTIONS, SIZES, VARY, ABLATION = "ladder", "fractions", "sizes", "vary", "ablation"
SEEDS = 3
"""Default number of seeds."""
FRACTION, SIZE = "data.train_fraction", "model.size"
TEST_SHARE, SMALL_TEST_SHARE, MANY_ROWS = 0.2, 0.1, 50_000
"""Default share of the test set; the smaller one is for texts and for more than this number of rows."""
DATA_KEYS = ("task", "model.context", "training.choose_by")
"""Settings besides those of `data` and `tokenizer` that determine the examples, such as the length of windows."""
TOLERANCE = 0.15
"""A message reports a number of parameters that differs by more than this share from the requested one."""
MAX_WIDTH = 2**15
SIZE_KEYS = ("model.width", "model.head_hidden")
"""Settings that scale a model: its width or, if it has none, that of its hidden layer."""
FINE_TUNED, FROZEN = "fine-tuned", "frozen"


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
class SharedSettings:
    """Settings and data that all rows share."""

    settings: dict[str, Any]
    """Requested and inferred settings by dotted key, as `train` takes them."""
    config: Config
    """Configuration of the data and its tokenizer; its model is not used."""
    table: Any
    """The rows if they have been read already, else None."""
    part: str
    """Part of the data that models are scored on."""
    fingerprint: str
    notes: tuple[str, ...] = ()
    """Notes below the table."""

    @property
    def data_settings(self) -> dict[str, Any]:
        """Settings that determine the examples; the encoder matters if it reads columns instead of texts."""
        reader = self.config.model.encoder
        return {
            **data_settings_in(self.settings),
            **({} if reader == ModelSettings.encoder else {"model.encoder": reader}),
        }

    def resolve(self, settings: Mapping[str, Any]) -> Config:
        """Return the configuration of a row with these settings."""
        inferred = {"task": self.config.task, "data.kind": self.config.data.kind}
        return resolve({}, {**settings, **inferred}, strict=False)


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


# --- settings of rows ---


def data_settings_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in settings.items() if key.split(".")[0] in ("data", "tokenizer") or key in DATA_KEYS
    }


def share_settings(requested: Mapping[str, Any], models: Sequence[str], varied: Sequence[str]) -> SharedSettings:
    """Read the data once; split off a test part and choose one tokenizer unless the settings do."""
    config, table = _infer_shared(data_settings_in(requested), models)
    family, corpus = FAMILIES[config.task], check_split(config, table)
    inferred: dict[str, Any] = {}
    notes: list[str] = []
    folded = config.data.folds is not None
    if "test" not in corpus.parts and "data.test_fraction" not in requested and not folded:
        many = family.reads_stream or sum(len(part) for part in corpus.parts.values()) > MANY_ROWS
        inferred["data.test_fraction"] = share = SMALL_TEST_SHARE if many else TEST_SHARE
        notes.append(sentence(__name__, "test part", share=share))
    elif "test" not in corpus.parts and not folded:
        notes.append(sentence(__name__, "no test part"))
    if folded and "test" not in corpus.parts and requested.get("training.keep") is None:
        inferred["training.keep"] = "last"
        notes.append(sentence(__name__, "last weights"))
    for note in [*(remark for remark in corpus.remarks if remark.startswith(LOST)), *notes]:
        say(note)
    part = "test" if "test" in corpus.parts or inferred.get("data.test_fraction") else "validation"
    if not any(key.startswith("tokenizer.") for key in varied):
        inferred |= _tokenizer(config)
    settings = {**inferred, **requested}
    with listening(silent):
        config, table = infer_config({}, {**data_settings_in(settings), "model.encoder": config.model.encoder})
    if "data.test_fraction" in inferred:
        check_split(config, table)
    return SharedSettings(
        settings, config, table, part, corpus.fingerprint, tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    )


def _infer_shared(data_settings: dict[str, Any], models: Sequence[str]) -> tuple[Config, Any]:
    """Infer the configuration for a model that reads all columns, or for the first model if no model reads them."""
    heard: list[str] = []
    with listening(heard.append):
        config, table = infer_config({}, {**data_settings, "model.encoder": ModelSettings.encoder})
    encoders = [str(model_settings(name)["model.encoder"]) for name in models]
    readers = [name for name in encoders if config.data.kind in encoder_info(name).reads]
    if FAMILIES[config.task].labels_examples and not readers:
        heard.clear()
        with listening(heard.append):
            config, table = infer_config({}, {**data_settings, "model.encoder": encoders[0]})
    for line in heard:
        say(line)
    return config, table


def _tokenizer(config: Config) -> dict[str, Any]:
    """Return settings of one tokenizer for all models, whatever their defaults."""
    keys = [f"tokenizer.{field.name}" for field in dataclasses.fields(TokenizerSettings)]
    return {key: config.get(key) for key in keys if config.idle(key) is None}


def settings_for(shared: SharedSettings, own: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of a row, and the shared settings that its model does not use, with the reasons.

    `own`: its model and its varied settings. Invalid settings are returned unchanged; training reports them.
    """
    whole = {**shared.settings, **own}
    try:
        config = shared.resolve(whole)
    except SettingError:
        return whole, {}
    idle = {key: why for key in shared.settings if "." in key and key not in own and (why := config.idle(key))}
    return {key: value for key, value in whole.items() if key not in idle}, idle


# --- models of similar size ---


def width_for(
    wanted: int, models: Mapping[str, Mapping[str, Any]], shared: SharedSettings
) -> dict[str, tuple[str, int]]:
    """Return, for each model, the setting that scales it and the value that gives about `wanted` parameters.

    `models`: settings by name. Models whose size depends on the data only are omitted. No weights are allocated.
    """
    with listening(silent):
        prepared = prepare(shared.config, rows=shared.table)
    widths = {}
    for name, settings in models.items():
        config = shared.resolve(settings)
        key = next((key for key in SIZE_KEYS if config.idle(key) is None), None)
        if key is None:
            say(f"{name}: its {_count(config, prepared):,} parameters follow from the data, not from --parameters")
            continue

        def count_at(size: int, key: str = key, settings: Mapping[str, Any] = settings) -> int:
            return _count(shared.resolve({**settings, key: size}), prepared)

        step = _step(config) if key == "model.width" else 1
        sizes = range(step, MAX_WIDTH + 1, step)
        place = bisect_left(sizes, wanted, hi=len(sizes) - 1, key=count_at)
        counts = {size: count_at(size) for size in sizes[max(0, place - 1) : place + 1]}
        size = min(counts, key=lambda size: abs(counts[size] - wanted))
        widths[name] = (key, size)
        far = f", which is not near {wanted:,}" if abs(counts[size] - wanted) > TOLERANCE * wanted else ""
        say(f"{name}: {key} {size} gives {counts[size]:,} parameters{far}")
    return widths


def _step(config: Config) -> int:
    """Return the number that a width must be a multiple of, so that each head has an even width."""
    return 2 * (config.get("model.heads") or 1)


def _count(config: Config, prepared: Prepared) -> int:
    """Return the number of parameters of a model without allocating weights."""
    try:
        with shapes_alone():
            model = build_model(config, prepared)
    except SettingError as error:
        raise SettingError(f"--parameters: {error}") from None
    return parameter_count(model)


# --- rows that are fine-tuned from runs ---


def finetuned_jobs(runs: Sequence[str], shared: SharedSettings, rows: Sequence[Mapping[str, Any]]) -> list[Job]:
    """Return the jobs of runs to fine-tune, and for labels also of runs with all but the head frozen.

    `rows`: varied settings. Shared settings that a run determines itself are omitted.
    """
    task, has_head = shared.config.task, FAMILIES[shared.config.task].labels_examples
    if runs and has_head and shared.config.data.kind != TEXT:
        raise Misuse("--from: these examples are not only texts, and only models of texts can be fine-tuned")
    jobs = []
    for run, name in zip(runs, short_names(runs), strict=True):
        sources = FinetuneSources.of(run, None)
        assert sources is not None
        fixed = fixed_settings(sources, task)
        own = {"model.encoder": sources.first.config.model.encoder, "model.from_run": run}
        digest = digest_of(Path(run))
        if omitted := [key for key in shared.settings if key in fixed and shared.settings[key] != fixed[key]]:
            say(f"{', '.join(omitted)}: {name} has its own: omitted there")
        variants = {FINE_TUNED: own, **({FROZEN: {**own, "training.last_blocks": 0}} if has_head else {})}
        for (variant, settings), varied in itertools.product(variants.items(), rows):
            row = {**settings, **varied}
            whole, _ = settings_for(shared, row)
            usable = {key: value for key, value in whole.items() if key in row or key not in fixed}
            jobs.append(Job(name=f"{name} {variant}", settings=usable, varied=dict(varied), begins=digest))
    return jobs


def short_names(runs: Sequence[str]) -> list[str]:
    """Return the names of the runs' folders; the whole paths if two names are equal."""
    names = [Path(run).name for run in runs]
    return names if len(set(names)) == len(names) else list(runs)
