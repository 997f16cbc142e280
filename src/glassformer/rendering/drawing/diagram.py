"""What a model is built of: a column of boxes for each lane. The page draws its lines too."""

from itertools import groupby

from glassformer.rendering.drawing.sheet import (
    GREY,
    RULE,
    SEVERAL,
    SMALL,
    STRONG,
    Block,
    Sheet,
    beside,
    mixed,
    paragraph,
    stack,
)
from glassformer.rendering.panels import Brick, Diagram

HUES = {
    "embedding": 0, "positions": 4, "attention": 1, "feed-forward": 2, "norm": 9, "recurrent": 3, "convolution": 10,
    "pool": 5, "head": 8, "other": 7,
}  # fmt: skip
"""Which of the colours each kind has, as on the page."""
WIDE, PAD, INNER = 3.4, 0.12, 0.06
"""Inches: width of a box, and the room beside and above its words."""


def diagram(panel: Diagram, wish: float) -> Block:
    titles = [paragraph(title, WIDE, STRONG, colour=GREY) for title in panel.lanes]
    return beside([stack([title, _lane(panel, lane)], PAD) for lane, title in enumerate(titles)])


def _lane(panel: Diagram, lane: int) -> Block:
    """Return the boxes from top to bottom; groups that are like another are drawn once."""
    repeated = {group.name for group in panel.groups if group.like}
    shown = [brick for brick in panel.bricks if brick.lane == lane and brick.group not in repeated]
    parts = []
    for name, bricks in groupby(shown, key=lambda brick: brick.group):
        boxes = [_brick(panel, brick) for brick in bricks]
        alike = [group.title for group in panel.groups if name and name in (group.name, group.like)]
        if alike:
            title = f"{alike[0]} … {alike[-1]} (×{len(alike)})" if len(alike) > 1 else alike[0]
            parts.append(_boxed([paragraph(title, WIDE, SMALL, colour=GREY), *boxes], PAD, WIDE + 2 * PAD, RULE, 0.1))
        else:
            parts += boxes
    return stack(parts, PAD)


def _brick(panel: Diagram, brick: Brick) -> Block:
    """Return a box below the shape of its input; inputs from elsewhere are listed in the box."""
    titles = {other.name: other.title for other in panel.bricks}
    arrows = [arrow for arrow in panel.arrows if arrow.end == brick.name]
    inputs = [paragraph(f"↓ {arrow.shape}", WIDE, SMALL, colour=GREY) for arrow in arrows if arrow.role == "flow"]
    others = [
        f"{'tied to' if arrow.role == 'tied' else f'{arrow.role} from'} {titles[arrow.start]} {arrow.shape}"
        for arrow in arrows
        if arrow.role != "flow"
    ]
    details = [brick.detail, f"{brick.parameters:,} parameters" if brick.parameters else "", *others]
    words = [paragraph(detail, WIDE - 2 * PAD, SMALL, colour=GREY) for detail in details]
    hue = GREY if brick.kind == "data" else SEVERAL[HUES.get(brick.kind, HUES["other"])]
    return stack(
        [*inputs, _boxed([paragraph(brick.title, WIDE - 2 * PAD, STRONG), *words], INNER, WIDE, hue, 0.09)], 0.02
    )


def _boxed(parts: list[Block], gap: float, width: float, hue: str, shade: float) -> Block:
    """Return parts one beneath another on a coloured box."""
    inner = stack(parts, gap / 2)
    height = inner.height + 2 * gap

    def draw(sheet: Sheet, x: float, y: float) -> None:
        style = {"facecolor": mixed(hue, shade), "edgecolor": mixed(hue, 0.6), "linewidth": 1.0}
        sheet.rounded(x, y, width, height, 0.1, **style)
        inner.draw(sheet, x + PAD, y + gap)

    return Block(width, height, draw)
