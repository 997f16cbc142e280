"""The settings of a comparison's rows: what all share (the data, what is held out of it, the tokens), what a model has
of its own, the width at which it has so many parameters, and what begins from another run.
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
from glassformer.trials.running.candidates import rung
from glassformer.trials.settings import check_split

TEST, TEST_OF_MANY, MANY = 0.2, 0.1, 50_000
"""The part of the data that is held out for the test where nobody says; of many rows, and of a text, less."""
DATA_KEYS = ("task", "model.context", "training.choose_by")
"""Settings beside those of `data` and `tokenizer` that decide what the examples are: windows are as long as this."""
NEAR = 0.15
"""So far from what is asked for, as a part of it, a model may be without a word."""
MAX_WIDTH = 2**15
KEYS = ("model.width", "model.head_hidden")
"""What makes a model larger: its width, or, where it has none, that of its hidden layer."""
TUNED, FROZEN = "fine-tuned", "frozen"


@dataclass(frozen=True)
class SharedSettings:
    """What is the same for every row."""

    settings: dict[str, Any]
    """What was requested, and what follows from the data: by dotted key, as `train` takes it."""
    config: Config
    """The configuration of the data and its tokens, with a model that nobody asked for."""
    table: Any
    """The rows, where they have been read already."""
    part: str
    """What is judged on."""
    fingerprint: str
    notes: tuple[str, ...] = ()
    """How scores came about, where a reader of the table should know."""

    @property
    def data_settings(self) -> dict[str, Any]:
        """The settings that decide what the examples are; who reads no texts takes a table for its other columns."""
        reader = self.config.model.encoder
        return {
            **data_settings_in(self.settings),
            **({} if reader == ModelSettings.encoder else {"model.encoder": reader}),
        }

    def resolve(self, settings: Mapping[str, Any]) -> Config:
        """The configuration of a row with these settings."""
        inferred = {"task": self.config.task, "data.kind": self.config.data.kind}
        return resolve({}, {**settings, **inferred}, strict=False)


def data_settings_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in settings.items() if key.split(".")[0] in ("data", "tokenizer") or key in DATA_KEYS
    }


def share_settings(requested: Mapping[str, Any], models: Sequence[str], varied: Sequence[str]) -> SharedSettings:
    """Look at the data once; hold out a test part and settle on one tokenizer, where nobody said otherwise."""
    config, table = _infer_shared(data_settings_in(requested), models)
    family, corpus = FAMILIES[config.task], check_split(config, table)
    inferred: dict[str, Any] = {}
    notes: list[str] = []
    folded = config.data.folds is not None
    if "test" not in corpus.parts and "data.test_fraction" not in requested and not folded:
        many = family.reads_stream or sum(len(part) for part in corpus.parts.values()) > MANY
        inferred["data.test_fraction"] = share = TEST_OF_MANY if many else TEST
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
    """The data as a model sees it that reads everything; where none of the models reads such examples, as the first."""
    heard: list[str] = []
    with listening(heard.append):
        config, table = infer_config({}, {**data_settings, "model.encoder": ModelSettings.encoder})
    encoders = [str(rung(name)["model.encoder"]) for name in models]
    readers = [name for name in encoders if config.data.kind in encoder_info(name).reads]
    if FAMILIES[config.task].labels_examples and not readers:
        heard.clear()
        with listening(heard.append):
            config, table = infer_config({}, {**data_settings, "model.encoder": encoders[0]})
    for line in heard:
        say(line)
    return config, table


def _tokenizer(config: Config) -> dict[str, Any]:
    """One way to make tokens for all models, whatever each would start from."""
    keys = [f"tokenizer.{field.name}" for field in dataclasses.fields(TokenizerSettings)]
    return {key: config.get(key) for key in keys if config.idle(key) is None}


def settings_for(shared: SharedSettings, own: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """All settings of one row (`own`: its model and what is varied), without shared ones that its model has no use for.

    And these, with the reason. What cannot be at all is left as it is: it is refused where it is trained.
    """
    whole = {**shared.settings, **own}
    try:
        config = shared.resolve(whole)
    except SettingError:
        return whole, {}
    idle = {key: why for key in shared.settings if "." in key and key not in own and (why := config.idle(key))}
    return {key: value for key, value in whole.items() if key not in idle}, idle


# --- models of like size ---


def width_for(
    wanted: int, models: Mapping[str, Mapping[str, Any]], shared: SharedSettings
) -> dict[str, tuple[str, int]]:
    """The setting that decides each model's size, and the value at which it has about `wanted` parameters, found
    without a weight being made.

    `models`: the settings of each. A model whose size follows from the data alone is left out, and said.
    """
    with listening(silent):
        prepared = prepare(shared.config, rows=shared.table)
    widths = {}
    for name, settings in models.items():
        config = shared.resolve(settings)
        key = next((key for key in KEYS if config.idle(key) is None), None)
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
        far = f", which is not near {wanted:,}" if abs(counts[size] - wanted) > NEAR * wanted else ""
        say(f"{name}: {key} {size} gives {counts[size]:,} parameters{far}")
    return widths


def _step(config: Config) -> int:
    """What a width must be a multiple of: the heads, each with an even number of its own."""
    return 2 * config.model.heads if "transformer" in (config.model.encoder, config.model.decoder) else 2


def _count(config: Config, prepared: Prepared) -> int:
    """The parameters of a model that has shapes and no numbers."""
    try:
        with shapes_alone():
            model = build_model(config, prepared)
    except SettingError as error:
        raise SettingError(f"--parameters: {error}") from None
    return parameter_count(model)


# --- rows that begin from other runs ---


def finetuned_jobs(runs: Sequence[str], shared: SharedSettings, rows: Sequence[Mapping[str, Any]]) -> list[Job]:
    """Each run fine-tuned, and where labels are learned, once more with all but the head left as it is.

    `rows`: what is varied. Shared settings that are the run's own are left out.
    """
    task, has_head = shared.config.task, FAMILIES[shared.config.task].labels_examples
    if runs and has_head and shared.config.data.kind != TEXT:
        raise Misuse("--from: these examples are more than texts, and only what reads texts alone can be begun from")
    jobs = []
    for run, name in zip(runs, short_names(runs), strict=True):
        sources = FinetuneSources.of(run, None)
        assert sources is not None
        fixed = fixed_settings(sources, task)
        own = {"model.encoder": sources.first.config.model.encoder, "model.from_run": run}
        digest = digest_of(Path(run))
        if left := [key for key in shared.settings if key in fixed and shared.settings[key] != fixed[key]]:
            say(f"{', '.join(left)}: {name} has its own: left out there")
        ways = {TUNED: own, **({FROZEN: {**own, "training.last_blocks": 0}} if has_head else {})}
        for (way, settings), varied in itertools.product(ways.items(), rows):
            row = {**settings, **varied}
            whole, _ = settings_for(shared, row)
            usable = {key: value for key, value in whole.items() if key in row or key not in fixed}
            jobs.append(Job(name=f"{name} {way}", settings=usable, varied=dict(varied), begins=digest))
    return jobs


def short_names(runs: Sequence[str]) -> list[str]:
    """Return the names of the runs' folders; the whole paths if two names are equal."""
    names = [Path(run).name for run in runs]
    return names if len(set(names)) == len(names) else list(runs)
