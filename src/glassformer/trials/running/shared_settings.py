"""What all models of a comparison share: the data, what is held out of it, the tokens."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import Say, SettingError, silent
from glassformer.config.resolve import Config, resolve
from glassformer.config.sections import ModelSettings, TokenizerSettings
from glassformer.families.base import FAMILIES, Prepared
from glassformer.families.load import prepare
from glassformer.families.recognition import infer_config
from glassformer.trials.running.ladder import rung
from glassformer.trials.settings import check_split

TEST, TEST_OF_MANY, MANY = 0.2, 0.1, 50_000
"""The part of the data that is held out for the test where nobody says; of many rows, and of a text, less."""
DATA_KEYS = ("task", "model.context")
"""Settings beside those of `data` and `tokenizer` that decide what the examples are: windows are as long as this."""


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

    def prepared(self) -> Prepared:
        return prepare(self.config, silent, rows=self.table)


def data_settings_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in settings.items() if key.split(".")[0] in ("data", "tokenizer") or key in DATA_KEYS
    }


def share_settings(
    requested: Mapping[str, Any], models: Sequence[str], varied: Sequence[str], say: Say
) -> SharedSettings:
    """Look at the data once; hold out a test part and settle on one tokenizer, where nobody said otherwise."""
    config, table = _infer_shared(data_settings_in(requested), models, say)
    family, corpus = FAMILIES[config.task], check_split(config, table)
    inferred: dict[str, Any] = {}
    notes: list[str] = []
    folded = config.data.folds is not None
    if "test" not in corpus.parts and "data.test_fraction" not in requested and not folded:
        many = family.reads_stream or sum(len(part) for part in corpus.parts.values()) > MANY
        inferred["data.test_fraction"] = share = TEST_OF_MANY if many else TEST
        notes.append(
            f"{share:.0%} of the data is held out for the test (--data.test_fraction): weights "
            "are chosen on the validation part, scores are on the test part"
        )
    elif "test" not in corpus.parts and not folded:
        notes.append(
            "nothing is held out for the test: scores are on the validation part, which also chose the weights"
        )
    if folded and "test" not in corpus.parts and requested.get("training.keep") is None:
        inferred["training.keep"] = "last"
        notes.append(
            "scores are on the fold that is held out; so it may not choose the weights: the last ones are taken "
            "(training.keep last)"
        )
    for note in notes:
        say(note)
    part = "test" if "test" in corpus.parts or inferred.get("data.test_fraction") else "validation"
    if not any(key.startswith("tokenizer.") for key in varied):
        inferred |= _tokenizer(config)
    settings = {**inferred, **requested}
    config, table = infer_config({}, {**data_settings_in(settings), "model.encoder": config.model.encoder}, silent)
    if "data.test_fraction" in inferred:
        check_split(config, table)
    return SharedSettings(
        settings, config, table, part, corpus.fingerprint, tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    )


def _infer_shared(data_settings: dict[str, Any], models: Sequence[str], say: Say) -> tuple[Config, Any]:
    """The data as a model sees it that reads everything; where none of the models reads such examples, as the first."""
    heard: list[str] = []
    config, table = infer_config({}, {**data_settings, "model.encoder": ModelSettings.encoder}, heard.append)
    encoders = [str(rung(name)["model.encoder"]) for name in models]
    reads_examples = FAMILIES[config.task].labels_examples
    if reads_examples and not any(config.data.kind in encoder_info(name).reads for name in encoders):
        heard.clear()
        config, table = infer_config({}, {**data_settings, "model.encoder": encoders[0]}, heard.append)
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
    kind = {"data.kind": shared.config.data.kind}
    try:
        config = resolve({}, {**whole, "task": shared.config.task, **kind}, strict=False)
    except SettingError:
        return whole, {}
    idle = {key: why for key in shared.settings if "." in key and key not in own and (why := config.idle(key))}
    return {key: value for key, value in whole.items() if key not in idle}, idle
