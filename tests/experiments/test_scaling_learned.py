"""What is learned over longer and longer texts: each part by what it must show."""

import os
import signal

import numpy as np
import pytest
import torch

from glassformer.config.resolve import resolve
from glassformer.data.datasets.generated import recall_rows
from glassformer.experiments import associative_recall, variants
from glassformer.experiments.growth import Curve
from glassformer.experiments.models import brief_training, same_size_models, train_briefly
from glassformer.experiments.request import ScalingRequest
from glassformer.experiments.variants import attention_section
from glassformer.models.build import build_language_model
from helpers.scaled import tiny

CPU = torch.device("cpu")


# --- recall ---


def test_the_last_digit_is_asked_for() -> None:
    task = associative_recall.AssociativeRecall([1, 3], seed=5, rows=30, held_out=4, batch_size=6)
    rows = list(recall_rows(34, 5, 3))
    written = ["".join(associative_recall.SIGNS[sign] for sign in row) for row in task.asked[3].tolist()]
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
    assert all(associative_recall.SIGNS[answer].isdigit() for answer in answers.tolist())


def test_losses_and_accuracies_of_the_answer_alone() -> None:
    task = associative_recall.AssociativeRecall([1, 3], seed=5, rows=30, held_out=4, batch_size=6)
    settings = same_size_models(["rnn"], width=16, layers=1, vocab=len(associative_recall.SIGNS), context=64)["rnn"]
    model = build_language_model(settings, vocab=len(associative_recall.SIGNS), seed=0)
    inputs, answers = task.batch(1).tensors(CPU)
    scores = model(inputs)[:, -1]
    wanted = -scores.log_softmax(-1)[torch.arange(6), answers].sum()
    torch.testing.assert_close(task.loss(model, inputs, answers), wanted)
    right = [
        float((model(task.asked[k][:, :-1])[:, -1].argmax(-1) == task.asked[k][:, -1]).float().mean()) for k in (1, 3)
    ]
    assert task.accuracies(model) == right
    assert task.evaluate(model, "validation").metrics["accuracy"] == sum(right) / 2


@pytest.mark.slow
def test_what_is_near_is_learned() -> None:
    task = associative_recall.AssociativeRecall([0], seed=0, rows=200, held_out=60)
    vocab = len(associative_recall.SIGNS)
    model = build_language_model(
        same_size_models(["transformer"], width=16, layers=1, vocab=vocab, context=8)["transformer"],
        vocab=vocab,
        seed=0,
    )
    train_briefly(model, task, resolve({}, {**brief_training(80, 0), "lr": 0.01}).training, CPU)
    assert not model.training
    assert task.accuracies(model)[0] > 0.8


def test_ctrl_c_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    task = associative_recall.AssociativeRecall([0], seed=0, rows=20, held_out=6)
    model = build_language_model(
        same_size_models(["rnn"], width=8, layers=1, vocab=37, context=8)["rnn"], vocab=37, seed=0
    )
    batch = task.batch

    def interrupted(step: int) -> associative_recall.Questions:
        os.kill(os.getpid(), signal.SIGINT)
        return batch(step)

    monkeypatch.setattr(task, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_briefly(model, task, resolve({}, brief_training(50, 0)).training, CPU)


# --- beyond the length of training ---


def test_learned_positions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"DATA": "copy:rows=300", "CONTEXT": 8, "TEXTS": 5, "POSITION_UPDATES": 2}
    for name, value in {**small, "POSITIONS": {"learned": "learned", "rotary": "rotary"}}.items():
        monkeypatch.setattr(variants, name, value)
    found = variants.beyond_part(ScalingRequest(width=16, layers=1), CPU).numbers["loss"]
    assert {kind: len(losses) for kind, losses in found.items()} == {"learned": 8, "rotary": 32}
    assert all(min(losses) > 0 for losses in found.values())


def test_loss_by_position() -> None:
    model = tiny("transformer")
    ids = np.random.default_rng(0).integers(13, size=41).astype(np.uint16)
    found = variants.loss_by_position(model, ids, 6, 3)
    rows = torch.from_numpy(np.stack([ids[first : first + 7] for first in (0, 17, 34)]).astype(np.int64))
    chances = model(rows[:, :-1]).log_softmax(-1)
    wanted = -chances.gather(-1, rows[:, 1:, None]).squeeze(-1).mean(0)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5)


def test_that_a_text_starts_is_not_asked_for() -> None:
    model = tiny("transformer")
    ids = np.random.default_rng(1).integers(1, 13, size=41).astype(np.uint16)
    ids[[3, 20, 36]] = 0  # of the first stretch the third answer, of the second too, of the last the second
    found = variants.loss_by_position(model, ids, 6, 3, start=0)
    rows = torch.from_numpy(np.stack([ids[first : first + 7] for first in (0, 17, 34)]).astype(np.int64))
    losses = -model(rows[:, :-1]).log_softmax(-1).gather(-1, rows[:, 1:, None]).squeeze(-1).detach().numpy()
    wanted = [losses[rows[:, at + 1] != 0, at].mean() for at in range(6)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not np.allclose(found[1:3], losses.mean(0)[1:3])


# --- with and without attention ---


def test_scores_by_length() -> None:
    letters, exact = variants.by_length([("ab", "ab"), ("abc", "abd"), ("ab", "b"), ("abc", "abcd"), ("abc", "")])
    assert letters.x == exact.x == [2, 3]
    assert exact.y == [0.5, 0.0]
    np.testing.assert_allclose(letters.y, [(1 + 0) / 2, (2 / 3 + 1 + 0) / 3])


def test_with_attention_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ATTENTION_UPDATES": 1, "ROWS": 60, "LONGEST": 4}.items():
        monkeypatch.setattr(variants, name, value)
    section = variants.attention_part(ScalingRequest(width=16, minutes=0.5), CPU)
    assert "Undertrained: with attention " in section.finding
    assert section.finding.endswith("for the baseline. Use --minutes 3 or more before you compare them.")
    numbers = section.numbers
    assert 1 / 26 < numbers["baseline"] < 0.5
    assert f"letter gets {numbers['baseline']:.2f}" in section.finding
    assert list(numbers["letters"]) == list(numbers["exact"]) == ["with attention", "without attention"]
    for curve in (*numbers["letters"].values(), *numbers["exact"].values()):
        assert set(curve["x"]) <= {2, 3, 4}
        assert all(0 <= score <= 1 for score in curve["y"])


def test_only_models_near_the_baseline_are_undertrained() -> None:
    assert variants.most_frequent_letter(["ab", "cbb"]) == 3 / 5
    good, poor = Curve([2, 4], [0.9, 0.5]), Curve([2, 4], [0.06, 0.04])
    finding = attention_section(
        {"with attention": good, "without attention": poor}, {"with attention": good, "without attention": poor},
        updates=7, baseline=0.04, minutes=4,
    ).finding  # fmt: skip
    assert "Undertrained: without attention 0.05 (mean over all lengths) after 7 updates, against 0.04" in finding
    assert "Use --minutes 8 or more" in finding
    both = {"with attention": good, "without attention": good}
    assert "Undertrained" not in attention_section(both, both, updates=7, baseline=0.04, minutes=4).finding
