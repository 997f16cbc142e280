"""Boxes and lines between them: what a model is built of, as on the page, and trees of tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.patches import Circle, FancyArrowPatch, PathPatch
from matplotlib.path import Path

from glassformer.rendering.drawing.sheet import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    RULE,
    SEVERAL,
    SMALL,
    STRONG,
    Block,
    Font,
    Sheet,
    mixed,
    paragraph,
    shorten,
    stack,
    token_label,
    width_of,
)
from glassformer.rendering.panels import Arrow, Branch, Brick, Diagram, Group, Sketch, Tree

HUES = {
    "embedding": 0, "positions": 4, "attention": 1, "feed-forward": 2, "norm": 9, "recurrent": 3, "convolution": 10,
    "pool": 5, "head": 8, "other": 7,
}  # fmt: skip
"""Which of the colours each kind has, as on the page."""
SLIM = {"norm": 0.3, "data": 0.3, "add": 0.24}
"""Inches: heights of bricks that say little."""
LEAST, MOST, HIGH, STEP, GAP, PAD, TITLE = 2.5, 3.4, 0.54, 0.22, 0.32, 0.14, 0.3
LEFT, RIGHT = 0.25, 0.55
"""Inches beside the bricks of a lane, for arrows."""
LEAST_RANGE = 8
"""The widest box is for vectors at least so many times as wide as those of the narrowest."""
SHAPE = Font(9.0, code=True)
BEND = 0.09

ROW, CHIP, CHIP_PAD = 0.5, 0.24, 0.07
"""Inches: from row to row, of a token's chip, and around its letters."""
COLUMN_APART = 0.36
"""Inches between columns of chips."""
THICKEST = 8.0
"""Points of the line to a token that is certain."""
LONGEST_WHY = 1.6
MOST_ROWS = 40
LINES = {"chosen": BLUE, "kept": "#9fcae6", "pruned": "#d4d7da"}
BACKS = {"chosen": BLUE, "kept": "#e6f1f9", "pruned": "white"}
EDGES = {"chosen": BLUE, "kept": "#9fcae6", "pruned": RULE}
INKS = {"chosen": "white", "kept": INK, "pruned": GREY}

Point = tuple[float, float]


def abbreviated(number: int) -> str:
    """Three digits: 12.3k."""
    for one, unit in ((10**9, "G"), (10**6, "M"), (1000, "k")):
        if number >= 0.9995 * one:
            return f"{float(f'{number / one:.3g}'):g}{unit}"
    return str(number)


@dataclass(frozen=True)
class Spot:
    """Where a brick stands."""

    brick: Brick
    middle: float
    y: float
    width: float
    height: float

    @property
    def place(self) -> tuple[float, float, float, float]:
        return self.left, self.y, self.width, self.height

    @property
    def left(self) -> float:
        return self.middle - self.width / 2

    @property
    def right(self) -> float:
        return self.middle + self.width / 2

    @property
    def center(self) -> float:
        return self.y + self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass
class Frame:
    group: Group
    middle: float
    top: float
    bottom: float = 0.0


