"""How the loss went."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a8a8a"  # told apart by the colour-blind too


def smoothed(values: Sequence[float], keep: float = 0.9) -> list[float]:
    """A running average that starts unbiased."""
    out, total, weight = [], 0.0, 0.0
    for value in values:
        total = keep * total + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        out.append(total / weight)
    return out


def draw_curves(
    metrics: Sequence[dict[str, Any]], path: Path, *, title: str, unit: str, smoothing: float = 0.0
) -> None:
    """Loss in training (each step and smoothed) and validation, its best point marked; accuracy or chrF; the rate."""
    steps = [line for line in metrics if line.get("event") == "step"]
    validations = [line for line in metrics if line.get("event") == "validation"]
    judged = next((name for name in ("accuracy", "chrf") if validations and name in validations[0]), "")
    scores = [line[judged] for line in validations if judged in line]
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    heights = [4, 2, 1] if scores else [4, 1]
    upper, *middle, lower = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    if steps:
        at = [line["step"] for line in steps]
        losses = [line["loss"] for line in steps]
        upper.plot(at, losses, color=BLUE, alpha=0.25, linewidth=0.8)
        label = f"training, with label smoothing {smoothing:g}" if smoothing else "training, smoothed"
        upper.plot(at, smoothed(losses), color=BLUE, linewidth=1.6, label=label)
        lower.plot(at, [line["lr"] for line in steps], color=GREY, linewidth=1.4)
    if validations:
        at = [line["step"] for line in validations]
        values = [line["loss"] for line in validations]
        upper.plot(at, values, color=ORANGE, marker="o", markersize=4, linewidth=1.6, label="validation")
        _mark(upper, at, values, values.index(min(values)))
        for axes in middle:
            axes.plot(at, scores, color=ORANGE, marker="o", markersize=4, linewidth=1.6)
            axes.margins(y=0.3)  # room for the number above the best point
            axes.set_ylabel({"chrf": "chrF"}.get(judged, judged))
            _mark(axes, at, scores, scores.index(max(scores)))
    upper.set_ylabel(f"loss ({unit})")
    upper.set_title(title, loc="left", parse_math=False)
    if steps or validations:
        upper.legend(frameon=False)
    lower.set_ylabel("rate")
    lower.set_xlabel("updates")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    lower.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    for axes in (upper, *middle, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        figure.savefig(path)


def _mark(axes: Any, at: Sequence[int], values: Sequence[float], best: int) -> None:
    """The best value, written above its point."""
    axes.annotate(
        f"{values[best]:.4g}",
        (at[best], values[best]),
        textcoords="offset points",
        xytext=(0, 8),
        ha="center",
        color=ORANGE,
    )
