"""Training curves: loss, scores and learning rate by update."""

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

MAX_POINTS = 600
"""Maximum number of points of a curve; of more, every n-th is drawn."""
MAX_LEVEL_FACTOR = 1.1
"""Maximum height of a level relative to the highest loss; a higher one would flatten the curve."""
LOGARITHMIC = 10
"""Ratio of the highest and the lowest loss from which the axis is logarithmic."""

PLOTTED = ("accuracy", "chrf", "rmse")
"""Metrics drawn besides the loss."""
LOWER_IS_BETTER = ("rmse", "loss")
"""Metrics for which lower is better."""


def draw_curves(
    metrics: Records, path: Path, *, title: str, unit: str, smoothing: float = 0.0, levels: Levels = ()
) -> None:
    """Write a picture of the curves."""
    View(title, curves(metrics, unit=unit, smoothing=smoothing, levels=levels)).save(path)


def curves(metrics: Records, *, unit: str, smoothing: float = 0.0, levels: Levels = ()) -> list[Panel]:
    """Return panels of the loss, of accuracy, chrF or RMSE, and of the learning rate.

    The loss is that of training (each update and smoothed) and of the validations. `levels` are losses to compare with;
    levels far above the curve are omitted.
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
    near = [(name, height) for name, height in levels if height <= MAX_LEVEL_FACTOR * max(known, default=0.0)]
    judged = [
        Lines(
            title=METRIC_NAMES.get(name, name.capitalize()),
            takeaway=_extreme(name, validations),
            series=[_validations(name, "validation", validations)],
            y_name=metric_name(name),
            x_name="updates",
        )
        for name in PLOTTED
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
    step, best = (min if name in LOWER_IS_BETTER else max)(known, key=lambda pair: pair[1])
    return f"The best validation is {three(best)}, after {counted(step, 'update')}"


def _line(name: str, x: Sequence[float], y: Sequence[float], *, faint: bool = False) -> Line:
    """Return a line of at most about MAX_POINTS points, including the last one."""
    interval = math.ceil(len(x) / MAX_POINTS)
    indices = sorted({*range(0, len(x), interval), len(x) - 1})
    return Line(name=name, x=[x[index] for index in indices], y=[y[index] for index in indices], faint=faint)


def _validations(key: str, name: str, validations: Records) -> Line:
    known = [line for line in validations if key in line]
    return Line(name=name, x=[line["step"] for line in known], y=[line[key] for line in known], dots=True)


def smoothed(values: Sequence[float], keep: float = 0.9) -> list[float]:
    """Return an exponential moving average with bias correction."""
    out, total, weight = [], 0.0, 0.0
    for value in values:
        total = keep * total + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        out.append(total / weight)
    return out