class Layout:
    """Where everything stands; groups that are like another are drawn once."""

    def __init__(self, panel: Diagram) -> None:
        self.panel = panel
        self.groups = {group.name: group for group in panel.groups}
        self.bricks = {brick.name: brick for brick in panel.bricks}
        self.spots: dict[str, Spot] = {}
        self.frames: list[Frame] = []
        self.lane = MOST + LEFT + RIGHT
        widths = [max(brick.width, brick.hidden) for brick in panel.bricks if brick.kind not in SLIM] or [1]
        self.low = math.log(min(widths))
        self.high = max(math.log(max(widths)), self.low + math.log(LEAST_RANGE))
        ends = [self._place(number, title) for number, title in enumerate(panel.lanes)]
        self.width, self.height = self.lane * len(panel.lanes), max(ends, default=0.0)

    def folded(self, name: str) -> bool:
        group = self.groups.get(self.bricks[name].group)
        return group is not None and bool(group.like)

    def twin(self, name: str) -> str:
        """The brick that stands for one which is not drawn."""
        if not self.folded(name):
            return name
        inside = [brick.name for brick in self.panel.bricks if brick.group == self.bricks[name].group]
        first = self.groups[self.bricks[name].group].like
        return [brick.name for brick in self.panel.bricks if brick.group == first][inside.index(name)]

    def _place(self, lane: int, title: str) -> float:
        middle, y = lane * self.lane + LEFT + MOST / 2, 0.3 if title else 0.0
        frame: Frame | None = None
        for brick in self.panel.bricks:
            if brick.lane != lane or self.folded(brick.name):
                continue
            if frame is not None and brick.group != frame.group.name:
                frame.bottom, frame = y - GAP + PAD, None
                y += PAD
            if brick.group and frame is None:
                frame = Frame(self.groups[brick.group], middle, y)
                self.frames.append(frame)
                y += TITLE + PAD
            spot = Spot(brick, middle, y, self._width(brick), _height(brick))
            self.spots[brick.name] = spot
            y = spot.bottom + GAP
        if frame is not None:
            frame.bottom = y - GAP + PAD
        return y - GAP + PAD

    def _width(self, brick: Brick) -> float:
        if brick.kind in SLIM:
            return {"data": MOST, "add": SLIM["add"]}.get(brick.kind, LEAST)
        part = (math.log(max(brick.width, brick.hidden)) - self.low) / (self.high - self.low)
        return LEAST + (MOST - LEAST) * part


def _height(brick: Brick) -> float:
    rows = 0 if brick.sketch is None else brick.sketch.rows
    return SLIM.get(brick.kind, HIGH + rows * STEP)


def diagram(panel: Diagram, wish: float) -> Block:
    layout = Layout(panel)
    tied = {arrow.end for arrow in panel.arrows if arrow.role == "tied"}

    def draw(sheet: Sheet, x: float, y: float) -> None:
        for number, title in enumerate(panel.lanes):
            sheet.words(x + number * layout.lane + LEFT, y, title, STRONG, color=GREY)
        for frame in layout.frames:
            _draw_frame(sheet, frame, panel.groups, x, y)
        for arrow in panel.arrows:
            _draw_arrow(sheet, arrow, layout, x, y)
        for spot in layout.spots.values():
            moved = replace(spot, middle=spot.middle + x, y=spot.y + y)
            _draw_brick(sheet, moved, spot.brick.name in tied)

    return Block(layout.width, layout.height, draw)


def _draw_brick(sheet: Sheet, spot: Spot, tied: bool) -> None:
    brick, hue = spot.brick, SEVERAL[HUES.get(spot.brick.kind, HUES["other"])]
    if brick.kind == "add":
        middle = (spot.middle, spot.center)
        sheet.figure.add_artist(
            Circle(middle, spot.height / 2, transform=sheet.inches, facecolor="white", edgecolor=GREY)
        )
        sheet.line((spot.middle - 0.06, spot.center), (spot.middle + 0.06, spot.center), color=INK, linewidth=1.2)
        sheet.line((spot.middle, spot.center - 0.06), (spot.middle, spot.center + 0.06), color=INK, linewidth=1.2)
        return
    if brick.kind == "data":
        words = f"{brick.title}: {brick.detail}" if brick.detail else brick.title
        sheet.rounded(*spot.place, spot.height / 2, facecolor="#f7f8fa", edgecolor=RULE, linewidth=1.0)
        words = shorten(words, spot.width - 0.3, SMALL)
        sheet.words(spot.middle, spot.y + 0.06, words, SMALL, color=GREY, ha="center")
        return
    slim = brick.kind in SLIM
    edge = mixed(hue, 0.3 if slim else 0.6)
    sheet.rounded(*spot.place, 0.1, facecolor=mixed(hue, 0.09), edgecolor=edge, linewidth=1.0)
    count = abbreviated(brick.parameters) if brick.parameters else "tied" if tied else ""
    top, room = spot.y + (0.05 if slim else 0.07), spot.width - 0.24
    sheet.words(spot.left + 0.12, top, shorten(brick.title, room - width_of(count, SMALL) - 0.08, STRONG), STRONG)
    if count:
        sheet.words(spot.right - 0.12, top, count, SMALL, color=GREY, ha="right")
    if brick.detail and not slim:
        sheet.words(spot.left + 0.12, top + 0.21, shorten(brick.detail, room, SMALL), SMALL, color=GREY)
    if brick.sketch is not None:
        _draw_sketch(sheet, brick.sketch, spot, hue)


