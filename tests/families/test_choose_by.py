"""The metric by which a classifier's best weights are chosen."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

import glassformer as gf
from glassformer.config.errors import Misuse, SettingError
from glassformer.tasks.answers import Classes
from glassformer.tasks.prediction import Classification, average_precision
from glassformer.trials.running.candidates import parse_varied
from glassformer.trials.running.scoring import macro_f1_scores
from glassformer.trials.tuning.space import read_space
from helpers.inputs import Answered
from helpers.tables import opinions, write_table

QUICK: dict[str, Any] = {"model": "bag", "steps": 4, "draft": True}
METRICS = ("accuracy", "macro_f1", "average_precision", "loss")


def rare(count: int = 60) -> list[tuple[str, str]]:
    """A table whose class 'fraud' is every twelfth row."""
    return [
        (f"win cash {number}", "fraud") if number % 12 == 0 else (f"see you {number}", "plain")
        for number in range(count)
    ]


def test_average_precision_is_scikit_learns() -> None:
    chance = np.random.default_rng(5)
    for _ in range(50):
        true = chance.random(23) < 0.3
        true[chance.integers(23)] = True
        scores = chance.integers(0, 9, 23) / 10  # many are equal
        assert average_precision(true, scores) == pytest.approx(average_precision_score(true, scores))


def test_the_mean_of_the_scores_is_macro_f1() -> None:
    chance = np.random.default_rng(6)
    labels, predicted = chance.choice(list("aaaabc"), (2, 41)).tolist()
    expected = f1_score(labels, predicted, average="macro")
    assert np.mean(macro_f1_scores(labels, predicted)) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_weights_are_those_of_the_chosen_metric(metric: str) -> None:
    answers = Classes(("no", "yes"), "logistic", positive="yes")
    examples = Answered(answers.learned(["no"] * 9 + ["yes"]))
    task = Classification({"validation": examples}, answers, choose_by=metric)
    always_no = task.judge(examples, torch.tensor([[-1.0 - row / 10] for row in range(10)]))
    finds_yes = task.judge(examples, torch.tensor([[3.0]] * 2 + [[-1.0]] * 7 + [[4.0]]))
    assert (always_no.primary, always_no.lower_is_better) == (metric, metric == "loss")
    better = {"accuracy": always_no, "loss": always_no, "macro_f1": finds_yes, "average_precision": finds_yes}[metric]
    assert min((always_no, finds_yes), key=lambda evaluation: evaluation.score) is better


def test_a_rare_class_is_named_with_the_setting(tmp_path: Path) -> None:
    said: list[str] = []
    settings = {**QUICK, "overwrite": True, "out": tmp_path / "run", "listen": lambda event: said.append(str(event))}
    gf.train(rare(), **settings)
    (line,) = [line for line in said if "choose_by" in line]
    assert "class 'fraud' has 9.3% of the training rows" in line
    assert "--training.choose_by macro_f1" in line
    said.clear()
    gf.train(rare(), **settings, **{"training.choose_by": "macro_f1"})
    gf.train(opinions(60, classes=3), **settings)
    assert not [line for line in said if "choose_by" in line]


def test_a_run_keeps_the_class_of_its_average_precision(tmp_path: Path) -> None:
    run = gf.train(rare(120), out=tmp_path / "run", **{**QUICK, "training.choose_by": "average_precision"})
    card = json.loads((tmp_path / "run" / "glassformer.json").read_text())
    assert card["positive"] == "fraud"
    given = gf.evaluate(run, [("win cash", "fraud"), ("see you", "plain")])
    assert (given.primary, "average_precision" in given.metrics) == ("average_precision", True)
    without = gf.evaluate(run, [("see you", "plain"), ("see us", "plain")])
    assert (without.primary, without.details["average_precision"]) == ("accuracy", None)
    with pytest.raises(SettingError, match=r"training\.choose_by cannot change when a run goes on"):
        gf.train(out=tmp_path / "run", resume=True, **{"training.choose_by": "loss"})


def test_refusals(tmp_path: Path) -> None:
    precision = {**QUICK, "out": tmp_path / "run", "training.choose_by": "average_precision"}
    with pytest.raises(SettingError, match="average_precision is for two classes, but there are 3"):
        gf.train(opinions(60, classes=3), **precision)
    table = write_table(tmp_path / "test.csv", [("see you", "plain")] * 2)
    with pytest.raises(SettingError, match="needs a validation row of class 'fraud'"):
        gf.train(rare(), validation=str(table), **precision)
    with pytest.raises(SettingError, match=r"training\.choose_by does nothing while task is regression"):
        gf.train([(f"text {number}", number / 7) for number in range(40)], **precision)
    with pytest.raises(SettingError, match="it decides which trial is the best, so it cannot be searched"):
        read_space({"training.choose_by": ["loss", "accuracy"]}, "space")
    with pytest.raises(Misuse, match=r"--vary training\.choose_by: that is what --training\.choose_by"):
        parse_varied("training.choose_by=loss,accuracy")
    assert not (tmp_path / "run").exists()
