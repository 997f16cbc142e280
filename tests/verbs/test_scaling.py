"""How things grow with length: measured small, and each part by what it must show."""

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.sections import ModelSettings
from glassformer.data.exact import recall_rows
from glassformer.models.counting import multiplications, state_numbers
from glassformer.models.language_model import LanguageModel
from glassformer.verbs.scaling import attention, beyond, clock, parts, recall
from glassformer.verbs.scaling.alike import STEP, alike, build, count, transformer_of
from glassformer.verbs.scaling.gradient import gradient_by_distance
from glassformer.verbs.scaling.learn import brief, learn, training_of
from glassformer.verbs.scaling.measure import scaling
from glassformer.verbs.scaling.plan import MODELS, PARTS, Plan, lengths_of, names_of

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
        Plan(**wrong)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("word", ["x", "6.5", "", "-4", "²"])
def test_lengths_are_whole_numbers(word: str) -> None:
    with pytest.raises(Misuse, match=r"--lengths wants whole numbers"):
        lengths_of(f"64,{word}")


def test_a_device_that_is_none() -> None:
    with pytest.raises(SettingError, match="no device"):
        scaling(device="abacus")


def test_trainings_go_with_the_minutes() -> None:
    assert [Plan(minutes=minutes).updates(300) for minutes in (3, 6, 0.3, 1e-9)] == [300, 600, 30, 1]


# --- models of like size ---


def test_others_have_about_as_many_weights() -> None:
    found = alike(MODELS, width=32, layers=2, vocab=13, context=64)
    assert list(found) == list(MODELS)
    wanted = count(transformer_of(32, 2, context=64), 13)
    assert count(found["transformer"], 13) == wanted
    for name, settings in found.items():
        assert settings.encoder == name
        near = [abs(count(_wide(settings, settings.width + more), 13) - wanted) for more in (-STEP, 0, STEP)]
        assert near[1] == min(near)


def _wide(settings: ModelSettings, width: int) -> ModelSettings:
    return replace(settings, width=max(STEP, width), hidden=None, head_width=None)


# --- time and memory ---


def test_what_is_kept_for_the_gradients() -> None:
    """x of the first map, its output and what the non-linearity keeps: no weights, and nothing twice."""
    model = tiny("rnn")
    x = torch.randn(5, 7, requires_grad=True)

    def loss() -> torch.Tensor:
        hidden = torch.tanh(x @ model.head.weight.T[:7, :3])  # the tanh keeps its output, the product x
        return (hidden * hidden).sum()  # and so does this product, the same one twice

    assert clock.kept_bytes(model, loss) == 4 * (5 * 7 + 5 * 3)


@pytest.mark.parametrize("name", MODELS)
def test_measures_are_numbers_above_0(name: str) -> None:
    model = tiny(name)
    short, long = (clock.measure(model, tokens, vocab=13, seed=0) for tokens in (5, 20))
    for found in (short, long):
        assert min(found.forward, found.step, found.token) > 0
    assert 0 < short.kept < long.kept
    assert all(weight.grad is None for weight in model.parameters())


def tiny(name: str) -> LanguageModel:
    return build(alike([name], width=16, layers=1, vocab=13, context=64)[name], vocab=13, seed=0)


def test_time_in_numbers(tmp_path: Path) -> None:
    said: list[str] = []
    found = scaling(models="rnn,transformer", lengths=[4, 8, 16], parts="time", width=16, layers=1, say=said.append)
    numbers = found.to_dict()["time"]
    settings = alike(["rnn", "transformer"], width=16, layers=1, vocab=parts.VOCAB, context=16)
    for name, one in settings.items():
        assert numbers["models"][name] == {"width": one.width, "layers": one.layers}
        for what in ("forward", "step", "token", "kept"):
            assert numbers[what][name]["x"] == [4, 8, 16]
            assert min(numbers[what][name]["y"]) > 0
        counted = [multiplications(one, vocab=parts.VOCAB, tokens=tokens) / 1e6 for tokens in (4, 8, 16)]
        assert numbers["multiplications"][name]["y"] == counted
        assert numbers["state"][name]["y"] == [4 * state_numbers(one, tokens) / 1e3 for tokens in (4, 8, 16)]
    assert any("transformer, T = 16" in line for line in said)
    assert "medians of 5 repeats" in found.how
    assert "1 thread," in found.how
    assert "one seed (0)" in found.how
    assert "stopped" not in found.findings[0]


