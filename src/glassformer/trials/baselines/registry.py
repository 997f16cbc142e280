"""The floors and references of each family, judged as a model is: by the task itself, on the same examples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

from torch import Tensor

from glassformer.config.errors import DataError, SettingError
from glassformer.config.names import unknown
from glassformer.config.presets import TABLE, TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.tasks.base import Evaluation
from glassformer.tasks.translation import judge
from glassformer.trials.baselines.labels import (
    class_shares,
    constant_mean,
    every,
    label_set,
    label_shares,
    most_frequent,
)
from glassformer.trials.baselines.language import judge_hidden, judge_ngrams, judge_unigrams, left_out
from glassformer.trials.baselines.names import (
    BOOSTING,
    COPY,
    EACH,
    EVERY,
    LINEAR,
    MAJORITY,
    MEAN,
    NGRAM,
    PAIRS,
    SET,
    TFIDF,
    UNIGRAM,
)
from glassformer.trials.baselines.scikit import CLASSIFIER, MULTILABEL_CLASSIFIER, REGRESSOR, Estimator, fit_and_score
from glassformer.trials.outcome import FLOOR, REFERENCE


@dataclass(frozen=True)
class BaselineResult:
    """What a baseline came to on a part."""

    evaluation: Evaluation
    parameters: int
    """How many numbers it learned or counted."""
    seconds: float | None = None
    """Of learning, where that is not all that it did."""
    note: str = ""
    """What a reader of its score should know."""


@dataclass(frozen=True)
class Baseline:
    """A floor or a reference of a family."""

    name: str
    evaluate: Callable[[Prepared, str], BaselineResult]
    """From the data and the name of the part to judge it on."""
    kind: str = FLOOR


@singledispatch
def baselines(family: Family, kind: str) -> list[Baseline]:
    """What a model must beat, on examples of a kind: floors, which learn nothing, or only count, and models of
    scikit-learn with its defaults, which are what most people would try first.
    """
    return []


def evaluate_baseline(what: str, name: str, config: Config, prepared: Prepared, part: str) -> BaselineResult:
    """A floor or a reference (`what`) on a part."""
    known = {one.name: one for one in baselines(FAMILIES[config.task], config.data.kind) if one.kind == what}
    if name not in known:
        raise SettingError(unknown(f"{what} for this task", name, known))
    return known[name].evaluate(prepared, part)


# --- texts ---


def _unigrams(prepared: Any, part: str) -> BaselineResult:
    return BaselineResult(*judge_unigrams(prepared.task, part, prepared.shape.vocab))


def _ngrams(prepared: Any, part: str) -> BaselineResult:
    evaluation, counted = judge_ngrams(prepared.task, part, prepared.shape.vocab)
    return BaselineResult(evaluation, counted, note=left_out(prepared.task))


def _hidden(prepared: Any, part: str) -> BaselineResult:
    return BaselineResult(*judge_hidden(prepared.task, part))


def _copies(prepared: Any, part: str) -> BaselineResult:
    """The source as its own translation: what names, numbers and equal words are worth."""
    pairs = prepared.task.parts[part]
    if not len(pairs):
        raise DataError(f"the {part} part holds no pair")
    records = [
        {"source": source, "target": target, "output": source, "exact": source == target}
        for source, target in zip(pairs.sources, pairs.targets, strict=True)
    ]
    return BaselineResult(judge(records, "the source itself"), 0)


@baselines.register
def _(family: LanguageFamily, kind: str) -> list[Baseline]:
    return [Baseline(UNIGRAM, _unigrams), Baseline(NGRAM, _ngrams)]


@baselines.register
def _(family: MaskedFamily, kind: str) -> list[Baseline]:
    return [Baseline(UNIGRAM, _hidden)]


@baselines.register
def _(family: TranslationFamily, kind: str) -> list[Baseline]:
    return [Baseline(COPY, _copies)]


# --- labels and numbers ---


Constants = dict[str, Callable[[Any], Tensor]]
"""By the name of a floor: from the task to the scores that it has for every example."""


def _constant(scores_of: Callable[[Any], Tensor], prepared: Any, part: str) -> BaselineResult:
    """The same answer for every example."""
    task = prepared.task
    row = scores_of(task)
    return BaselineResult(task.judge(task.parts[part], row.repeat(len(task.parts[part]), 1)), len(row))


def _fitted(name: str, estimator: Estimator, prepared: Any, part: str) -> BaselineResult:
    task = prepared.task
    scores, learned, seconds = fit_and_score(name, estimator, task, part)
    return BaselineResult(task.judge(task.parts[part], scores), learned, seconds)


def _of_labels(constants: Constants, estimator: Estimator, kind: str) -> list[Baseline]:
    """Constant answers as floors, and what scikit-learn has for such examples as references."""
    names = {TEXT: [TFIDF, PAIRS], TABLE: [LINEAR, *([BOOSTING] if estimator.boosting else [])]}.get(kind, [])
    return [
        *(Baseline(name, partial(_constant, scores)) for name, scores in constants.items()),
        *(Baseline(name, partial(_fitted, name, estimator), REFERENCE) for name in names),
    ]


@baselines.register
def _(family: ClassificationFamily, kind: str) -> list[Baseline]:
    return _of_labels({MAJORITY: class_shares}, CLASSIFIER, kind)


@baselines.register
def _(family: RegressionFamily, kind: str) -> list[Baseline]:
    return _of_labels({MEAN: constant_mean}, REGRESSOR, kind)


@baselines.register
def _(family: MultilabelFamily, kind: str) -> list[Baseline]:
    constants: Constants = {
        SET: partial(label_set, most_frequent),
        EACH: label_shares,
        EVERY: partial(label_set, every),
    }
    return _of_labels(constants, MULTILABEL_CLASSIFIER, kind)
