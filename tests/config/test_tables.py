"""The tables of settings in TOML files name settings that there are."""

from dataclasses import fields

import pytest

from glassformer.config.encoders import ENCODERS
from glassformer.config.presets import KINDS, SIZES, STARTS, STYLES, read_settings
from glassformer.config.resolve import FIELDS, NEEDS
from glassformer.config.setting import choices_of, value_text
from glassformer.config.views import OPTIONS, LookOptions

MODEL_KEYS = {key.removeprefix("model.") for key in FIELDS if key.startswith("model.")}


def test_defaults_are_of_known_settings() -> None:
    for starts in (STARTS, *(info.starts for info in ENCODERS.values())):
        for settings in starts.values():
            assert settings.keys() <= FIELDS.keys()
    for settings in (*SIZES.values(), *STYLES.values(), *(info.defaults for info in ENCODERS.values())):
        assert settings.keys() <= MODEL_KEYS


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_uses_known_settings(name: str) -> None:
    info = ENCODERS[name]
    assert {key for keys in info.unread.values() for key in keys} <= {*info.keys} <= MODEL_KEYS
    assert {*info.reads} <= {*KINDS}


@pytest.mark.parametrize("key", NEEDS)
def test_a_setting_needs_possible_values_of_others(key: str) -> None:
    assert key in FIELDS
    for other, values in NEEDS[key].items():
        if other == "task":
            continue
        choices = choices_of(other, FIELDS[other].metadata["rule"])
        if choices:
            assert {value_text(value) for value in values} <= {*choices}, other


def test_every_option_of_look_is_described() -> None:
    described = read_settings("views.toml")["options"]
    assert list(described) == [field.name for field in fields(LookOptions)] == list(OPTIONS)
