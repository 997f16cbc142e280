"""One score for each example, so that two models can be compared on the very same examples."""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import singledispatch

from glassformer.families.base import Family
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import StreamFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation

EXAMPLE_KEYS: tuple[str, ...] = ("text", "example", "label", "labels", "number", "source", "target")
WINDOW_KEYS: tuple[str, ...] = ("start", "tokens", "covered")
"""What tells an example, or a window of a text, from others; never what a model said."""


@dataclass(frozen=True)
class ExampleScores:
    """What an evaluation came to, example by example."""

    scores: list[float]
    """The higher, the better; none where records do not tell."""
    weights: list[float] | None
    """How much each counts; None: all alike."""
    digest: str
    """The same for the same examples in the same order."""


def example_scores(evaluation: Evaluation, family: Family) -> ExampleScores:
    """The mean of the scores is the accuracy; of numbers, the mean squared error below zero, of which RMSE is the root;
    of a text, the loss per token below zero. chrF and F1 of a whole part are no means over its examples: there it is
    the mean chrF of the sentences, and the mean F1 of the examples' sets of labels.
    """
    keys, weights = EXAMPLE_KEYS, None
    if family.reads_stream:
        keys, weights = WINDOW_KEYS, [float(record["tokens"]) for record in evaluation.records]
    digest = hashlib.sha256()
    for record in evaluation.records:
        line = json.dumps([record[key] for key in keys if key in record], ensure_ascii=False)
        digest.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return ExampleScores(score_records(family, evaluation), weights, digest.hexdigest())


@singledispatch
def score_records(family: Family, evaluation: Evaluation) -> list[float]:
    """A score for each record: what it has by the name of the primary metric, or its loss, if that is what the metric
    is the mean of.
    """
    sign, metric = -1 if evaluation.lower_is_better else 1, evaluation.metrics[evaluation.primary]
    for key in (evaluation.primary, "loss"):
        values = [float(record[key]) for record in evaluation.records if key in record]
        if len(values) == len(evaluation.records) > 0 and math.isclose(
            math.fsum(values) / len(values), metric, rel_tol=1e-6
        ):
            return [sign * value for value in values]
    return []


@score_records.register
def _(family: ClassificationFamily, evaluation: Evaluation) -> list[float]:
    return [float(record["predicted"] == record["label"]) for record in evaluation.records]


@score_records.register
def _(family: MultilabelFamily, evaluation: Evaluation) -> list[float]:
    return [_set_f1(set(record["labels"]), set(record["predicted"])) for record in evaluation.records]


def _set_f1(true: set[str], predicted: set[str]) -> float:
    """Twice what is in both sets, divided by what is in each; two empty sets agree."""
    return 2 * len(true & predicted) / (len(true) + len(predicted)) if true or predicted else 1.0


@score_records.register
def _(family: RegressionFamily, evaluation: Evaluation) -> list[float]:
    return [-float(record["error"] ** 2) for record in evaluation.records]


@score_records.register
def _(family: StreamFamily, evaluation: Evaluation) -> list[float]:
    return [float(-record["loss"] / record["tokens"]) if record["tokens"] else 0.0 for record in evaluation.records]


@score_records.register
def _(family: TranslationFamily, evaluation: Evaluation) -> list[float]:
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return [chrf.sentence_score(record["output"], [record["target"]]).score for record in evaluation.records]
