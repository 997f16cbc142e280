"""Style of pictures, and the blocks that they consist of: parts with a known size in inches.

matplotlib's constrained layout divides a figure of a given size. Here the sizes of the parts are given, and the figure
is their sum.
"""

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, TwoSlopeNorm, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from glassformer.text.display import bare, cut

# --- colours ---

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#6b6b6b"
"""Accent colours."""
INK, PALE, RULE, HATCH = "#1a1a1a", "#f2f2f2", "#e6e6e6", "#b5bec8"
"""Colours of text; behind code and empty cells; of thin lines; of the hatching of masked cells."""

SEVERAL = (BLUE, ORANGE, "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
           "#882255", "#808000", "#5e4fa2", "#3f3f3f", "#44aa99", "#b06a3b")  # fmt: skip
"""Colours of series, groups and heads in this order, as on the page; they repeat in darker shades."""

UP = LinearSegmentedColormap.from_list("up", ["#ffffff", "#9fcae6", BLUE, "#00395c"]).with_extremes(bad=PALE)
"""Colours from 0 to the largest value."""
BOTH_WAYS = LinearSegmentedColormap.from_list(
    "both ways", ["#7a3300", ORANGE, "#f3c5a3", "#ffffff", "#9fcae6", BLUE, "#00395c"]
).with_extremes(bad=PALE)
"""Colours around 0: orange below, blue above."""


