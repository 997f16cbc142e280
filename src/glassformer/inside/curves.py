"""How the loss went."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from glassformer.inside.drawing import save
from glassformer.inside.drawing.charts import quiet
from glassformer.inside.drawing.colours import BLUE, GREY, ORANGE
from glassformer.inside.drawing.lettering import HEADING, SMALL, fonts
from glassformer.inside.drawing.sheet import DPI


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
    figure = Figure(figsize=(8, 5), dpi=DPI, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
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
    for axes in (upper, *middle, lower):
        quiet(axes, y_name=axes.get_ylabel())
    quiet(upper, y_name=f"loss ({unit})")
    quiet(lower, "updates", "rate")
    upper.set_title(title, loc="left", parse_math=False, fontsize=HEADING, fontweight="bold", fontfamily=fonts())
    if steps or validations:
        upper.legend(frameon=False, fontsize=SMALL)
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    lower.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    lower.yaxis.get_offset_text().set_fontsize(SMALL)
    save(figure, path)


def _mark(axes: Any, at: Sequence[int], values: Sequence[float], best: int) -> None:
    """The best value, written above its point."""
    axes.annotate(
        f"{values[best]:.4g}",
        (at[best], values[best]),
        textcoords="offset points",
        xytext=(0, 8),
        ha="center",
        color=ORANGE,
        fontsize=SMALL,
    )
