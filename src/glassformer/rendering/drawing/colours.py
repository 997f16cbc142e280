"""The colours of pictures: told apart by the colour-blind too."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, TwoSlopeNorm, to_hex, to_rgb
from numpy.typing import NDArray

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#6b6b6b"
INK, PALE, RULE = "#1a1a1a", "#f2f2f2", "#e6e6e6"
"""Colours of words; behind code and behind cells without a number; of thin lines."""

SEVERAL = (BLUE, ORANGE, "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
           "#882255", "#808000", "#5e4fa2", "#3f3f3f", "#44aa99", "#b06a3b")  # fmt: skip
"""Colours of series, groups and heads, in this order, as on the page; after the last they begin again, darker."""

UP = LinearSegmentedColormap.from_list("up", ["#ffffff", "#9fcae6", BLUE, "#00395c"]).with_extremes(bad=PALE)
"""Colours from nothing to much."""
BOTH_WAYS = LinearSegmentedColormap.from_list(
    "both ways", ["#7a3300", ORANGE, "#f3c5a3", "#ffffff", "#9fcae6", BLUE, "#00395c"]
).with_extremes(bad=PALE)
"""Orange below 0, blue above."""


def series_colour(place: int) -> str:
    """The colour of the series, group or head at this place."""
    darker = 0.6 ** min(place // len(SEVERAL), 2)
    red, green, blue = to_rgb(SEVERAL[place % len(SEVERAL)])
    return to_hex((darker * red, darker * green, darker * blue))


def colours_of(signed: bool) -> Colormap:
    return BOTH_WAYS if signed else UP


def scale_of(
    values: NDArray[np.floating], *, signed: bool, low: float | None = None, high: float | None = None
) -> Normalize:
    """The way from a value to its place among the colours. Signed: 0 is in the middle, wherever the ends are."""
    finite = values[np.isfinite(values)]
    if signed:
        top = high if high else float(np.abs(finite).max(initial=0)) or 1.0
        return TwoSlopeNorm(0.0, low if low is not None and low < 0 else -top, top)
    bottom = 0.0 if low is None else low
    top = float(finite.max(initial=bottom)) if high is None else high
    return Normalize(bottom, top if top > bottom else bottom + 1, clip=True)


def ink_on(colour: Sequence[float]) -> str:
    """Black or white, whichever is easier to read on this colour."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    return "white" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "black"
