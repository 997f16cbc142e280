"""How a model is judged: a score for each example, the seconds of one use, whether a run has learned from the examples,
whether it was trained to its end, and what folds come to together.
"""

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
from typing import Any

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
from glassformer.families.language import LanguageFamily, LoadedLanguageModel, LoadedMasked, MaskedFamily, StreamFamily
from glassformer.families.translation import LoadedTranslator, TranslationFamily
from glassformer.models.modules import device_of
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import stack_rows
from glassformer.tasks.prediction import confusion_matrix, macro_f1, set_metrics
from glassformer.tasks.translation import judge
from glassformer.trials.jobs import Job, Outcome

Records = Sequence[Mapping[str, Any]]
Folds = Sequence[Mapping[str, float]]
"""The metrics of each fold."""

EXAMPLE_KEYS: tuple[str, ...] = ("text", "example", "label", "labels", "number", "source", "target")
WINDOW_KEYS: tuple[str, ...] = ("start", "tokens", "covered")
"""What tells an example, or a window of a text, from others; never what a model said."""

WARM_UP, TIMED, LONGEST = 3, 50, 3.0
"""Examples that are not timed, examples that are, and seconds after which it is enough."""
SPLIT = (
    "validation", "test", "validation_fraction", "test_fraction", "split_seed", "split_by", "same_text",
    "near_duplicates", "folds", "fold",
)  # fmt: skip
"""The data settings that decide what is held out."""
LOCATION_KEYS = ("path", "source_file", "target_file")
"""Where the data lies, which may be elsewhere by now."""


# --- a score for each example, so that two models can be compared on the very same ones ---