def series_colour(place: int) -> str:
    """Return the colour of the series, group or head with this index."""
    return mixed(SEVERAL[place % len(SEVERAL)], 0.6 ** min(place // len(SEVERAL), 2), on="black")


def mixed(colour: str, share: float, on: str = "white") -> str:
    """Return a colour mixed with a background."""
    red, green, blue = (
        share * one + (1 - share) * ground for one, ground in zip(to_rgb(colour), to_rgb(on), strict=True)
    )
    return to_hex((red, green, blue))


def colours_of(signed: bool) -> Colormap:
    return BOTH_WAYS if signed else UP


def scale_of(
    values: NDArray[np.floating], *, signed: bool, low: float | None = None, high: float | None = None
) -> Normalize:
    """Return the normalisation of values for a colour map. If signed, 0 is in the middle."""
    finite = values[np.isfinite(values)]
    if signed:
        top = high if high else float(np.abs(finite).max(initial=0)) or 1.0
        return TwoSlopeNorm(0.0, low if low is not None and low < 0 else -top, top)
    bottom = 0.0 if low is None else low
    top = float(finite.max(initial=bottom)) if high is None else high
    return Normalize(bottom, top if top > bottom else bottom + 1, clip=True)


def ink_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever has more contrast with this colour."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    return "white" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "black"


# --- letters ---

DPI = 150
FAMILIES = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS")
"""Fonts that together cover most scripts; the installed ones are used in this order."""
RENDERER = cast(Any, RendererAgg)(1, 1, DPI)
MAX_TOKEN_CHARS = 24
"""Maximum length of a token's name."""


@dataclass(frozen=True)
class Font:
    """A font; the size is in points."""

    size: float
    bold: bool = False
    code: bool = False
    """Monospaced."""

    @property
    def line_height(self) -> float:
        """Line height in inches."""
        return 1.4 * self.size / 72

    @cached_property
    def properties(self) -> FontProperties:
        """The font for matplotlib, with the installed families."""
        known = {font.name for font in fontManager.ttflist}
        families = [family for family in ("DejaVu Sans Mono",) * self.code + FAMILIES if family in known]
        return FontProperties(family=families, size=self.size, weight="bold" if self.bold else "normal")

    @property
    def style(self) -> dict[str, Any]:
        """Arguments of a matplotlib text; no part of it is parsed as mathematics."""
        return {"fontproperties": self.properties, "parse_math": False}


TITLE, HEADING, STRONG = Font(15.0, bold=True), Font(12.0, bold=True), Font(10.0, bold=True)
TEXT, CODE, SMALL = Font(10.0), Font(10.0, code=True), Font(9.0)
"""Fonts of view titles, panel titles and bold text; of plain text, code and small print."""


@contextmanager
def any_letter() -> Iterator[None]:
    """Draw a character without a glyph as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support")
        yield


def width_of(words: str, font: Font = TEXT) -> float:
    """Return the width of one line of text in inches."""
    if not words:
        return 0.0
    with any_letter():
        wide, _, _ = RENDERER.get_text_width_height_descent(words, font.properties, False)
    return float(wide) / DPI


def rotated_size(words: str, font: Font, degrees: float) -> tuple[float, float]:
    """Return width and height of a rotated line of text in inches."""
    angle, width, high = math.radians(degrees), width_of(words, font), font.size / 72
    return width * math.cos(angle) + high * math.sin(angle), width * math.sin(angle) + high * math.cos(angle)


def shorten(words: str, most: float, font: Font = TEXT) -> str:
    """Truncate a text to `most` inches, with a final …."""
    shorter, letters = words, len(words)
    while letters and (wide := width_of(shorter, font)) > most:
        letters = min(letters - 1, int(letters * most / wide))
        shorter = words[:letters].rstrip() + "…"
    return shorter


def wrap(words: str, most: float, font: Font = TEXT, lines: int | None = None) -> list[str]:
    """Return lines of at most `most` inches, at most `lines` of them; a word longer than a line is split."""
    wrapped = [line for part in words.split("\n") for line in _wrapped(part.replace("\t", "    "), most, font)]
    if lines is not None and len(wrapped) > lines:
        wrapped[lines - 1 :] = [shorten(wrapped[lines - 1] + " …", most, font)]
    return wrapped


def _wrapped(paragraph: str, most: float, font: Font) -> list[str]:
    if width_of(paragraph, font) <= most:
        return [paragraph]
    lines, line = [], ""
    for word in paragraph.split(" "):
        if width_of(longer := f"{line} {word}" if line else word, font) <= most:
            line = longer
            continue
        lines += [line] if line else []
        while width_of(word, font) > most:
            fitting = bisect_right(range(1, len(word)), most, key=lambda letters: width_of(word[:letters], font))
            lines.append(word[: max(1, fitting)])
            word = word[max(1, fitting) :]
        line = word
    return [*lines, line] if line else lines


def token_label(token: str, most: int = MAX_TOKEN_CHARS) -> str:
    """Return a token as a short label."""
    return cut(bare(token), most)


def number(value: float, style: str = ".3g") -> str:
    """Format a number with a true minus sign, but none before 0; NaN is –."""
    if math.isnan(value):
        return "–"
    digits = "∞" if math.isinf(value) else format(abs(value), style).replace("-", "−")
    return f"−{digits}" if value < 0 and digits.strip("0.,") else digits


# --- blocks ---

GAP, PANEL_GAP = 0.08, 0.35
"""Inches between related parts, and between panels."""
SWATCH, SWATCH_GAP = 0.16, 0.07
"""Inches of a legend's colour swatch, and of the space after it."""


class Sheet:
    """A figure with coordinates in inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.inches = Affine2D().scale(1 / width, -1 / height).translate(0, 1) + self.figure.transFigure

    def place(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        """Return a rectangle in figure coordinates, from the lower left corner."""
        return x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        return self.figure.add_axes(self.place(x, y, width, height))

    def box(self, x: float, y: float, width: float, height: float, **how: Any) -> None:
        how = {"linewidth": 0, "transform": self.inches, **how}
        self.figure.add_artist(Rectangle((x, y), width, height, **how))

    def rounded(self, x: float, y: float, width: float, height: float, radius: float, **how: Any) -> None:
        """Draw a box with rounded corners."""
        style = f"round,pad=0,rounding_size={radius}"
        self.figure.add_artist(FancyBboxPatch((x, y), width, height, boxstyle=style, transform=self.inches, **how))

    def line(self, start: tuple[float, float], end: tuple[float, float], **how: Any) -> None:
        across, down = zip(start, end, strict=True)
        self.figure.add_artist(Line2D(across, down, transform=self.inches, **how))

    def words(self, x: float, y: float, words: str, font: Font = TEXT, **how: Any) -> None:
        """Draw one line of text with its upper left corner here; `ha` selects another corner."""
        how = {"color": INK, "transform": self.inches, **font.style, **how}
        self.figure.text(x, y + 0.74 * font.line_height, words, **how)


@dataclass(frozen=True)
class Block:
    """A part of a picture: its size, and a function that draws it at a position."""

    width: float
    height: float
    draw: Callable[[Sheet, float, float], None]


def stack(blocks: Sequence[Block], gap: float = GAP) -> Block:
    """Return blocks one below another."""
    blocks = [block for block in blocks if block.height > 0]

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            y += block.height + gap

    high = sum(block.height for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(max((block.width for block in blocks), default=0.0), high, draw)


def beside(blocks: Sequence[Block], gap: float = PANEL_GAP) -> Block:
    """Return blocks side by side."""

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            x += block.width + gap

    wide = sum(block.width for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(wide, max((block.height for block in blocks), default=0.0), draw)


def rows_of(blocks: Sequence[Block], most: float, gap: float = PANEL_GAP) -> Block:
    """Return blocks side by side, wrapped into rows of at most `most` inches."""
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and sum(other.width + gap for other in rows[-1]) + block.width <= most:
            rows[-1].append(block)
        else:
            rows.append([block])
    return stack([beside(row, gap) for row in rows], gap)


def paragraph(words: str, most: float, font: Font = TEXT, *, colour: str = INK, lines: int | None = None) -> Block:
    """Return a text in lines of at most `most` inches; an empty text has no height."""
    parts = wrap(words, most, font, lines) if words else []

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for place, part in enumerate(parts):
            sheet.words(x, y + place * font.line_height, part, font, color=colour)

    wide = max((width_of(part, font) for part in parts), default=0.0)
    return Block(wide, len(parts) * font.line_height, draw)


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a name and its colour, and the shape of its points, if any."""

    name: str
    colour: str
    pale: bool = False
    shape: str = ""


def legend(keys: Sequence[Key], most: float) -> Block:
    """Return names with their colours, side by side and wrapped."""
    return rows_of([_entry(key, most) for key in keys if key.name], most, 0.18)


def _entry(key: Key, most: float) -> Block:
    name, high = shorten(key.name, most - SWATCH - SWATCH_GAP, SMALL), SMALL.line_height

    def draw(sheet: Sheet, x: float, y: float) -> None:
        if key.shape:
            middle = (x + SWATCH / 2, y + high / 2)
            sheet.line(middle, middle, color=key.colour, marker=key.shape, markersize=5.5, linestyle="")
        else:
            sheet.box(x, y + high / 2 - 0.05, SWATCH, 0.1, facecolor=key.colour, alpha=0.35 if key.pale else 1)
        sheet.words(x + SWATCH + SWATCH_GAP, y, name, SMALL)

    return Block(SWATCH + SWATCH_GAP + width_of(name, SMALL), high, draw)
