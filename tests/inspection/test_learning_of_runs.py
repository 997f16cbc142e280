"""Watching runs learn: each moment is shown with the weights that it had."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.load import load
from glassformer.inspection.attention import attention_of
from glassformer.models.weights import put_weights, take_weights
from glassformer.rendering.panels import Frames, Guesses, Heads, Patches, Table, Words
from glassformer.rendering.view import View
from glassformer.runs.history import steps_of, weights_at
from glassformer.verbs.look import look
from glassformer.verbs.train import train
from helpers.kinds import write_bars
from helpers.running import DATA, labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating

KEEPING = {"training.keep_checkpoints": True, "training.lr": 0.05, "training.warmup": 0, "training.steps": 5}


@pytest.fixture(autouse=True)
def no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.reporting.papers.leave_report", lambda *args, **more: None)


def frames_of(view: View) -> Frames:
    (moments,) = view.panels
    assert isinstance(moments, Frames)
    return moments


def watched(loaded: Loaded, text: str) -> View:
    view = look(loaded, text, view="learning")
    assert isinstance(view, View)
    return view


def written(tmp_path: Path, **more: Any) -> Loaded:
    train(DATA, out=tmp_path / "run", **{**tiny(), **KEEPING, **more})
    return load(tmp_path / "run", "cpu")


@pytest.mark.slow
def test_a_language_model(tmp_path: Path) -> None:
    loaded = written(tmp_path)
    before = {name: value.clone() for name, value in take_weights(loaded.model).items()}
    view = watched(loaded, "abc")
    moments = frames_of(view)
    assert (view.title, moments.name) == ("run as it learned", "updates")
    assert moments.labels == ["0", "1", "2", "3", "4", "5"]
    for name, value in take_weights(loaded.model).items():
        assert torch.equal(value, before[name])  # it is a copy that learned again
    example = encode_example(loaded, "abc")
    for step, frame in zip(steps_of(loaded.run), moments.frames, strict=True):
        heads, guesses, said = frame
        put_weights(loaded.model, weights_at(loaded.run, step), "the test")
        assert isinstance(heads, Heads)
        assert isinstance(guesses, Guesses)
        assert isinstance(said, Words)
        assert heads.rows == heads.columns == example.tokens
        np.testing.assert_array_equal(heads.weights, attention_of(loaded.model, example.inputs)["self"])
        with torch.inference_mode():
            expected = loaded.model(*example.inputs)[0].softmax(-1)
        np.testing.assert_allclose(guesses.probabilities[-1, :, 0], expected.max(-1).values, atol=1e-6)
        assert guesses.tokens == example.tokens
        assert guesses.answers == example.answers
        assert said.text == "abc" + loaded.generate("abc", tokens=60, temperature=0.8, seed=0)  # type: ignore[union-attr]
    assert len({frame[2].text for frame in moments.frames if isinstance(frame[2], Words)}) > 1


@pytest.mark.slow
def test_a_classifier(tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv", opinions(60, classes=3))
    train(table, out=tmp_path / "run", **{**labelled("transformer"), **KEEPING})
    loaded = load(tmp_path / "run", "cpu")
    moments = frames_of(watched(loaded, "the soup was good"))
    assert [one.kind for one in moments.frames[0]] == ["heads", "table"]
    for step, frame in zip(steps_of(loaded.run), moments.frames, strict=True):
        put_weights(loaded.model, weights_at(loaded.run, step), "the test")
        said = loaded.predict("the soup was good")  # type: ignore[union-attr]
        assert isinstance(frame[1], Table)
        assert dict(frame[1].rows) == said.probabilities  # type: ignore[arg-type]


def test_a_regressor_without_attention(tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv", amounts(60), ("text", "rating"))
    train(table, out=tmp_path / "run", **{**labelled("gru"), **KEEPING})
    loaded = load(tmp_path / "run", "cpu")
    numbers = [frame[0].rows[0][0] for frame in frames_of(watched(loaded, "good")).frames]  # type: ignore[attr-defined]
    assert len(set(numbers)) == 6


@pytest.mark.slow
def test_a_translator_writes_the_same_at_every_moment(tmp_path: Path) -> None:
    """What it looks at is compared while it writes one and the same translation."""
    table = write_table(tmp_path / "a.csv", mirrored(60), ("source", "target"))
    train(table, out=tmp_path / "run", **{**translating(), **KEEPING})
    loaded = load(tmp_path / "run", "cpu")
    example = encode_example(loaded, "abcd")
    for frame in frames_of(watched(loaded, "abcd")).frames:
        source, target, cross = (one for one in frame if isinstance(one, Heads))
        assert source.rows == example.tokens
        assert target.rows == example.written
        assert (cross.rows, cross.columns) == (example.answers, example.tokens)
        assert isinstance(frame[-2], Guesses)
        assert frame[-2].tokens == example.written
        assert isinstance(frame[-1], Words)


def test_an_image(tmp_path: Path) -> None:
    bars = write_bars(tmp_path / "bars", 40)
    small = {"model.width": 12, "model.layers": 2, "model.heads": 2}
    train(bars, out=tmp_path / "run", model="transformer", **{**KEEPING, **small})
    loaded = load(tmp_path / "run", "cpu")
    frame = frames_of(watched(loaded, str(bars / "lying" / "0.png"))).frames[-1]
    assert isinstance(frame[0], Patches)
    assert frame[0].title == "Attention between patches"
    assert frame[0].grid == (3, 2)


class Own(nn.Module):
    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return (self.table(tokens) * mask.unsqueeze(-1)).sum(1)


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv", opinions(60, classes=3))
    train(table, out=tmp_path / "run", model=Own, **KEEPING)
    frames = frames_of(watched(load(tmp_path / "run", "cpu", model=Own), "good")).frames
    assert [[one.kind for one in frame] for frame in frames] == [["table"]] * 6


def test_a_run_without_history(tmp_path: Path) -> None:
    loaded = written(tmp_path, **{"training.keep_checkpoints": False})
    with pytest.raises(Misuse) as caught:
        watched(loaded, "abc")
    assert str(caught.value).endswith("run kept no moments of its training: train with --keep-checkpoints")
