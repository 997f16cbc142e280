"""Blocks: parts of a picture that know their size in inches. A picture is blocks beneath and beside one another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from glassformer.rendering.drawing.colours import INK
from glassformer.rendering.drawing.lettering import TEXT, fonts, line_height, width_of, wrap

DPI = 150
EDGE, GAP, APART = 0.2, 0.08, 0.35
"""Inches: around a picture, between parts that belong together, between panels."""


class Sheet:
    """A figure on which places are inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def place(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        """As a figure wants it: shares of its sides, from its lower left corner."""
        return x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        return self.figure.add_axes(self.place(x, y, width, height))

    def box(self, x: float, y: float, width: float, height: float, **how: Any) -> Rectangle:
        left, bottom, wide, high = self.place(x, y, width, height)
        patch = Rectangle((left, bottom), wide, high, transform=self.figure.transFigure, **{"linewidth": 0, **how})
        self.figure.add_artist(patch)
        return patch

    def line(self, start: tuple[float, float], end: tuple[float, float], **how: Any) -> None:
        across = [start[0] / self.width, end[0] / self.width]
        up = [1 - start[1] / self.height, 1 - end[1] / self.height]
        self.figure.add_artist(Line2D(across, up, transform=self.figure.transFigure, **how))

    def words(self, x: float, y: float, words: str, size: float = TEXT, *, code: bool = False, **how: Any) -> Text:
        """One line of words with its upper left corner here; `ha` tells which of its corners."""
        how = {"color": INK, "va": "baseline", **how}
        left, base = x / self.width, 1 - (y + 0.74 * line_height(size)) / self.height
        return self.figure.text(left, base, words, fontsize=size, fontfamily=fonts(code), parse_math=False, **how)


@dataclass(frozen=True)
class Block:
    """A part of a picture: its size, and what draws it with its upper left corner at a place."""

    width: float
    height: float
    draw: Callable[[Sheet, float, float], None]


def stack(blocks: Sequence[Block], gap: float = GAP) -> Block:
    """One beneath another."""
    blocks = [block for block in blocks if block.height > 0]

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            y += block.height + gap

    high = sum(block.height for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(max((block.width for block in blocks), default=0.0), high, draw)


def beside(blocks: Sequence[Block], gap: float = APART) -> Block:
    """One beside another."""

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for block in blocks:
            block.draw(sheet, x, y)
            x += block.width + gap

    wide = sum(block.width for block in blocks) + gap * max(len(blocks) - 1, 0)
    return Block(wide, max((block.height for block in blocks), default=0.0), draw)


def rows_of(blocks: Sequence[Block], most: float, gap: float = APART) -> Block:
    """Beside one another as far as there is room, then in a new row."""
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and sum(one.width + gap for one in rows[-1]) + block.width <= most:
            rows[-1].append(block)
        else:
            rows.append([block])
    return stack([beside(row, gap) for row in rows], gap)


def paragraph(
    words: str,
    most: float,
    size: float = TEXT,
    *,
    bold: bool = False,
    code: bool = False,
    colour: str = INK,
    lines: int | None = None,
) -> Block:
    """Words in lines of at most so many inches; nothing where there are none."""
    if not words:
        return Block(0.0, 0.0, lambda sheet, x, y: None)
    parts = wrap(words, most, size, bold=bold, code=code, lines=lines)
    weight = "bold" if bold else "normal"

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for place, part in enumerate(parts):
            if part:
                sheet.words(x, y + place * line_height(size), part, size, code=code, color=colour, fontweight=weight)

    wide = max(width_of(part, size, bold=bold, code=code) for part in parts)
    return Block(wide, len(parts) * line_height(size), draw)


def picture(block: Block) -> Figure:
    """A figure that is as large as its block, with an edge around it."""
    sheet = Sheet(block.width + 2 * EDGE, block.height + 2 * EDGE)
    block.draw(sheet, EDGE, EDGE)
    return sheet.figure
