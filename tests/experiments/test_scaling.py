"""How things grow with length: what is asked for, models of like size, and all parts together."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.model_section import ModelSettings
from glassformer.config.resolve import resolve
from glassformer.experiments import associative_recall, cost, variants
from glassformer.experiments.models import STEP, count, same_size_models
from glassformer.experiments.request import MODELS, PARTS, ScalingRequest, lengths_of, names_of, scaling_request
from glassformer.verbs.scaling import scaling

CPU = torch.device("cpu")


# --- what is asked for ---


def test_names_and_numbers_with_commas() -> None:
    assert names_of("rnn, cnn") == names_of(["rnn", "cnn"]) == ["rnn", "cnn"]
    assert lengths_of("8, 16") == lengths_of((8, 16)) == [8, 16]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"models": ["lsmt"]}, "--models: unknown model 'lsmt'; did you mean lstm"),
        ({"models": []}, "--models names no model"),
        ({"models": ["rnn", "rnn"]}, "--models names rnn twice"),
        ({"parts": ["tiem"]}, "--parts: unknown part 'tiem'; did you mean time"),
        (
            {"models": ["rnn"], "parts": ["beyond"]},
            "--parts beyond measures the transformer only, and --models is rnn; add transformer to --models or remove",
        ),
        ({"models": ["rnn"], "parts": ["attention"]}, "--parts attention measures the lstm only, and --models is rnn"),
        ({"lengths": [64]}, "--lengths wants two lengths"),
        ({"lengths": [64, 64]}, "64 follows 64"),
        ({"lengths": [1, 64]}, "--lengths begins with 1"),
        ({"width": 20}, "--width is 20, but must be a multiple of 8"),
        ({"width": 0}, "--width is 0"),
        ({"layers": 0}, "--layers is 0"),
        ({"minutes": 0}, "--minutes is 0"),
        ({"minutes": math.nan}, "--minutes is nan"),
        ({"seed": -1}, "--seed is -1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse) as error:
        ScalingRequest(**wrong)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("word", ["x", "6.5", "", "-4", "²"])
def test_lengths_are_whole_numbers(word: str) -> None:
    with pytest.raises(Misuse, match=r"--lengths wants whole numbers"):
        lengths_of(f"64,{word}")


def test_parts_that_apply_to_the_models() -> None:
    def parts_of(models: str, parts: str | None = None) -> list[str]:
        return list(scaling_request(models=models, lengths="4,8", parts=parts).parts)

    assert parts_of("rnn,lstm,transformer") == list(PARTS)
    assert parts_of("rnn") == ["time", "gradient", "recall", "start"]
    assert parts_of("gru,lstm") == ["time", "gradient", "recall", "attention", "start"]
    assert parts_of("rnn", "start") == ["start"]


def test_a_device_that_is_none() -> None:
    with pytest.raises(SettingError, match="no device"):
        scaling(device="abacus")


def test_trainings_go_with_the_minutes() -> None:
    assert [ScalingRequest(minutes=minutes).updates(300) for minutes in (3, 6, 0.3, 1e-9)] == [300, 600, 30, 1]


# --- models of like size ---


def test_others_have_about_as_many_weights() -> None:
    found = same_size_models(MODELS, width=32, layers=2, vocab=13, context=64)
    assert list(found) == list(MODELS)
    sizes = {"model.width": 32, "model.layers": 2, "model.heads": 4, "model.context": 64}
    wanted = count(resolve({}, {"model": "transformer", **sizes}).model, 13)
    assert count(found["transformer"], 13) == wanted
    for name, settings in found.items():
        assert settings.encoder == name
        near = [abs(count(_wide(settings, settings.width + more), 13) - wanted) for more in (-STEP, 0, STEP)]
        assert near[1] == min(near)


def _wide(settings: ModelSettings, width: int) -> ModelSettings:
    return settings.complete({**vars(settings), "width": max(STEP, width), "hidden": None, "head_width": None})


# --- all of it ---


@pytest.mark.slow
def test_every_part_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associative_recall, "DISTANCES", (1, 2))
    monkeypatch.setattr(variants, "DATA", "copy:rows=400")
    monkeypatch.setattr(variants, "ROWS", 80)
    monkeypatch.setattr(cost, "FURTHEST", 32)
    monkeypatch.setattr(cost, "MAX_STEP_SECONDS", math.inf)
    found = scaling(models=["lstm", "transformer"], lengths=(4, 8), width=16, layers=1, minutes=0.03, seed=3)
    assert list(found.parts) == list(PARTS)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["settings"]["seed"] == 3
    assert plain["recall"]["updates"] == 3
    assert set(plain["recall"]["accuracy"]) == set(plain["gradient"]["gradient"]) == {"lstm", "transformer"}
    assert set(plain["beyond"]["loss"]) == set(variants.POSITIONS.values())
    assert set(plain["attention"]["letters"]) == set(variants.ATTENTION.values())
    assert len(plain["findings"]) == len(PARTS)
    view = found.view()
    assert view.note == found.how
    assert len(view.panels) > 12
    found.save(tmp_path / "growth.json")
    assert json.loads((tmp_path / "growth.json").read_text()) == plain
    found.save(tmp_path / "growth.html")
    assert "Growth with length" in (tmp_path / "growth.html").read_text()
    assert "<iframe" in found._repr_html_()
