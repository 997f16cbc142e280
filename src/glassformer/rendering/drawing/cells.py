"""Matrices of cells with labels: grids, tables of guesses, attention weights; and images."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.image import AxesImage
from matplotlib.patches import Polygon, Rectangle

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.sheet import (
    CODE,
    GAP,
    GREY,
    HATCH,
    MAX_TOKEN_CHARS,
    ORANGE,
    RULE,
    SMALL,
    TEXT,
    UP,
    Block,
    Font,
    Sheet,
    beside,
    colours_of,
    ink_on,
    number,
    paragraph,
    rotated_size,
    rows_of,
    scale_of,
    shorten,
    stack,
    token_label,
    width_of,
)
from glassformer.rendering.panels import Gallery, Grid, Guesses, Heads, Patches

MAX_WIDTH, MAX_HEIGHT = 13.6, 18.0
"""Maximum size of a matrix with its labels in inches; cells shrink to fit."""
CELL, MIN_CELL = 0.3, 0.15
"""Inches of a cell's side, and the minimum for a label beside it."""
BAR, MIN_BAR, MAX_BAR = 0.1, 0.8, 2.0
"""Inches: width of the colour bar, and its minimum and maximum height."""
TURN = 50
"""Rotation of long column labels in degrees."""
MAX_CELLS = 512
"""Maximum cells per side; more would be smaller than a few pixels each."""
MAX_ROW_CHARS = 40
"""Maximum length of a row's label, which may be a few words."""
MAX_GUESSES = 120
"""Maximum number of tokens, in as many bands as necessary."""
HATCHED = "hatched: masked, may not be looked at"
MAX_GUESS_WIDTH = 1.0
"""Inches; longer guesses are truncated."""
MAX_TOKENS = 120
"""Maximum number of tokens per side."""
MAX_MAP, MIN_MAP = 1.25, 0.4
"""Inches: maximum and minimum side of a small heat map."""
MAX_LINES = 4
"""Maximum number of lines of text below a heat map."""
SIDE, SMALL_SIDE = 3.2, 1.5
"""Inches: longer side of an image, and of a small image."""
GALLERY = 10.5
"""Width of a row of small images in inches."""
MAX_COVER = 0.85
"""Opacity of the largest weight over an image."""
FROM_WHITE = LinearSegmentedColormap.from_list("from white", ["#ffffff", ORANGE])


