"""What all models of a comparison share: the data, what is held out of it, the tokens."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import SettingError
from glassformer.config.presets import LABELLING, PACKED
from glassformer.config.resolve import Config, resolve
from glassformer.config.say import Say, silent
from glassformer.config.sections import ModelSettings, TokenizerSettings
from glassformer.data.io.pictures import Pictures
from glassformer.data.io.table import Table
from glassformer.data.split.documents import TextCorpus
from glassformer.families.base import Prepared
from glassformer.families.infer import infer_config
from glassformer.families.prepare import prepare
from glassformer.trials.divided import divided
from glassformer.trials.running.ladder import rung

TEST, TEST_OF_MANY, MANY = 0.2, 0.1, 50_000
"""The part of the data that is held out for the test where nobody says; of many rows, and of a text, less."""
OF_DATA = ("task", "model.context")
"""Settings beside those of `data` and `tokenizer` that decide what the examples are: windows are as long as this."""


@dataclass(frozen=True)
class Shared:
    """The same for every row."""

    settings: dict[str, Any]
    """What was said, and what follows from the data: by dotted key, as `train` takes it."""
    config: Config
    """That of the data and its tokens, with a model that nobody asked for."""
    table: Table | Pictures | None
    """Where it has been read already."""
    part: str
    """What is judged on."""
    fingerprint: str
    notes: tuple[str, ...] = ()
    """How scores came about, where a reader of the table should know."""

    @property
    def of_data(self) -> dict[str, Any]:
        """The settings that decide what the examples are; who reads no texts takes a table for its other columns."""
        reader = self.config.model.encoder
        return {**only_data(self.settings), **({} if reader == ModelSettings.encoder else {"model.encoder": reader})}

    def prepared(self) -> Prepared:
        return prepare(self.config, silent, rows=self.table)


def only_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in settings.items() if key.split(".")[0] in ("data", "tokenizer") or key in OF_DATA
    }


def share(said: Mapping[str, Any], models: Sequence[str], varied: Sequence[str], say: Say) -> Shared:
    """Look at the data once; hold out a test part and settle on one tokenizer, where nobody said otherwise."""
    config, table = _settled(only_data(said), models, say)
    corpus = divided(config, table)
    found: dict[str, Any] = {}
    notes: list[str] = []
    folded = config.data.folds is not None
    if "test" not in corpus.parts and "data.test_fraction" not in said and not folded:
        rows = 0 if isinstance(corpus, TextCorpus) else sum(len(part) for part in corpus.parts.values())
        found["data.test_fraction"] = TEST_OF_MANY if config.task in PACKED or rows > MANY else TEST
        notes.append(
            f"{found['data.test_fraction']:.0%} of the data is held out for the test (--data.test_fraction): weights "
            "are chosen on the validation part, scores are on the test part"
        )
    elif "test" not in corpus.parts and not folded:
        notes.append(
            "nothing is held out for the test: scores are on the validation part, which also chose the weights"
        )
    if folded and "test" not in corpus.parts and said.get("training.keep") is None:
        found["training.keep"] = "last"
        notes.append(
            "scores are on the fold that is held out; so it may not choose the weights: the last ones are taken "
            "(training.keep last)"
        )
    for note in notes:
        say(note)
    part = "test" if "test" in corpus.parts or found.get("data.test_fraction") else "validation"
    if not any(key.startswith("tokenizer.") for key in varied):
        found |= _tokenizer(config)
    settings = {**found, **said}
    config, table = infer_config({}, {**only_data(settings), "model.encoder": config.model.encoder}, silent)
    if "data.test_fraction" in found:
        divided(config, table)
    return Shared(
        settings, config, table, part, corpus.fingerprint, tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    )


def _settled(of_data: dict[str, Any], models: Sequence[str], say: Say) -> tuple[Config, Table | Pictures | None]:
    """The data as a model sees it that reads everything; where none of the models reads such examples, as the first."""
    heard: list[str] = []
    config, table = infer_config({}, {**of_data, "model.encoder": ModelSettings.encoder}, heard.append)
    encoders = [str(rung(name)["model.encoder"]) for name in models]
    if config.task in LABELLING and not any(config.data.kind in encoder_info(name).reads for name in encoders):
        heard.clear()
        config, table = infer_config({}, {**of_data, "model.encoder": encoders[0]}, heard.append)
    for line in heard:
        say(line)
    return config, table


def _tokenizer(config: Config) -> dict[str, Any]:
    """One way to make tokens for all models, whatever each would start from."""
    keys = [f"tokenizer.{field.name}" for field in dataclasses.fields(TokenizerSettings)]
    return {key: config.get(key) for key in keys if config.idle(key) is None}


def settings_for(shared: Shared, own: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
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
