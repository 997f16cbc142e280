"""What a trained model shows on what is held out: enough of it, better than guessing, outputs that have not collapsed;
and what it shows inside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.data.wording import counted
from glassformer.diagnosis.advice import Advice, TrainingFacts, finding, joined
from glassformer.diagnosis.layers import (
    attention_heads,
    dead_shares,
    dead_units,
    head_entropies,
    saturated_shares,
    saturated_units,
    training_loss,
)
from glassformer.diagnosis.loss import generalisation_gap
from glassformer.error_analysis.translations import sentence_scores
from glassformer.families.base import Family, Prepared
from glassformer.families.labelling import LabellingFamily, rare_class
from glassformer.families.translation import TranslationFamily
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.statistics.significance import difference, mcnemar
from glassformer.tasks.base import Evaluation
from glassformer.tasks.prediction import confusion_matrix, macro_f1
from glassformer.training.events import NOTE, PROBLEM, WARNING, Finding

WIDE_SHARE = 0.05
"""Half of the interval of an accuracy: what two models must differ by to be told apart."""
WIDE_LOSS = 0.1
"""Half of the interval of a loss, as a part of it."""
ENOUGH = 20
"""Examples: of fewer, even a good model cannot be told from one that knows nothing."""
CHANCE = 0.05
"""How often chance alone may show as much, for a difference to be none."""
CLASS_ENOUGH, CLASSES_SHOWN = 5, 4
"""Examples of a class, of two in all: that none of fewer was found, or all taken for one class, may be chance. And
classes that are named."""
SOURCES_ENOUGH = 10
"""Different sources, below which one output for most of them may be chance."""
MOST = 0.5
"""The share of the sources that one output may stand for."""
LEAST, JUDGED = 20, 300
"""Pairs that can tell whether the source is read, and as many as are looked at."""

POOR = 15.0
"""Mean chrF, of 100: outputs that share fewer pieces with their targets are of no use, whatever they are."""

Records = Sequence[Mapping[str, Any]]


# --- by family ---


@singledispatch
def evaluation_findings(
    family: Family, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts
) -> Iterator[Finding | None]:
    """Judge an evaluation on the validation part."""
    yield small_validation(evaluation.records, family.noun, facts.advise)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise)


@evaluation_findings.register
def evaluation_findings_of_translator(
    family: TranslationFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts
) -> Iterator[Finding | None]:
    yield from evaluation_findings.dispatch(Family)(family, prepared, evaluation, facts)
    records, advise = evaluation.records, facts.advise
    yield output_collapse(records, advise) or ignored_source(records, advise) or poor_outputs(records, advise)


@evaluation_findings.register
def evaluation_findings_of_labels(
    family: LabellingFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts
) -> Iterator[Finding | None]:
    task: Any = prepared.task
    counts = family.class_counts(task)
    rows = sum(map(len, task.parts.values()))
    yield small_validation(evaluation.records, task.noun, facts.advise, rows)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise, counts)
    yield few_of_a_class(evaluation.records, counts, facts.advise, rows)
    if "confusion" in evaluation.details:
        yield class_collapse(**evaluation.details["confusion"], advise=facts.advise)


def model_findings(
    model: nn.Module, prepared: Prepared, evaluation: Evaluation | None, facts: TrainingFacts
) -> Iterator[Finding | None]:
    """Judge the weights that the run ends with. `evaluation`: theirs on the validation part, if there is one."""
    task, advise = prepared.task, facts.advise
    model.eval()
    with torch.random.fork_rng(devices=[]):
        learned = training_loss(model, task)
        if learned is not None and evaluation is not None and "loss" in evaluation.metrics:
            yield generalisation_gap(learned, evaluation.metrics["loss"], facts.guessing, advise)
        yield dead_units(dead_shares(model, task), advise)
        yield from attention_heads(head_entropies(model, task), advise)
        yield saturated_units(saturated_shares(model, task), advise)


# --- enough of it ---


def small_validation(records: Records, noun: str, advise: Advice, rows: int | None = None) -> Finding | None:
    """Report too few examples to tell one score from another, by answers, losses or errors. `rows`: of all parts."""
    if not records:
        return None
    first, advice = records[0], advise.more_held_out(rows)
    if "predicted" in first and "label" in first:
        return _wide_accuracy(right_answers(records), noun, advice)
    if "loss" in first and ("tokens" in first or "labels" in first):
        scored = [record for record in records if record.get("tokens", 1)]
        tokens = [float(record.get("tokens", 1)) for record in scored]
        losses = [record["loss"] / count for record, count in zip(scored, tokens, strict=True)]
        return _wide_loss(losses, tokens, noun, advice)
    if "error" in first:
        return _wide_loss([record["error"] ** 2 for record in records], None, noun, advice)
    return None


def _wide_accuracy(right: NDArray[np.bool_], noun: str, advice: str) -> Finding | None:
    hits, count = int(right.sum()), len(right)
    interval = share_interval(hits, count)
    half = (interval.high - interval.low) / 2
    if half <= WIDE_SHARE:
        return None
    numbers = {"right": hits, "of": count, "low": interval.low, "high": interval.high}
    facts = {"examples": counted(count, noun), "value": interval.value, "half": half}
    return finding("small-validation: share", NOTE, advice, numbers, **facts)


def _wide_loss(losses: Sequence[float], tokens: Sequence[float] | None, noun: str, advice: str) -> Finding | None:
    """Judge the mean loss over examples of so many tokens each; None: all count alike."""
    if len(losses) < 2:
        return None
    interval = weighted_mean_interval(losses, tokens)
    half = (interval.high - interval.low) / 2
    if interval.value <= 0 or half <= WIDE_LOSS * interval.value:
        return None
    numbers = {"value": interval.value, "low": interval.low, "high": interval.high, "of": len(losses)}
    facts = {"examples": counted(len(losses), noun), "half": half, "part": half / interval.value}
    return finding("small-validation: loss", NOTE, advice, numbers, **facts)


# --- better than guessing ---


def no_better_than_chance(
    metrics: Mapping[str, float],
    records: Records,
    guessing: float | None,
    advise: Advice,
    class_counts: Mapping[str, int] = MappingProxyType({}),
) -> Finding | None:
    """Report a model that is no better than a constant answer.

    `class_counts`: training examples per class; empty if unknown. If these are known, a model without errors is never
    reported. If accuracy is not what counts, all classes count equally: a model trades accuracy for finding rare ones.
    """
    largest = max(class_counts, key=class_counts.__getitem__, default=None)
    tries = joined(
        advise.positions(),
        f"a longer training ({advise.longer()})",
        advise.more_blocks(),
        "another model (glassformer compare)",
        advise.another_rate(),
    )
    advice = f"{tries}; {advise.right_data()}"
    if largest is None:
        return _against_chance(metrics, records, guessing, None, advice)
    if right_answers(records).all():
        return None
    if reason := _why_recall_counts(class_counts, advise):
        return _mean_recall(records, largest, reason, advice)
    return _against_chance(metrics, records, guessing, largest, advice)


def right_answers(records: Records) -> NDArray[np.bool_]:
    """Return which examples a classifier has right."""
    return np.array([record["predicted"] == record["label"] for record in records], bool)


def _why_recall_counts(class_counts: Mapping[str, int], advise: Advice) -> str:
    """Return why the mean recall of the classes counts, not the accuracy; "" if accuracy counts."""
    training = advise.config.training
    if training.class_weights is not None:
        return "With training.class_weights"
    if training.choose_by != "accuracy":
        return f"With training.choose_by {training.choose_by}"
    if (rarest := rare_class(class_counts)) is not None:
        return f"Since class '{rarest}' has few of the training rows"
    return ""


def few_of_a_class(
    records: Records, class_counts: Mapping[str, int], advise: Advice, rows: int | None = None
) -> Finding | None:
    """Report that a model without errors met too few validation examples of a class that counts as much as others.

    `rows`: of all parts together.
    """
    has_labels = bool(records) and "label" in records[0] and "predicted" in records[0]
    if not has_labels or len(class_counts) < 2 or not right_answers(records).all():
        return None
    if not _why_recall_counts(class_counts, advise):
        return None
    counts = Counter(record["label"] for record in records)
    fewest = min(class_counts, key=lambda name: (counts[name], class_counts[name]))
    if counts[fewest] >= CLASS_ENOUGH:
        return None
    numbers = {"class": fewest, "examples": counts[fewest]}
    facts = {"all": counted(len(records), "example"), "name": fewest}
    return finding("few-of-a-class", NOTE, advise.more_held_out(rows), numbers, **facts)


def _against_chance(
    metrics: Mapping[str, float], records: Records, guessing: float | None, largest: str | None, advice: str
) -> Finding | None:
    """Compare accuracy with always answering the largest class, F1 with the most frequent labels, R² with 0, or a loss
    with that of guessing evenly.
    """
    if "accuracy" in metrics and "majority" in metrics:
        if largest is None:
            return _unknown_majority(metrics, len(records), advice)
        return _majority(records, largest, advice)
    if "majority_micro_f1" in metrics:
        own, always = metrics["micro_f1"], metrics["majority_micro_f1"]
        if len(records) < ENOUGH or own > always:
            return None
        return finding("no-better: labels", WARNING, advice, {"micro_f1": own, "majority": always})
    if "r2" in metrics:
        return _constant_number(metrics["r2"], records, advice)
    if guessing is None or metrics.get("loss", 0.0) < guessing:
        return None
    return finding("no-better: loss", WARNING, advice, {"loss": metrics["loss"], "guessing": guessing})


def _majority(records: Records, largest: str, advice: str) -> Finding | None:
    """Compare both on the same examples: only those count on which one is right and the other wrong."""
    if len(records) < ENOUGH:
        return None
    right = right_answers(records)
    always = np.array([record["label"] == largest for record in records])
    test, accuracy, share = mcnemar(right, always), float(right.mean()), float(always.mean())
    if accuracy > share and test.p < CHANCE:
        return None
    key = "no-better: level" if test.p >= CHANCE else "no-better: below"
    numbers = {"accuracy": accuracy, "majority": share, "p": test.p}
    facts = {"count": len(records), "largest": largest, "gained": test.only_first, "lost": test.only_second}
    return finding(key, WARNING, advice, numbers, **facts)


def _mean_recall(records: Records, largest: str, reason: str, advice: str) -> Finding | None:
    """Compare mean recall and macro F1 with a constant answer; None if the model is better or the sample is small.

    `reason`: why the mean recall counts.
    """
    true, predicted = ([record[key] for record in records] for key in ("label", "predicted"))
    counts = Counter(true)
    if len(records) < ENOUGH or len(counts) < 2:
        return None
    weights = np.array([1 / counts[label] for label in true])
    right = right_answers(records).astype(float)
    constant = np.array([label == largest for label in true], float)
    lead = difference(right[None], constant[None], weights, limit=1)
    if lead.low > 0:
        return None
    names, codes = np.unique([*true, *predicted, *[largest] * len(true)], return_inverse=True)
    truth, answers, always = np.split(codes, 3)
    numbers = {
        "mean_recall": float(np.average(right, weights=weights)),
        "constant": float(np.average(constant, weights=weights)),
        "macro_f1": macro_f1(confusion_matrix(truth, answers, len(names))),
        "constant_macro_f1": macro_f1(confusion_matrix(truth, always, len(names))),
    }
    facts = {"reason": reason, "count": len(records), "low": lead.low, "high": lead.high, "largest": largest}
    return finding("no-better: recall", WARNING, advice, numbers, **facts)


def _unknown_majority(metrics: Mapping[str, float], count: int, advice: str) -> Finding | None:
    """Compare the interval of the accuracy with the largest class, which is not known by name."""
    right, always = metrics["accuracy"], metrics["majority"]
    interval = share_interval(round(right * count), count)
    if count < ENOUGH or interval.low > always:
        return None
    numbers = {"accuracy": right, "low": interval.low, "majority": always}
    return finding("no-better: majority", WARNING, advice, numbers, high=interval.high, count=count)


def _constant_number(r2: float, records: Records, advice: str) -> Finding | None:
    """Compare squared errors with those of always answering the mean, on the same examples."""
    true = np.array([record["number"] for record in records])
    if len(records) < ENOUGH or not np.ptp(true):
        return None
    wrong, spread = np.array([record["error"] for record in records]) ** 2, (true - true.mean()) ** 2
    gain = difference(spread[None], wrong[None])
    low, high = float(gain.low / spread.mean()), float(gain.high / spread.mean())
    if low > 0:
        return None
    key = "no-better: r2 level" if high >= 0 else "no-better: r2 below"
    return finding(key, WARNING, advice, {"r2": r2, "low": low, "high": high, "p": gain.p}, count=len(records))


# --- outputs that have collapsed ---


def class_collapse(labels: Sequence[str], matrix: Sequence[Sequence[int]], advise: Advice) -> Finding | None:
    """`matrix`: how many examples of class i (row) were taken for class j (column)."""
    counts = np.array(matrix)
    true, predicted, right = counts.sum(1), counts.sum(0), np.diag(counts)
    advice = joined(advise.balanced(true.tolist()), advise.lower_rate(), f"a longer training ({advise.longer()})")
    if counts.sum() >= 2 * CLASS_ENOUGH and (true > 0).sum() > 1 and (predicted > 0).sum() == 1:
        only = {"class": labels[int(predicted.argmax())], "examples": int(counts.sum())}
        return finding("collapse: class", PROBLEM, advice, only)
    missed = [place for place in range(len(labels)) if true[place] >= CLASS_ENOUGH and right[place] == 0]
    if not missed:
        return None
    named = ", ".join(f"'{labels[place]}' ({true[place]:,} examples)" for place in missed[:CLASSES_SHOWN])
    more = f" and {len(missed) - CLASSES_SHOWN} more" if len(missed) > CLASSES_SHOWN else ""
    classes = {"classes": [labels[place] for place in missed]}
    return finding("missed-class", WARNING, advice, classes, named=named + more)


def output_collapse(records: Records, advise: Advice) -> Finding | None:
    """Report that most sources get the same output, though they should not."""
    outputs = list({record["source"]: record for record in records}.values())
    count = len(outputs)
    if count < SOURCES_ENOUGH:
        return None
    ((output, times),) = Counter(record["output"] for record in outputs).most_common(1)
    wanted = sum(record["target"] == output for record in outputs)
    if times - wanted <= MOST * count:
        return None
    shown = output if len(output) <= 60 else f"{output[:59]}…"
    numbers = {"output": output, "times": times, "of": count, "exact": _exact_share(outputs)}
    return finding("collapse: output", PROBLEM, advise.read_source(), numbers, shown=shown)


def _exact_share(records: Records) -> float:
    return sum(record["output"] == record["target"] for record in records) / len(records)


def ignored_source(records: Records, advise: Advice) -> Finding | None:
    """Report outputs that are as close to another source's target as to their own: they tell nothing of the source."""
    pairs = [dict(record) for record in {record["target"]: record for record in records}.values()][:JUDGED]
    if len(pairs) < LEAST:
        return None
    others = [{**record, "target": after["target"]} for record, after in pairwise([*pairs, pairs[0]])]
    own, other = sentence_scores(pairs), sentence_scores(others)
    gain = difference(own[None], other[None])
    if gain.value > 0 and gain.p < CHANCE:
        return None
    numbers = {"own": float(own.mean()), "other": float(other.mean()), "p": gain.p}
    return finding("no-better: source", WARNING, advise.read_source(), numbers, count=len(pairs))


def poor_outputs(records: Records, advise: Advice) -> Finding | None:
    """Report outputs that hardly resemble their targets, though they depend on their sources."""
    pairs = records[:JUDGED]
    if len(pairs) < SOURCES_ENOUGH:
        return None
    score = float(sentence_scores(pairs).mean())
    if score >= POOR:
        return None
    numbers = {"chrf": score, "exact": _exact_share(pairs)}
    return finding("poor-outputs", NOTE, advise.read_source(), numbers, count=len(pairs))
