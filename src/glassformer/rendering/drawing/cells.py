"""Cells of one size with names around them: the drawing behind heat maps, matrices and tables of guesses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from glassformer.config.arrays import Array
from glassformer.rendering.drawing.colours import GREY, ORANGE, RULE, ink_on
from glassformer.rendering.drawing.lettering import (
    LONGEST,
    SMALL,
    TEXT,
    fonts,
    line_height,
    number,
    shown,
    turned,
    width_of,
)
from glassformer.rendering.drawing.sheet import GAP, Block, Sheet, paragraph, stack

MOST_WIDTH, MOST_HEIGHT = 13.6, 18.0
"""Inches that cells and what stands around them may take; fewer inches make smaller cells."""
CELL, LEAST = 0.3, 0.15
"""Inches: a cell's side, and the least that a name beside it needs."""
BAR, LEAST_BAR, MOST_BAR = 0.1, 0.8, 2.0
"""Inches: the scale's width, and its least and greatest height."""
TURN = 50
"""Degrees that long names of columns are turned by."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """What cells show, and what stands around them."""

    values: Float[Array, "R C"]
    rows: Sequence[str]
    columns: Sequence[str]
    scale: Normalize
    colours: Colormap
    row_name: str = ""
    column_name: str = ""
    written: Sequence[Sequence[str]] | None = None
    """Into the cells."""
    cell: float = CELL
    """Inches: a cell's width, where what is written needs no more."""
    longest: int = LONGEST
    """Letters of a row's name."""
    framed: Bool[Array, "R C"] | None = None
    bar: bool = True
    """Whether the scale stands beside them."""


def cells(what: Cells, *, wish: float = MOST_WIDTH, most: float = MOST_WIDTH, tallest: float = MOST_HEIGHT) -> Block:
    """As wide as wished where names stay readable so, but at most `most`; then not every name is written."""
    many, high = len(what.columns), len(what.rows)
    sides = ((what.rows, what.longest), (what.columns, LONGEST))
    rows, columns = [[shown(name, most) if name else "" for name in side] for side, most in sides]
    left = _side_name(what.row_name) + max(map(width_of, rows), default=0.0) + GAP
    right = room_for_bar(what.scale) if what.bar else 0.0
    wide = what.cell if what.written is None else max(what.cell, cell_width(what.written))
    dropped = what.written is not None and left + many * wide + right > most
    wide = CELL if dropped else wide
    if what.written is None or dropped:
        wide = min(wide, max(LEAST, (wish - left - right) / many), (most - left - right) / many)
    tall = min(wide if what.written is None or dropped else CELL, tallest / high)
    tall = LEAST if tall < LEAST and high * LEAST <= tallest else tall
    turn = _turn(columns, wide)
    names = [
        turned(width_of(name, _letters(wide)), _letters(wide), angle) for name, angle in zip(columns, turn, strict=True)
    ]
    above = line_height(SMALL) * bool(what.column_name) + max((size[1] for size in names), default=0.0) + GAP
    # a turned name leans to the right, and the last ones may reach beyond the cells
    reach = max(
        ((place + 0.6) * wide + size[0] for place, size in enumerate(names) if 0 < turn[place] < 90), default=0.0
    )
    width = left + max(reach, many * wide + right)
    body = max(high * tall, LEAST_BAR if what.bar else 0.0)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        axes = sheet.axes(x + left, y + above, many * wide, high * tall)
        image = _shade(axes, what)
        _name(axes, rows, columns, turn, (wide, tall))
        if what.written is not None and not dropped:
            _write(axes, what)
        if what.framed is not None:
            _frame(axes, what.framed)
        if what.bar:
            colour_bar(sheet, (x + left + many * wide + 2 * GAP, y + above), min(body, MOST_BAR), image, what.scale)
        if what.column_name:
            sheet.words(x + left, y, f"{what.column_name} →", SMALL, color=GREY)
        if what.row_name:
            top = y + above - 0.74 * line_height(SMALL)
            sheet.words(x, top, f"{what.row_name} →", SMALL, color=GREY, va="top", rotation=270)

    remarks = []
    if dropped:
        remarks.append("too many cells to write into them")
    remarks += _left_out(_every(wide), _every(tall))
    block = Block(width, above + body, draw)
    return stack([block, paragraph("; ".join(remarks), width, SMALL, colour=GREY)])


