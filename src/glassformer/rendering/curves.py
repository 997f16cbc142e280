"""How a training went: loss, scores and learning rate by update."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.config.units import METRIC_NAMES, metric_name
from glassformer.data.wording import counted
from glassformer.rendering.panels import Line, Lines, Panel
from glassformer.rendering.takeaways import course, three
from glassformer.rendering.view import View

Records = Sequence[Mapping[str, Any]]
Levels = Sequence[tuple[str, float]]

MOST_POINTS = 600
"""Points of a curve; of more, some at even distances are drawn."""
NEAR = 1.1
"""A level that is higher than so many times the highest loss would squeeze the curve."""
LOGARITHMIC = 10
"""From a fall by this factor on, the loss has a logarithmic axis."""

JUDGED = ("accuracy", "chrf", "rmse")
"""What is drawn beside the loss, where it is there."""
LOWER = ("rmse", "loss")
"""Metrics of which less is better."""


def draw_curves(
    metrics: Records, path: Path, *, title: str, unit: str, smoothing: float = 0.0, levels: Levels = ()
) -> None:
    """Write a picture of the curves."""
    View(title, curves(metrics, unit=unit, smoothing=smoothing, levels=levels)).save(path)


def curves(metrics: Records, *, unit: str, smoothing: float = 0.0, levels: Levels = ()) -> list[Panel]:
    """Loss in training (each update and smoothed) and validation; accuracy, chrF or RMSE; the learning rate. `levels`:
    losses to compare with, of which those far above are left out.
    """
    steps = [line for line in metrics if line.get("event") == "step"]
    validations = [line for line in metrics if line.get("event") == "validation"]
    if not steps:
        return []
    at, losses = [line["step"] for line in steps], [line["loss"] for line in steps]
    label = f"training, with label smoothing {smoothing:g}" if smoothing else "training"
    series = [_line("each update", at, losses, faint=True), _line(f"{label}, running average", at, smoothed(losses))]
    if validations:
        series.append(_validations("loss", "validation", validations))
    if any("training_loss" in line for line in validations):
        series.append(_validations("training_loss", "training, without label smoothing and dropout", validations))
    known = [loss for line in series for loss in line.y if math.isfinite(loss)]
    near = [(name, height) for name, height in levels if height <= NEAR * max(known, default=0.0)]
    judged = [
        Lines(
            title=METRIC_NAMES.get(name, name.capitalize()),
            takeaway=_extreme(name, validations),
            series=[_validations(name, "validation", validations)],
            y_name=metric_name(name),
            x_name="updates",
        )
        for name in JUDGED
        if validations and name in validations[0]
    ]
    rates = [line["lr"] for line in steps]
    return [
        Lines(
            title="Loss",
            takeaway=_extreme("loss", validations) or f"The training loss {course(smoothed(losses))}",
            series=series,
            y_name=f"loss ({unit})",
            x_name="updates",
            log_y=min(known, default=0.0) > 0 and min(known) < max(known) / LOGARITHMIC,
            levels=near,
        ),
        *judged,
        Lines(
            title="Learning rate",
            takeaway=f"The rate {course(rates)}",
            series=[_line("learning rate", at, rates)],
            y_name="rate",
            x_name="updates",
        ),
    ]


def _extreme(name: str, validations: Records) -> str:
    """Return the best validation by a metric; "" if it is unknown."""
    known = [(line["step"], line[name]) for line in validations if math.isfinite(line.get(name, math.nan))]
    if not known:
        return ""
    step, best = (min if name in LOWER else max)(known, key=lambda pair: pair[1])
    return f"The best validation is {three(best)}, after {counted(step, 'update')}"


def _line(name: str, x: Sequence[float], y: Sequence[float], *, faint: bool = False) -> Line:
    """A line of at most so many points, the last among them."""
    apart = math.ceil(len(x) / MOST_POINTS)
    some = sorted({*range(0, len(x), apart), len(x) - 1})
    return Line(name=name, x=[x[place] for place in some], y=[y[place] for place in some], faint=faint)


def _validations(key: str, name: str, validations: Records) -> Line:
    there = [line for line in validations if key in line]
    return Line(name=name, x=[line["step"] for line in there], y=[line[key] for line in there], dots=True)


def smoothed(values: Sequence[float], keep: float = 0.9) -> list[float]:
    """A running average that starts unbiased."""
    out, total, weight = [], 0.0, 0.0
    for value in values:
        total = keep * total + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        out.append(total / weight)
    return out