def _draw_sketch(sheet: Sheet, sketch: Sketch, spot: Spot, hue: str) -> None:
    step = (spot.width - 0.4) / max(sketch.columns - 1, 1)

    def at(column: float, row: int) -> Point:
        return spot.left + 0.2 + column * step, spot.y + HIGH + 0.08 + row * STEP

    for a, b, c, d, strong in sketch.lines:
        sheet.line(at(a, b), at(c, d), color=hue, linewidth=1.1 if strong else 0.5, alpha=0.95 if strong else 0.25)
        if b == d:
            side = ">" if c > a else "<"
            sheet.line(at((a + c) / 2, b), at((a + c) / 2, b), color=hue, marker=side, markersize=3.6, linestyle="")
    for column, row in dict.fromkeys(end for a, b, c, d, _ in sketch.lines for end in ((a, b), (c, d))):
        sheet.line(at(column, row), at(column, row), color=hue, marker="o", markersize=2.6, linestyle="")


def _draw_frame(sheet: Sheet, frame: Frame, groups: Sequence[Group], x: float, y: float) -> None:
    same = [group for group in groups if frame.group.name in (group.name, group.like)]
    left, width = x + frame.middle - MOST / 2 - 0.12, MOST + 0.42
    how = {"facecolor": "#fafbfc", "edgecolor": RULE, "linewidth": 1.0}
    sheet.rounded(left, y + frame.top, width, frame.bottom - frame.top, 0.16, **how)
    words = frame.group.title if len(same) == 1 else f"{frame.group.title} … {same[-1].title}"
    sheet.words(left + 0.14, y + frame.top + 0.07, words, SMALL, color=GREY)
    if len(same) > 1:
        sheet.words(left + width - 0.16, y + frame.top + 0.07, f"×{len(same)}", STRONG, ha="right")


def _draw_arrow(sheet: Sheet, arrow: Arrow, layout: Layout, x: float, y: float) -> None:
    start, end = arrow.start, arrow.end
    enters = layout.bricks[start].group != layout.bricks[end].group and not layout.folded(end)
    if (layout.folded(start) or layout.folded(end)) and not (arrow.role == "flow" and enters):
        return
    points, label = _route(arrow, layout.spots[layout.twin(start)], layout.spots[layout.twin(end)], layout)
    moved = [(x + across, y + down) for across, down in points]
    colour = {"memory": ORANGE, "state": SEVERAL[5]}.get(arrow.role, GREY)
    path = _bent(moved)
    sheet.figure.add_artist(
        FancyArrowPatch(
            path=path, transform=sheet.inches, color=colour, linewidth=1.0, shrinkA=0, shrinkB=0, fill=False,
            arrowstyle="-" if arrow.role == "tied" else "-|>", mutation_scale=8,
            linestyle=(0, (2, 2)) if arrow.role in ("tied", "feedback") else "-",
        )
    )  # fmt: skip
    if arrow.shape and label is not None:
        across, down, side = label
        sheet.words(x + across, y + down, arrow.shape, SHAPE, color=GREY, ha=side)