def outcome_of(job: Job, part: str, evaluation: Evaluation, family: Family, **more: Any) -> Outcome:
    """What a job came to on a part, example by example, and what `more` is known of it.

    The mean of the scores is the accuracy; of numbers, the mean squared error below zero, of which RMSE is the root;
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
    return Outcome(
        job=job,
        part=part,
        metrics=dict(evaluation.metrics),
        primary=evaluation.primary,
        lower_is_better=evaluation.lower_is_better,
        scores=score_records(family, evaluation),
        weights=weights,
        examples=digest.hexdigest(),
        **more,
    )


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
def score_classification(family: ClassificationFamily, evaluation: Evaluation) -> list[float]:
    """Return the scores whose mean is the primary metric; none for average precision, which is not a mean."""
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
    true, said = (np.array([[one == name for name in names] for one in side], float) for side in (labels, predicted))
    hits, sizes = 2 * true * said, true + said
    f1, mean_size = hits.sum(0) / sizes.sum(0), sizes.mean(0)
    scores: list[float] = (f1 + (hits - f1 * sizes) / mean_size).mean(1).tolist()
    return scores


@score_records.register
def score_multilabel(family: MultilabelFamily, evaluation: Evaluation) -> list[float]:
    """F1: twice what is in both sets, divided by what is in each; two empty sets agree."""
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


# --- seconds ---


@torch.inference_mode()
def seconds_per_example(loaded: Loaded, part: Any) -> float | None:
    """Seconds that one example alone takes, from raw text to answer: the median of some; of a language model, a token
    written, of a masked one a window read. None where its family does not say what a use is.
    """
    times: list[float] = []
    began = last = time.perf_counter()
    for _ in itertools.islice(uses(loaded.family, loaded, part), WARM_UP + TIMED):
        now = time.perf_counter()
        times.append(now - last)
        if now - began > LONGEST:
            break
        last = time.perf_counter()
    return statistics.median(times[WARM_UP:] or times) if times else None


@singledispatch
def uses(family: Family, loaded: Any, part: Any) -> Iterator[object]:
    """Uses of a run on a part of the data, one a step."""
    return iter(())


@uses.register
def language_uses(family: LanguageFamily, loaded: LoadedLanguageModel, part: TextPart) -> Iterator[object]:
    start = loaded.tokenizer.start
    prompt = [0 if start is None else start]
    return generate(loaded.model, [prompt], Sampling(), most=WARM_UP + TIMED, never=list(loaded.tokenizer.specials))


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


# --- whether a run has learned from what it is judged on ---


def leakage(run: Run, trained: Config, config: Config, corpus: DataParts, part: str) -> tuple[str, bool]:
    """A remark for its row, and whether it has learned from some of these examples: then it does not compete.

    `trained`: the run's configuration; `corpus`: the data of the comparison, which judges on this `part` of it.
    """
    if run.card()["data"]["fingerprint"] != corpus.fingerprint:
        return sentence(__name__, "other data"), False
    other = next((name for name in SPLIT if getattr(trained.data, name) != getattr(config.data, name)), None)
    if other is None and not trained.data.refit:
        return "", False
    here = replace(trained.data, **{name: getattr(config.data, name) for name in LOCATION_KEYS})
    own: Mapping[str, Any] = {}
    with contextlib.suppress(GlassformerError):
        own = split_data(replace(trained, data=here)).parts
    family = FAMILIES[config.task]
    learned, chosen = (
        known_share(family, corpus.parts[part], own[name]) if name in own else None for name in ("train", "validation")
    )
    if learned is None:
        return sentence(__name__, "other split", setting=other or "refit"), False
    if learned > 0:
        return sentence(__name__, "learned"), True
    return sentence(__name__, "chosen") if chosen else "", False


def known_share(family: Family, examples: Any, known: Any) -> float | None:
    """Return which share of some examples is among known ones; None if the family cannot tell."""
    if isinstance(family, StreamFamily) and examples.span is not None and known.span is not None:
        both = min(examples.span[1], known.span[1]) - max(examples.span[0], known.span[0])
        return float(max(0, both) / (examples.span[1] - examples.span[0]))
    if isinstance(family, StreamFamily | LabellingFamily | TranslationFamily):
        return float(np.isin(examples.keys, known.keys).sum() / max(1, len(examples.keys)))
    return None


# --- whether a training run came to its end: before that, a score says how far it got, not how good the model is ---

MIN_UPDATES = 10
"""The updates after which a loss can tell anything: with fewer, not even each tenth of a training is one."""

LAST_SHARE = 0.2
"""The part of the updates, at the end, in which a loss should have stopped to fall."""
FALLING_PACE = 0.25
"""It is falling still if it falls there at more than such a part of its average pace."""
STOPPED_EARLY = "stopped early"
"""The status of a run whose validation got no better: that is an end."""


def undertraining(card: Mapping[str, Any], log: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a run was not trained to its end, in a few words; empty: it was. None: its log does not say.

    An epoch is asked for of examples, not of a text: a long one is rarely read to its end, and its loss tells enough.
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
    """How far the best validation loss fell in the last fifth of the updates, if that is much of its whole way from the
    loss of the first batch, and it fell from one validation to the next for as long again; else nothing. None: there is
    too little to tell by.

    How much is much follows from the learning rate, which falls as well: a loss is soon still where the rate is low.
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
    if not steadily or fell <= FALLING_PACE * whole * rates[1] / sum(rates):
        return ""
    return sentence(__name__, "falling", fell=fell, whole=whole)


# --- the folds of a cross-validation, all rows together ---


def fold_metric(family: Family, config: Config) -> tuple[str, bool]:
    """Return the metric of a fold, and whether lower is better. It does not depend on the tokenizer of the fold."""
    return ("bits_per_byte", True) if isinstance(family, LanguageFamily) else family.selection(config)


@singledispatch
def pooled_metrics(family: Family, records: Records, folds: Folds) -> dict[str, float]:
    """Metrics over the records of all folds. Where nobody knows how they follow from records: counts of the folds are
    added up, and of all else the mean is taken.
    """
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
    """Folds may cut the text into different tokens: bits over bytes are the fair sum."""
    bits = [fold["loss"] * fold["tokens"] / math.log(2) for fold in folds]
    size = math.fsum(n / fold["bits_per_byte"] for n, fold in zip(bits, folds, strict=True) if n)
    of_tokens = pooled_stream_metrics(family, records, folds)
    return {**of_tokens, "bits_per_byte": math.fsum(bits) / size if size else 0.0}
