"""One score for each example, so that two models can be compared on the very same examples."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.presets import (
    CLASSIFICATION,
    LANGUAGE_MODEL,
    MASKED,
    MULTILABEL,
    PACKED,
    REGRESSION,
    TRANSLATION,
)
from glassformer.tasks.base import Evaluation

Record = Mapping[str, Any]

KNOWN_BY = {
    CLASSIFICATION: ("text", "example", "label"),
    MULTILABEL: ("text", "example", "labels"),
    REGRESSION: ("text", "example", "number"),
    LANGUAGE_MODEL: ("start", "tokens", "covered"),
    MASKED: ("start", "tokens", "covered"),
    TRANSLATION: ("source", "target"),
}
"""What tells an example from others, of each task; never what a model said."""


def example_scores(evaluation: Evaluation, task: str) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, str]:
    """A score for each example, the higher the better; how much each counts (None: all alike); a digest of them all.

    The mean of the scores is the accuracy; of numbers, the mean squared error below zero, of which RMSE is the root; of
    a text, the loss per token below zero. chrF and F1 of a whole part are no means over its examples: there it is the
    mean chrF of the sentences, and the mean F1 of the examples' sets of labels.
    """
    records = evaluation.records
    score = _sentence_chrf() if task == TRANSLATION else SCORES[task]
    scores = np.array([score(record) for record in records], float)
    weights = np.array([record["tokens"] for record in records], float) if task in PACKED else None
    return scores, weights, digest_of(evaluation, task)


def digest_of(evaluation: Evaluation, task: str) -> str:
    """The same for the same examples in the same order."""
    keys = KNOWN_BY[task]
    hashed = hashlib.sha256()
    for record in evaluation.records:
        line = json.dumps([record[key] for key in keys if key in record], ensure_ascii=False)
        hashed.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _right(record: Record) -> float:
    return float(record["predicted"] == record["label"])


def _set_f1(record: Record) -> float:
    """Twice what is in both sets, divided by what is in each; two empty sets agree."""
    true, said = set(record["labels"]), set(record["predicted"])
    return 2 * len(true & said) / (len(true) + len(said)) if true or said else 1.0


def _squared_error(record: Record) -> float:
    return -(record["error"] ** 2)


def _per_token(record: Record) -> float:
    return -record["loss"] / record["tokens"] if record["tokens"] else 0.0


SCORES: dict[str, Callable[[Record], float]] = {
    CLASSIFICATION: _right,
    MULTILABEL: _set_f1,
    REGRESSION: _squared_error,
    LANGUAGE_MODEL: _per_token,
    MASKED: _per_token,
}


def _sentence_chrf() -> Callable[[Record], float]:
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return lambda record: chrf.sentence_score(record["output"], [record["target"]]).score
