"""The ladder's rungs are models that can be trained, for every task and every kind of examples."""

import pytest

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse
from glassformer.config.presets import (
    CLASSIFICATION,
    IMAGE,
    KINDS,
    LANGUAGE_MODEL,
    MIXED,
    REGRESSION,
    TABLE,
    TEXT,
    TRANSLATION,
)
from glassformer.config.resolve import resolve
from glassformer.trials.running.candidates import (
    MAIN_MODELS,
    REMOVED_PARTS,
    ablations,
    model_settings,
    models_of,
    parse_models,
)

PLACES = [(LANGUAGE_MODEL, TEXT), (TRANSLATION, TEXT), *((CLASSIFICATION, kind) for kind in KINDS), (REGRESSION, TEXT)]


@pytest.mark.parametrize(("task", "kind"), PLACES)
def test_every_rung_can_be_built_from_its_name_alone(task: str, kind: str) -> None:
    names = models_of(task, kind)
    assert names[-1] == "transformer"
    assert len(set(names)) == len(names)
    for name in names:
        of_kind = {"data.kind": kind} if task == CLASSIFICATION else {}
        config = resolve({}, {**model_settings(name), "task": task, **of_kind})  # strict: what is not used is refused
        assert config.task == task
    assert 2 <= len(set(MAIN_MODELS) & set(names)) <= 3


def test_rungs_that_are_more_than_a_name() -> None:
    assert model_settings("lstm:no-attention") == {"model.encoder": "lstm", "model.attention": "none"}
    assert model_settings("bilstm") == {"model.encoder": "lstm", "model.bidirectional": True}
    assert model_settings("bag:counts") == {"model.encoder": "bag", "model.weighting": "counts"}
    assert all(model_settings(name) == {"model.encoder": name} for name in ENCODERS)


def test_names_as_they_are_typed() -> None:
    assert parse_models("lstm, bag:counts,,") == ("lstm", "bag:counts")
    assert parse_models(["gru", "transformer"]) == ("gru", "transformer")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("lsmt", "--models: unknown model 'lsmt'; did you mean lstm?"),
        ("lstm:gpt2", "--models: unknown variant of lstm 'gpt2'"),
        (" , ", "--models: name at least one model"),
        ("own", "--models: train your own model"),
        ("bag,lstm,bag", "--models names bag twice: name each model once"),
    ],
)
def test_names_that_are_none(words: str, told: str) -> None:
    with pytest.raises(Misuse, match=told):
        parse_models(words)


def test_a_language_model_is_taken_apart_whole() -> None:
    rows = ablations(resolve({}, {"task": LANGUAGE_MODEL}))
    assert rows[0] == {}
    assert rows[1:] == list(REMOVED_PARTS)


@pytest.mark.parametrize("kind", [TEXT, IMAGE, TABLE, MIXED])
def test_what_a_model_does_not_have_is_not_taken_out(kind: str) -> None:
    config = resolve({}, {"task": CLASSIFICATION, "data.kind": kind})
    taken = [key for row in ablations(config) for key in row]
    assert "model.causal_mask" not in taken  # nothing to hide: it reads the whole text
    assert ("model.positions" in taken) == (kind != TABLE)  # columns have no order
    one_head = resolve({}, {"task": CLASSIFICATION, "data.kind": kind, "model.heads": 1, "model.qk_norm": False})
    taken_from_less = ablations(one_head)
    assert {"model.heads": 1} not in taken_from_less
    assert {"model.qk_norm": False} not in taken_from_less
    assert {"model.scale": False} in taken_from_less  # together with a norm, where there is one
    unscaled = ablations(resolve({}, {"task": CLASSIFICATION, "data.kind": kind, "model.scale": False}))
    assert unscaled.count({"model.qk_norm": False}) == 1


def test_a_norm_that_is_not_there_is_not_named() -> None:
    rows = ablations(resolve({}, {"task": LANGUAGE_MODEL, "model.style": "classic"}))
    assert {"model.scale": False} in rows
    assert not any("model.qk_norm" in row for row in rows)


@pytest.mark.parametrize("part", REMOVED_PARTS)
def test_each_part_can_be_taken_out(part: dict[str, object]) -> None:
    config = resolve({}, {"task": LANGUAGE_MODEL, **part})
    assert all(config.get(key) == value for key, value in part.items())