def cells(
    panel: Grid,
    wish: float = MAX_WIDTH,
    *,
    written: Sequence[Sequence[str]] | None = None,
    cell: float = CELL,
    longest: int = MAX_TOKEN_CHARS,
    framed: Sequence[Sequence[int]] = (),
    bar: bool = True,
) -> Block:
    """Return cells of the desired width if labels stay readable, at most `MAX_WIDTH`.

    Beyond that, some labels are omitted.

    - `written`: texts in the cells;
    - `cell`: width of a cell in inches, unless the texts need more;
    - `longest`: maximum length of a row's label;
    - `framed`: row and column of cells with a frame;
    - `bar`: whether there is a colour bar.
    """
    values = np.asarray(panel.values, float)
    high, many = values.shape
    scale = scale_of(values, signed=panel.signed, low=panel.low, high=panel.high)
    rows = [token_label(name, longest) if name else "" for name in panel.rows or [""] * high]
    columns = [token_label(name) if name else "" for name in panel.columns or [""] * many]
    left = (SMALL.line_height + GAP) * bool(panel.row_name) + max(map(width_of, rows), default=0.0) + GAP
    right = room_for_bar(scale) if bar else 0.0
    wide = cell if written is None else max(cell, cell_width(written))
    dropped = written is not None and left + many * wide + right > MAX_WIDTH
    if dropped:
        written, wide = None, CELL
    if written is None:
        wide = min(wide, max(MIN_CELL, (wish - left - right) / many), (MAX_WIDTH - left - right) / many)
    tall = min(wide if written is None else CELL, MAX_HEIGHT / high)
    tall = MIN_CELL if tall < MIN_CELL and high * MIN_CELL <= MAX_HEIGHT else tall
    turn = _turn(columns, wide)
    names = [rotated_size(name, _font(wide), angle) for name, angle in zip(columns, turn, strict=True)]
    above = SMALL.line_height * bool(panel.column_name) + max((size[1] for size in names), default=0.0) + GAP
    # rotated labels lean to the right, and the last ones may extend beyond the cells
    leaning = [(place + 0.6) * wide + size[0] for place, size in enumerate(names) if 0 < turn[place] < 90]
    width = left + max([many * wide + right, *leaning])
    body = max(high * tall, MIN_BAR if bar else 0.0)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        axes = sheet.axes(x + left, y + above, many * wide, high * tall)
        colours = colours_of(panel.signed)
        image = axes.imshow(values, cmap=colours, norm=scale, aspect="auto", interpolation="nearest")
        axes.spines[:].set_visible(False)
        if panel.causal:
            hatch(axes, high, (-0.5, many - 0.5, -0.5, high - 0.5))
        _name(axes, rows, columns, turn, (wide, tall))
        if written is not None:
            _write(axes, image, panel, written)
        for row, column in framed:
            place = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=ORANGE, linewidth=2, clip_on=False, zorder=3))
        if bar:
            colour_bar(sheet, (x + left + many * wide + 2 * GAP, y + above), min(body, MAX_BAR), image)
        if panel.column_name:
            sheet.words(x + left, y, f"{panel.column_name} →", SMALL, color=GREY)
        if panel.row_name:
            top = y + above - 0.74 * SMALL.line_height
            sheet.words(x, top, f"{panel.row_name} →", SMALL, color=GREY, va="top", rotation=270)

    remarks = (HATCHED if panel.causal else "", "too many cells to write into them" if dropped else "")
    words = "; ".join(filter(None, remarks))
    return stack([Block(width, above + body, draw), paragraph(words, width, SMALL, colour=GREY)])


def hatch(axes: Axes, size: int, place: tuple[float, float, float, float]) -> None:
    """Hatch the masked cells of a square with `size` rows: all cells after the diagonal.

    `place` has its left, right, upper and lower side.
    """
    left, right, upper, lower = place
    steps = np.repeat(np.arange(size + 1) / size, 2)
    stairs = np.column_stack([left + (right - left) * steps[1:], upper + (lower - upper) * steps[:-1]])
    corners = [*stairs, (right, upper)]
    axes.add_patch(Polygon(corners, facecolor="white", edgecolor=HATCH, hatch="/////", linewidth=0, zorder=1.5))


def cell_width(written: Sequence[Sequence[str]]) -> float:
    """Return the width of cells that fit these texts."""
    return max([CELL, *(width_of(words, SMALL) + 0.14 for row in written for words in row)])


def _font(side: float) -> Font:
    return TEXT if side > 0.2 else SMALL


def _every(side: float) -> int:
    """Return n such that every n-th label fits beside cells of this size."""
    return math.ceil(MIN_CELL / side - 1e-6)


def _turn(columns: Sequence[str], wide: float) -> list[float]:
    """Return the rotation of each column label; labels that fit above their cells are not rotated."""
    font = _font(wide)
    fit = [width_of(name, font) <= wide - 0.03 for name in columns]
    flat = all(fits or name.startswith("<") for fits, name in zip(fit, columns, strict=True))
    steep = TURN if wide * math.sin(math.radians(TURN)) > 1.1 * font.size / 72 else 90
    return [0.0 if flat and fits else float(steep) for fits in fit]


def _name(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], turn: Sequence[float], size: tuple[float, float]
) -> None:
    across, down = _every(size[0]), _every(size[1])
    axes.set_yticks(range(0, len(rows), down), list(rows[::down]), **_font(size[1]).style)
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(columns), across), list(columns[::across]), **_font(size[0]).style)
    for label, angle in zip(axes.get_xticklabels(), turn[::across], strict=True):
        label.set_rotation(angle)
        if 0 < angle < 90:
            label.set(ha="left", va="center", rotation_mode="anchor")
    if min(size) >= MIN_CELL / 2:
        axes.set_xticks(np.arange(0.5, len(columns) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(rows) - 1), minor=True)
        axes.grid(which="minor", color=RULE, linewidth=0.6)
    axes.tick_params(which="both", length=0, pad=3)


