"""Blocks: parts of a picture that know their size in inches. A picture is blocks beneath and beside one another.

matplotlib's constrained layout divides a figure of a given size; here the parts are of given sizes, and add up to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Affine2D

from glassformer.rendering.drawing.style import DPI, INK, SMALL, TEXT, Font, shorten, width_of, wrap

GAP, APART = 0.08, 0.35
"""Inches: between parts that belong together, between panels."""
SWATCH, AFTER = 0.16, 0.07
"""Inches of a legend: a colour's width, and the room after it."""


class Sheet:
    """A figure on which places are inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)
        self.inches = Affine2D().scale(1 / width, -1 / height).translate(0, 1) + self.figure.transFigure

    def place(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        """A place as axes want it: shares of the figure's sides, from its lower left corner."""
        return x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        return self.figure.add_axes(self.place(x, y, width, height))

    def box(self, x: float, y: float, width: float, height: float, **how: Any) -> None:
        how = {"linewidth": 0, "transform": self.inches, **how}
        self.figure.add_artist(Rectangle((x, y), width, height, **how))

    def line(self, start: tuple[float, float], end: tuple[float, float], **how: Any) -> None:
        across, down = zip(start, end, strict=True)
        self.figure.add_artist(Line2D(across, down, transform=self.inches, **how))

    def words(self, x: float, y: float, words: str, font: Font = TEXT, **how: Any) -> None:
        """One line of words with its upper left corner here; `ha` tells which of its corners."""
        how = {"color": INK, "transform": self.inches, **font.style, **how}
        self.figure.text(x, y + 0.74 * font.line_height, words, **how)


@dataclass(frozen=True)
class Block:
    """A part of a picture: its size, and what draws it with its upper left corner at a place."""

    width: float
    height: float
    draw: Callable[[Sheet, float, float], None]


def stack(blocks: Sequence[Block], gap: float = GAP) -> Block:
    """Blocks one beneath another."""
    blocks = [block for block in blocks if block.height > 0]

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            y += block.height + gap

    high = sum(block.height for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(max((block.width for block in blocks), default=0.0), high, draw)


def beside(blocks: Sequence[Block], gap: float = APART) -> Block:
    """Blocks one beside another."""

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            x += block.width + gap

    wide = sum(block.width for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(wide, max((block.height for block in blocks), default=0.0), draw)


def rows_of(blocks: Sequence[Block], most: float, gap: float = APART) -> Block:
    """Blocks beside one another as far as there is room, then in a new row."""
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and sum(other.width + gap for other in rows[-1]) + block.width <= most:
            rows[-1].append(block)
        else:
            rows.append([block])
    return stack([beside(row, gap) for row in rows], gap)


def paragraph(words: str, most: float, font: Font = TEXT, *, colour: str = INK, lines: int | None = None) -> Block:
    """Words in lines of at most so many inches; nothing where there are none."""
    parts = wrap(words, most, font, lines) if words else []

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for place, part in enumerate(parts):
            sheet.words(x, y + place * font.line_height, part, font, color=colour)

    wide = max((width_of(part, font) for part in parts), default=0.0)
    return Block(wide, len(parts) * font.line_height, draw)


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a name and its colour; with a shape, that of its points."""

    name: str
    colour: str
    pale: bool = False
    shape: str = ""


def legend(keys: Sequence[Key], most: float) -> Block:
    """Names with their colours, beside one another as far as there is room."""
    return rows_of([_entry(key, most) for key in keys if key.name], most, 0.18)


def _entry(key: Key, most: float) -> Block:
    name, high = shorten(key.name, most - SWATCH - AFTER, SMALL), SMALL.line_height

    def draw(sheet: Sheet, x: float, y: float) -> None:
        if key.shape:
            middle = (x + SWATCH / 2, y + high / 2)
            sheet.line(middle, middle, color=key.colour, marker=key.shape, markersize=5.5, linestyle="")
        else:
            sheet.box(x, y + high / 2 - 0.05, SWATCH, 0.1, facecolor=key.colour, alpha=0.35 if key.pale else 1)
        sheet.words(x + SWATCH + AFTER, y, name, SMALL)

    return Block(SWATCH + AFTER + width_of(name, SMALL), high, draw)
