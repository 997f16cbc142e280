"""Time, memory and gradients by length, measured small."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.experiments import cost
from glassformer.experiments.cost import gradient_by_distance
from glassformer.experiments.models import same_size_models
from glassformer.experiments.request import MODELS
from glassformer.models.build import build_language_model
from glassformer.models.counting import (
    multiplications,
    path_length,
    serial_additions,
    serial_order,
    serial_steps,
    state_numbers,
)
from glassformer.models.modules import LanguageModel
from glassformer.rendering.panels import Table
from glassformer.verbs.scaling import scaling
from helpers.scaled import tiny

CPU = torch.device("cpu")


# --- time and memory ---


def test_what_is_kept_for_the_gradients() -> None:
    """x of the first map, its output and what the non-linearity keeps: no weights, and nothing twice."""
    model = tiny("rnn")
    x = torch.randn(5, 7, requires_grad=True)

    def loss() -> torch.Tensor:
        hidden = torch.tanh(x @ model.head.weight.T[:7, :3])  # the tanh keeps its output, the product x
        return (hidden * hidden).sum()  # and so does this product, the same one twice

    assert cost.kept_bytes(model, loss) == 4 * (5 * 7 + 5 * 3)


@pytest.mark.parametrize("name", MODELS)
def test_measures_are_numbers_above_0(name: str) -> None:
    model = tiny(name)
    short, long = (cost.measure(model, tokens, vocab=13, seed=0) for tokens in (5, 20))
    for found in (short, long):
        assert min(found.forward, found.step, found.token) > 0
    assert 0 < short.kept < long.kept
    assert all(weight.grad is None for weight in model.parameters())


def test_time_in_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "MAX_STEP_SECONDS", math.inf)
    said: list[str] = []
    found = scaling(models="rnn,transformer", lengths=[4, 8, 16], parts="time", width=16, layers=1, say=said.append)
    numbers = found.to_dict()["time"]
    settings = same_size_models(["rnn", "transformer"], width=16, layers=1, vocab=cost.VOCAB, context=16)
    for name, one in settings.items():
        assert numbers["models"][name] == {"width": one.width, "layers": one.layers}
        for what in ("forward", "step", "token", "kept"):
            assert numbers[what][name]["x"] == [4, 8, 16]
            assert min(numbers[what][name]["y"]) > 0
        counted = [multiplications(one, vocab=cost.VOCAB, tokens=tokens) / 1e6 for tokens in (4, 8, 16)]
        assert numbers["multiplications"][name]["y"] == counted
        assert numbers["state"][name]["y"] == [4 * state_numbers(one, tokens) / 1e3 for tokens in (4, 8, 16)]
        assert numbers["serial_steps"][name] == {"x": [4, 8, 16], "y": [serial_steps(one, T) for T in (4, 8, 16)]}
        assert numbers["serial_additions"][name]["y"] == [serial_additions(one, T) for T in (4, 8, 16)]
        assert numbers["path_length"][name]["y"] == [path_length(one, T) for T in (4, 8, 16)]
    table = found.parts["time"].panels[0]
    assert isinstance(table, Table)
    assert table.title == "Counted, at T = 16"
    rnn, transformer = (settings[name] for name in ("rnn", "transformer"))
    assert [row[2:] for row in table.rows] == [
        [serial_steps(rnn, 16), serial_additions(rnn, 16), serial_order(rnn), path_length(rnn, 16), "all"],
        [serial_steps(transformer, 16), serial_additions(transformer, 16), serial_order(transformer), 1, "all"],
    ]
    assert any("transformer, T = 16" in line for line in said)
    assert "medians of 3 repeats" in found.how
    assert "1 thread," in found.how
    assert "one seed (0)" in found.how
    assert "stopped" not in found.findings[0]


def test_a_step_that_takes_too_long_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(model: LanguageModel, tokens: int, **_: Any) -> cost.Cost:
        return cost.Cost(1e-3, tokens / 64, 1e-3, 8)

    monkeypatch.setattr(cost, "measure", measured)
    asked = {"models": ["rnn"], "lengths": [4, 8, 16, 40], "parts": ["time"], "width": 8}
    found = scaling(**asked, minutes=3.0)
    assert found.parts["time"].numbers["step"]["rnn"]["x"] == [4, 8, 16]
    assert "RNN: stopped after T = 16, where a step took 0.25 s (--minutes)." in found.findings[0]
    assert scaling(**asked, minutes=6.1).parts["time"].numbers["step"]["rnn"]["x"] == [4, 8, 16, 40]


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(model: LanguageModel, tokens: int, **_: Any) -> cost.Cost:
        if tokens > 8:
            raise torch.OutOfMemoryError
        return cost.Cost(1e-3, 1e-3, 1e-3, 8)

    monkeypatch.setattr(cost, "measure", measured)
    asked = {"models": ["rnn"], "parts": ["time"], "width": 8}
    found = scaling(**asked, lengths=[4, 8, 16, 32])
    assert "RNN: stopped after T = 8: the memory is too small for 16." in found.findings[0]
    with pytest.raises(torch.OutOfMemoryError):
        scaling(**asked, lengths=[16, 32])


# --- gradients ---


@pytest.mark.parametrize("name", MODELS)
def test_gradients_by_distance(name: str) -> None:
    settings = same_size_models([name], width=16, layers=1, vocab=13, context=64)[name]
    sizes = gradient_by_distance(settings, vocab=13, tokens=23, seed=0, device=CPU, texts=3)
    assert sizes.shape == (23,)
    assert sizes[0] == 1
    assert (sizes[:16] > 0).all()
    if name == "window":
        assert not sizes[16:].any()
    if name == "rnn":
        assert sizes[22] < sizes[11] < sizes[4]
    other = gradient_by_distance(settings, vocab=13, tokens=23, seed=1, device=CPU, texts=3)
    assert not np.array_equal(sizes, other)


def test_gradients_by_hand() -> None:
    """Of one recurrent layer: the product of the steps' derivatives."""
    settings = same_size_models(["rnn"], width=16, layers=1, vocab=13, context=64)["rnn"]
    sizes = gradient_by_distance(settings, vocab=13, tokens=3, seed=0, device=CPU, texts=1)
    model = build_language_model(settings, vocab=13, seed=0)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(13, (1, 3), generator=draw)
    direction = torch.randn(1, settings.width, generator=draw)[0]
    vectors = model.embed(ids).detach()

    def last(x: torch.Tensor) -> torch.Tensor:
        return model.encoder(x)[0, -1]

    jacobian = torch.autograd.functional.jacobian(last, vectors)[:, 0]
    by_hand = torch.einsum("i,itj->tj", direction, jacobian).norm(dim=-1).flip(0)
    np.testing.assert_allclose(sizes, (by_hand / by_hand[0]).detach().numpy(), rtol=1e-4)