def _write(axes: Axes, image: AxesImage, panel: Grid, written: Sequence[Sequence[str]]) -> None:
    for (row, column), value in np.ndenumerate(np.asarray(panel.values, float)):
        if not (panel.causal and column > row):
            colour = ink_on(tuple(image.cmap(image.norm(value)))) if np.isfinite(value) else GREY
            style = {"ha": "center", "va": "center_baseline", "color": colour, **SMALL.style}
            axes.text(column, row, written[row][column], **style)


def room_for_bar(scale: Normalize) -> float:
    """Return the inches that the colour bar needs."""
    return 3 * GAP + BAR + max(width_of(number(end, ".2g"), SMALL) for end in ends_of(scale))


def ends_of(scale: Normalize) -> tuple[float, float]:
    """Return the values with the first and the last colour."""
    return float(scale.vmin or 0), float(scale.vmax or 0)


def colour_bar(sheet: Sheet, place: tuple[float, float], height: float, image: ScalarMappable) -> None:
    """Draw the colour bar with the numbers at its ends."""
    low, high = image.get_clim()
    axes = sheet.axes(*place, BAR, height)
    ticks = [low, 0, high] if low < 0 < high else [low, high]
    bar = sheet.figure.colorbar(image, cax=axes, ticks=ticks)
    axes.set_yticklabels([number(tick, ".2g") for tick in ticks], color=GREY, **SMALL.style)
    bar.outline.set_visible(False)
    axes.tick_params(which="both", length=0)


def grid(panel: Grid, wish: float) -> Block:
    high, wide = np.shape(panel.values)
    if max(high, wide) > MAX_CELLS:
        raise Misuse(f"{high} × {wide} cells are too many for a picture ({MAX_CELLS} a side at most): write .html")
    written = numbers(np.asarray(panel.values, float)) if panel.numbers else None
    body = cells(panel, wish, written=written, longest=MAX_ROW_CHARS)
    return stack([paragraph(panel.formula, MAX_WIDTH, CODE), body])


def numbers(values: Array) -> list[list[str]]:
    """Format values with the same number of decimals: none for counts, otherwise two, more for small values."""
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0))
    if np.array_equal(finite, np.rint(finite)):
        style = ",.0f"
    elif largest < 0.05:
        style = ".2g"
    else:
        style = ".2f" if largest < 100 else ".1f"
    return [["" if np.isnan(value) else number(value, style) for value in row] for row in values]


