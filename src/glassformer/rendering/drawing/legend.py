"""What the colours of a picture stand for."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.rendering.drawing.lettering import SMALL, line_height, shorten, width_of
from glassformer.rendering.drawing.sheet import Block, Sheet, rows_of

SWATCH, AFTER = 0.16, 0.07
"""Inches: a colour's width, and the room after it."""


@dataclass(frozen=True)
class Key:
    """A name and its colour; with a shape, that of its points."""

    name: str
    colour: str
    pale: bool = False
    shape: str = ""


def legend(keys: Sequence[Key], most: float) -> Block:
    """Names with their colours, beside one another as far as there is room."""
    return rows_of([_entry(key, most) for key in keys if key.name], most, 0.18)


def _entry(key: Key, most: float) -> Block:
    said, high = shorten(key.name, most - SWATCH - AFTER, SMALL), line_height(SMALL)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        if key.shape:
            middle = (x + SWATCH / 2, y + high / 2)
            sheet.line(middle, middle, color=key.colour, marker=key.shape, markersize=5.5, linestyle="")
        else:
            sheet.box(x, y + high / 2 - 0.05, SWATCH, 0.1, facecolor=key.colour, alpha=0.35 if key.pale else 1)
        sheet.words(x + SWATCH + AFTER, y, said, SMALL)

    return Block(SWATCH + AFTER + width_of(said, SMALL), high, draw)
