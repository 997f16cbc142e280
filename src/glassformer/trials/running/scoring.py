"""Scores per example, time per example, leakage, undertraining, and metrics pooled over folds."""

import contextlib
import hashlib
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.config.errors import GlassformerError
from glassformer.config.presets import reads_stream
from glassformer.config.resolve import Config
from glassformer.config.sentences import sentence
from glassformer.data.packing.store import pack
from glassformer.data.split.documents import TextPart
from glassformer.data.split.labelled import Labelled
from glassformer.data.split.pairs import Pairs
from glassformer.data.wording import counted
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import generate
from glassformer.families.base import FAMILIES, DataParts, Family, Loaded
from glassformer.families.build import split_data
from glassformer.families.labelling import (
    ClassificationFamily,
    LabellingFamily,
    LoadedPredictor,
    MultilabelFamily,
    RegressionFamily,
)
from glassformer.families.language import LanguageFamily, LoadedLanguageModel, StreamFamily
from glassformer.families.masked import LoadedMasked, MaskedFamily
from glassformer.families.translation import LoadedTranslator, TranslationFamily
from glassformer.models.modules import device_of
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import stack_rows
from glassformer.tasks.prediction import confusion_matrix, macro_f1, set_metrics
from glassformer.tasks.translation import judge
from glassformer.trials.jobs import Outcome

Records = Sequence[Mapping[str, Any]]
Folds = Sequence[Mapping[str, float]]
"""Metrics of each fold."""

EXAMPLE_KEYS: tuple[str, ...] = ("text", "example", "label", "labels", "number", "source", "target")
WINDOW_KEYS: tuple[str, ...] = ("start", "tokens", "covered")
"""Fields of a record that identify the example or the window; none is an output of the model."""

WARM_UP, TIMED, MAX_SECONDS = 3, 50, 3.0
"""Number of examples before timing, number of timed examples, and time limit."""
SPLIT_KEYS = (
    "validation", "test", "validation_fraction", "test_fraction", "split_seed", "split_by", "same_text",
    "near_duplicates", "folds", "fold",
)  # fmt: skip
"""Data settings that determine the split."""
LOCATION_KEYS = ("path", "source_file", "target_file")
"""Settings with paths of the data, which may have moved."""


# --- scores per example, so that models can be compared on the same examples ---


def scored(outcome: Outcome, evaluation: Evaluation, family: Family) -> Outcome:
    """Return an outcome with its metrics, and with a score per example.

    The mean of the scores is the accuracy; for numbers, the negative mean squared error; for texts, the negative loss
    per token. chrF and F1 of a whole part are not means over its examples. Their scores are therefore the chrF of each
    sentence, and the F1 of each example's set of labels.
    """
    keys, weights = EXAMPLE_KEYS, None
    if family.reads_stream:
        keys, weights = WINDOW_KEYS, [float(record["tokens"]) for record in evaluation.records]
    digest = hashlib.sha256()
    for record in evaluation.records:
        line = json.dumps([record[key] for key in keys if key in record], ensure_ascii=False)
        digest.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return replace(
        outcome,
        metrics=dict(evaluation.metrics),
        primary=evaluation.primary,
        lower_is_better=evaluation.lower_is_better,
        scores=score_records(family, evaluation),
        weights=weights,
        examples=digest.hexdigest(),
    )


@singledispatch
def score_records(family: Family, evaluation: Evaluation) -> list[float]:
    """Return a score per record: its primary metric or its loss, whichever has the metric as its mean; else none."""
    sign, metric = -1 if evaluation.lower_is_better else 1, evaluation.metrics[evaluation.primary]
    for key in (evaluation.primary, "loss"):
        values = [float(record[key]) for record in evaluation.records if key in record]
        if len(values) == len(evaluation.records) > 0 and math.isclose(
            math.fsum(values) / len(values), metric, rel_tol=1e-6
        ):
            return [sign * value for value in values]
    return []


