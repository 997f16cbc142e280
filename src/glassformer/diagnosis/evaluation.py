"""Checks of a trained model.

They test for too few validation examples, scores no better than guessing, classes that are never predicted, an ignored
source, and idle layers.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import singledispatch
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.data.wording import counted
from glassformer.diagnosis import layers
from glassformer.diagnosis.advice import Advice, Findings, TrainingFacts, finding
from glassformer.diagnosis.loss import generalisation_gap
from glassformer.error_analysis.translations import sentence_scores
from glassformer.families.base import Family, Prepared
from glassformer.families.labelling import LabellingFamily, rare_class
from glassformer.families.translation import TranslationFamily
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.statistics.significance import difference
from glassformer.tasks.base import Evaluation
from glassformer.training.events import NOTE, PROBLEM, WARNING, Finding

MAX_ACCURACY_HALF_WIDTH = 0.05
"""Maximum half width of the interval of an accuracy."""
MAX_LOSS_HALF_WIDTH = 0.1
"""Maximum half width of the interval of a loss, as a share of the loss."""
MIN_EXAMPLES = 20
"""Minimum number of examples for a comparison with guessing."""
SIGNIFICANCE = 0.05
"""Significance level of a difference."""
MIN_CLASS_EXAMPLES, MAX_NAMED_CLASSES = 5, 4
"""Minimum number of examples of a class for a finding about it; maximum number of classes in its text."""
MIN_PAIRS, MAX_PAIRS = 20, 300
"""Minimum and maximum number of pairs for the check whether the source is read."""

Records = Sequence[Mapping[str, Any]]


# --- by family ---


@singledispatch
def evaluation_findings(family: Family, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts) -> Findings:
    """Check an evaluation on the validation set."""
    yield small_validation(evaluation.records, family.noun, facts.advise)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise)


@evaluation_findings.register
def evaluation_findings_of_translator(
    family: TranslationFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts
) -> Findings:
    yield from evaluation_findings.dispatch(Family)(family, prepared, evaluation, facts)
    yield ignored_source(evaluation.records, facts.advise)


@evaluation_findings.register
def evaluation_findings_of_labels(
    family: LabellingFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts
) -> Findings:
    task: Any = prepared.task
    counts = family.class_counts(task)
    yield small_validation(evaluation.records, task.noun, facts.advise)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise, counts)
    if "confusion" in evaluation.details:
        yield class_collapse(**evaluation.details["confusion"], advise=facts.advise)


def model_findings(
    model: nn.Module, prepared: Prepared, evaluation: Evaluation | None, facts: TrainingFacts
) -> Findings:
    """Check the weights that the run keeps. `evaluation`: their scores on the validation set, if there is one."""
    task, advise = prepared.task, facts.advise
    model.eval()
    with torch.random.fork_rng(devices=[]):
        learned = layers.training_loss(model, task)
        if learned is not None and evaluation is not None and "loss" in evaluation.metrics:
            yield generalisation_gap(learned, evaluation.metrics["loss"], facts.guessing, advise)
        yield layers.dead_units(layers.dead_shares(model, task), advise)
        yield from layers.attention_heads(layers.head_entropies(model, task), advise)
        yield layers.saturated_units(layers.saturated_shares(model, task), advise)


# --- size of the validation set ---


def small_validation(records: Records, noun: str, advise: Advice) -> Finding | None:
    """Report that the validation set is too small: the confidence interval of its score is too wide."""
    if not records:
        return None
    first = records[0]
    if "predicted" in first and "label" in first:
        right = right_answers(records)
        metric, interval, widest = "accuracy", share_interval(int(right.sum()), len(right)), MAX_ACCURACY_HALF_WIDTH
    elif "error" in first or "loss" in first:
        scored = [record for record in records if record.get("tokens", 1)]
        tokens = [float(record.get("tokens", 1)) for record in scored]
        sums = [record["error"] ** 2 if "error" in record else record["loss"] for record in scored]
        metric, interval = "loss", weighted_mean_interval(np.divide(sums, tokens), tokens)
        widest = MAX_LOSS_HALF_WIDTH * interval.value
    else:
        return None
    half = (interval.high - interval.low) / 2
    if not widest < half < math.inf:
        return None
    numbers = {"value": interval.value, "low": interval.low, "high": interval.high, "of": len(records)}
    facts: dict[str, Any] = {"examples": counted(len(records), noun), "metric": metric, "half": half}
    return finding(advise, "small-validation", NOTE, numbers, **facts)


# --- better than guessing ---


def no_better_than_chance(
    metrics: Mapping[str, float],
    records: Records,
    guessing: float | None,
    advise: Advice,
    class_counts: Mapping[str, int] = MappingProxyType({}),
) -> Finding | None:
    """Report a model that is no better than a constant answer. `class_counts`: training examples per class, if any."""
    if class_counts:
        return _constant_class(records, class_counts, advise)
    if "majority_micro_f1" in metrics:
        own, always = metrics["micro_f1"], metrics["majority_micro_f1"]
        if len(records) < MIN_EXAMPLES or own > always:
            return None
        return finding(advise, "no-better: labels", WARNING, {"micro_f1": own, "majority": always})
    if "r2" in metrics:
        return _constant_number(metrics["r2"], records, advise)
    if guessing is None or metrics.get("loss", 0.0) < guessing:
        return None
    return finding(advise, "no-better: loss", WARNING, {"loss": metrics["loss"], "guessing": guessing})


def right_answers(records: Records) -> NDArray[np.bool_]:
    """Return a mask of the examples that a classifier gets right."""
    return np.array([record["predicted"] == record["label"] for record in records], bool)


def _why_recall_counts(class_counts: Mapping[str, int], advise: Advice) -> str:
    """Return why the mean recall of the classes counts, not the accuracy; "" if accuracy counts."""
    training = advise.config.training
    if training.class_weights is not None:
        return "With training.class_weights, the mean recall of the classes counts. "
    if training.choose_by != "accuracy":
        return f"With training.choose_by {training.choose_by}, the mean recall of the classes counts. "
    if (rarest := rare_class(class_counts)) is not None:
        return f"Since class '{rarest}' has few of the training rows, the mean recall of the classes counts. "
    return ""


def _constant_class(records: Records, class_counts: Mapping[str, int], advise: Advice) -> Finding | None:
    """Compare with always answering the largest class, on the same examples."""
    right, counts = right_answers(records), Counter(record["label"] for record in records)
    if len(records) < MIN_EXAMPLES or right.all() or len(counts) < 2:
        return None
    reason, largest = _why_recall_counts(class_counts, advise), max(class_counts, key=class_counts.__getitem__)
    weights = np.array([1 / counts[record["label"]] for record in records]) if reason else None
    constant = np.array([record["label"] == largest for record in records], float)
    lead = difference(right[None].astype(float), constant[None], weights, limit=1)
    if lead.low > 0:
        return None
    own, always = (float(np.average(scores, weights=weights)) for scores in (right, constant))
    numbers = {"own": own, "constant": always, "low": lead.low, "high": lead.high}
    facts: dict[str, Any] = {
        "metric": "mean recall" if reason else "accuracy",
        "count": len(records),
        "largest": largest,
    }
    return finding(advise, "no-better: constant", WARNING, numbers, reason=reason, **facts)


def _constant_number(r2: float, records: Records, advise: Advice) -> Finding | None:
    """Compare squared errors with those of always answering the mean, on the same examples."""
    true = np.array([record["number"] for record in records])
    if len(records) < MIN_EXAMPLES or not np.ptp(true):
        return None
    wrong, spread = np.array([record["error"] for record in records]) ** 2, (true - true.mean()) ** 2
    gain = difference(spread[None], wrong[None])
    low, high = float(gain.low / spread.mean()), float(gain.high / spread.mean())
    if low > 0:
        return None
    return finding(advise, "no-better: r2", WARNING, {"r2": r2, "low": low, "high": high}, count=len(records))


# --- outputs that have collapsed ---


def class_collapse(labels: Sequence[str], matrix: Sequence[Sequence[int]], advise: Advice) -> Finding | None:
    """Report classes that are never predicted. `matrix`: examples of class i (row) predicted as class j (column)."""
    counts = np.array(matrix)
    true, predicted, right = counts.sum(1), counts.sum(0), np.diag(counts)
    weights = advise.balanced(true.tolist())
    if counts.sum() >= 2 * MIN_CLASS_EXAMPLES and (true > 0).sum() > 1 and (predicted > 0).sum() == 1:
        only = {"class": labels[int(predicted.argmax())], "examples": int(counts.sum())}
        return finding(advise, "collapse: class", PROBLEM, only, try_first=weights)
    missed = [place for place in range(len(labels)) if true[place] >= MIN_CLASS_EXAMPLES and right[place] == 0]
    if not missed:
        return None
    named = ", ".join(f"'{labels[place]}' ({true[place]:,} examples)" for place in missed[:MAX_NAMED_CLASSES])
    more = f" and {len(missed) - MAX_NAMED_CLASSES} more" if len(missed) > MAX_NAMED_CLASSES else ""
    classes = {"classes": [labels[place] for place in missed]}
    return finding(advise, "missed-class", WARNING, classes, try_first=weights, named=named + more)


def ignored_source(records: Records, advise: Advice) -> Finding | None:
    """Report outputs that match the target of another source as well as their own."""
    pairs = [dict(record) for record in {record["target"]: record for record in records}.values()][:MAX_PAIRS]
    if len(pairs) < MIN_PAIRS:
        return None
    others = [{**record, "target": after["target"]} for record, after in pairwise([*pairs, pairs[0]])]
    own, other = sentence_scores(pairs), sentence_scores(others)
    gain = difference(own[None], other[None])
    if gain.value > 0 and gain.p < SIGNIFICANCE:
        return None
    numbers = {"own": float(own.mean()), "other": float(other.mean()), "p": gain.p}
    return finding(advise, "no-better: source", WARNING, numbers, count=len(pairs))
