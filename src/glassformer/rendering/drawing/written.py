"""Words, tables, and texts whose tokens are shaded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.colors import Colormap, Normalize

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import MOST_WIDTH
from glassformer.rendering.drawing.colours import GREY, INK, PALE, RULE, UP, colours_of, ink_on, scale_of
from glassformer.rendering.drawing.lettering import SMALL, TEXT, line_height, number, shown, width_of, wrap
from glassformer.rendering.drawing.sheet import Block, Sheet, paragraph, stack
from glassformer.rendering.panels import Table, Tokens, Words

READING = 8.5
"""Inches: longer lines are hard to read."""
WIDEST, NARROWEST = 4.5, 0.9
"""Inches of a table's column: what is longer is wrapped, and where there is no room, wrapped down to the least."""
BETWEEN = 0.28
BAR = 1.2
"""Inches of a column with bars."""
MOST_LINES = 8
"""Of words in a cell."""
PAD = 0.05
SHADES, SHADE = 7, 0.16
"""Of a scale beneath a text: how many, and inches of each."""


def words(panel: Words, wish: float) -> Block:
    if not panel.code:
        return paragraph(panel.text, min(wish, READING))
    inner = paragraph(panel.text, min(wish, MOST_WIDTH) - 4 * PAD, code=True)
    width, height = inner.width + 4 * PAD, inner.height + 3 * PAD

    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.box(x, y, width, height, facecolor=PALE)
        inner.draw(sheet, x + 2 * PAD, y + 1.5 * PAD)

    return Block(width, height, draw)


def tokens(panel: Tokens, wish: float) -> Block:
    """For every row of values the text, wrapped like a text, each token on a box of its shade."""
    values = np.asarray(panel.values, float)
    colours, most = colours_of(panel.signed), min(wish, READING)
    scale = scale_of(values, signed=panel.signed)
    parts = []
    names = [*panel.names, *[""] * len(values)]
    for row, name in zip(values, names, strict=False):
        head = paragraph(name, most, TEXT, bold=True)
        parts.append(stack([head, _shaded(panel.tokens, row, scale, colours, most)]))
    return stack([*parts, _scale(scale, colours)], 0.18)


def _scale(scale: Normalize, colours: Colormap) -> Block:
    """The colours from the smallest to the largest value, and these."""
    low, high = (number(float(end), 2) for end in (scale.vmin or 0, scale.vmax or 0))
    start = width_of(low, SMALL) + PAD
    end = start + SHADES * SHADE + PAD

    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.words(x, y, low, SMALL, color=GREY)
        for part in range(SHADES):
            place = (x + start + part * SHADE, y + 0.04, SHADE, 0.1)
            sheet.box(*place, facecolor=colours(part / (SHADES - 1)), edgecolor=RULE, linewidth=0.5)
        sheet.words(x + end, y, high, SMALL, color=GREY)

    return Block(end + width_of(high, SMALL), line_height(SMALL), draw)


def _shaded(names: Sequence[str], values: Sequence[float], scale: Normalize, colours: Colormap, most: float) -> Block:
    """Tokens as a text; a line ends where the text's own lines do, and where there is no more room."""
    high, step = line_height(TEXT), line_height(TEXT) + 0.05
    places, across, down, widest = [], 0.0, 0.0, 0.0
    for name in names:
        wide = width_of(shown(name)) + 2 * PAD
        if across and across + wide > most:
            across, down = 0.0, down + step
        places.append((across, down, wide))
        widest = max(widest, across + wide)
        across += wide + 0.03
        if name.endswith("\n"):
            across, down = 0.0, down + step

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for name, value, (left, top, wide) in zip(names, values, places, strict=True):
            shade = colours(scale(value)) if np.isfinite(value) else PALE
            sheet.box(x + left, y + top, wide, high, facecolor=shade, edgecolor=RULE, linewidth=0.5)
            ink = ink_on(shade) if not isinstance(shade, str) else GREY
            sheet.words(x + left + PAD, y + top, shown(name), color=ink)

    return Block(widest, max((top for _, top, _ in places), default=0.0) + high, draw)