def _route(arrow: Arrow, a: Spot, b: Spot, layout: Layout) -> tuple[list[Point], tuple[float, float, str] | None]:
    """The points of an arrow, and where its shape is written."""
    edge = b.middle + MOST / 2
    if arrow.role == "flow":
        leaves = a.brick.group and a.brick.group != b.brick.group
        down = a.bottom + 0.06 + (PAD if leaves else 0.0)
        return [(a.middle, a.bottom), (b.middle, b.y)], (a.middle - 0.08, down, "right")
    if arrow.role in ("memory", "state"):
        across = b.middle - MOST / 2 - LEFT - (0.04 if arrow.role == "memory" else 0.14)
        down = b.center + (0.1 if b.brick.sketch else 0.0)
        label = (a.right + 0.06, a.center - 0.2, "left")
        return [(a.right, a.center), (across, a.center), (across, down), (b.left, down)], label
    if arrow.role == "tied" and a.brick.lane != b.brick.lane:
        return [(a.right, a.center), (b.left, b.center)], None
    if arrow.role in ("tied", "feedback"):
        across = edge + (0.44 if arrow.role == "tied" else 0.36)
        return [(a.right, a.center), (across, a.center), (across, b.center), (b.right, b.center)], None
    names = list(layout.spots)
    down = layout.spots[names[names.index(a.brick.name) + 1]].y - 0.1
    return [(a.middle, down), (edge + 0.17, down), (edge + 0.17, b.center), (b.right, b.center)], None


def _bent(points: list[Point]) -> Path:
    """A line through these points with round corners."""
    places, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = math.hypot(x - x0, y - y0) or 1.0, math.hypot(x1 - x, y1 - y) or 1.0
        r = min(BEND, before / 2, after / 2)
        places += [(x - (x - x0) * r / before, y - (y - y0) * r / before), (x, y),
                   (x + (x1 - x) * r / after, y + (y1 - y) * r / after)]  # fmt: skip
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*places, points[-1]], [*codes, Path.LINETO])


# --- trees ---


def tree(panel: Tree, wish: float) -> Block:
    """Columns from left to right, as many as there is room for."""
    columns, rows = panel.layout()
    root = token_label(panel.root)
    widths = [width_of(root) + 2 * CHIP_PAD]
    for one, column in zip(panel.branches, columns, strict=True):
        widths += [0.0] * (column + 1 - len(widths))
        widths[column] = max(widths[column], _chip_width(one), min(width_of(one.why, SMALL), LONGEST_WHY))
    lefts = [sum(widths[:column]) + COLUMN_APART * column for column in range(len(widths))]
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
            _draw_branch(sheet, (x + before, y + above * ROW), (x + lefts[columns[at]], y + rows[at] * ROW), one)
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
    return width_of(token_label(one.token)) + CHIP_PAD + width_of(_chance(one), SMALL) + 2 * CHIP_PAD


def _chip(
    sheet: Sheet, x: float, y: float, name: str, width: float, back: str, edge: str, ink: str, chance: str = ""
) -> None:
    sheet.rounded(x, y, width, CHIP, 0.06, facecolor=back, edgecolor=edge, linewidth=0.8)
    sheet.words(x + CHIP_PAD, y + 0.02, name, color=ink)
    sheet.words(x + width - CHIP_PAD, y + 0.035, chance, SMALL, ha="right", color=ink)


def _draw_branch(sheet: Sheet, start: tuple[float, float], end: tuple[float, float], one: Branch) -> None:
    (left, top), (right, bottom) = ((x, y + CHIP / 2) for x, y in (start, end))
    turn = max(left, right - COLUMN_APART)
    bend = 0.55 * (right - turn)
    points = [(left, top), (turn, top), (turn + bend, top), (right - bend, bottom), (right, bottom)]
    path = Path(points, [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    thick = max(0.6, THICKEST * one.probability)
    sheet.figure.add_artist(
        PathPatch(path, fill=False, edgecolor=LINES[one.fate], linewidth=thick, transform=sheet.inches)
    )
