"""Text, tables, texts with shaded tokens, and diagrams."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.colors import Colormap, Normalize, to_rgb

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import MAX_WIDTH, ends_of
from glassformer.rendering.drawing.sheet import (
    CODE,
    GREY,
    HATCH,
    INK,
    PALE,
    RULE,
    SEVERAL,
    SMALL,
    STRONG,
    TEXT,
    UP,
    Block,
    Sheet,
    beside,
    colours_of,
    ink_on,
    mixed,
    number,
    paragraph,
    rows_of,
    scale_of,
    series_colour,
    stack,
    token_label,
    width_of,
    wrap,
)
from glassformer.rendering.panels import Brick, Cell, Chips, Choices, Diagram, Table, Tokens, Tree, Words

READING = 8.5
"""Maximum width of lines of text in inches, for readability."""
MAX_COLUMN, MIN_COLUMN = 4.5, 0.9
"""Inches of a table column: text beyond the maximum wraps; columns shrink to the minimum if necessary."""
COLUMN_GAP = 0.28
TRACK, SHORT_TRACK, MANY_BARS = 0.7, 0.35, 4
"""Inches of a bar's track from 0 to 1, shorter with MANY_BARS or more columns of bars."""
MAX_LINES = 8
"""Maximum number of lines of text in a cell."""
PAD = 0.05
MAX_BRANCHES = 300
"""Maximum number of tokens of a tree."""
SHADES, SHADE = 7, 0.16
"""Number of shades of the scale below a text, and inches of each."""
HUES = {
    "embedding": 0, "positions": 4, "attention": 1, "feed-forward": 2, "norm": 9, "recurrent": 3, "convolution": 10,
    "pool": 5, "head": 8, "other": 7,
}  # fmt: skip
"""Index of the colour for each kind of brick, as on the page."""
BRICK, ROOM = 3.4, 0.12
"""Inches: width of a diagram's box, and its padding."""


def words(panel: Words, wish: float) -> Block:
    if not panel.code:
        return paragraph(panel.text, min(wish, READING))
    inner = paragraph(panel.text, min(wish, MAX_WIDTH) - 4 * PAD, CODE)
    width, height = inner.width + 4 * PAD, inner.height + 3 * PAD

    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.box(x, y, width, height, facecolor=PALE)
        inner.draw(sheet, x + 2 * PAD, y + 1.5 * PAD)

    return Block(width, height, draw)


def tokens(panel: Tokens, wish: float) -> Block:
    """Return the text once per row of values, with each token on a box of its shade."""
    values = np.asarray(panel.values, float)
    colours, most = colours_of(panel.signed), min(wish, READING)
    scale = scale_of(values, signed=panel.signed, high=panel.high)
    parts = []
    for row, name in zip(values, [*panel.names, *[""] * len(values)], strict=False):
        lines: list[list[Block]] = [[]]
        for token, value in zip(panel.tokens, row, strict=True):
            lines[-1].append(_token(token, colours(scale(value)) if np.isfinite(value) else None))
            if token.endswith("\n"):
                lines.append([])
        text = stack([rows_of(line, most, 0.03) for line in lines], 0.03)
        parts.append(stack([paragraph(name, most, STRONG), text]))
    return stack([*parts, _scale(scale, colours)], 0.18)


def chips(panel: Chips, wish: float) -> Block:
    """Return a line for each way to split the text: its name, then its parts."""
    room = max((width_of(name, SMALL) for name in panel.names), default=0.0) + COLUMN_GAP
    lines = []
    for at, (name, pieces) in enumerate(zip(panel.names, panel.lines, strict=True)):
        fresh = panel.marked[at] if panel.marked else ()
        blocks = [
            _token(piece, to_rgb(mixed(series_colour(group), 0.45 if place in fresh else 0.2)))
            for place, (piece, group) in enumerate(zip(pieces, panel.groups[at], strict=True))
        ]
        lines.append(_named(name, room, rows_of(blocks, min(wish, MAX_WIDTH) - room, 0.04)))
    return stack(lines, 0.08)


def _named(name: str, room: float, block: Block) -> Block:
    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.words(x, y, name, SMALL, color=GREY)
        block.draw(sheet, x + room, y)

    return Block(room + block.width, block.height, draw)


