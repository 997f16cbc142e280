"""Matrices and guesses, as cells."""

from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import MOST_WIDTH, Cells, cell_width, cells
from glassformer.rendering.drawing.colours import GREY, UP, colours_of, scale_of
from glassformer.rendering.drawing.lettering import SMALL, TEXT, number, shorten, shown, width_of
from glassformer.rendering.drawing.sheet import Block, paragraph, stack
from glassformer.rendering.panels import Grid, Guesses

MOST_CELLS = 512
"""On a side: more would be less than a few dots each."""
MOST_LETTERS = 40
"""Of a row's name, which may be a few words."""
MOST_GUESSES = 120
"""Tokens across, in as many bands as they take."""
WIDEST_GUESS = 1.0
"""Inches; longer ones are cut."""


def grid(panel: Grid, wish: float) -> Block:
    values = np.asarray(panel.values, float)
    if max(values.shape) > MOST_CELLS:
        high, wide = values.shape
        raise Misuse(f"{high} × {wide} cells are too many for a picture ({MOST_CELLS} a side at most): write .html")
    what = Cells(
        values=values,
        rows=panel.rows or [""] * values.shape[0],
        columns=panel.columns or [""] * values.shape[1],
        row_name=panel.row_name,
        column_name=panel.column_name,
        longest=MOST_LETTERS,
        scale=scale_of(values, signed=panel.signed, low=panel.low, high=panel.high),
        colours=colours_of(panel.signed),
        written=numbers(values) if panel.numbers else None,
    )
    formula = paragraph(panel.formula, MOST_WIDTH, TEXT, code=True)
    return stack([formula, cells(what, wish=wish)])


def numbers(values: NDArray[Any]) -> list[list[str]]:
    """All with as many digits after the point: none for counts, two as a rule, more where all are small."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0))
    if np.array_equal(finite, np.rint(finite)):
        style = ",.0f"
    elif largest < 0.05:
        style = ".2g"
    else:
        style = ".2f" if largest < 100 else ".1f"

    def one(value: float) -> str:
        if np.isnan(value):
            return ""
        if np.isinf(value):
            return number(value)
        said = format(value, style)
        bare = said.lstrip("-")
        return bare if said == bare or not bare.strip("0.,") else "−" + bare

    return [[one(float(value)) for value in row] for row in values]


def guesses(panel: Guesses, wish: float) -> Block:
    """Layers down, tokens across; the likeliest guess in each cell, framed where it is right."""
    count = len(panel.tokens)
    if count > MOST_GUESSES:
        raise Misuse(f"{count} tokens are too many for a picture of guesses ({MOST_GUESSES} at most): write .html")
    best = [[shorten(shown(cell[0]), WIDEST_GUESS, SMALL) if cell else "" for cell in row] for row in panel.guesses]
    chances = np.array([[chance[0] if len(chance) else 0.0 for chance in row] for row in panel.probabilities], float)
    right = np.zeros(chances.shape, bool)
    if panel.answers is not None:
        right |= [
            [bool(cell) and cell[0] == answer != "" for cell, answer in zip(row, panel.answers, strict=True)]
            for row in panel.guesses
        ]
    columns = [shorten(shown(token), WIDEST_GUESS) for token in panel.tokens]
    wide = max(cell_width(best), *(width_of(name) + 0.1 for name in columns))
    names = max(map(width_of, panel.layers), default=0.0)
    at_once = max(int((wish - names - 0.7) / wide), 1)
    bands = -(-count // at_once)
    at_once = -(-count // bands)  # bands of about one length
    parts = []
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        what = Cells(
            values=chances[:, part],
            rows=panel.layers,
            columns=columns[part],
            scale=Normalize(0, 1),
            colours=UP,
            column_name="at" if panel.at else "after",
            written=[row[part] for row in best],
            cell=wide,
            framed=right[:, part],
            bar=start == 0,
        )
        parts.append(cells(what))
    said = f"framed: what {'stands there' if panel.at else 'did follow'}" if right.any() else ""
    return stack([*parts, paragraph(said, wish, SMALL, colour=GREY)], 0.15)
