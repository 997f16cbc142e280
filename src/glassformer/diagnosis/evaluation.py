"""What a trained model shows on what is held out: enough of it, better than guessing, outputs that have not collapsed;
and what it shows inside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from glassformer.data.wording import counted
from glassformer.diagnosis.advice import Advice, TrainingFacts, joined
from glassformer.diagnosis.layers import attention_heads, dead_units, saturated_units
from glassformer.diagnosis.loss import generalisation_gap
from glassformer.diagnosis.measure import dead_shares, head_entropies, saturated_shares, training_loss
from glassformer.error_analysis.translations import sentence_scores
from glassformer.families.base import Family, Prepared
from glassformer.families.labelling import LabellingFamily, rare_class
from glassformer.families.translation import TranslationFamily
from glassformer.statistics.intervals import share_interval, weighted_mean_interval
from glassformer.statistics.paired import difference, mcnemar
from glassformer.tasks.base import Evaluation
from glassformer.tasks.prediction import confusion_matrix, macro_f1
from glassformer.training.finding import NOTE, PROBLEM, WARNING, Finding

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


class Claim(NamedTuple):
    """What speaks against a model: words, and the numbers in them."""

    words: str
    numbers: dict[str, Any]


# --- by family ---


@singledispatch
def evaluation_findings(
    family: Family, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts, step: int
) -> Iterator[Finding | None]:
    """What an evaluation on the validation part shows."""
    yield small_validation(evaluation.records, family.noun, facts.advise, step)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise, step)


@evaluation_findings.register
def _(
    family: TranslationFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts, step: int
) -> Iterator[Finding | None]:
    yield from evaluation_findings.dispatch(Family)(family, prepared, evaluation, facts, step)
    records, advise = evaluation.records, facts.advise
    yield (
        output_collapse(records, advise, step)
        or ignored_source(records, advise, step)
        or poor_outputs(records, advise, step)
    )


@evaluation_findings.register
def _(
    family: LabellingFamily, prepared: Prepared, evaluation: Evaluation, facts: TrainingFacts, step: int
) -> Iterator[Finding | None]:
    task: Any = prepared.task
    counts = family.class_counts(task)
    rows = sum(map(len, task.parts.values()))
    yield small_validation(evaluation.records, task.noun, facts.advise, step, rows)
    yield no_better_than_chance(evaluation.metrics, evaluation.records, facts.guessing, facts.advise, step, counts)
    yield few_of_a_class(evaluation.records, counts, facts.advise, step, rows)
    if "confusion" in evaluation.details:
        confusion = evaluation.details["confusion"]
        yield class_collapse(confusion["labels"], confusion["matrix"], facts.advise, step)


def model_findings(
    model: nn.Module, prepared: Prepared, evaluation: Evaluation | None, facts: TrainingFacts, step: int
) -> Iterator[Finding | None]:
    """What the weights show that the run ends with. `evaluation`: theirs on the validation part, if there is one."""
    task, advise = prepared.task, facts.advise
    model.eval()
    with torch.random.fork_rng(devices=[]):
        learned = training_loss(model, task)
        if learned is not None and evaluation is not None and "loss" in evaluation.metrics:
            yield generalisation_gap(learned, evaluation.metrics["loss"], facts.guessing, advise, step)
        yield dead_units(dead_shares(model, task), advise, step)
        yield from attention_heads(head_entropies(model, task), advise, step)
        yield saturated_units(saturated_shares(model, task), advise, step)


# --- enough of it ---


def small_validation(records: Records, noun: str, advise: Advice, step: int, rows: int | None = None) -> Finding | None:
    """Too few examples to tell one score from another, by answers, losses or errors. `rows`: of all parts together."""
    if not records:
        return None
    first, advice = records[0], advise.more_held_out(rows)
    if "predicted" in first and "label" in first:
        right = sum(record["predicted"] == record["label"] for record in records)
        return _small_share(right, len(records), noun, advice, step)
    if "loss" in first and ("tokens" in first or "labels" in first):
        judged = [(record["loss"], record.get("tokens", 1)) for record in records if record.get("tokens", 1)]
        losses, tokens = [loss / count for loss, count in judged], [count for _, count in judged]
        return _small_loss(losses, tokens, noun, advice, step)
    if "error" in first:
        return _small_loss([record["error"] ** 2 for record in records], [1] * len(records), noun, advice, step)
    return None


def _small_share(right: int, of: int, noun: str, advice: str, step: int) -> Finding | None:
    """`right` of so many answers. `advice`: what would tell more."""
    interval = share_interval(right, of)
    half = (interval.high - interval.low) / 2
    if half <= WIDE_SHARE:
        return None
    return Finding(
        "small-validation",
        step,
        NOTE,
        words=f"Validation has {counted(of, noun)}: its accuracy, {interval.value:.3f}, is known to ± {half:.2f} (from "
        f"{interval.low:.2f} to {interval.high:.2f}); smaller differences between models or updates mean nothing.",
        advice=advice,
        numbers={"right": right, "of": of, "low": interval.low, "high": interval.high},
    )


def _small_loss(losses: Sequence[float], tokens: Sequence[int], noun: str, advice: str, step: int) -> Finding | None:
    """The mean loss over examples that count as many tokens each."""
    if len(losses) < 2:
        return None
    interval = weighted_mean_interval(losses, [float(count) for count in tokens])
    half = (interval.high - interval.low) / 2
    if interval.value <= 0 or half <= WIDE_LOSS * interval.value:
        return None
    return Finding(
        "small-validation",
        step,
        NOTE,
        words=f"Validation has {counted(len(losses), noun)}: its loss, {interval.value:.3g}, is known to ± {half:.2g} "
        f"({half / interval.value:.0%}); smaller differences between models or updates mean nothing.",
        advice=advice,
        numbers={"value": interval.value, "low": interval.low, "high": interval.high, "of": len(losses)},
    )


# --- better than guessing ---


def no_better_than_chance(
    metrics: Mapping[str, float],
    records: Records,
    guessing: float | None,
    advise: Advice,
    step: int,
    class_counts: Mapping[str, int] = MappingProxyType({}),
) -> Finding | None:
    """Report a model that is no better than a constant answer.

    `class_counts`: training examples per class; empty if unknown. If these are known, a model without errors is never
    reported. If accuracy is not what counts, all classes count equally: a model trades accuracy for finding rare ones.
    """
    largest = max(class_counts, key=class_counts.__getitem__, default=None)
    if largest is None:
        claim = _against_chance(metrics, records, guessing, None)
    elif all(record["predicted"] == record["label"] for record in records):
        return None
    elif reason := _why_recall_counts(class_counts, advise):
        claim = _mean_recall(records, largest, reason)
    else:
        claim = _against_chance(metrics, records, guessing, largest)
    if claim is None:
        return None
    tries = joined(
        advise.positions(),
        f"a longer training ({advise.longer()})",
        advise.more_blocks(),
        "another model (glassformer compare)",
        advise.another_rate(),
    )
    advice = f"{tries}; {advise.right_data()}"
    return Finding("no-better", step, WARNING, claim.words, advice, claim.numbers)


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
    records: Records, class_counts: Mapping[str, int], advise: Advice, step: int, rows: int | None = None
) -> Finding | None:
    """Report that a model without errors met too few validation examples of a class that counts as much as others.

    `rows`: of all parts together.
    """
    right = bool(records) and all(record.get("predicted") == record.get("label") for record in records)
    if not right or len(class_counts) < 2 or not _why_recall_counts(class_counts, advise):
        return None
    there = Counter(record["label"] for record in records)
    fewest = min(class_counts, key=lambda name: (there[name], class_counts[name]))
    if there[fewest] >= CLASS_ENOUGH:
        return None
    return Finding(
        "few-of-a-class",
        step,
        NOTE,
        words=f"The model makes no error on validation ({counted(len(records), 'example')}), but there are too few "
        f"examples of '{fewest}' ({there[fewest]}) to tell how well it finds this class.",
        advice=advise.more_held_out(rows),
        numbers={"class": fewest, "examples": there[fewest]},
    )


def _against_chance(
    metrics: Mapping[str, float], records: Records, guessing: float | None, largest: str | None
) -> Claim | None:
    """Accuracy against always saying the largest class, F1 against the most frequent labels, R² against 0, a loss
    against that of guessing evenly.
    """
    if "accuracy" in metrics and "majority" in metrics:
        return _paired(records, largest) if largest is not None else _alone(metrics, len(records))
    if "majority_micro_f1" in metrics:
        own, always = metrics["micro_f1"], metrics["majority_micro_f1"]
        if len(records) < ENOUGH or own > always:
            return None
        return Claim(
            f"Micro F1 is {own:.3f} on validation; always saying the most frequent labels has {always:.3f}.",
            {"micro_f1": own, "majority": always},
        )
    if "r2" in metrics:
        return _numbers(metrics["r2"], records)
    if guessing is None or metrics.get("loss", 0.0) < guessing:
        return None
    return Claim(
        f"The validation loss is {metrics['loss']:.3g}, and guessing evenly costs {guessing:.3g}.",
        {"loss": metrics["loss"], "guessing": guessing},
    )


def _paired(records: Records, largest: str) -> Claim | None:
    """Both on the same examples: only those count on which one is right and the other wrong."""
    if len(records) < ENOUGH:
        return None
    right = np.array([record["predicted"] == record["label"] for record in records])
    always = np.array([record["label"] == largest for record in records])
    test, accuracy, share = mcnemar(right, always), float(right.mean()), float(always.mean())
    if accuracy > share and test.p < CHANCE:
        return None
    what = "cannot be told from" if test.p >= CHANCE else "is below"
    return Claim(
        words=f"Validation accuracy {accuracy:.3f} (over {len(records):,}) {what} that of always saying '{largest}', "
        f"{share:.3f}: {test.only_first:,} examples only the model has right, {test.only_second:,} it alone has wrong "
        f"(p = {test.p:.2g}).",
        numbers={"accuracy": accuracy, "majority": share, "p": test.p},
    )


def _mean_recall(records: Records, largest: str, reason: str) -> Claim | None:
    """Compare mean recall and macro F1 with a constant answer; None if the model is better or the sample is small.

    `reason`: why the mean recall counts.
    """
    true, predicted = ([record[key] for record in records] for key in ("label", "predicted"))
    counts = Counter(true)
    if len(records) < ENOUGH or len(counts) < 2:
        return None
    weights = np.array([1 / counts[label] for label in true])
    right = np.array([label == answer for label, answer in zip(true, predicted, strict=True)], float)
    constant = np.array([label == largest for label in true], float)
    lead = difference(right[None], constant[None], weights, limit=1)
    recall, always = (float(np.average(hits, weights=weights)) for hits in (right, constant))
    if lead.low > 0:
        return None
    names = sorted({*true, *predicted, largest})
    numbers = {name: number for number, name in enumerate(names)}
    truth = np.array([numbers[name] for name in true])
    f1, constant_f1 = (
        macro_f1(confusion_matrix(truth, np.array([numbers[name] for name in said]), len(names)))
        for said in (predicted, [largest] * len(true))
    )
    return Claim(
        words=f"{reason}, the mean recall of the classes counts. It is {recall:.3f} on "
        f"validation (over {len(records):,}); that of a constant answer is {always:.3f} (lead from {lead.low:.2f} "
        f"to {lead.high:.2f}). Macro F1 is {f1:.3f}; always answering '{largest}' has "
        f"{constant_f1:.3f}.",
        numbers={"mean_recall": recall, "constant": always, "macro_f1": f1, "constant_macro_f1": constant_f1},
    )


def _alone(metrics: Mapping[str, float], count: int) -> Claim | None:
    """Where the largest class is not known by name: the interval of the accuracy."""
    right, always = metrics["accuracy"], metrics["majority"]
    interval = share_interval(round(right * count), count)
    if count < ENOUGH or interval.low > always:
        return None
    return Claim(
        words=f"Validation accuracy {right:.3f} (from {interval.low:.2f} to {interval.high:.2f}, over {count:,}) "
        f"cannot be told from that of always saying the largest class, {always:.3f}.",
        numbers={"accuracy": right, "low": interval.low, "majority": always},
    )


def _numbers(r2: float, records: Records) -> Claim | None:
    """Squared errors against those of always saying the mean, on the same examples."""
    true = np.array([record["number"] for record in records])
    if len(records) < ENOUGH or not np.ptp(true):
        return None
    wrong, spread = np.array([record["error"] for record in records]) ** 2, (true - true.mean()) ** 2
    gain = difference(spread[None], wrong[None])
    low, high = gain.low / spread.mean(), gain.high / spread.mean()
    if low > 0:
        return None
    what = "cannot be told from 0" if high >= 0 else "is below 0"
    return Claim(
        words=f"R² is {r2:.3f} on validation (from {low:.2f} to {high:.2f}, over {len(records):,}), which {what}: "
        f"always saying the mean {'may be' if high >= 0 else 'would be'} as good.",
        numbers={"r2": r2, "low": float(low), "high": float(high), "p": gain.p},
    )


# --- outputs that have collapsed ---


def class_collapse(
    names: Sequence[str], confusion: Sequence[Sequence[int]], advise: Advice, step: int
) -> Finding | None:
    """`confusion`: how many examples of class i (row) were taken for class j (column)."""
    matrix = np.array(confusion)
    there, predicted, right = matrix.sum(1), matrix.sum(0), np.diag(matrix)
    advice = joined(advise.balanced(there.tolist()), advise.lower_rate(), f"a longer training ({advise.longer()})")
    if matrix.sum() >= 2 * CLASS_ENOUGH and (there > 0).sum() > 1 and (predicted > 0).sum() == 1:
        only = names[int(predicted.argmax())]
        return Finding(
            "collapse",
            step,
            PROBLEM,
            f"The model says '{only}' of every one of {matrix.sum():,} validation examples: it tells nothing apart.",
            advice,
            {"class": only, "examples": int(matrix.sum())},
        )
    missed = [number for number in range(len(names)) if there[number] >= CLASS_ENOUGH and right[number] == 0]
    if not missed:
        return None
    named = ", ".join(f"'{names[number]}' ({there[number]:,} examples)" for number in missed[:CLASSES_SHOWN])
    more = f" and {len(missed) - CLASSES_SHOWN} more" if len(missed) > CLASSES_SHOWN else ""
    return Finding(
        "missed-class",
        step,
        WARNING,
        f"Never found on validation: {named}{more}.",
        advice,
        {"classes": [names[number] for number in missed]},
    )


def output_collapse(records: Records, advise: Advice, step: int) -> Finding | None:
    """Whether most sources get the same output, though they should not."""
    by_source = {record["source"]: record for record in records}
    count = len(by_source)
    if count < SOURCES_ENOUGH:
        return None
    ((output, times),) = Counter(record["output"] for record in by_source.values()).most_common(1)
    wanted = sum(record["target"] == output for record in by_source.values())
    if times - wanted <= MOST * count:
        return None
    exact = sum(record["output"] == record["target"] for record in by_source.values()) / count
    shown = output if len(output) <= 60 else f"{output[:59]}…"
    return Finding(
        "collapse",
        step,
        PROBLEM,
        words=f"The translator has collapsed to one output: '{shown}' for {times:,} of {count:,} different sources "
        f"({exact:.1%} of all outputs are right), so it hardly reads its source.",
        advice=advise.read_source(),
        numbers={"output": output, "times": times, "of": count, "exact": exact},
    )


def ignored_source(records: Records, advise: Advice, step: int) -> Finding | None:
    """Whether outputs are as close to another source's target as to their own: then they tell nothing of the source."""
    judged = [dict(record) for record in {record["target"]: record for record in records}.values()][:JUDGED]
    if len(judged) < LEAST:
        return None
    others = [{**record, "target": after["target"]} for record, after in pairwise([*judged, judged[0]])]
    own, other = sentence_scores(judged), sentence_scores(others)
    gain = difference(own[None], other[None])
    if gain.value > 0 and gain.p < CHANCE:
        return None
    return Finding(
        "no-better",
        step,
        WARNING,
        words=f"On {len(judged):,} validation pairs the outputs are no closer to their own targets (mean chrF "
        f"{own.mean():.1f}) than to those of other sources ({other.mean():.1f}, p = {gain.p:.2g}): the translator does "
        "not yet read its source.",
        advice=advise.read_source(),
        numbers={"own": float(own.mean()), "other": float(other.mean()), "p": gain.p},
    )


def poor_outputs(records: Records, advise: Advice, step: int) -> Finding | None:
    """Whether outputs hardly resemble their targets, though they depend on their sources."""
    judged = [dict(record) for record in records[:JUDGED]]
    if len(judged) < SOURCES_ENOUGH:
        return None
    score = float(sentence_scores(judged).mean())
    if score >= POOR:
        return None
    exact = sum(record["output"] == record["target"] for record in judged) / len(judged)
    return Finding(
        "poor-outputs",
        step,
        NOTE,
        words=f"On {len(judged):,} validation pairs the outputs hardly resemble their targets (mean chrF {score:.1f} "
        f"of 100, {exact:.1%} exactly right): too little is learned to be of use yet.",
        advice=advise.read_source(),
        numbers={"chrf": score, "exact": exact},
    )