def test_a_step_that_takes_too_long_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(model: LanguageModel, tokens: int, **_: Any) -> clock.Measured:
        return clock.Measured(1e-3, tokens / 4, 1e-3, 8)

    monkeypatch.setattr(parts, "measure", measured)
    asked = {"models": ["rnn"], "lengths": [4, 8, 16, 32], "parts": ["time"], "width": 8}
    found = scaling(**asked, minutes=3.0)
    assert found.parts["time"].numbers["step"]["rnn"]["x"] == [4, 8, 16]
    assert "RNN: stopped after T = 16, where a step took 4.0 s (--minutes)." in found.findings[0]
    assert scaling(**asked, minutes=6.1).parts["time"].numbers["step"]["rnn"]["x"] == [4, 8, 16, 32]


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(model: LanguageModel, tokens: int, **_: Any) -> clock.Measured:
        if tokens > 8:
            raise torch.OutOfMemoryError
        return clock.Measured(1e-3, 1e-3, 1e-3, 8)

    monkeypatch.setattr(parts, "measure", measured)
    asked = {"models": ["rnn"], "parts": ["time"], "width": 8}
    found = scaling(**asked, lengths=[4, 8, 16, 32])
    assert "RNN: stopped after T = 8: the memory is too small for 16." in found.findings[0]
    with pytest.raises(torch.OutOfMemoryError):
        scaling(**asked, lengths=[16, 32])


# --- gradients ---


@pytest.mark.parametrize("name", MODELS)
def test_gradients_by_distance(name: str) -> None:
    settings = alike([name], width=16, layers=1, vocab=13, context=64)[name]
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
    settings = alike(["rnn"], width=16, layers=1, vocab=13, context=64)["rnn"]
    sizes = gradient_by_distance(settings, vocab=13, tokens=3, seed=0, device=CPU, texts=1)
    model = build(settings, vocab=13, seed=0)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(13, (1, 3), generator=draw)
    direction = torch.randn(1, settings.width, generator=draw)[0]
    vectors = model.embed(ids).detach()

    def last(x: torch.Tensor) -> torch.Tensor:
        return model.encoder(x)[0, -1]

    jacobian = torch.autograd.functional.jacobian(last, vectors)[:, 0]
    by_hand = torch.einsum("i,itj->tj", direction, jacobian).norm(dim=-1).flip(0)
    np.testing.assert_allclose(sizes, (by_hand / by_hand[0]).detach().numpy(), rtol=1e-4)


# --- recall ---


def test_the_last_digit_is_asked_for() -> None:
    task = recall.Recalling([1, 3], seed=5, rows=30, held_out=4, batch_size=6)
    rows = list(recall_rows(34, 5, 3))
    written = ["".join(recall.SIGNS[sign] for sign in row) for row in task.asked[3].tolist()]
    assert written == rows[:4]
    assert len(task.learned[3]) == 30
    assert [task.batch(step).ids.shape for step in (0, 1, 2)] == [(6, 7), (6, 11), (6, 7)]
    assert torch.equal(task.batch(3).ids, task.batch(3).ids)
    assert not torch.equal(task.batch(1).ids, task.batch(3).ids)
    known = set(map(tuple, task.learned[3].tolist()))
    assert all(tuple(row) in known for row in task.batch(1).ids.tolist())
    batch = task.batch(1)
    assert (batch.size, batch.count, batch.tokens, batch.rows(1, 3).size) == (6, 6, 66, 2)
    inputs, answers = batch.tensors(CPU)
    assert torch.equal(torch.cat([inputs, answers[:, None]], 1), batch.ids)
    assert all(recall.SIGNS[answer].isdigit() for answer in answers.tolist())


def test_losses_and_accuracies_of_the_answer_alone() -> None:
    task = recall.Recalling([1, 3], seed=5, rows=30, held_out=4, batch_size=6)
    settings = alike(["rnn"], width=16, layers=1, vocab=len(recall.SIGNS), context=64)["rnn"]
    model = build(settings, vocab=len(recall.SIGNS), seed=0)
    inputs, answers = task.batch(1).tensors(CPU)
    scores = model(inputs)[:, -1]
    wanted = -scores.log_softmax(-1)[torch.arange(6), answers].sum()
    torch.testing.assert_close(task.loss(model, inputs, answers), wanted)
    right = [
        float((model(task.asked[k][:, :-1])[:, -1].argmax(-1) == task.asked[k][:, -1]).float().mean()) for k in (1, 3)
    ]
    assert task.accuracies(model) == right
    assert task.evaluate(model, "validation").metrics["accuracy"] == sum(right) / 2


