"""Rows that `evaluate` cannot score, and labels that the model does not know."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

import glassformer as gf
from glassformer.tasks.answers import Classes, Labels
from glassformer.tasks.prediction import Classification, Multilabel
from helpers.inputs import Answered
from helpers.running import Command, one_line
from helpers.tables import write_table

ROWS = [("a good day", "good"), ("what a text", "unheard"), ("", "bad"), ("a bad day", "")]


@pytest.fixture
def table(files: Path) -> str:
    write_table(files / "odd.csv", ROWS)
    return "odd.csv"


def test_more_than_a_tenth_of_skipped_rows_is_an_error(table: str, command: Command, runs: Path) -> None:
    code, out, err = command("evaluate", runs / "two", table, "--json", "-q")
    assert (code, out) == (2, "")
    assert one_line(err).endswith(
        "odd.csv: 2 of 4 rows cannot be used (1 without a text, line 4; 1 without a label, line 5): "
        "fix them, or pass --bad-rows skip"
    )


def test_unknown_labels_are_wrong_and_skipped_rows_are_counted(table: str, command: Command, runs: Path) -> None:
    code, out, _ = command("evaluate", runs / "two", table, "--bad-rows", "skip", "--json", "-q")
    found = json.loads(out)
    assert (code, found["texts"], found["known_labels"]) == (0, 2, 1)
    assert found["accuracy"] <= 0.5
    assert found["skipped"] == {"without a text": 1, "without a label": 1}
    assert found["unknown_labels"] == {"unheard": 1}
    assert found["confusion"]["labels"] == ["bad", "good", "unheard"]
    _, out, _ = command("evaluate", runs / "two", table, "--bad-rows", "skip", "-q")
    assert "skipped: 1 without a text, 1 without a label" in out
    assert "labels unknown to the model, counted as wrong: 'unheard' (1)" in out
    assert "(over 1 example with known labels)" in out


def test_errors_and_calibration_of_unknown_labels(table: str, files: Path, runs: Path) -> None:
    view = gf.errors(runs / "two", files / table, reading={"bad_rows": "skip"})
    assert "unheard" in json.dumps(view.to_dict())


def test_language_models_have_no_bad_rows(command: Command, runs: Path, files: Path) -> None:
    code, out, err = command("evaluate", runs / "writer", "good.txt", "--bad-rows", "skip")
    assert (code, out) == (2, "")
    assert "data.bad_rows does nothing while task is language-model" in one_line(err)


def test_metrics_with_unknown_labels_are_those_of_scikit_learn() -> None:
    true = ["a", "b", "x", "c", "y", "x", "a"]
    answers = Classes(("a", "b", "c"), "softmax").with_unknown(true)
    scores = torch.randn(len(true), 3, generator=torch.Generator().manual_seed(3))
    predicted = [answers.names[place] for place in scores.argmax(1).tolist()]
    examples = Answered(answers.learned(true))
    found = Classification({"given": examples}, answers).judge(examples, scores)
    assert found.metrics["accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert found.metrics["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    known = [row for row, label in enumerate(true) if label in answers.names]
    losses = torch.nn.functional.cross_entropy(
        scores[known], torch.tensor([answers.names.index(true[row]) for row in known])
    )
    assert found.metrics["loss"] == pytest.approx(losses.item(), rel=1e-6)
    assert [record["loss"] is None for record in found.records] == [row not in known for row in range(len(true))]
    assert found.details["unknown_labels"] == {"x": 2, "y": 1}


def test_multilabel_metrics_with_unknown_labels_are_those_of_scikit_learn() -> None:
    sets = [["a"], ["a", "x"], [], ["b", "y"], ["x"]]
    text = [json.dumps(labels) for labels in sets]
    answers = Labels(("a", "b")).with_unknown(text)
    scores = torch.tensor([[1.0, -1.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 3.0], [-1.0, -1.0]])
    examples = Answered(answers.learned(text))
    found = Multilabel({"given": examples}, answers).judge(examples, scores)
    true = np.array([[name in labels for name in ("a", "b", "x", "y")] for labels in sets])
    predicted = np.concatenate([scores.numpy() > 0, np.zeros((5, 2), bool)], 1)
    assert found.metrics["micro_f1"] == pytest.approx(f1_score(true, predicted, average="micro"))
    assert found.metrics["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))
    assert found.metrics["exact_match"] == pytest.approx(accuracy_score(true, predicted))
    assert found.records[1]["labels"] == ["a", "x"]
    assert found.details["known_labels"] == 3
    assert found.details["unknown_labels"] == {"x": 2, "y": 1}
