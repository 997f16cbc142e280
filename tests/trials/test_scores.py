"""A score for each example, and a digest that tells whether two models were judged on the same ones."""

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from glassformer.config.presets import (
    CLASSIFICATION,
    LANGUAGE_MODEL,
    MASKED,
    MULTILABEL,
    PACKED,
    REGRESSION,
    TASKS,
    TRANSLATION,
    VECTORS,
)
from glassformer.tasks.base import Evaluation
from glassformer.trials.running.scores import KNOWN_BY, example_scores

RECORDS = {
    CLASSIFICATION: [
        {"text": "a", "label": "x", "predicted": "x", "loss": 0.1},
        {"text": "b", "label": "y", "predicted": "x", "loss": 2.0},
    ],
    MULTILABEL: [
        {"text": "a", "labels": ["x", "y"], "predicted": ["y", "z", "w"]},
        {"text": "b", "labels": [], "predicted": []},
        {"text": "c", "labels": [], "predicted": ["x"]},
    ],
    REGRESSION: [{"example": "a", "number": 3.0, "predicted": 5.0, "error": 2.0}],
    LANGUAGE_MODEL: [
        {"start": 1, "tokens": 4, "loss": 6.0, "covered": 4},
        {"start": 5, "tokens": 0, "loss": 0.0, "covered": 1},
    ],
    MASKED: [
        {"start": 1, "tokens": 4, "loss": 6.0, "covered": 4},
        {"start": 5, "tokens": 0, "loss": 0.0, "covered": 1},
    ],
    TRANSLATION: [{"source": "eins", "target": "the first", "output": "the fist", "exact": False}],
}
SCORES = {
    CLASSIFICATION: [1.0, 0.0],
    MULTILABEL: [2 / 5, 1.0, 0.0],
    REGRESSION: [-4.0],
    LANGUAGE_MODEL: [-1.5, 0.0],
    MASKED: [-1.5, 0.0],
    TRANSLATION: [CHRF().sentence_score("the fist", ["the first"]).score],
}


def test_every_task_that_is_learned_is_here() -> None:
    assert set(RECORDS) == set(SCORES) == set(TASKS) - {VECTORS}


def evaluation(task: str, **changed: object) -> Evaluation:
    first, *others = RECORDS[task]
    return Evaluation({}, "", False, records=[{**first, **changed}, *others])


@pytest.mark.parametrize("task", RECORDS)
def test_every_task_has_scores(task: str) -> None:
    scores, weights, _ = example_scores(evaluation(task), task)
    np.testing.assert_allclose(scores, SCORES[task])
    assert (weights is not None) == (task in PACKED)
    if weights is not None:
        np.testing.assert_array_equal(weights, [4, 0])


@pytest.mark.parametrize("task", RECORDS)
def test_the_digest_is_of_the_examples_and_not_of_what_was_said(task: str) -> None:
    plain = example_scores(evaluation(task), task)[2]
    said = {"predicted": "z", "loss": 9.0, "output": "x", "error": 1.0}
    assert (
        example_scores(evaluation(task, **{key: said[key] for key in said if key in RECORDS[task][0]}), task)[2]
        == plain
    )
    for key in KNOWN_BY[task]:
        if key in RECORDS[task][0]:
            other = evaluation(task, **{key: ["q"] if key == "labels" else "q" if key != "tokens" else 3})
            assert example_scores(other, task)[2] != plain
    if len(RECORDS[task]) > 1:
        turned = Evaluation({}, "", False, records=RECORDS[task][::-1])
        assert example_scores(turned, task)[2] != plain