def _token(token: str, shade: Sequence[float] | None) -> Block:
    name = token_label(token)
    width, height = width_of(name) + 2 * PAD, TEXT.line_height

    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.box(x, y, width, height, facecolor=shade or PALE, edgecolor=RULE, linewidth=0.5)
        sheet.words(x + PAD, y, name, color=ink_on(shade) if shade else GREY)

    return Block(width, height, draw)


def _scale(scale: Normalize, colours: Colormap) -> Block:
    """Return a colour bar with the smallest and the largest value."""
    low, high = (number(end, ".2g") for end in ends_of(scale))
    start = width_of(low, SMALL) + PAD
    end = start + SHADES * SHADE + PAD

    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.words(x, y, low, SMALL, color=GREY)
        for part in range(SHADES):
            place = (x + start + part * SHADE, y + 0.04, SHADE, 0.1)
            sheet.box(*place, facecolor=colours(part / (SHADES - 1)), edgecolor=RULE, linewidth=0.5)
        sheet.words(x + end, y, high, SMALL, color=GREY)

    return Block(end + width_of(high, SMALL), SMALL.line_height, draw)


def table(panel: Table, wish: float) -> Block:
    """Return a table with numbers aligned to the right, words to the left, and thin lines between the rows."""
    track = TRACK if len(panel.bars) < MANY_BARS else SHORT_TRACK
    columns = [
        _column(name, [row[place] for row in panel.rows], track if name in panel.bars else 0.0)
        for place, name in enumerate(panel.columns)
    ]
    _narrow(columns, wish - COLUMN_GAP * (len(columns) - 1))
    lines = [column.lines() for column in columns]
    high = [max(len(cell) for cell in row) * TEXT.line_height + 2 * PAD for row in zip(*lines, strict=True)]
    width = sum(column.width for column in columns) + COLUMN_GAP * (len(columns) - 1)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for row, tall in enumerate(high):
            left = x
            for column, cells in zip(columns, lines, strict=True):
                if row and column.bar:
                    _bar(sheet, left, y + PAD, column.bar, column.values[row - 1])
                at, ha = (left + column.width, "right") if column.numbers else (left, "left")
                for down, line in enumerate(cells[row]):
                    sheet.words(at, y + PAD + down * TEXT.line_height, line, TEXT if row else STRONG, ha=ha)
                left += column.width + COLUMN_GAP
            y += tall
            sheet.box(x, y, width, 0.007 if row else 0.014, facecolor=RULE if row else INK)

    return Block(width, sum(high) + 0.02, draw)


@dataclass
class _Column:
    name: str
    values: Sequence[Cell]
    texts: Sequence[str]
    numbers: bool
    bar: float
    """Inches of its bars' track; 0: no bars."""
    width: float

    def lines(self) -> list[list[str]]:
        """Return the lines of its name and of each cell."""
        room = self.width + 1e-6
        return [wrap(self.name, room, STRONG), *(wrap(text, room, lines=MAX_LINES) for text in self.texts)]


def _column(name: str, values: Sequence[Cell], bar: float) -> _Column:
    texts = _texts(values)
    there = [value for value in values if value is not None]
    numbers = bool(there) and not any(isinstance(value, str) for value in there)
    before = bar + 2 * PAD if bar else 0.0
    width = max([width_of(name, STRONG), *(before + min(width_of(text), MAX_COLUMN) for text in texts)])
    return _Column(name, values, texts, numbers, bar, width)


def _narrow(columns: Sequence[_Column], room: float) -> None:
    """Shrink columns of words, the widest first, until all columns fit."""
    while (over := sum(column.width for column in columns) - room) > 0:
        give = [column for column in columns if not column.numbers and column.width > MIN_COLUMN]
        if not give:
            raise Misuse(f"a table of {len(columns)} columns is too wide for a picture: write .html")
        widest = max(give, key=lambda column: column.width)
        widest.width = max(MIN_COLUMN, widest.width - max(0.1, over / 4))


def _texts(values: Sequence[Cell]) -> list[str]:
    """Return the texts of the cells; floats have the same number of decimals."""
    largest = max((abs(value) for value in values if isinstance(value, float) and np.isfinite(value)), default=0.0)
    digits = 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0
    style = ".2g" if 0 < largest < 0.005 else f",.{digits}f"

    def text(value: Cell) -> str:
        if isinstance(value, str):
            return value
        return "–" if value is None else number(value, style if isinstance(value, float) else ",")

    return [text(value) for value in values]