@score_records.register
def score_classification(family: ClassificationFamily, evaluation: Evaluation) -> list[float]:
    """Return scores whose mean is the primary metric; none for average precision, which is not a mean."""
    labels, predicted = ([record[key] for record in evaluation.records] for key in ("label", "predicted"))
    if evaluation.primary == "accuracy":
        return [float(label == guess) for label, guess in zip(labels, predicted, strict=True)]
    if evaluation.primary == "macro_f1":
        return macro_f1_scores(labels, predicted)
    losses = [record["loss"] for record in evaluation.records if evaluation.primary == "loss"]
    return [] if None in losses else [-loss for loss in losses]


def macro_f1_scores(labels: Sequence[str], predicted: Sequence[str]) -> list[float]:
    """Return a score per example, the tangent of macro F1 at the total counts; the mean of the scores is macro F1."""
    names = sorted({*labels, *predicted})
    true, guessed = (np.array([[one == name for name in names] for one in side], float) for side in (labels, predicted))
    hits, sizes = 2 * true * guessed, true + guessed
    f1, mean_size = hits.sum(0) / sizes.sum(0), sizes.mean(0)
    scores: list[float] = (f1 + (hits - f1 * sizes) / mean_size).mean(1).tolist()
    return scores


@score_records.register
def score_multilabel(family: MultilabelFamily, evaluation: Evaluation) -> list[float]:
    """Return the F1 of each example's set of labels, which is 1 if both sets are empty."""
    sets = [(set(record["labels"]), set(record["predicted"])) for record in evaluation.records]
    return [
        2 * len(true & predicted) / (len(true) + len(predicted)) if true or predicted else 1.0
        for true, predicted in sets
    ]


@score_records.register
def score_regression(family: RegressionFamily, evaluation: Evaluation) -> list[float]:
    return [-float(record["error"] ** 2) for record in evaluation.records]


@score_records.register
def score_stream(family: StreamFamily, evaluation: Evaluation) -> list[float]:
    return [float(-record["loss"] / record["tokens"]) if record["tokens"] else 0.0 for record in evaluation.records]


@score_records.register
def score_translation(family: TranslationFamily, evaluation: Evaluation) -> list[float]:
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return [chrf.sentence_score(record["output"], [record["target"]]).score for record in evaluation.records]


# --- time per example ---


@torch.inference_mode()
def seconds_per_example(loaded: Loaded, part: Any) -> float | None:
    """Return the median seconds to process a single example, from raw text to answer.

    For a language model that is a generated token, for a masked model a window. None if the family does not define it.
    """
    times: list[float] = []
    began = last = time.perf_counter()
    for _ in itertools.islice(uses(loaded.family, loaded, part), WARM_UP + TIMED):
        now = time.perf_counter()
        times.append(now - last)
        if now - began > MAX_SECONDS:
            break
        last = time.perf_counter()
    return statistics.median(times[WARM_UP:] or times) if times else None


@singledispatch
def uses(family: Family, loaded: Any, part: Any) -> Iterator[object]:
    """Yield after each use of a run on an example of a part."""
    return iter(())


@uses.register
def language_uses(family: LanguageFamily, loaded: LoadedLanguageModel, part: TextPart) -> Iterator[object]:
    start = loaded.tokenizer.start
    prompt = [0 if start is None else start]
    return generate(
        loaded.model, [prompt], Sampling(), max_tokens=WARM_UP + TIMED, never=list(loaded.tokenizer.specials)
    )


@uses.register
def masked_uses(family: MaskedFamily, loaded: LoadedMasked, part: TextPart) -> Iterator[object]:
    window = stack_rows(device_of(loaded.model), [pack(part, loaded.tokenizer).ids[: loaded.model.context]])
    return (loaded.model(window) for _ in itertools.count())


@uses.register
def translation_uses(family: TranslationFamily, loaded: LoadedTranslator, part: Pairs) -> Iterator[object]:
    return (loaded.translate(source) for source in itertools.cycle(part.sources))


@uses.register
def labelling_uses(family: LabellingFamily, loaded: LoadedPredictor, part: Labelled) -> Iterator[object]:
    return (loaded.predict_part(part.select("given", [row])) for row in itertools.cycle(range(len(part))))


# --- leakage: whether a run was trained on the examples that it is scored on ---


