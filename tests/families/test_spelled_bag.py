"""A bag of characters that counts words too, from training to every number."""

from pathlib import Path

import pytest

import glassformer as gf
from glassformer.config.errors import SettingError
from glassformer.models.modules import BagPredictor

SPELLED = {"model": "bag", "tokenizer.kind": "char", "model.ngrams": 3, "model.words": 2, "model.buckets": 997}


def test_it_trains_and_can_be_looked_into(tmp_path: Path) -> None:
    gf.train("opinions:rows=200", out=tmp_path / "bag", steps=3, **SPELLED)
    loaded = gf.load(tmp_path / "bag")
    assert isinstance(loaded.model, BagPredictor)
    assert loaded.model.bag.words == 2
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.token(loaded.model.bag.space or 0) == " "
    panels = gf.look(loaded, "good soup", view="numbers").to_dict()["panels"]
    bag = next(panel for panel in panels if panel["title"] == "The bag of words")
    assert {"good", "soup", "good soup", "goo"} <= {row[0].replace("␣", " ") for row in bag["rows"]}
    gf.look(loaded, "good soup", view="attribution")


def test_words_are_counted_in_characters_only(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"model\.words does nothing while tokenizer\.kind is word"):
        gf.train("opinions:rows=200", out=tmp_path / "bag", steps=3, **{"model": "bag", "model.words": 2})