def guesses(panel: Guesses, wish: float) -> Block:
    """Return layers as rows and tokens as columns, with the best guess per cell; right guesses are framed."""
    count = len(panel.tokens)
    if count > MAX_GUESSES:
        raise Misuse(f"{count} tokens are too many for a picture of guesses ({MAX_GUESSES} at most): write .html")
    best = [
        [shorten(token_label(cell[0]), MAX_GUESS_WIDTH, SMALL) if cell else "" for cell in row] for row in panel.guesses
    ]
    chances = np.array([[chance[0] if len(chance) else 0.0 for chance in row] for row in panel.probabilities], float)
    right = np.zeros(chances.shape, bool)
    if panel.answers is not None:
        right |= [
            [bool(cell) and cell[0] == answer != "" for cell, answer in zip(row, panel.answers, strict=True)]
            for row in panel.guesses
        ]
    columns = [shorten(token_label(token), MAX_GUESS_WIDTH) for token in panel.tokens]
    wide = max(cell_width(best), *(width_of(name) + 0.1 for name in columns))
    names = max(map(width_of, panel.layers), default=0.0)
    at_once = max(int((wish - names - 0.7) / wide), 1)
    bands = -(-count // at_once)
    at_once = -(-count // bands)  # bands of similar length
    parts = []
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        band = Grid(
            values=chances[:, part],
            rows=panel.layers,
            columns=columns[part],
            high=1.0,
            column_name="at" if panel.at else "after",
        )
        written, framed = [row[part] for row in best], np.argwhere(right[:, part]).tolist()
        parts.append(cells(band, written=written, cell=wide, framed=framed, bar=start == 0))
    remark = f"framed: what {'stands there' if panel.at else 'did follow'}" if right.any() else ""
    return stack([*parts, paragraph(remark, wish, SMALL, colour=GREY)], 0.15)


# --- attention ---


def heads(panel: Heads, wish: float) -> Block:
    weights = np.asarray(panel.weights, float)
    count, each = weights.shape[:2]
    for which, chosen, many in (("layer", panel.layer, count), ("head", panel.head, each)):
        if chosen is not None and not 0 <= chosen < many:
            raise Misuse(f"there is no {which} {chosen}: they are counted from 0, and the last is {many - 1}")
    single = (panel.layer is not None and panel.head is not None) or count * each == 1
    if panel.mode == "all" and not single:
        return _all(panel, weights, wish)
    _refuse(panel, MAX_TOKENS)
    matrix = mean_over(weights, panel.layer, panel.head)
    role = panel.names[panel.layer or 0][panel.head or 0] if single and panel.names else ""
    subtitle = ": ".join(filter(None, [chosen_words(count, each, panel.layer, panel.head), role]))
    grid = Grid(
        values=matrix,
        rows=panel.rows,
        columns=panel.columns,
        row_name=panel.row_name,
        column_name=panel.column_name,
        high=weight_scale(matrix).vmax,
        causal=panel.causal,
    )
    return stack([paragraph(subtitle, wish, colour=GREY), cells(grid, wish)])


def weight_scale(weights: Array) -> Normalize:
    """Return the scale from 0 to the largest weight, at least 0.5, so that uniform weights look pale."""
    return Normalize(0, max(0.5, float(weights.max(initial=0))))


def chosen_words(layers: int, heads: int, layer: int | None, head: int | None) -> str:
    """Return which layers and heads are shown, in words."""
    several = [side for side in (("layer", layers, layer), ("head", heads, head)) if side[1] > 1]
    parts = [f"{name} {chosen}" for name, _, chosen in several if chosen is not None]
    means = [f"{many} {name}s" for name, many, chosen in several if chosen is None]
    return ", ".join(parts + [f"mean over {' and '.join(means)}"] * bool(means))


def mean_over(weights: Float[Array, "L h T S"], layer: int | None, head: int | None) -> Float[Array, "T S"]:
    """Return the chosen layer and head; the mean over layers or heads without a choice."""
    of_layer = weights.mean(0) if layer is None else weights[layer]
    return of_layer.mean(0) if head is None else of_layer[head]


def _refuse(panel: Heads, most: int) -> None:
    high, wide = len(panel.rows), len(panel.columns)
    if max(high, wide) > most:
        raise Misuse(f"{high} × {wide} tokens are too many for a picture ({most} a side at most): write .html")


def _all(panel: Heads, weights: Float[Array, "L h T S"], wish: float) -> Block:
    """Return a small heat map for every layer and head."""
    _refuse(panel, MAX_CELLS)
    count, each, rows, columns = weights.shape
    scale = weight_scale(weights)
    wide = min(MAX_MAP, (wish - room_for_bar(scale)) / each - 2 * GAP)
    if wide < MIN_MAP:
        raise Misuse(f"{each} heads a layer are too many for one picture: choose a layer and a head, or write .html")
    tall = float(np.clip(wide * rows / columns, MIN_MAP, 2 * MAX_MAP))

    def head_map(layer: int, head: int) -> Block:
        def draw(sheet: Sheet, x: float, y: float) -> None:
            axes = sheet.axes(x, y, wide, tall)
            axes.imshow(weights[layer, head], cmap=UP, norm=scale, aspect="auto")
            if panel.causal:
                hatch(axes, rows, (-0.5, columns - 0.5, -0.5, rows - 0.5))
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color(RULE)

        role = panel.names[layer][head] if panel.names else ""
        words = paragraph(f"{layer}.{head} {role}", wide, SMALL, colour=GREY, lines=MAX_LINES)
        return stack([Block(wide, tall, draw), words], GAP / 2)

    colours = ScalarMappable(scale, UP)
    bar = Block(room_for_bar(scale), 1.0, lambda sheet, x, y: colour_bar(sheet, (x, y), 1.0, colours))
    layers = [beside([head_map(layer, head) for head in range(each)], 2 * GAP) for layer in range(count)]
    masked = f"; {HATCHED}" if panel.causal else ""
    subtitle = (
        f"layer.head; down: {panel.row_name or 'the token that looks'}; "
        f"across: {panel.column_name or 'the one looked at'}{masked}"
    )
    return stack([paragraph(subtitle, MAX_WIDTH, colour=GREY), beside([stack(layers, 2 * GAP), bar], 2 * GAP)])


# --- images ---


def patches(panel: Patches, wish: float) -> Block:
    """Return the image, and beside it the mean attention that each patch receives."""
    weights = np.asarray(panel.weights, float)
    shares = mean_over(weights, panel.layer, panel.head).mean(0).reshape(panel.grid)
    scale = Normalize(0, float(shares.max()) or 1.0)
    image = _captioned(_image(panel.pixels, SIDE), "the image")
    shaded = _image(overlay(panel.pixels, shares / scale.vmax), SIDE)
    colours = ScalarMappable(scale, FROM_WHITE)
    bar = Block(room_for_bar(scale), 1.6, lambda sheet, x, y: colour_bar(sheet, (x + 0.02, y), 1.6, colours))
    looked_at = _captioned(beside([shaded, bar], 0.1), "where all patches look, in the mean")
    which = chosen_words(weights.shape[0], weights.shape[1], panel.layer, panel.head)
    return stack([paragraph(which, wish, colour=GREY), beside([looked_at, image], 0.3)])


def overlay(pixels: UInt8[Array, "H W C"], shares: Float[Array, "R Q"]) -> UInt8[Array, "H2 W2 3"]:
    """Return the image in grey with patches the more orange, the larger their share."""
    bright = _colour(pixels).astype(float)[..., :3] / 255
    grey = 0.4 + 0.6 * (bright @ [0.299, 0.587, 0.114])  # pale, so that orange is visible on dark images too
    high, wide = grey.shape
    down = np.arange(high) * shares.shape[0] // high
    across = np.arange(wide) * shares.shape[1] // wide
    covered = MAX_COVER * shares[down][:, across, None]
    mixed = (1 - covered) * grey[..., None] + covered * np.array(to_rgb(ORANGE))
    return np.rint(255 * mixed).astype(np.uint8)


def gallery(panel: Gallery, wish: float) -> Block:
    images = [
        _captioned(_image(pixels, SMALL_SIDE), caption)
        for pixels, caption in zip(panel.images, panel.captions, strict=True)
    ]
    return rows_of(images, min(wish, GALLERY), 0.22)


def _colour(pixels: UInt8[Array, "H W C"]) -> UInt8[Array, "H W D"]:
    """Return the pixels with three channels."""
    return np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else np.asarray(pixels)


def _image(pixels: UInt8[Array, "H W C"], side: float) -> Block:
    """Return an image with sharp pixels."""
    coloured = _colour(pixels)
    high, wide = (side * length / max(coloured.shape[:2]) for length in coloured.shape[:2])

    def draw(sheet: Sheet, x: float, y: float) -> None:
        axes = sheet.axes(x, y, wide, high)
        axes.imshow(coloured, aspect="auto", interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color(RULE)

    return Block(wide, high, draw)


def _captioned(image: Block, caption: str) -> Block:
    return stack([image, paragraph(caption, max(image.width, SMALL_SIDE), SMALL, colour=GREY, lines=4)], 0.04)