class Leakage(NamedTuple):
    """Overlap of a run's training data with the examples that it is scored on."""

    note: str
    """A remark for its row."""
    seen: bool = False
    """Whether it was trained on some of the examples, so that it is not ranked."""


def leakage(run: Run, trained: Config, config: Config, corpus: DataParts, part: str) -> Leakage:
    """Return whether a run has seen examples of a part of the comparison's data.

    `trained`: configuration of the run; `config`, `corpus`: configuration and data of the comparison.
    """
    if run.card()["data"]["fingerprint"] != corpus.fingerprint:
        return Leakage(sentence(__name__, "other data"))
    other = next((name for name in SPLIT_KEYS if getattr(trained.data, name) != getattr(config.data, name)), None)
    if other is None and not trained.data.refit:
        return Leakage("")
    here = replace(trained.data, **{name: getattr(config.data, name) for name in LOCATION_KEYS})
    own: Mapping[str, Any] = {}
    with contextlib.suppress(GlassformerError):
        own = split_data(replace(trained, data=here)).parts
    family = FAMILIES[config.task]
    learned, chosen = (
        known_share(family, corpus.parts[part], own[name]) if name in own else None for name in ("train", "validation")
    )
    if learned is None:
        return Leakage(sentence(__name__, "other split", setting=other or "refit"))
    if learned > 0:
        return Leakage(sentence(__name__, "learned"), seen=True)
    return Leakage(sentence(__name__, "chosen") if chosen else "")


def known_share(family: Family, examples: Any, known: Any) -> float | None:
    """Return the share of examples that are among known ones; None if the family cannot compare examples."""
    if isinstance(family, StreamFamily) and examples.span is not None and known.span is not None:
        both = min(examples.span[1], known.span[1]) - max(examples.span[0], known.span[0])
        return float(max(0, both) / (examples.span[1] - examples.span[0]))
    if isinstance(family, StreamFamily | LabellingFamily | TranslationFamily):
        return float(np.isin(examples.keys, known.keys).sum() / max(1, len(examples.keys)))
    return None


# --- undertraining: a score then shows how far training got, not how good the model is ---

MIN_UPDATES = 10
"""Minimum number of updates to judge a loss curve by."""

LAST_SHARE = 0.2
"""Share of the updates, at the end, in which the loss should no longer fall."""
FALLING_RATE = 0.25
"""The loss still falls if it falls there at more than this share of its average rate."""
STOPPED_EARLY = "stopped early"
"""Status of a run that early stopping ended, which is not undertrained."""


def undertraining(card: Mapping[str, Any], log: Iterable[Mapping[str, Any]]) -> str | None:
    """Return why a run is undertrained; empty if it is not, None if its log is not sufficient.

    Language models need not have finished an epoch: long texts are rarely read to the end, and the loss is sufficient.
    """
    if card.get("status") == STOPPED_EARLY:
        return ""
    updates = int(card.get("steps", 0))
    epoch = 0 if reads_stream(str(card.get("task"))) else math.ceil(card.get("steps_per_epoch") or 0)
    if 0 < updates < epoch:
        return sentence(__name__, "within epoch", updates=counted(updates, "update"), epoch=epoch)
    if 0 < updates < MIN_UPDATES:
        return sentence(__name__, "few updates", updates=counted(updates, "update"))
    return falling(log, updates)


def falling(log: Iterable[Mapping[str, Any]], updates: int) -> str | None:
    """Return a phrase if the validation loss was still falling at the end, else an empty text; None if unknown.

    Two conditions must hold. The loss fell from each validation to the next in the last two fifths of the updates, and
    its best value fell by much in the last fifth. The decrease there is compared with that since the first batch, per
    unit of learning rate, because a low rate slows it.
    """
    start, rates, losses = None, [0.0, 0.0], []
    for line in log:
        if line.get("event") == "step":
            start = float(line["loss"]) if start is None else start
            rates[line["step"] > (1 - LAST_SHARE) * updates] += float(line["lr"])
        elif line.get("event") == "validation" and "loss" in line:
            losses.append((int(line["step"]), float(line["loss"])))
    before = [loss for step, loss in losses if step <= (1 - LAST_SHARE) * updates]
    if start is None or not before or not sum(rates) > 0:
        return None
    best = min(loss for _, loss in losses)
    fell, whole = min(start, *before) - best, start - best
    recent = [loss for step, loss in losses if step >= (1 - 2 * LAST_SHARE) * updates]
    steadily = all(after < loss for loss, after in pairwise(recent))
    if not steadily or fell <= FALLING_RATE * whole * rates[1] / sum(rates):
        return ""
    return sentence(__name__, "falling", fell=fell, whole=whole)


