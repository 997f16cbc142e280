"""Settings as Python objects: `gf.LSTM(layers=2)` means the same as `--model lstm --model.layers 2`."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.encoders import ENCODERS, EncoderInfo, model_name
from glassformer.config.errors import SettingError
from glassformer.config.model_section import ENCODER_SETTINGS, ModelSettings
from glassformer.config.presets import CLASSIFICATION, TRANSLATION
from glassformer.config.resolve import FIELDS, SECTIONS, add_settings, help_texts, resolve
from glassformer.config.setting import Unset, setting_fields
from glassformer.pipeline.request import TrainRequest
from glassformer.trials.running.candidates import model_settings, parse_models


@pytest.mark.parametrize("name", ENCODER_SETTINGS)
def test_each_encoder_has_a_public_class(name: str) -> None:
    settings = ENCODER_SETTINGS[name]
    assert getattr(gf, settings.__name__) is settings
    assert settings().given() == {"model.encoder": name}
    assert str(settings()) == name
    assert repr(settings()) == f"{settings.__name__}()"


@pytest.mark.parametrize("task", ["language-model", CLASSIFICATION])
def test_unset_settings_are_completed_as_on_the_command_line(task: str) -> None:
    flags = {"task": task, "model": "lstm", "model.layers": 3, "training.epochs": 5}
    given = {"task": task, "model": gf.LSTM(layers=3), "training": gf.Training(epochs=5)}
    assert resolve({}, given) == resolve({}, flags)
    assert isinstance(resolve({}, given).model, gf.LSTM)


def test_a_default_that_is_given_is_not_replaced_by_that_of_the_task() -> None:
    plain, given = (resolve({}, {"task": CLASSIFICATION, "model": model}) for model in ("lstm", gf.LSTM(layers=4)))
    assert (plain.model.layers, given.model.layers) == (1, 4)


def test_a_decoder_of_another_kind() -> None:
    given = gf.CNN(layers=3, decoder_settings=gf.Transformer(layers=1, heads=2))
    flags = {"model": "cnn", "model.layers": 3, "model.decoder": "transformer"}
    flags |= {"model.decoder_layers": 1, "model.heads": 2}  # type: ignore[dict-item]
    config = resolve({}, {"task": TRANSLATION, "model": given})
    assert config == resolve({}, {"task": TRANSLATION, **flags}) == resolve(config.to_dict(), {})
    decoder = config.decoder_settings
    assert isinstance(decoder, gf.Transformer)
    assert (decoder.heads, decoder.layers, config.get("model.heads")) == (2, 1, 2)
    both = gf.LSTM(width=64, decoder_settings=gf.GRU(width=32))
    with pytest.raises(SettingError, match=r"model.width is 64 in the encoder, but 32 in the decoder: they share it"):
        both.given()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gf.LSTM(layers=0), "model.layers is 0, but must be at least 1"),
        (lambda: gf.Transformer(positions="rotory"), "did you mean rotary?"),
        (lambda: gf.LSTM(layers="two"), "model.layers wants a whole number, not 'two'"),
        (lambda: gf.Training(lr="fast"), "training.lr wants a number, not 'fast'"),
        (lambda: resolve({}, {"training": gf.LSTM()}), "training does not take a LSTM, which belongs to model"),
        (lambda: resolve({}, {"model": gf.LSTM(cells=7)}), "model.cells 7 must be larger than model.width"),
    ],
)
def test_wrong_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_are_frozen_and_shown_as_given() -> None:
    settings = gf.LSTM(layers=2, width=64)
    assert repr(settings) == "LSTM(width=64, layers=2)"
    assert settings.dropout is Unset.UNSET
    with pytest.raises(FrozenInstanceError):
        settings.layers = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (gf.LSTM(layers=2, bidirectional=True), "lstm:layers=2:bidirectional=true"),
        (
            gf.Transformer(positions="rotary", rotary_scaling="llama3:8:1:4:9"),
            "transformer:positions=rotary:rotary_scaling=llama3:8:1:4:9",
        ),
        (gf.Bag(ngrams=2), "bag:ngrams=2"),
    ],
)
def test_a_model_with_settings_has_a_name(settings: ModelSettings, name: str) -> None:
    assert str(settings) == name
    assert resolve({}, {"task": CLASSIFICATION, "model": name}) == resolve(
        {}, {"task": CLASSIFICATION, "model": settings}
    )
    assert parse_models([settings, "average"]) == (name, "average")
    assert model_settings(name) == settings.given()


def test_names_with_wrong_settings() -> None:
    with pytest.raises(SettingError, match=r"unknown setting of the model 'layer'; did you mean layers\?"):
        model_name("lstm:layer=2")
    with pytest.raises(SettingError, match=r"model\.heads is not used by lstm; it belongs to transformer"):
        resolve({}, {"model": "lstm:heads=2"})
    with pytest.raises(SettingError, match=r"model\.layers wants a whole number, not 'two'"):
        model_name("lstm:layers=two")


def test_train_takes_settings() -> None:
    request = TrainRequest(model=gf.LSTM(layers=2), settings={"training": gf.Training(lr=1e-3, epochs=5)})
    assert request.own_model is None
    assert request.flags() == {
        "model.encoder": "lstm", "model.layers": 2, "training.lr": 1e-3, "training.epochs": 5.0,
    }  # fmt: skip


class Averages(gf.LayerSettings):
    """Settings of a user's encoder."""

    decay_rate: float = gf.setting(0.9, least=0.0, most=1.0)
    """set the decay rate of the average"""


def test_an_encoder_with_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("model.decay_rate",):
        monkeypatch.setitem(FIELDS, key, setting_fields(Averages)["decay_rate"])
    monkeypatch.setitem(ENCODERS, "averages", EncoderInfo("moving averages", Averages, layers=2))
    monkeypatch.setitem(SECTIONS, "model", list(SECTIONS["model"]))
    add_settings("model", Averages)
    config = resolve({}, {"model": "averages", "model.decay_rate": "0.5"})
    assert isinstance(config.model, Averages)
    assert (config.model.encoder, config.model.layers, config.model.decay_rate) == ("averages", 2, 0.5)
    assert resolve(config.to_dict(), {}) == config
    assert help_texts()["model.decay_rate"] == "set the decay rate of the average"
    assert resolve({}, {"model": Averages(encoder="averages", decay_rate=0.5)}) == config
    with pytest.raises(SettingError, match=r"model\.decay_rate is not used by lstm; it belongs to averages"):
        resolve({}, {"model": "lstm", "model.decay_rate": 0.5})
    help_texts.cache_clear()


def test_a_class_has_one_encoder() -> None:
    assert gf.LSTM(encoder="lstm") == gf.LSTM()
    for other in ("gru", "transformer"):
        with pytest.raises(SettingError, match=r"^gf\.LSTM has no other encoder: use gf\.\w+ instead of encoder="):
            gf.LSTM(encoder=other)
