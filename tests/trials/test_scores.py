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
from glassformer.families.base import FAMILIES
from glassformer.tasks.base import Evaluation
from glassformer.trials.running.scoring import EXAMPLE_KEYS, WINDOW_KEYS
from helpers.simulated import judged

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
    primary = "accuracy" if task == CLASSIFICATION else ""
    return Evaluation({}, primary, False, records=[{**first, **changed}, *others])


@pytest.mark.parametrize("task", RECORDS)
def test_every_task_has_scores(task: str) -> None:
    found = judged(evaluation(task), FAMILIES[task])
    np.testing.assert_allclose(found.scores, SCORES[task])
    assert found.weights == ([4, 0] if task in PACKED else None)


@pytest.mark.parametrize("task", RECORDS)
def test_the_digest_is_of_the_examples_and_not_of_what_was_said(task: str) -> None:
    def digest(records: Evaluation) -> str:
        return judged(records, FAMILIES[task]).examples

    plain = digest(evaluation(task))
    first = RECORDS[task][0]
    said = {"predicted": "z", "loss": 9.0, "output": "x", "error": 1.0}
    assert digest(evaluation(task, **{key: said[key] for key in said if key in first})) == plain
    for key in (*EXAMPLE_KEYS, *WINDOW_KEYS):
        if key in first:
            other = ["q"] if key == "labels" else "q" if key != "tokens" else 3
            assert digest(evaluation(task, **{key: other})) != plain
    if len(RECORDS[task]) > 1:
        assert digest(Evaluation({}, "", False, records=RECORDS[task][::-1])) != plain
