"""One evaluation of the predictions of several models, none of which had seen the examples that it was asked about."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION, TRANSLATION
from glassformer.tasks.classification import confusion_matrix, macro_f1
from glassformer.tasks.multilabel import set_metrics
from glassformer.tasks.translation import judge

Records = Sequence[Mapping[str, Any]]


def pooled(task: str, folds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Metrics over all records together. `folds`: each with its `records` and `metrics`."""
    records = [record for fold in folds for record in fold["records"]]
    if task == CLASSIFICATION:
        return _classes(records)
    if task == MULTILABEL:
        return _labels(records)
    if task == REGRESSION:
        return _numbers(records)
    if task == TRANSLATION:
        return judge([dict(record) for record in records], "greedy").metrics
    return _tokens([fold["metrics"] for fold in folds])


def _classes(records: Records) -> dict[str, float]:
    names = sorted({record[key] for record in records for key in ("label", "predicted")})
    numbers = {name: number for number, name in enumerate(names)}
    true, said = (np.array([numbers[record[key]] for record in records]) for key in ("label", "predicted"))
    confusion = confusion_matrix(true, said, len(names))
    return {
        "accuracy": float(np.trace(confusion) / confusion.sum()),
        "macro_f1": macro_f1(confusion),
        "loss": math.fsum(record["loss"] for record in records) / len(records),
        "examples": len(records),
    }


def _labels(records: Records) -> dict[str, float]:
    names = sorted({name for record in records for key in ("labels", "predicted") for name in record[key]})
    true, said = (
        np.array([[name in record[key] for name in names] for record in records]) for key in ("labels", "predicted")
    )
    loss = math.fsum(record["loss"] for record in records) / len(records)
    return {**set_metrics(true, said), "loss": loss, "examples": len(records)}


def _numbers(records: Records) -> dict[str, float]:
    true, said = (np.array([record[key] for record in records], dtype=np.float64) for key in ("number", "predicted"))
    square = float(np.mean((said - true) ** 2))
    variance = float(true.var())
    return {
        "rmse": math.sqrt(square),
        "mae": float(np.mean(np.abs(said - true))),
        "r2": 1 - square / variance if variance > 0 else 0.0,
        "examples": len(records),
    }


def _tokens(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of language models, which may cut the text into different tokens: bits over bytes are the fair sum."""
    bits = [one["loss"] * one["tokens"] / math.log(2) for one in metrics]
    size = math.fsum(n / one["bits_per_byte"] for n, one in zip(bits, metrics, strict=True) if n)
    tokens = sum(one["tokens"] for one in metrics)
    loss = math.fsum(one["loss"] * one["tokens"] for one in metrics) / tokens
    per_byte = math.fsum(bits) / size if size else 0.0
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "bits_per_byte": per_byte, "tokens": tokens}