def _bar(sheet: Sheet, x: float, y: float, track: float, value: Cell) -> None:
    top, high = y + 0.3 * TEXT.line_height, 0.5 * TEXT.line_height
    if isinstance(value, int | float) and np.isfinite(value):
        sheet.box(x, top, track, high, facecolor=PALE, edgecolor=HATCH, linewidth=0.6)
        sheet.box(x, top, track * min(max(float(value), 0.0), 1.0), high, facecolor=UP(0.45))


def choices(panel: Choices, wish: float) -> Block:
    return table(panel.as_table(), wish)


def tree(panel: Tree, wish: float) -> Block:
    """Return the tokens that were followed, indented below their parents; the page also shows what was pruned."""
    children: dict[int | None, list[int]] = {}
    for place, branch in enumerate(panel.branches):
        if branch.fate != "pruned":
            children.setdefault(branch.parent, []).append(place)
    rows: list[tuple[str, float | None, str]] = [(token_label(panel.root), None, "")]

    def add(parent: int | None, indent: str) -> None:
        for place in children.get(parent, ()):
            branch = panel.branches[place]
            rows.append((f"{indent}└ {token_label(branch.token)}", branch.probability, branch.why or branch.fate))
            add(place, f"{indent}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}")

    add(None, "")
    return table(Table(columns=["token", "probability", "fate"], rows=rows[:MAX_BRANCHES], bars=["probability"]), wish)


# --- diagrams ---


def diagram(panel: Diagram, wish: float) -> Block:
    titles = [paragraph(title, BRICK, STRONG, colour=GREY) for title in panel.lanes]
    return beside([stack([title, _lane(panel, lane)], ROOM) for lane, title in enumerate(titles)])


def _lane(panel: Diagram, lane: int) -> Block:
    """Return the boxes from top to bottom; groups with the same structure are drawn once."""
    repeated = {group.name for group in panel.groups if group.like}
    shown = [brick for brick in panel.bricks if brick.lane == lane and brick.group not in repeated]
    parts = []
    for name, bricks in groupby(shown, key=lambda brick: brick.group):
        boxes = [_brick(panel, brick) for brick in bricks]
        alike = [group.title for group in panel.groups if name and name in (group.name, group.like)]
        if alike:
            title = f"{alike[0]} … {alike[-1]} (×{len(alike)})" if len(alike) > 1 else alike[0]
            parts.append(
                _boxed([paragraph(title, BRICK, SMALL, colour=GREY), *boxes], ROOM, BRICK + 2 * ROOM, RULE, 0.1)
            )
        else:
            parts += boxes
    return stack(parts, ROOM)


def _brick(panel: Diagram, brick: Brick) -> Block:
    """Return a box below the shape of its input; inputs from elsewhere are listed in the box."""
    titles = {other.name: other.title for other in panel.bricks}
    arrows = [arrow for arrow in panel.arrows if arrow.end == brick.name]
    inputs = [paragraph(f"↓ {arrow.shape}", BRICK, SMALL, colour=GREY) for arrow in arrows if arrow.role == "flow"]
    others = [
        f"{'tied to' if arrow.role == 'tied' else f'{arrow.role} from'} {titles[arrow.start]} {arrow.shape}"
        for arrow in arrows
        if arrow.role != "flow"
    ]
    details = [brick.detail, f"{brick.parameters:,} parameters" if brick.parameters else "", *others]
    words = [paragraph(detail, BRICK - 2 * ROOM, SMALL, colour=GREY) for detail in details]
    hue = GREY if brick.kind == "data" else SEVERAL[HUES.get(brick.kind, HUES["other"])]
    return stack(
        [*inputs, _boxed([paragraph(brick.title, BRICK - 2 * ROOM, STRONG), *words], ROOM / 2, BRICK, hue, 0.09)], 0.02
    )


def _boxed(parts: list[Block], gap: float, width: float, hue: str, shade: float) -> Block:
    """Return parts one below another on a coloured box."""
    inner = stack(parts, gap / 2)
    height = inner.height + 2 * gap

    def draw(sheet: Sheet, x: float, y: float) -> None:
        style = {"facecolor": mixed(hue, shade), "edgecolor": mixed(hue, 0.6), "linewidth": 1.0}
        sheet.rounded(x, y, width, height, 0.1, **style)
        inner.draw(sheet, x + ROOM, y + gap)

    return Block(width, height, draw)