def table(panel: Table, wish: float) -> Block:
    """Numbers to the right, words to the left; a thin line beneath the names and between the rows."""
    columns = [
        _column(name, [row[place] for row in panel.rows], bar=name in panel.bars)
        for place, name in enumerate(panel.columns)
    ]
    columns = _narrowed(columns, wish - BETWEEN * (len(columns) - 1))
    lines = [column.lines() for column in columns]
    high = [max(len(cell) for cell in row) * line_height(TEXT) + 2 * PAD for row in zip(*lines, strict=True)]
    width = sum(column.width for column in columns) + BETWEEN * (len(columns) - 1)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for row, tall in enumerate(high):
            left = x
            for column, cells in zip(columns, lines, strict=True):
                if row and column.bar:
                    _bar(sheet, (left, y + PAD, column.width, line_height(TEXT)), column.values[row - 1])
                at, ha = (left + column.width - PAD * column.bar, "right") if column.numbers else (left, "left")
                for down, line in enumerate(cells[row]):
                    weight = "normal" if row else "bold"
                    sheet.words(at, y + PAD + down * line_height(TEXT), line, ha=ha, fontweight=weight)
                left += column.width + BETWEEN
            y += tall
            sheet.box(x, y, width, 0.006 if row else 0.012, facecolor=RULE if row else INK)

    return Block(width, sum(high) + 0.02, draw)


@dataclass(frozen=True)
class _Column:
    name: str
    values: Sequence[str | float | int | None]
    said: Sequence[str]
    numbers: bool
    bar: bool
    width: float

    def lines(self) -> list[list[str]]:
        """Of its name and of each cell."""
        return [
            wrap(self.name, self.width + 1e-6, bold=True),
            *(wrap(one, self.width + 1e-6, lines=MOST_LINES) for one in self.said),
        ]


def _column(name: str, values: Sequence[str | float | int | None], *, bar: bool) -> _Column:
    said = _said(values)
    numbers = all(one is None or isinstance(one, int | float) for one in values) and any(
        one is not None for one in values
    )
    width = max([width_of(name, bold=True), BAR * bar, *(min(width_of(one), WIDEST) for one in said)])
    return _Column(name, values, said, numbers, bar, width)


def _narrowed(columns: list[_Column], room: float) -> list[_Column]:
    """Columns of words give way, the widest first, until all have room."""
    while (over := sum(column.width for column in columns) - room) > 0:
        give = [column for column in columns if not column.numbers and column.width > NARROWEST]
        if not give:
            raise Misuse(f"a table of {len(columns)} columns is too wide for a picture: write .html")
        widest = max(give, key=lambda column: column.width)
        narrower = replace(widest, width=max(NARROWEST, widest.width - max(0.1, over / 4)))
        columns = [narrower if column is widest else column for column in columns]
    return columns


def _said(column: Sequence[str | float | int | None]) -> list[str]:
    """Numbers that are not whole all with as many digits after the point."""
    parts = [abs(one) for one in column if isinstance(one, float) and np.isfinite(one)]
    largest = max(parts, default=0.0)
    digits = 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0
    style = ".2g" if 0 < largest < 0.005 else f",.{digits}f"

    def one(value: str | float | int | None) -> str:
        if value is None:
            return "–"
        if isinstance(value, str):
            return value
        if isinstance(value, float):
            return format(value, style).replace("-", "−") if np.isfinite(value) else number(value)
        return f"{value:,}".replace("-", "−")

    return [one(value) for value in column]


def _bar(sheet: Sheet, place: tuple[float, float, float, float], value: object) -> None:
    left, top, wide, high = place
    sheet.box(left, top, wide, high, facecolor=PALE)
    if isinstance(value, int | float) and np.isfinite(value):
        sheet.box(left, top, wide * min(max(float(value), 0.0), 1.0), high, facecolor=UP(0.3))