# --- metrics of a cross-validation over all rows ---


def fold_metric(family: Family, config: Config) -> tuple[str, bool]:
    """Return the metric of a fold, and whether lower is better. It does not depend on the tokenizer of the fold."""
    return ("bits_per_byte", True) if isinstance(family, LanguageFamily) else family.selection(config)


@singledispatch
def pooled_metrics(family: Family, records: Records, folds: Folds) -> dict[str, float]:
    """Return metrics over the records of all folds; by default the sum of counts, and the mean of other metrics."""
    names = [name for name in folds[0] if all(name in fold for fold in folds)]
    sums = {name: sum(fold[name] for fold in folds) for name in names}
    return {name: value if isinstance(value, int) else value / len(folds) for name, value in sums.items()}


@pooled_metrics.register
def pooled_classification_metrics(family: ClassificationFamily, records: Records, folds: Folds) -> dict[str, float]:
    names = sorted({record[key] for record in records for key in ("label", "predicted")})
    numbers = {name: number for number, name in enumerate(names)}
    true, predicted = (np.array([numbers[record[key]] for record in records]) for key in ("label", "predicted"))
    confusion = confusion_matrix(true, predicted, len(names))
    return {
        "accuracy": float(np.trace(confusion) / confusion.sum()),
        "macro_f1": macro_f1(confusion),
        **_mean_loss(records),
    }


@pooled_metrics.register
def pooled_multilabel_metrics(family: MultilabelFamily, records: Records, folds: Folds) -> dict[str, float]:
    names = sorted({name for record in records for key in ("labels", "predicted") for name in record[key]})
    true, predicted = (
        np.array([[name in record[key] for name in names] for record in records]) for key in ("labels", "predicted")
    )
    return {**set_metrics(true, predicted), **_mean_loss(records)}


def _mean_loss(records: Records) -> dict[str, float]:
    losses = [record["loss"] for record in records if record["loss"] is not None]  # None: the label is unknown
    return {**({"loss": math.fsum(losses) / len(losses)} if losses else {}), "examples": len(records)}


@pooled_metrics.register
def pooled_regression_metrics(family: RegressionFamily, records: Records, folds: Folds) -> dict[str, float]:
    true, predicted = (np.array([record[key] for record in records], float) for key in ("number", "predicted"))
    square, variance = float(np.mean((predicted - true) ** 2)), float(true.var())
    return {
        "rmse": math.sqrt(square),
        "mae": float(np.mean(np.abs(predicted - true))),
        **({"r2": 1 - square / variance} if variance > 0 else {}),
        "examples": len(records),
    }


@pooled_metrics.register
def pooled_translation_metrics(family: TranslationFamily, records: Records, folds: Folds) -> dict[str, float]:
    return judge([dict(record) for record in records], "greedy").metrics


@pooled_metrics.register
def pooled_stream_metrics(family: StreamFamily, records: Records, folds: Folds) -> dict[str, float]:
    tokens = sum(fold["tokens"] for fold in folds)
    loss = math.fsum(fold["loss"] * fold["tokens"] for fold in folds) / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "tokens": tokens}


@pooled_metrics.register
def pooled_language_metrics(family: LanguageFamily, records: Records, folds: Folds) -> dict[str, float]:
    """Add the bits and the bytes of the folds, because each fold may have its own tokenizer."""
    bits = [fold["loss"] * fold["tokens"] / math.log(2) for fold in folds]
    size = math.fsum(n / fold["bits_per_byte"] for n, fold in zip(bits, folds, strict=True) if n)
    return {**pooled_stream_metrics(family, records, folds), "bits_per_byte": math.fsum(bits) / size if size else 0.0}
