"""Trees of tokens, and numbers that go through several steps until one token is chosen."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from glassformer.rendering.drawing.sheet import Block, Sheet, paragraph, stack
from glassformer.rendering.drawing.style import (
    BLUE,
    GREY,
    INK,
    RULE,
    SMALL,
    STRONG,
    TEXT,
    UP,
    number,
    shorten,
    token_label,
    width_of,
)
from glassformer.rendering.panels import Branch, Choices, Tree

ROW, CHIP, PAD = 0.5, 0.24, 0.07
"""Inches: from row to row, of a token's chip, and around its letters."""
APART = 0.36
"""Inches between columns of chips."""
THICKEST = 8.0
"""Points of the line to a token that is certain."""
LONGEST_WHY = 1.6
MOST_ROWS = 40
TRACK, VALUE = 0.95, 0.62
"""Inches of a bar, and of the number before it."""
LINES = {"chosen": BLUE, "kept": "#9fcae6", "pruned": "#d4d7da"}
BACKS = {"chosen": BLUE, "kept": "#e6f1f9", "pruned": "white"}
EDGES = {"chosen": BLUE, "kept": "#9fcae6", "pruned": RULE}
INKS = {"chosen": "white", "kept": INK, "pruned": GREY}


def tree(panel: Tree, wish: float) -> Block:
    """Columns from left to right, as many as there is room for."""
    columns, rows = panel.layout()
    root = token_label(panel.root)
    widths = [width_of(root) + 2 * PAD]
    for one, column in zip(panel.branches, columns, strict=True):
        widths += [0.0] * (column + 1 - len(widths))
        widths[column] = max(widths[column], _chip_width(one), min(width_of(one.why, SMALL), LONGEST_WHY))
    lefts = [sum(widths[:column]) + APART * column for column in range(len(widths))]
    fitting = max(2, sum(left + width <= wish for left, width in zip(lefts, widths, strict=True)))
    shown = [at for at, column in enumerate(columns) if column < fitting and rows[at] < MOST_ROWS]
    high = ROW * (1 + max((rows[at] for at in shown), default=0))
    width = lefts[min(fitting, len(lefts)) - 1] + widths[min(fitting, len(lefts)) - 1]

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for at in sorted(shown, key=lambda at: -list(LINES).index(panel.branches[at].fate)):
            one = panel.branches[at]
            before, above = (lefts[0] + widths[0], 0) if one.parent is None else (0.0, rows[one.parent])
            if one.parent is not None:
                before = lefts[columns[one.parent]] + _chip_width(panel.branches[one.parent])
            _line(sheet, (x + before, y + above * ROW), (x + lefts[columns[at]], y + rows[at] * ROW), one)
        _chip(sheet, x, y, root, widths[0], "white", GREY, INK)
        for at in shown:
            one, left, top = panel.branches[at], x + lefts[columns[at]], y + rows[at] * ROW
            colours = BACKS[one.fate], EDGES[one.fate], INKS[one.fate]
            _chip(sheet, left, top, token_label(one.token), _chip_width(one), *colours, chance=_chance(one))
            if one.why:
                ink = BLUE if one.fate == "chosen" else GREY
                sheet.words(left, top + CHIP + 0.01, shorten(one.why, LONGEST_WHY, SMALL), SMALL, color=ink)

    left_out = len(panel.branches) - len(shown)
    remark = f"{left_out} further tokens do not fit here; the page (.html) has them" if left_out else ""
    return stack([Block(width, high, draw), paragraph(remark, max(width, 4.0), SMALL, colour=GREY)])


def _chance(one: Branch) -> str:
    return "<0.01" if 0 < one.probability < 0.005 else f"{one.probability:.2f}"


def _chip_width(one: Branch) -> float:
    return width_of(token_label(one.token)) + PAD + width_of(_chance(one), SMALL) + 2 * PAD


def _chip(
    sheet: Sheet, x: float, y: float, name: str, width: float, back: str, edge: str, ink: str, chance: str = ""
) -> None:
    style = "round,pad=0,rounding_size=0.06"
    box = FancyBboxPatch(
        (x, y), width, CHIP, boxstyle=style, facecolor=back, edgecolor=edge, linewidth=0.8, transform=sheet.inches
    )
    sheet.figure.add_artist(box)
    sheet.words(x + PAD, y + 0.02, name, color=ink)
    sheet.words(x + width - PAD, y + 0.035, chance, SMALL, ha="right", color=ink)


def _line(sheet: Sheet, start: tuple[float, float], end: tuple[float, float], one: Branch) -> None:
    (left, top), (right, bottom) = ((x, y + CHIP / 2) for x, y in (start, end))
    turn = max(left, right - APART)
    bend = 0.55 * (right - turn)
    points = [(left, top), (turn, top), (turn + bend, top), (right - bend, bottom), (right, bottom)]
    path = Path(points, [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    thick = max(0.6, THICKEST * one.probability)
    sheet.figure.add_artist(
        PathPatch(path, fill=False, edgecolor=LINES[one.fate], linewidth=thick, transform=sheet.inches)
    )


def choices(panel: Choices, wish: float) -> Block:
    """A row for each token: its number in every column, with a bar on the column's scale."""
    values, ends = np.asarray(panel.values, float), [f"{number(low)} to {number(high)}" for low, high in panel.scales]
    heads = [name if not column else f"→ {name}" for column, name in enumerate(panel.columns)]
    names = [token_label(name) for name in panel.rows]
    first = max([width_of(panel.name, STRONG), *(width_of(name) for name in names)]) + 0.2
    widths = [max(VALUE + TRACK, width_of(head, STRONG)) + 0.25 for head in heads]
    line, top = TEXT.line_height + 0.06, STRONG.line_height + SMALL.line_height + 0.06
    width = first + sum(widths)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        lefts = [x + first + sum(widths[:column]) for column in range(len(heads))]
        sheet.words(x, y, panel.name, STRONG)
        for left, head, scale in zip(lefts, heads, ends, strict=True):
            sheet.words(left, y, head, STRONG)
            sheet.words(left, y + STRONG.line_height, scale, SMALL, color=GREY)
        for row, name in enumerate(names):
            under, why = y + top + row * line, panel.why[row] if panel.why else ""
            sheet.box(x, under - 0.03, width, 0.007, facecolor=RULE)
            sheet.words(x, under, name, color=GREY if why else INK)
            for column, (left, value) in enumerate(zip(lefts, values[row], strict=True)):
                if not np.isfinite(value):
                    sheet.words(left + 0.1, under, why or "cut", SMALL, color=GREY)
                    continue
                low, high = panel.scales[column]
                share = min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)
                colour = "#c9cdd1" if why else BLUE if column == len(heads) - 1 else UP(0.3)
                sheet.words(left + VALUE - 0.1, under, number(value), ha="right", color=GREY if why else INK)
                sheet.box(left + VALUE, under + 0.05, TRACK, 0.1, facecolor="#f2f2f2")
                sheet.box(left + VALUE, under + 0.05, TRACK * share, 0.1, facecolor=colour)

    return Block(width, top + line * len(names), draw)
