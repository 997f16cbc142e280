"""From labels to what a model learns, and back."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config.errors import RunError, SettingError
from glassformer.tasks.answers import Classes, Scale, read_answers
from helpers.support import numbers, same


@pytest.mark.parametrize(
    ("names", "asked", "loss", "outputs"),
    [
        ("ab", None, "logistic", 1),
        ("ab", "logistic", "logistic", 1),
        ("ab", "softmax", "softmax", 2),
        ("abc", None, "softmax", 3),
        ("abcde", "softmax", "softmax", 5),
    ],
)
def test_the_loss_of_classes(names: str, asked: str | None, loss: str, outputs: int) -> None:
    classes = Classes.of(names, asked)
    assert (classes.names, classes.loss, classes.outputs) == (tuple(names), loss, outputs)


def test_losses_that_do_not_fit() -> None:
    with pytest.raises(SettingError, match="logistic is for two classes, and there are 3; use softmax"):
        Classes.of("abc", "logistic")
    with pytest.raises(SettingError, match="squared is for numbers: --task regression"):
        Classes.of("ab", "squared")
    for loss in ("softmax", "logistic"):
        with pytest.raises(SettingError, match=f"{loss} is for classes: --task classification"):
            Scale.of(np.arange(3.0), loss)
    assert Scale.of(np.arange(3.0), "squared") == Scale.of(np.arange(3.0), None)


def test_labels_there_and_back() -> None:
    classes = Classes.of(["no", "yes", "so-so"], None)
    learned = classes.learned(["so-so", "no", "no", "yes"])
    assert learned.tolist() == [2, 0, 0, 1]
    assert learned.dtype == np.int64
    assert classes.words(torch.from_numpy(learned)) == ["so-so", "no", "no", "yes"]


def test_probabilities() -> None:
    scores = numbers(7, 3)
    found = Classes.of("abc", None).probabilities(scores)
    same(found, np.exp(scores.numpy()) / np.exp(scores.numpy()).sum(1, keepdims=True))
    one = Classes.of("ab", None).probabilities(scores[:, :1])
    same(one[:, 1], 1 / (1 + np.exp(-scores[:, 0].numpy())))
    same(one.sum(1), torch.ones(7))


def test_one_output_is_the_difference_of_two() -> None:
    two = numbers(7, 2)
    one = two[:, 1:] - two[:, :1]
    same(Classes.of("ab", "logistic").probabilities(one), Classes.of("ab", "softmax").probabilities(two))


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_numbers_there_and_back(values: list[float]) -> None:
    scale = Scale.of(np.array(values), None)
    learned = scale.learned([repr(value) for value in values])
    assert learned.dtype == np.float32
    back = scale.values(torch.from_numpy(learned)[:, None])
    assert back.tolist() == pytest.approx(values, abs=1e-5 * (max(values) - min(values)) + 1e-9, rel=1e-9)


def test_numbers_are_learned_in_spreads_above_the_mean() -> None:
    values = np.array([3.0, 5.0, 11.0, 13.0])
    scale = Scale.of(values, None)
    learned = scale.learned(["3", "5", "11", "13"])
    assert (scale.mean, scale.spread) == (8.0, pytest.approx(np.std(values)))
    assert learned.mean() == pytest.approx(0, abs=1e-6)
    assert learned.std() == pytest.approx(1)
    assert scale.learned(["8", "1e1"]).tolist() == pytest.approx([0, 2 / np.std(values)])
    assert scale.words(torch.from_numpy(learned)) == ["3", "5", "11", "13"]
    assert scale.outputs == 1


def test_numbers_that_are_all_the_same() -> None:
    scale = Scale.of(np.array([4.0, 4.0]), None)
    assert scale.learned(["4", "6"]).tolist() == [0, 2]
    assert scale.values(torch.tensor([[0.0]])).tolist() == [4]


@pytest.mark.parametrize("answers", [Classes.of("ab", None), Classes.of("abc", None), Scale(1.5, 0.25)], ids=str)
def test_what_was_written_is_read(answers: Classes | Scale) -> None:
    assert read_answers(json.loads(json.dumps(answers.to_json())), None, "a card") == answers


def test_the_loss_that_was_asked_for_is_read_too() -> None:
    assert read_answers(["a", "b"], "softmax", "a card").outputs == 2


@pytest.mark.parametrize(
    "value",
    [None, [], "ab", ["a", 1], {}, {"mean": 1.0}, {"spread": 1.0}, {"mean": "1", "spread": 1.0}, {"mean": None},
     {"mean": float("nan"), "spread": 1.0}, {"mean": 1.0, "spread": float("inf")}, {"mean": [1], "spread": 1}, 5],
    ids=str,
)  # fmt: skip
def test_damaged(value: Any) -> None:
    with pytest.raises(RunError, match=r"^run/glassformer.json is damaged: its labels are neither names of classes"):
        read_answers(value, None, "run/glassformer.json")
