"""Settings of what learns labels or numbers: where they start, names with a variant, what belongs to another task."""

from typing import Any

import pytest

from glassformer.config.encoders import ENCODERS, MODEL_ALIASES, encoder_info, model_name
from glassformer.config.errors import SettingError
from glassformer.config.presets import (
    ANY_LABEL,
    CLASS,
    LABEL_SET,
    LABELLING,
    NUMBER,
    STARTS,
    TASK_OF_LABELS,
    TEXT,
    label_kind_of,
)
from glassformer.config.resolve import resolve


@pytest.mark.parametrize(
    ("name", "encoder", "settings"),
    [
        ("lstm", "lstm", {}),
        ("bow", "bag", {}),
        ("dan", "average", {}),
        ("bilstm", "lstm", {"bidirectional": True}),
        ("lstm:bidirectional", "lstm", {"bidirectional": True}),
        ("bag:counts", "bag", {"weighting": "counts"}),
        ("bag:counts:bigrams", "bag", {"weighting": "counts", "ngrams": 2}),
        ("bag:tfidf", "bag", {"weighting": "tfidf"}),
        ("transformer:classic", "transformer", {"style": "classic"}),
    ],
)
def test_names_with_a_variant(name: str, encoder: str, settings: dict[str, Any]) -> None:
    assert model_name(name) == (encoder, settings)
    resolved = resolve({}, {"model": name, "task": "classification"}).model
    assert resolved.encoder == encoder
    assert all(getattr(resolved, key) == value for key, value in settings.items())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lstm:foo", "unknown variant of lstm 'foo' (one of: bidirectional)"),
        ("bag:bigram", "unknown variant of bag 'bigram'; did you mean bigrams?"),
        ("bag:classic", "unknown variant of bag 'classic'"),
        ("lsmt:bidirectional", "unknown model 'lsmt'; did you mean lstm?"),
        ("bilsm", "unknown model 'bilsm'; did you mean bilstm?"),
    ],
)
def test_variants_that_are_none(name: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({}, {"model": name})
    assert message in str(caught.value)


def test_a_setting_beats_the_variant() -> None:
    both = {"model": "bag:counts", "model.weighting": "tfidf", "task": "classification"}
    assert resolve({}, both).model.weighting == "tfidf"


def test_where_settings_start_depends_on_the_task() -> None:
    for task in LABELLING:
        config = resolve({}, {"task": task, "model": "lstm"})
        started = {**STARTS[TEXT], **encoder_info("lstm").starts[TEXT]}
        assert {key: config.get(key) for key in started} == started
        assert config != resolve({}, {"model": "lstm"})
    said = {
        "task": "classification",
        "training.batch_size": 7,
        "tokenizer.kind": "char",
        "model.context": 9,
        "steps": 3,
    }
    config = resolve({}, said)
    assert (config.training.batch_size, config.tokenizer.kind, config.model.context) == (7, "char", 9)
    assert (config.training.steps, config.training.epochs) == (3, None)
    assert resolve({}, {"task": "classification", "tokenizer.kind": "bpe"}).tokenizer.lowercase is False


def test_what_the_data_says_is_below_what_a_person_says() -> None:
    found = {"task": "classification", "data.text": "body", "data.label": "kind"}
    config = resolve({}, {"model": "bag"}, found)
    assert (config.task, config.data.text, config.data.label) == ("classification", "body", "kind")
    config = resolve({"data": {"label": "stars"}}, {"task": "regression"}, found)
    assert (config.task, config.data.text, config.data.label) == ("regression", "body", "stars")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"label": "x"}, "data.label does nothing while task is language-model; it goes with task classification or"),
        ({"data.split_by": "x"}, "data.split_by does nothing"),
        ({"model.pool": "max"}, "model.pool does nothing while task is language-model"),
        ({"model.word_dropout": 0.1}, "model.word_dropout does nothing"),
        ({"training.loss": "softmax"}, "training.loss does nothing"),
        ({"training.class_weights": "balanced"}, "it goes with task classification"),
        ({"task": "regression", "training.class_weights": "balanced"}, "it goes with task classification"),
        ({"task": "regression", "training.label_smoothing": 0.1}, "training.label_smoothing does nothing"),
        ({"task": "classification", "training.samples": True}, "training.samples does nothing"),
        ({"task": "classification", "model.tied": True}, "model.tied does nothing while task is classification"),
        ({"task": "classification", "model.causal_mask": False}, "it goes with task language-model"),
        ({"task": "classification", "model": "bag", "model.pool": "max"}, "model.pool is not used by bag"),
    ],
    ids=str,
)
def test_a_setting_of_another_task_is_refused(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({}, flags)
    assert said in str(caught.value)


def test_short_names_of_models_are_models() -> None:
    assert not MODEL_ALIASES.keys() & ENCODERS.keys()
    for name in MODEL_ALIASES:
        assert model_name(name)[0] in ENCODERS


def test_the_labels_that_a_task_learns() -> None:
    assert [label_kind_of(task) for task in LABELLING] == [CLASS, LABEL_SET, NUMBER]
    assert label_kind_of(None) == ANY_LABEL
    assert label_kind_of("language-model") is label_kind_of("masked-language-model") is None
    assert all(TASK_OF_LABELS[label_kind_of(task)] == task for task in (*LABELLING, "language-model"))
    with pytest.raises(SettingError, match="did you mean regression"):
        label_kind_of("regresion")
