"""Settings of a comparison's rows: shared settings (data, split, tokenizer), widths for a number of parameters, and
rows that are fine-tuned from runs.
"""

import dataclasses
import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening, say, silent
from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config, resolve
from glassformer.config.sections import ModelSettings, TokenizerSettings
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
from glassformer.trials.jobs import Job
from glassformer.trials.running.candidates import model_settings
from glassformer.trials.settings import check_split

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


@dataclass(frozen=True)
class SharedSettings:
    """Settings and data that all rows share."""

    settings: dict[str, Any]
    """Requested and inferred settings by dotted key, as `train` takes them."""
    config: Config
    """Configuration of the data and its tokenizer; its model has no meaning."""
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
    return 2 * config.model.heads if "transformer" in (config.model.encoder, config.model.decoder) else 2


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
