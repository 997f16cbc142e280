"""Draw docs/images/intervals.png: intervals of one model's accuracy on twenty random test sets."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from glassformer.statistics.intervals import share_interval

TRUTH = 0.8
SIZES = (50, 400)
"""Examples per test set in the two panels."""
DRAWS = 20
SEED = 14
"""A seed whose draws are typical: one interval of twenty misses in each panel."""

if __name__ == "__main__":
    generator = np.random.default_rng(SEED)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharex=True, sharey=True, layout="constrained")
    for axis, size in zip(axes, SIZES, strict=True):
        intervals = [share_interval(int(hits), size) for hits in generator.binomial(size, TRUTH, DRAWS)]
        missed = sum(not interval.low <= TRUTH <= interval.high for interval in intervals)
        for row, interval in enumerate(intervals):
            color = "tab:blue" if interval.low <= TRUTH <= interval.high else "tab:red"
            axis.plot([interval.low, interval.high], [row, row], color=color, linewidth=2)
            axis.plot(interval.value, row, "o", color=color, markersize=4)
        axis.axvline(TRUTH, color="black", linewidth=1, linestyle="--")
        axis.set_title(f"{size} test examples; misses: {missed} of {DRAWS}", fontsize=10)
        axis.set_xlabel("accuracy")
        axis.set_yticks([])
    axes[0].set_ylabel("test sets")
    figure.savefig(Path(__file__).parents[1] / "images" / "intervals.png", dpi=110)
