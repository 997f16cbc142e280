"""What a classifier takes for what."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glassformer.look.curves import save

MOST_NUMBERS = 30
"""Classes up to which a number fits into every cell."""


def draw_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, path: Path, title: str) -> None:
    """True classes down, predicted ones across; a cell's shade is its share of the true class, its number the count."""
    counts = np.array(matrix)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = min(3 + 0.55 * len(labels), 16)
    figure = Figure(figsize=(size + 1, size), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    names = [label if len(label) <= 20 else label[:19] + "…" for label in labels]
    steep = max(map(len, names)) > 4
    tilted: dict[str, Any] = {"rotation": 45, "ha": "right"} if steep else {}
    axes.set_xticks(range(len(names)), names, parse_math=False, **tilted)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(title, loc="left", parse_math=False)
    axes.spines[:].set_visible(False)
    if len(labels) <= MOST_NUMBERS:
        for row, column in np.ndindex(counts.shape):
            colour = "white" if shares[row, column] > 0.5 else "#333333"
            axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=colour, fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.8, label="share of the true class")
    save(figure, path)