def test_what_is_near_is_learned() -> None:
    task = recall.Recalling([0], seed=0, rows=200, held_out=60)
    vocab = len(recall.SIGNS)
    model = build(
        alike(["transformer"], width=16, layers=1, vocab=vocab, context=8)["transformer"], vocab=vocab, seed=0
    )
    learn(model, task, training_of({**brief(80, 0), "lr": 0.01}), CPU)
    assert not model.training
    assert task.accuracies(model)[0] > 0.8


def test_ctrl_c_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    task = recall.Recalling([0], seed=0, rows=20, held_out=6)
    model = build(alike(["rnn"], width=8, layers=1, vocab=37, context=8)["rnn"], vocab=37, seed=0)
    batch = task.batch

    def interrupted(step: int) -> recall.Questions:
        os.kill(os.getpid(), signal.SIGINT)
        return batch(step)

    monkeypatch.setattr(task, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(model, task, training_of(brief(50, 0)), CPU)


# --- beyond the length of training ---


def test_learned_positions_end() -> None:
    text = {"data": "copy:rows=300", "context": 8, "texts": 5, "kinds": ("learned", "rotary")}
    found = beyond.losses_beyond(width=16, layers=1, heads=2, updates=2, seed=0, device=CPU, **text)
    assert [(one.kind, len(one.by_position)) for one in found] == [("learned", 8), ("rotary", 32)]
    assert all((one.by_position > 0).all() for one in found)


def test_loss_by_position() -> None:
    model = tiny("transformer")
    ids = np.random.default_rng(0).integers(13, size=41).astype(np.uint16)
    found = beyond.loss_by_position(model, ids, 6, 3)
    rows = torch.from_numpy(np.stack([ids[first : first + 7] for first in (0, 17, 34)]).astype(np.int64))
    chances = model(rows[:, :-1]).log_softmax(-1)
    wanted = -chances.gather(-1, rows[:, 1:, None]).squeeze(-1).mean(0)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5)


# --- with and without attention ---


def test_scores_by_length() -> None:
    found = attention.by_length("none", [("ab", "ab"), ("abc", "abd"), ("ab", "b"), ("abc", "abcd"), ("abc", "")])
    assert found.lengths == [2, 3]
    assert found.exact == [0.5, 0.0]
    np.testing.assert_allclose(found.letters, [(1 + 0) / 2, (2 / 3 + 1 + 0) / 3])


def test_with_attention_and_without() -> None:
    found = attention.scores_by_length(width=16, updates=1, seed=0, device=CPU, rows=60, longest=4)
    assert [one.kind for one in found] == ["additive", "none"]
    for one in found:
        assert set(one.lengths) <= {2, 3, 4}
        assert all(0 <= score <= 1 for score in (*one.letters, *one.exact))


# --- all of it ---


def test_every_part_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "DISTANCES", (1, 2))
    monkeypatch.setattr(beyond, "DATA", "copy:rows=400")
    monkeypatch.setattr(attention, "ROWS", 80)
    monkeypatch.setattr(parts, "FURTHEST", 32)
    found = scaling(models=["lstm", "transformer"], lengths=(4, 8), width=16, layers=1, minutes=0.03, seed=3)
    assert list(found.parts) == list(PARTS)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["settings"]["seed"] == 3
    assert plain["recall"]["updates"] == 3
    assert set(plain["recall"]["accuracy"]) == set(plain["gradient"]["gradient"]) == {"lstm", "transformer"}
    assert set(plain["beyond"]["loss"]) == set(beyond.KINDS.values())
    assert set(plain["attention"]["letters"]) == set(attention.KINDS.values())
    assert len(plain["findings"]) == 5
    view = found.view()
    assert view.note == found.how
    assert len(view.panels) > 12
    found.save(tmp_path / "growth.json")
    assert json.loads((tmp_path / "growth.json").read_text()) == plain
    found.save(tmp_path / "growth.html")
    assert "Growth with length" in (tmp_path / "growth.html").read_text()
    assert "<iframe" in found._repr_html_()
