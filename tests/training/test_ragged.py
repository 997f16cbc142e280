"""Labelled texts in the loop: batches whose size nothing divides, in pieces, are the whole batch."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.config.resolve import resolve
from glassformer.models.build import build_predictor
from glassformer.tasks.answers import Classes, Scale
from glassformer.tasks.base import Task
from glassformer.tasks.prediction import Classification, Regression
from glassformer.training.events import Stepped, Validated
from helpers.fitting import Training, trained
from helpers.running import labelled
from helpers.support import numbers, randomise, same
from helpers.tables import examples_of_lengths

LENGTHS = [3, 11, 1, 7, 7, 2, 15, 5, 4, 13, 1, 8, 6, 12, 9, 3, 12, 2, 2, 10, 5]


def reader(encoder: str, outputs: int) -> nn.Module:
    settings = resolve({}, {**labelled(encoder), "task": "classification"}).model
    return randomise(build_predictor(settings, vocab=13, outputs=outputs))


def classification(count: int, classes: int = 3) -> Classification:
    examples = examples_of_lengths(LENGTHS[:count], [row % classes for row in range(count)])
    names = Classes.of("abc"[:classes], None)
    parts = {"train": examples, "validation": examples}
    return Classification(parts, names, batch_size=8, smoothing=0.1, class_weights="balanced")


def regression(count: int) -> Regression:
    examples = examples_of_lengths(LENGTHS[:count], numbers(count, dtype=torch.float32).tolist())
    return Regression({"train": examples, "validation": examples}, Scale(0.0, 1.0), batch_size=8)


TASKS: dict[str, tuple[Task, int]] = {
    "batches of 8, 8 and 5": (classification(21), 3),
    "batches of 8 and 1": (classification(9, 2), 1),
    "a batch of 3": (classification(3), 3),
    "numbers, batches of 8, 8 and 3": (regression(19), 1),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("accumulation_steps", [2, 4, 8])
@pytest.mark.parametrize("encoder", ["lstm", "transformer", "bag"])
@pytest.mark.parametrize("name", TASKS)
def test_in_pieces_is_the_whole(name: str, encoder: str, accumulation_steps: int) -> None:
    task, outputs = TASKS[name]
    start = reader(encoder, outputs)
    settings: dict[str, Any] = {"optimizer": "momentum", "lr": 0.1, "l2": 0.01, "steps": 6, "batch_size": 8}
    whole = trained(copy.deepcopy(start), task, **settings)
    pieces = trained(copy.deepcopy(start), task, accumulation_steps=accumulation_steps, **settings)
    for name, weight in whole.model.named_parameters():
        same(pieces.model.get_parameter(name), weight, 2e-5)
    moved = [(weight - start.get_parameter(name)).abs().max() for name, weight in whole.model.named_parameters()]
    assert max(moved) > 0.01
    losses = [[event.loss for event in training.told(Stepped)] for training in (whole, pieces)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_loss_of_a_step_is_the_mean_over_its_texts() -> None:
    task, outputs = TASKS["batches of 8, 8 and 5"]
    model = reader("lstm", outputs)
    training = trained(copy.deepcopy(model), task, lr=0.0, optimizer="sgd", weight_decay=0.0, steps=3, batch_size=8)
    for step, event in enumerate(training.told(Stepped)):
        batch = task.batch(step)
        with torch.no_grad():
            expected = task.loss(model, *batch.tensors(torch.device("cpu"))) / batch.size
        assert event.loss == pytest.approx(float(expected), rel=1e-5)
    read = [event.tokens for event in training.told(Stepped)]
    assert read[-1] == sum(LENGTHS)


def test_epochs_are_counted_in_batches() -> None:
    task, outputs = TASKS["batches of 8, 8 and 5"]
    for epochs, steps in ((1.0, 3), (2.0, 6), (0.5, 2)):
        assert Training(reader("bag", outputs), task, epochs=epochs, batch_size=8).run().step == steps


def test_the_best_weights_are_those_of_the_highest_accuracy_and_then_the_smallest_loss() -> None:
    task, outputs = TASKS["batches of 8, 8 and 5"]
    training = trained(
        reader("bag", outputs), task, optimizer="adamw", lr=0.05, steps=20, batch_size=8, validate_every=1
    )
    told = training.told(Validated)
    scores = [(event.evaluation.metrics["accuracy"], -event.evaluation.metrics["loss"]) for event in told]
    assert len({accuracy for accuracy, _ in scores}) > 2
    highest = scores.index(max(scores)) + 1
    assert training.kept.bests[-1][0] == highest
    assert [event.step for event in told if event.best][-1] == highest


def test_batches_of_ever_new_shapes_are_not_compiled_unasked() -> None:
    task, outputs = TASKS["a batch of 3"]
    assert not task.steady
    assert Training(reader("bag", outputs), task, steps=50_000, batch_size=8).trainer.context.loss.how == "off"
