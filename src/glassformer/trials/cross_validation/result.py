"""What a cross-validation came to: the folds together, and all rows together, none of which its model had seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from glassformer.families.base import Family
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily, StreamFamily
from glassformer.families.translation import TranslationFamily
from glassformer.pipeline.training import Trained
from glassformer.statistics.intervals import Interval
from glassformer.tasks.prediction import confusion_matrix, macro_f1, set_metrics
from glassformer.tasks.translation import judge
from glassformer.trials.outcome import json_safe
from glassformer.trials.results.metrics import titled

Records = Sequence[Mapping[str, Any]]
Folds = Sequence[Mapping[str, float]]
"""The metrics of each fold."""

SHARED = "the folds share most of their training rows, so that the interval is approximate"
CHOSE = "each fold also chose the weights that it judges, so that scores are a little too good (training.keep last)"


@dataclass(frozen=True)
class Fold:
    """One of the trainings."""

    fold: int
    """Counted from 1, as its folder is."""
    run: str
    """Its folder, as seen from that of all."""
    metrics: dict[str, float]
    steps: int
    """Updates after which it was best."""
    total: int
    """Updates that it set out to make."""


@dataclass(frozen=True, repr=False)
class CrossValidated:
    """What the folds came to."""

    out: str
    task: str
    model: str
    primary: str = ""
    lower_is_better: bool = False
    folds: list[Fold] = field(default_factory=list)
    mean: float = math.nan
    interval: Interval | None = None
    """The mean's interval, by Student's t over the folds. They share training rows, so that it is approximate."""
    pooled: dict[str, float] = field(default_factory=dict)
    """Metrics over all rows together, each predicted once by the model that had not seen it."""
    chose: bool = False
    """Each fold was also the validation part that chose its weights, so that scores are a little too good."""
    reason: str = "finished"
    """Or interrupted; then the folds are those that were done."""
    refit: Trained | None = field(default=None, repr=False)

    def __fspath__(self) -> str:
        return self.out

    @property
    def words(self) -> str:
        """What it came to, in a sentence."""
        if not self.folds:
            return "no fold was trained to its end"
        between = ""
        if self.interval is not None and self.interval.low < self.interval.high:  # alike, they tell of no other fold
            between = f" (95 %: {_interval_end(self.interval.low)} to {_interval_end(self.interval.high)})"
        floats = {name: value for name, value in self.pooled.items() if isinstance(value, float)}
        whole = ", ".join(f"{titled(name)} {value:.4f}" for name, value in floats.items())
        over = f"{len(self.folds)} folds" + " (which also chose the weights)" * self.chose
        return f"{titled(self.primary)} {self.mean:.4f}{between} over {over}; all rows together: {whole}"

    @property
    def note(self) -> str:
        """How far to trust it."""
        return f"{SHARED}; {CHOSE}" if self.chose else SHARED

    def to_dict(self) -> dict[str, Any]:
        fields = {name: value for name, value in asdict(self).items() if name != "refit"}
        refit = {} if self.refit is None else {"refit": self.refit.to_dict()}
        return json_safe({**fields, "note": self.note, **refit})

    def __repr__(self) -> str:
        """What it says, and each fold's score."""
        lines = [f"fold {one.fold}  {one.metrics[self.primary]:.4f}  {self.out}/{one.run}" for one in self.folds]
        return "\n".join([self.words, *lines, self.note])

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>fold {one.fold}</td><td>{one.metrics[self.primary]:.4f}</td></tr>" for one in self.folds]
        return (
            f"<table><tr><th></th><th>{titled(self.primary)}</th></tr>{''.join(rows)}</table>"
            f"<p>{self.words}; {self.note}</p>"
        )


def _interval_end(value: float) -> str:
    """An end of an interval: that of a scale is whole, 0 or 1."""
    return f"{value:.0f}" if value in (0.0, 1.0) else f"{value:.4f}"


# --- all rows together ---


@singledispatch
def fold_metric(family: Family) -> str:
    """What a fold is judged by."""
    return family.primary


@fold_metric.register
def _(family: LanguageFamily) -> str:
    """Folds may have other tokens each: a metric that does not depend on them."""
    return "bits_per_byte"


@singledispatch
def pooled_metrics(family: Family, records: Records, folds: Folds) -> dict[str, float]:
    """Metrics over the records of all folds. Where nobody knows how they follow from records: counts of the folds are
    added up, and of all else the mean is taken.
    """
    names = [name for name in folds[0] if all(name in fold for fold in folds)]
    sums = {name: sum(fold[name] for fold in folds) for name in names}
    return {name: value if isinstance(value, int) else value / len(folds) for name, value in sums.items()}


@pooled_metrics.register
def _(family: ClassificationFamily, records: Records, folds: Folds) -> dict[str, float]:
    names = sorted({record[key] for record in records for key in ("label", "predicted")})
    numbers = {name: number for number, name in enumerate(names)}
    true, predicted = (np.array([numbers[record[key]] for record in records]) for key in ("label", "predicted"))
    confusion = confusion_matrix(true, predicted, len(names))
    accuracy = float(np.trace(confusion) / confusion.sum())
    return {"accuracy": accuracy, "macro_f1": macro_f1(confusion), **_mean_loss(records)}


@pooled_metrics.register
def _(family: MultilabelFamily, records: Records, folds: Folds) -> dict[str, float]:
    names = sorted({name for record in records for key in ("labels", "predicted") for name in record[key]})
    true, predicted = (
        np.array([[name in record[key] for name in names] for record in records]) for key in ("labels", "predicted")
    )
    return {**set_metrics(true, predicted), **_mean_loss(records)}


def _mean_loss(records: Records) -> dict[str, float]:
    return {"loss": math.fsum(record["loss"] for record in records) / len(records), "examples": len(records)}


@pooled_metrics.register
def _(family: RegressionFamily, records: Records, folds: Folds) -> dict[str, float]:
    true, predicted = (np.array([record[key] for record in records], float) for key in ("number", "predicted"))
    square, variance = float(np.mean((predicted - true) ** 2)), float(true.var())
    return {
        "rmse": math.sqrt(square),
        "mae": float(np.mean(np.abs(predicted - true))),
        "r2": 1 - square / variance if variance > 0 else 0.0,
        "examples": len(records),
    }


@pooled_metrics.register
def _(family: TranslationFamily, records: Records, folds: Folds) -> dict[str, float]:
    return judge([dict(record) for record in records], "greedy").metrics


@pooled_metrics.register
def _(family: StreamFamily, records: Records, folds: Folds) -> dict[str, float]:
    tokens = sum(fold["tokens"] for fold in folds)
    loss = math.fsum(fold["loss"] * fold["tokens"] for fold in folds) / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "tokens": tokens}


@pooled_metrics.register
def _(family: LanguageFamily, records: Records, folds: Folds) -> dict[str, float]:
    """Folds may cut the text into different tokens: bits over bytes are the fair sum."""
    bits = [fold["loss"] * fold["tokens"] / math.log(2) for fold in folds]
    size = math.fsum(n / fold["bits_per_byte"] for n, fold in zip(bits, folds, strict=True) if n)
    of_tokens = pooled_metrics.dispatch(StreamFamily)(family, records, folds)
    return {**of_tokens, "bits_per_byte": math.fsum(bits) / size if size else 0.0}
