"""Losses against torch, metrics and class weights against scikit-learn."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as theirs
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn

from glassformer.config.errors import SettingError
from glassformer.data.features.texts import Examples
from glassformer.tasks.answers import Classes
from glassformer.tasks.prediction import Classification, confusion_matrix, macro_f1, per_class, weights_of
from helpers.support import numbers, same
from helpers.tables import examples_of_lengths

NAMES = ("bad", "good", "so-so", "odd")


def task_of(answers: list[int], classes: int = 3, loss: str | None = None, **more: Any) -> Classification:
    examples = examples_of_lengths([3] * len(answers), answers)
    return Classification({"train": examples, "validation": examples}, Classes.of(NAMES[:classes], loss), **more)


class Scores(nn.Module):
    """Gives these scores, one row after the other: texts of one length keep their order."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.scores


# --- the loss ---


def test_softmax_loss_is_torchs() -> None:
    answers, scores = torch.tensor([0, 2, 1, 1, 0]), numbers(5, 3)
    for smoothing in (0.0, 0.3):
        task = task_of(answers.tolist(), smoothing=smoothing)
        expected = F.cross_entropy(scores, answers, reduction="none", label_smoothing=smoothing)
        same(task.losses(scores, answers), expected)


def test_softmax_loss_with_weights_is_torchs() -> None:
    answers, scores = torch.tensor([0, 2, 1, 1, 0]), numbers(5, 3)
    task = task_of(answers.tolist(), class_weights="bad=2,so-so=0.5")
    weights = torch.tensor([2, 1, 0.5], dtype=torch.double)
    same(task.losses(scores, answers), F.cross_entropy(scores, answers, weight=weights, reduction="none"), 1e-6)
    smooth = task_of(answers.tolist(), class_weights="bad=2,so-so=0.5", smoothing=0.2)
    plain = F.cross_entropy(scores, answers, reduction="none", label_smoothing=0.2)
    same(smooth.losses(scores, answers), plain * weights[answers], 1e-6)


def test_logistic_loss_is_torchs() -> None:
    answers, scores = torch.tensor([0, 1, 1, 0, 1]), numbers(5, 1)
    plain = F.binary_cross_entropy_with_logits(scores[:, 0], answers.double(), reduction="none")
    same(task_of(answers.tolist(), 2).losses(scores, answers), plain, 1e-6)
    weighted = task_of(answers.tolist(), 2, class_weights="good=3").losses(scores, answers)
    same(weighted, plain * torch.tensor([1, 3, 3, 1, 3]), 1e-6)


@pytest.mark.parametrize("more", [{}, {"smoothing": 0.2}, {"class_weights": "good=3"}], ids=str)
def test_of_two_classes_both_losses_are_the_same_function_of_the_difference(more: dict[str, Any]) -> None:
    answers, two = torch.tensor([0, 1, 1, 0, 1]), numbers(5, 2)
    softmax = task_of(answers.tolist(), 2, "softmax", **more).losses(two, answers)
    same(task_of(answers.tolist(), 2, "logistic", **more).losses(two[:, 1:] - two[:, :1], answers), softmax, 1e-6)


def test_the_loss_of_a_batch_is_their_sum() -> None:
    task = task_of([0, 1, 2, 1, 0], batch_size=5)
    scores = numbers(5, 3, dtype=torch.float32)
    ids, mask, answers = task.batch(0).tensors(torch.device("cpu"))
    same(task.loss(Scores(scores), ids, mask, answers), F.cross_entropy(scores, answers, reduction="sum"), 1e-5)


# --- metrics ---

pairs = st.integers(2, 6).flatmap(
    lambda classes: st.tuples(
        st.just(classes),
        st.lists(st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1)), min_size=1, max_size=40),
    )
)


@settings(deadline=None)
@given(pairs)
def test_metrics_are_scikit_learns(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    """Classes that never occur, or are never said, among them."""
    classes, rows = drawn
    true, said = (np.array(column) for column in zip(*rows, strict=True))
    confusion = confusion_matrix(true, said, classes)
    assert confusion.tolist() == theirs.confusion_matrix(true, said, labels=range(classes)).tolist()
    expected = theirs.precision_recall_fscore_support(true, said, labels=range(classes), zero_division=0)
    found = [[row[key] for row in per_class(confusion, "text")] for key in ("precision", "recall", "f1", "texts")]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-12)
    assert macro_f1(confusion) == pytest.approx(theirs.f1_score(true, said, average="macro", zero_division=0))