def _left_out(across: int, down: int) -> list[str]:
    """Which names are written, in words."""
    if across == down:
        return [f"one name in {across} is written"] if across > 1 else []
    sides = (("columns", across), ("rows", down))
    return [f"of the {side}' names one in {every} is written" for side, every in sides if every > 1]


def cell_width(written: Sequence[Sequence[str]]) -> float:
    """Of cells that have room for what is written into them."""
    return max([CELL, *(width_of(words, SMALL) + 0.14 for row in written for words in row)])


def _side_name(name: str) -> float:
    return line_height(SMALL) + GAP if name else 0.0


def room_for_bar(scale: Normalize) -> float:
    """Inches beside cells that the scale takes."""
    return 3 * GAP + BAR + max(width_of(number(end, 2), SMALL) for end in _ends(scale))


def _ends(scale: Normalize) -> tuple[float, float]:
    assert scale.vmin is not None
    assert scale.vmax is not None
    return scale.vmin, scale.vmax


def _letters(side: float) -> float:
    return TEXT if side > 0.2 else SMALL


def _every(side: float) -> int:
    """One name in so many has room beside cells of this size."""
    return math.ceil(LEAST / side - 1e-6)


def _turn(columns: Sequence[str], wide: float) -> list[float]:
    """Degrees by column: names that fit above their cells are not turned."""
    fit = [width_of(name, _letters(wide)) <= wide - 0.03 for name in columns]
    flat = all(one or name.startswith("<") for one, name in zip(fit, columns, strict=True))
    steep = TURN if wide * math.sin(math.radians(TURN)) > 1.1 * _letters(wide) / 72 else 90
    return [0.0 if flat and one else float(steep) for one in fit]


def _shade(axes: Axes, what: Cells) -> AxesImage:
    visible = np.ma.masked_invalid(np.asarray(what.values, float))
    image = axes.imshow(visible, cmap=what.colours, norm=what.scale, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    return image


def _name(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], turn: Sequence[float], size: tuple[float, float]
) -> None:
    how: dict[str, Any] = {"parse_math": False, "fontfamily": fonts()}
    across, down = _every(size[0]), _every(size[1])
    axes.set_yticks(range(0, len(rows), down), list(rows[::down]), fontsize=_letters(size[1]), **how)
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(columns), across), list(columns[::across]), fontsize=_letters(size[0]), **how)
    for label, angle in zip(axes.get_xticklabels(), turn[::across], strict=True):
        if angle == 0:
            label.set(rotation=0, ha="center")
        elif angle < 90:
            label.set(rotation=angle, ha="left", va="center", rotation_mode="anchor")
        else:
            label.set(rotation=90, ha="center", va="bottom")
    if min(size) >= LEAST / 2:
        axes.set_xticks(np.arange(0.5, len(columns) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(rows) - 1), minor=True)
        axes.grid(which="minor", color=RULE, linewidth=0.6)
    axes.tick_params(which="both", length=0, pad=3)


def _write(axes: Axes, what: Cells) -> None:
    assert what.written is not None
    for (row, column), value in np.ndenumerate(what.values):
        colour = ink_on(what.colours(what.scale(float(value)))) if np.isfinite(value) else GREY
        axes.text(
            column, row, what.written[row][column], ha="center", va="center_baseline", color=colour, fontsize=SMALL,
            fontfamily=fonts(), parse_math=False,
        )  # fmt: skip


def _frame(axes: Axes, framed: Bool[Array, "R C"]) -> None:
    for row, column in np.argwhere(framed):
        place = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=ORANGE, linewidth=2, clip_on=False, zorder=3))


def colour_bar(
    sheet: Sheet, place: tuple[float, float], height: float, image: ScalarMappable, scale: Normalize
) -> None:
    """The scale: its colours, and the numbers at its ends."""
    low, high = _ends(scale)
    axes = sheet.axes(*place, BAR, height)
    ends = [low, 0, high] if low < 0 < high else [low, high]
    bar = sheet.figure.colorbar(image, cax=axes, ticks=ends)
    axes.set_yticklabels([number(end, 2) for end in ends], fontsize=SMALL, color=GREY, fontfamily=fonts())
    bar.outline.set_visible(False)
    axes.tick_params(which="both", length=0)
