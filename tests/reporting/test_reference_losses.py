"""Losses to compare a model's with, counted in another way; and the training loss without label smoothing."""

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from glassformer.families.build import prepare_again
from glassformer.families.load import load
from glassformer.rendering.curves import curves
from glassformer.rendering.panels import Lines
from glassformer.reporting.reference_losses import reference_losses
from glassformer.runs.run import Run
from glassformer.verbs.train import train
from helpers.running import DATA, labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating


def entropy(answers: list[int]) -> float:
    return -sum(count / len(answers) * math.log(count / len(answers)) for count in Counter(answers).values())


def test_of_a_language_model(tmp_path: Path) -> None:
    run = Run.open(train(DATA, out=tmp_path / "run", **tiny(training__steps=1)).run)
    prepared = prepare_again(run)
    assert prepared.tokenizer is not None
    start = prepared.tokenizer.start
    asked = [token for token in prepared.task.parts["train"].ids.tolist() if token != start]
    size = prepared.tokenizer.vocab_size - (start is not None)
    (uniform, even), (unigram, counted) = reference_losses(prepared)
    assert (even, counted) == pytest.approx((math.log(size), entropy(asked)))
    assert uniform == f"guessing uniformly: ln {size} = {math.log(size):.3g}"
    assert unigram == f"unigram entropy {counted:.3g}"
    loss = curves(run.read_metrics(), unit="nats", levels=[*reference_losses(prepared), ("far above", 99.0)])[0]
    assert isinstance(loss, Lines)
    assert "far above" not in dict(loss.levels)


def test_of_classes_and_of_numbers(tmp_path: Path) -> None:
    rows = [*opinions(60, classes=3), *[(f"{text} indeed", "0") for text, _ in opinions(40)]]
    table = write_table(tmp_path / "a.csv", rows)
    prepared = prepare_again(Run.open(train(table, out=tmp_path / "run", **labelled("rnn", training__steps=1)).run))
    answers = prepared.task.parts["train"].answers.tolist()
    classes = len(set(answers))
    found = reference_losses(prepared)
    assert [height for _, height in found] == pytest.approx([math.log(classes), entropy(answers)])
    numbers = write_table(tmp_path / "b.csv", amounts(30), ("text", "rating"))
    assert reference_losses(prepare_again(Run.open(train(numbers, out=tmp_path / "b", model="bag", steps=1).run))) == []


@pytest.mark.slow
def test_of_a_translator(tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv", mirrored(30), ("source", "target"))
    prepared = prepare_again(Run.open(train(table, out=tmp_path / "run", **translating(training__steps=1)).run))
    train_part, tokenizer = prepared.task.parts["train"], prepared.target_tokenizer or prepared.tokenizer
    assert tokenizer is not None
    asked = [token for row in range(len(train_part)) for token in train_part.target.of(row)[1:]]
    (_, even), (_, counted) = reference_losses(prepared)
    assert (even, counted) == pytest.approx((math.log(tokenizer.vocab_size - 1), entropy(asked)))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_with_label_smoothing_the_plain_training_loss_is_logged_too(tmp_path: Path, smoothing: float) -> None:
    table = write_table(tmp_path / "a.csv", opinions(60, classes=3))
    settings = labelled("rnn", training__steps=3, training__label_smoothing=smoothing, training__keep="last")
    run = Run.open(train(table, out=tmp_path / "run", **settings).run)
    last = [line for line in run.read_metrics() if line["event"] == "validation"][-1]
    if not smoothing:
        assert "training_loss" not in last
        return
    model, task = load(run, "cpu").model, prepare_again(run).task
    steps = max(1, math.floor(task.steps_per_epoch))
    batches = [task.batch(step) for step in sorted({steps * eighth // 8 for eighth in range(8)})]
    with torch.no_grad():
        total = sum(
            float(cross_entropy(model(tokens, mask), answers, reduction="sum"))
            for tokens, mask, answers in (batch.tensors(torch.device("cpu")) for batch in batches)
        )
    assert last["training_loss"] == pytest.approx(total / sum(batch.count for batch in batches), rel=1e-5)
    loss = curves(run.read_metrics(), unit="nats", smoothing=smoothing)[0]
    assert isinstance(loss, Lines)
    assert loss.series[-1].name == "training, without label smoothing and dropout"
    assert loss.series[-1].y[-1] == last["training_loss"]
