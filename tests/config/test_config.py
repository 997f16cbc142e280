"""Configuration: who wins, what is refused, and that a saved one is read back as it was. No torch is needed here."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.config.encoders import ENCODERS, encoder_info, size_of
from glassformer.config.errors import GlassformerError, Misuse, SettingError, error_line, nearest, unknown
from glassformer.config.model_section import DECODERS, ModelSettings
from glassformer.config.presets import LABELLING, SIZES, STYLES, TEXT, TRANSLATION, style_of
from glassformer.config.resolve import (
    ALIASES,
    FIELDS,
    Config,
    flatten,
    help_texts,
    keys,
    resolve,
    used_keys,
)
from glassformer.config.sections import DataSettings, TokenizerSettings
from glassformer.config.setting import OpenSettings, Rule, check, kind_of, parse, setting, value_text
from helpers.settings import training_settings


def model(**flags: Any) -> ModelSettings:
    return resolve({}, {f"model.{key}": value for key, value in flags.items()}).model


# Every setting


every_field = pytest.mark.parametrize(
    ("section", "field"), [(key.partition(".")[0], field) for key, field in FIELDS.items()], ids=list(FIELDS)
)


@every_field
def test_every_setting_has_help(section: str, field: dataclasses.Field[Any]) -> None:
    rule = field.metadata["rule"]
    assert isinstance(rule, Rule)
    text = help_texts()[f"{section}.{field.name}"]
    assert len(text) > 8
    assert not text.endswith(".")
    if rule.choices:
        assert rule.default is None or value_text(rule.default) in rule.choices


@every_field
def test_every_setting_has_a_type_that_a_flag_can_be_brought_to(section: str, field: dataclasses.Field[Any]) -> None:
    kind, optional = kind_of(field)
    assert kind in (bool, int, float, str)
    assert optional or field.metadata["rule"].default is not None
    if optional:
        assert parse("it", field, "none") is None
        assert parse("it", field, None) is None
    else:
        with pytest.raises(SettingError, match="it needs a value"):
            parse("it", field, None)


@every_field
def test_every_choice_and_range_is_held(section: str, field: dataclasses.Field[Any]) -> None:
    rule: Rule = field.metadata["rule"]
    if rule.choices:
        with pytest.raises(SettingError, match=f"{section}.{field.name}|unknown"):
            resolve({}, {f"{section}.{field.name}": "nothing-of-the-kind"})
    for bound, wrong in ((rule.least, -1), (rule.most, +1)):
        if bound is not None:
            wrong_value = bound + wrong if kind_of(field)[0] is int else bound + wrong * 1.0
            beside = {"model": user_of(field.name)} if section == "model" else {}
            with pytest.raises(SettingError, match=rf"{section}\.{field.name} is .* must be (at (least|most)|above)"):
                resolve({}, {**beside, f"{section}.{field.name}": wrong_value})


def user_of(key: str) -> str:
    """An encoder that uses this key."""
    return next(name for name in ENCODERS if key in used_keys(name))


def test_every_model_setting_is_used_by_some_encoder() -> None:
    names = {key.removeprefix("model.") for key in FIELDS if key.startswith("model.")}
    assert names == {key for info in ENCODERS.values() for key in info.keys}


@pytest.mark.parametrize("name", ENCODERS)
def test_what_is_said_of_an_encoder_is_about_its_own_settings(name: str) -> None:
    info = encoder_info(name)
    assert set(info.defaults) <= set(used_keys(name))
    assert info.settings.encoder == name
    assert info.summary


def test_aliases_stand_for_keys() -> None:
    assert set(ALIASES.values()) <= set(keys())


# From flags to values


WHOLE, NUMBER, TRUTH = FIELDS["model.layers"], FIELDS["model.dropout"], FIELDS["model.residual"]
TRUTH_OR_NAME, WORDS = FIELDS["model.bias"], FIELDS["data.text"]


@pytest.mark.parametrize(
    ("field", "said", "meant"),
    [
        (WHOLE, "3", 3),
        (WHOLE, 3, 3),
        (WHOLE, "1e4", 10_000),
        (WHOLE, "10_000", 10_000),
        (WHOLE, 3.0, 3),
        (WHOLE, "9007199254740993", 9007199254740993),
        (NUMBER, "0.5", 0.5),
        (NUMBER, "1e-3", 0.001),
        (NUMBER, 1, 1.0),
        (TRUTH, "true", True),
        (TRUTH, "No", False),
        (TRUTH, "on", True),
        (TRUTH, 0, False),
        (TRUTH, True, True),
        (TRUTH_OR_NAME, "single", "single"),
        (TRUTH_OR_NAME, "off", False),
        (WORDS, 5, "5"),
    ],
)
def test_parse(field: dataclasses.Field[Any], said: Any, meant: Any) -> None:
    value = parse("it", field, said)
    assert value == meant
    assert type(value) is type(meant)


def test_none_unsets_what_may_be_unset() -> None:
    for said in (None, "none", "Null"):
        assert parse("it", WORDS, said) is None
    with pytest.raises(SettingError, match="it needs a value"):
        parse("it", WHOLE, None)
    assert parse("it", FIELDS["model.positions"], "none") == "none"


@pytest.mark.parametrize(
    ("field", "said", "wanted"),
    [
        *((WHOLE, said, "a whole number") for said in ("three", "1.5", 1.5, "", True, "inf", "nan", "1e400", [3], {})),
        *((NUMBER, said, "a number") for said in ("half", "", True, "inf", "-inf", "nan", [0.5], {})),
        *((TRUTH, said, "true or false") for said in ("maybe", "", 2, 0.5, [True])),
        *((WORDS, said, "text") for said in (["a"], {"a": 1}, ("a",))),
    ],
)
def test_parse_refuses(field: dataclasses.Field[Any], said: Any, wanted: str) -> None:
    with pytest.raises(SettingError, match=f"it wants {wanted}, not "):
        parse("it", field, said)


@given(st.integers())
def test_whole_numbers_keep_every_digit(number: int) -> None:
    assert parse("it", WHOLE, str(number)) == parse("it", WHOLE, number) == number


@given(st.sampled_from(["model.layers", "training.lr", "tokenizer.lowercase", "data.text"]), st.text())
def test_no_text_causes_anything_but_a_settings_error(key: str, value: str) -> None:
    try:
        resolve({}, {key: value})
    except SettingError as error:
        message = str(error)
    else:
        return
    assert key in message


# Names


def test_nearest() -> None:
    assert nearest("lsmt", ENCODERS) == "lstm"
    assert nearest("Transfomer", ENCODERS) == "transformer"
    assert nearest("zzzz", ENCODERS) is None
    assert "did you mean" not in unknown("model", "zzzz", ENCODERS)
    training = [key for key in FIELDS if key.startswith("training.")]
    for start in ("training.", "", "--training.", "--"):
        names = [name.replace("training.", start) for name in training]
        assert "did you mean" not in unknown("setting", f"{start}metric", names)
    assert nearest("training.devise", ["training.seed", "training.device"]) == "training.device"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"model": "lsmt"}, "unknown model 'lsmt'; did you mean lstm?"),
        ({"size": "tinny"}, "unknown size 'tinny'; did you mean tiny?"),
        ({"style": "lama"}, "did you mean llama?"),
        ({"task": "language_model"}, "did you mean language-model?"),
        ({"model.layer": 2}, "unknown setting 'model.layer'; did you mean model.layers?"),
        ({"model": {"layer": 2}}, "unknown setting 'model.layer'; did you mean model.layers?"),
        ({"batchsize": 2}, "did you mean batch_size?"),
        ({"training.learning_rate": 1}, "unknown setting 'training.learning_rate'"),
        ({"model.positions": "rotory"}, "unknown model.positions 'rotory'; did you mean rotary?"),
        ({"model.norm": "layre"}, "did you mean layer?"),
        ({"optimizer": "adam"}, "did you mean adamw?"),
        ({3: 4}, "unknown setting '3'"),
        ({True: 4}, "unknown setting 'True'"),
        ({"model": {3: 4}}, "unknown setting 'model.3'"),
        ({"task": 5}, "unknown task '5'"),
        ({"training": 5}, "unknown setting 'training'"),
    ],
    ids=str,
)
def test_what_is_misspelt_is_named_with_the_nearest(flags: dict[Any, Any], message: str) -> None:
    for source in (({}, flags), (flags, {})):
        with pytest.raises(SettingError) as caught:
            resolve(*source)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2


def test_errors_and_their_exit_codes() -> None:
    assert issubclass(SettingError, Misuse)
    assert GlassformerError.exit_code == 1


UNUSED = [
    (encoder, key)
    for encoder, info in ENCODERS.items()
    if TEXT in info.reads
    for key in (key.removeprefix("model.") for key in FIELDS if key.startswith("model."))
    if key not in used_keys(encoder)
]


@pytest.mark.parametrize(("encoder", "key"), UNUSED)
def test_a_key_that_the_encoder_does_not_use_is_refused(encoder: str, key: str) -> None:
    default = FIELDS[f"model.{key}"].metadata["rule"].default
    with pytest.raises(SettingError) as caught:
        resolve({}, {"model": encoder, f"model.{key}": default})
    assert f"model.{key} is not used by {encoder}; it belongs to " in str(caught.value)
    assert user_of(key) in str(caught.value)


def test_layers_of_an_mlp_are_named() -> None:
    with pytest.raises(SettingError, match=r"the hidden layers of mlp are model\.head_layers$"):
        resolve({}, {"task": "classification", "data.kind": "table", "model": "mlp", "model.layers": 2})


# What cannot be together


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"model.heads": 3}, "model.heads 3 does not divide model.width 128"),
        ({"model.heads": 4, "model.kv_heads": 3}, "model.kv_heads 3 does not divide model.heads 4"),
        (
            {"model.scores": "shared", "model.kv_heads": 2},
            "model.kv_heads goes with model.scores query-key, not shared",
        ),
        (
            {"model.scores": "plain", "model.head_width": 8},
            "model.heads 4 × model.head_width 8 must be model.width 128",
        ),
        (
            {"model.scores": "shared", "model.head_width": 8},
            "model.heads 4 × model.head_width 8 must be model.width 128",
        ),
        ({"model.scores": "bilinear", "model.head_width": 8}, "leave model.head_width unset"),
        ({"model.output_projection": False, "model.head_width": 8}, "must be model.width 128"),
        ({"model.scores": "bilinear", "model.output_projection": False}, "must be model.width 128"),
        ({"model.head_width": 7}, "even model.head_width, not 7"),
        ({"model.bias": "single"}, "model.bias single is for lstm, gru, rnn, not transformer; use true or false"),
        ({"model.bias": "double"}, "model.bias wants true, false or single, not 'double'"),
        (
            {"task": TRANSLATION, "model": "gru", "model.decoder": "transformer", "model.bias": "single"},
            "model.bias single is for lstm, gru, rnn, not transformer",
        ),
        (
            {"task": TRANSLATION, "model": "gru", "model.attention": "layerwise"},
            "model.attention layerwise needs a Transformer encoder and decoder, not gru",
        ),
        (
            {"task": TRANSLATION, "model.layers": 3, "model.decoder_layers": 2, "model.attention": "layerwise"},
            "model.decoder_layers 2 must equal model.layers 3",
        ),
        ({"model.attention": "layerwise"}, "model.attention does nothing while task is language-model"),
        (
            {"task": TRANSLATION, "model.attention": "dot"},
            "model.attention does nothing while model.decoder is transformer; it goes with model.decoder lstm or gru",
        ),
        ({"model": "lstm", "model.cells": 10}, "model.cells 10 must be larger than model.width"),
        ({"model": "lstm", "model.embed": "onehot", "model.tied": True}, "one-hot vectors have no weights to share"),
        ({"data.validation_fraction": 0.6, "data.test_fraction": 0.4}, "leave nothing to train on"),
        ({"vocab_size": 259}, "bpe starts from 256 bytes and needs at least 260"),
        ({"tokenizer.lowercase": True}, "tokenizer.lowercase is for char and word"),
        ({"steps": 5, "epochs": 2}, "training.steps and training.epochs: give one of them"),
        ({"epochs": 2, "minutes": 2}, "training.epochs and training.minutes: give one of them"),
        ({"training.accumulation_steps": 3}, "training.accumulation_steps 3 does not divide training.batch_size 16"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({}, flags)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [
        {"model.heads": 3, "model.head_width": 10},
        {"model.heads": 3, "model.scores": "bilinear"},
        {"model.head_width": 7, "model.positions": "none"},
        {"model.heads": 6, "model.kv_heads": 2, "model.width": 48},
        {"tokenizer.kind": "char", "vocab_size": 30, "tokenizer.lowercase": True},
        {"model": "lstm", "model.embed": "onehot"},
        {"vocab_size": 260},
        {"training.grad_clip": "none"},
    ],
    ids=str,
)
def test_settings_that_do_not(flags: dict[str, Any]) -> None:
    resolve({}, flags)


# What is filled in


def test_sizes_that_follow_from_others() -> None:
    assert model(width=48, heads=3).head_width == 16
    assert model(heads=4).kv_heads == 4
    assert model(scores="bilinear").head_width == 128
    assert model(activation="relu", width=48, heads=3).hidden == 192
    assert model(activation="swiglu", width=48, heads=3).hidden == 128
    assert model(hidden=7).hidden == 7
    assert model(encoder="window", width=10).hidden == 40


def test_tied_unless_one_hot() -> None:
    assert model(encoder="lstm").tied is True
    assert model(encoder="lstm", embed="onehot").tied is False
    assert model(encoder="lstm", tied=False).tied is False


def test_training_has_a_budget_and_a_rate() -> None:
    assert training_settings().steps == 2000
    assert training_settings(epochs=1.5).steps is None
    assert training_settings(optimizer="adamw").lr != training_settings(optimizer="sgd").lr
    assert training_settings(optimizer="adamw", lr=0.5).lr == 0.5


def test_sections_are_frozen() -> None:
    for section in (ModelSettings(), DataSettings(), TokenizerSettings(), training_settings()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            section.anything = 1  # type: ignore[union-attr]


# Who wins


def test_defaults_below_size_below_style_below_file_below_flag() -> None:
    """Each of them in turn says something of what those below it said, and is the one that is heard."""
    assert model().layers == FIELDS["model.layers"].metadata["rule"].default
    assert model(size="nano").layers == 3  # size over defaults
    assert model(size="nano").activation == FIELDS["model.activation"].metadata["rule"].default
    assert model(size="nano", style="classic").activation == "relu"  # style over defaults
    file = {"model": {"size": "nano", "style": "classic", "layers": 5, "activation": "tanh"}}
    assert resolve(file, {}).model.layers == 5  # file over size
    assert resolve(file, {}).model.activation == "tanh"  # file over style
    flags = {"model.layers": 7, "model.activation": "gelu"}
    assert resolve(file, flags).model.layers == 7  # flag over file
    assert resolve(file, flags).model.activation == "gelu"
    assert resolve(file, flags).model.width == SIZES["nano"]["width"]


def test_style_over_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STYLES, "deep", {"layers": 9})
    monkeypatch.setattr(OpenSettings, "__post_init__", lambda self: None)
    assert model(size="nano", style="deep").layers == 9


def test_an_encoders_own_defaults() -> None:
    assert model().bias is False
    assert model(encoder="lstm").bias is True
    assert model(encoder="lstm", bias=False).bias is False
    assert model(encoder="lstm", bias="single").bias == "single"
    assert model(encoder="cnn").activation == "gelu"


def test_the_encoder_of_a_flag_over_that_of_the_file() -> None:
    assert resolve({"model": "lstm"}, {"model": "gru"}).model.encoder == "gru"
    assert resolve({"model": {"encoder": "lstm"}}, {}).model.encoder == "lstm"
    with pytest.raises(SettingError, match="not used by gru"):
        resolve({"model": {"encoder": "lstm", "cells": 900}}, {"model": "gru"})


def test_a_flags_budget_replaces_the_files() -> None:
    assert resolve({"training": {"steps": 5}}, {"epochs": 2}).training.steps is None
    assert resolve({"training": {"steps": 5}}, {"lr": 1}).training.steps == 5


def test_three_ways_to_say_the_same() -> None:
    nested, dotted, short = {"training": {"lr": 1}}, {"training.lr": 1}, {"lr": 1}
    assert flatten(nested) == flatten(dotted) == flatten(short) == {"training.lr": 1.0}
    assert resolve({"training": None}, {}) == resolve({}, {})


@pytest.mark.parametrize("style", STYLES)
def test_styles_are_whole(style: str) -> None:
    """Every style says all that makes it one, so that none leans on a default that may change."""
    of_head = {"tied", "head_transform", "pool", "head_layers", "head_activation"}
    assert set(style_of(style)) - of_head == set(STYLES["classic"])
    assert set(style_of(style)) <= set(used_keys("transformer"))
    resolved = model(style=style)
    assert all(getattr(resolved, key) == value for key, value in style_of(style).items())


SIZED = [name for name in ENCODERS if "size" in used_keys(name)]


def test_a_bag_has_no_size() -> None:
    assert set(ENCODERS) - set(SIZED) == {"bag", "linear", "mlp"}
    assert size_of("small", "bag") == {}
    with pytest.raises(SettingError, match=r"model\.size is not used by bag"):
        resolve({}, {"model": "bag", "size": "small"})


@pytest.mark.parametrize("encoder", SIZED)
@pytest.mark.parametrize("size", SIZES)
def test_sizes_can_be_built(size: str, encoder: str) -> None:
    assert set(size_of(size, encoder)) <= set(used_keys(encoder))
    assert model(size=size, encoder=encoder).width % 2 == 0


# Saved and read back


TRANSLATING = ["average", "window", "cnn", *DECODERS]

CONFIGS: list[dict[str, Any]] = [
    *({"model": name} for name, info in ENCODERS.items() if TEXT in info.reads),
    *({"model": name, "size": "small"} for name in SIZED),
    *(
        {"model": name, "task": task, "data.kind": kind}
        for name, info in ENCODERS.items()
        for kind in info.reads
        for task in LABELLING
    ),
    *({"model": name, "task": TRANSLATION} for name in TRANSLATING),
    {"model": "cnn", "model.decoder": "gru", "task": TRANSLATION, "model.attention": "dot"},
    {"task": TRANSLATION, "tokenizer.shared": "false", "source": "en", "target": "de", "batch_tokens": 512},
    {"model": "bilstm", "task": "classification", "training.loss": "softmax", "training.class_weights": "balanced"},
    {"model": "bow", "task": "regression", "text": "words", "label": "stars", "data.split_by": "author"},
    {"model": "own", "task": "classification", "model.context": 17},
    *({"style": style} for style in STYLES),
    {"model": "lstm", "model.cells": 900, "model.embed": "onehot", "dropout": 0.3},
    {"model.scores": "bilinear", "model.heads": 3},
    {"epochs": 1.5, "training.grad_clip": "none", "lr": 0.25},
    {"minutes": 3, "tokenizer.kind": "char", "data.path": "text.txt"},
    {"model.kv_heads": 2, "model.head_width": 6, "training.threads": 2},
]


@pytest.mark.parametrize("flags", CONFIGS, ids=str)
def test_a_saved_configuration_is_read_back_as_it_was(flags: dict[str, Any]) -> None:
    import json

    config = resolve({}, flags)
    saved = json.loads(json.dumps(config.to_dict()))
    assert resolve(saved, {}) == config
    assert resolve(saved, {}).to_dict() == saved
    users = [config.model.encoder, *([config.model.decoder] if config.task == TRANSLATION else [])]
    used = {key for user in users if user for key in used_keys(user)}
    assert set(saved["model"]) == {key for key in used if not config.idle(f"model.{key}")}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"model": "linear"}, "linear does not read texts, and the task is language-model"),
        ({"model": "linear", "task": "translation"}, "linear does not read texts, and the task is translation"),
        ({"model": "mlp", "task": "classification"}, "mlp does not read texts; one of bag, average,"),
        ({"model": "lstm", "task": "regression", "data.kind": "image"}, "lstm does not read images; one of cnn, tran"),
        ({"model": "bag", "task": "regression", "data.kind": "mixed"}, "bag does not read texts with other columns"),
        ({"source_file": "a"}, "--source-file needs its other half: --target-file"),
        ({"target_file": "a"}, "--target-file needs its other half: --source-file"),
        ({"source_file": "a", "target_file": "b", "data.path": "c"}, "give c, or --source-file and --target-file"),
        ({"data.image_size": "32x", "data.kind": "image"}, "data.image_size wants a number of pixels, 32 or 32x48"),
        ({"task": "translation", "batch_size": 3}, "training.batch_size does nothing while task is translation"),
        ({"task": "translation", "model.norm": "batch"}, "model.norm batch would let padding and other pairs into"),
        (
            {"task": "translation", "model.decoder": "lstm", "model.bidirectional": True},
            "model.bidirectional is not used by transformer",
        ),
        (
            {"model": "cnn", "task": "classification", "data.kind": "image", "model.dilation": 2},
            "model.dilation is not used by cnn on images",
        ),
        ({"model": "cnn", "model.stride": 2}, "model.stride is not used by cnn on texts"),
        ({"keep_": 1}, "unknown setting"),
        ({"training.keep": "last", "training.patience": 3}, "training.patience waits for a better validation"),
        ({"batch_tokens": 300}, "training.batch_tokens does nothing while task is language-model"),
        ({"task": "translation", "model.attention": "dot"}, "model.attention does nothing while model.decoder is tran"),
        (
            {"task": "translation", "tokenizer.shared": False, "model.shared": True},
            "model.shared does nothing while tokenizer.shared is False",
        ),
    ],
)
def test_what_fits_no_task_or_kind_of_data_is_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({}, flags)
    assert message in str(caught.value)


@pytest.mark.parametrize("encoder", TRANSLATING)
def test_a_decoder_is_like_its_encoder_where_that_can_write(encoder: str) -> None:
    config = resolve({}, {"task": TRANSLATION, "model": encoder})
    assert config.model.decoder == (encoder if encoder in DECODERS else "transformer")
    assert config.model.decoder_layers == (config.model.layers if encoder in DECODERS else 2)
    assert config.model.shared is True
    assert config.training.batch_tokens is not None
    other = resolve({}, {"task": TRANSLATION, "model": encoder, "tokenizer.shared": "false", "epochs": 2})
    assert other.model.shared is False
    assert (other.training.steps, other.training.epochs) == (None, 2)


@pytest.mark.parametrize("encoder", TRANSLATING)
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_decoder_decides_how_it_is_trained_and_an_encoder_how_large_it_is(encoder: str, decoder: str) -> None:
    both = resolve({}, {"task": TRANSLATION, "model": encoder, "model.decoder": decoder})
    alone = resolve({}, {"task": TRANSLATION, "model": decoder})
    assert both.model.tied == alone.model.tied == (decoder == "transformer")
    for key in ("optimizer", "lr"):
        assert getattr(both.training, key) == getattr(alone.training, key)
    assert both.model.width == resolve({}, {"task": TRANSLATION, "model": encoder}).model.width
    assert both.model.decoder_layers == alone.model.layers
    assert both.model.bidirectional == (encoder in DECODERS[1:])


def test_batches_of_tokens_can_be_computed_in_any_number_of_pieces() -> None:
    assert resolve({}, {"task": TRANSLATION, "training.accumulation_steps": 3}).training.accumulation_steps == 3


def test_a_data_set_says_where_settings_start() -> None:
    starts = {"tokenizer.kind": "char", "model.width": 96, "training.steps": 7}
    config = resolve({}, {"task": TRANSLATION}, starts=starts)
    assert (config.tokenizer.kind, config.model.width, config.training.steps) == ("char", 96, 7)
    config = resolve({}, {"task": TRANSLATION, "size": "nano", "epochs": 2, "tokenizer.kind": "bpe"}, starts=starts)
    assert (config.tokenizer.kind, config.model.width, config.training.steps) == ("bpe", 48, None)
    apart = {"data.documents_apart": True, "model.heads": 2}
    assert resolve({}, {}, starts=apart).data.documents_apart
    assert not resolve({}, {"model": "lstm"}, starts=apart).data.documents_apart


def test_sizes_of_images() -> None:
    sizes = {"32": (32, 32), "8X16": (8, 16), None: None}
    assert {text: DataSettings(image_size=text).size_of_images() for text in sizes} == sizes


def test_a_saved_configuration_can_be_changed_by_a_flag() -> None:
    saved = resolve({}, {"steps": 7, "model": "lstm"}).to_dict()
    changed = resolve(saved, {"seed": 3})
    assert isinstance(changed, Config)
    assert (changed.training.seed, changed.training.steps, changed.model.encoder) == (3, 7, "lstm")


# A section of one's own


def test_check_names_the_setting() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine:
        size: int = setting(3, least=1, most=5)
        steps: int = setting(3, least=1)
        name: str | None = setting(None, choices=("a", "b"))

    check("mine", Mine())
    check("mine", Mine(size=5, name="b"))
    for wrong, message in [
        (Mine(size=0), "mine.size is 0, but must be at least 1"),
        (Mine(size=6), "mine.size is 6, but must be at most 5"),
        (Mine(steps=10**400), "mine.steps has 401 digits, but must fit into 64 bits"),
        (Mine(name="c"), "unknown mine.name 'c'"),
        (Mine(size=None), "mine.size needs a value"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(SettingError, match=message):
            check("mine", wrong)


def test_configuration_needs_no_torch() -> None:
    code = "import sys, glassformer.config.resolve as r; r.resolve({}, {}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("encoder", ["window", "cnn"])
def test_swiglu_needs_a_gate(encoder: str) -> None:
    with pytest.raises(SettingError, match=f"{encoder} has no gate"):
        resolve({}, {"model": encoder, "model.activation": "swiglu"})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"training.momentum": 0.5}, "training.optimizer momentum"),
        ({"optimizer": "sgd", "training.beta1": 0.5}, "training.optimizer muon or adamw"),
        ({"training.schedule": "constant", "training.lr_floor": 0.5}, "training.schedule cosine"),
        ({"model.positions": "sine", "model.rotary_base": 100.0}, "model.positions rotary"),
        ({"tokenizer.file": "x.json", "vocab_size": 300}, "tokenizer.file unset"),
        ({"validation": "x.txt", "data.validation_fraction": 0.2}, "data.validation unset"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=f"does nothing.*goes with {said}"):
        resolve({}, flags)


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("no\nmore of it"), "ValueError: no"), (ValueError(), "ValueError"), (TypeError(" \n"), "TypeError")],
)
def test_an_error_is_one_line(error: Exception, line: str) -> None:
    assert error_line(error) == line
