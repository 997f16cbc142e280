"""Names of other libraries lead to settings that there are."""

import pytest

from glassformer.config.errors import SettingError
from glassformer.config.resolve import ALIASES, FIELDS, NAMES_ELSEWHERE, flatten, known_elsewhere


def test_every_name_leads_to_a_setting() -> None:
    assert set(NAMES_ELSEWHERE.values()) <= FIELDS.keys()
    assert not NAMES_ELSEWHERE.keys() & {*FIELDS, *ALIASES}


@pytest.mark.parametrize(
    ("name", "key"),
    [("learning_rate", "training.lr"), ("--n-embd", "model.width"), ("model.d_model", "model.width"), ("lr", None)],
)
def test_what_is_meant(name: str, key: str | None) -> None:
    assert known_elsewhere(name) == key


def test_an_unknown_setting_is_told_its_name_here() -> None:
    with pytest.raises(SettingError, match=r"unknown setting 'learning_rate'; it is called training\.lr here"):
        flatten({"learning_rate": 0.1})