def judged(loss: str | None = None) -> tuple[Any, Tensor, Tensor]:
    answers = [0, 1, 1, 0, 2, 2, 0]
    scores = numbers(7, 3, seed=3, dtype=torch.float32)
    task = task_of(answers, 3, loss, smoothing=0.2, class_weights="bad=7")
    return task.evaluate(Scores(scores), "validation"), scores, torch.tensor(answers)


def test_an_evaluation() -> None:
    evaluation, scores, answers = judged()
    said = scores.argmax(1)
    assert evaluation.metrics == {
        "accuracy": pytest.approx(theirs.accuracy_score(answers, said)),
        "macro_f1": pytest.approx(theirs.f1_score(answers, said, average="macro")),
        "loss": pytest.approx(F.cross_entropy(scores, answers).item(), rel=1e-6),  # plain, however it was learned
        "majority": 3 / 7,
        "texts": 7,
    }
    assert 0 < evaluation.metrics["accuracy"] < 1
    assert evaluation.primary == "accuracy"
    assert evaluation.score == pytest.approx(-evaluation.metrics["accuracy"])  # lower is better, whatever the metric
    assert evaluation.score > -evaluation.metrics["accuracy"]  # of equal ones, the smaller loss decides
    assert evaluation.details["confusion"] == {
        "labels": ["bad", "good", "so-so"],
        "matrix": theirs.confusion_matrix(answers, said).tolist(),
    }
    assert list(evaluation.details["per_class"]) == ["bad", "good", "so-so"]
    assert evaluation.details["per_class"]["bad"]["texts"] == 3
    for name in ("accuracy", "macro_f1", "loss"):
        assert f"{evaluation.metrics[name]:.4f}" in evaluation.summary


def test_records() -> None:
    evaluation, scores, answers = judged()
    assert len(evaluation.records) == 7
    probabilities = scores.softmax(1)
    for row, record in enumerate(evaluation.records):
        assert record == {
            "text": f"text {row}",
            "label": NAMES[answers[row]],
            "predicted": NAMES[scores[row].argmax()],
            "probability": pytest.approx(probabilities[row].max().item(), rel=1e-6),
            "loss": pytest.approx(-probabilities[row, answers[row]].log().item(), rel=1e-5),
        }


def test_one_output_is_judged_as_two() -> None:
    answers, scores = [0, 1, 1, 0], torch.tensor([[-2.0], [3.0], [-0.5], [0.25]])
    evaluation = task_of(answers, 2).evaluate(Scores(scores), "validation")
    assert [record["predicted"] for record in evaluation.records] == ["bad", "good", "bad", "good"]
    assert evaluation.metrics["accuracy"] == 0.5
    expected = F.binary_cross_entropy_with_logits(scores[:, 0], torch.tensor(answers).float())
    assert evaluation.metrics["loss"] == pytest.approx(expected.item())


def test_without_a_training_part_there_is_only_evaluation() -> None:
    examples: Examples = examples_of_lengths([2, 2], [0, 1])
    task = Classification({"given": examples}, Classes.of("ab", None))
    assert task.evaluate(Scores(torch.tensor([[-1.0], [1.0]])), "given").metrics["accuracy"] == 1


# --- weights of classes ---


def test_balanced_is_scikit_learns() -> None:
    answers = np.array([0, 0, 0, 0, 0, 1, 2, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=answers)
    np.testing.assert_allclose(weights_of("balanced", NAMES[:3], answers), expected, rtol=1e-6)


def test_weights_by_name() -> None:
    answers = np.array([0, 1, 2])
    assert weights_of("so-so=0.5,bad=3", NAMES[:3], answers).tolist() == [3, 1, 0.5]
    assert weights_of("a=b=2", ("a", "a=b"), answers).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bda=2", "unknown class in training.class_weights 'bda'; did you mean bad? (one of: bad, good, so-so)"),
        ("bad=2,odd=1", "unknown class in training.class_weights 'odd'"),
        ("bad", "training.class_weights 'bad' is neither balanced nor like bad=5"),
        ("bad=2,,good=1", "'' is neither balanced nor like bad=5"),
        ("bad=x", "'bad=x' is neither balanced nor like bad=5"),
        ("bad=-1", "'bad=-1' is neither"),
        ("bad=nan", "'bad=nan' is neither"),
        ("bad=inf", "'bad=inf' is neither"),
    ],
)
def test_weights_that_cannot_be(spec: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        weights_of(spec, NAMES[:3], np.array([0, 1, 2]))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
