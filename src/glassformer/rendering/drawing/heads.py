"""Attention weights: a heat map, lines between tokens, every layer and head at once, over an image; and galleries."""

from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.rendering.drawing.cells import (
    HATCHED,
    MOST_CELLS,
    MOST_WIDTH,
    cells,
    colour_bar,
    hatch,
    room_for_bar,
)
from glassformer.rendering.drawing.sheet import (
    GAP,
    GREY,
    ORANGE,
    RULE,
    SMALL,
    TEXT,
    UP,
    Block,
    Key,
    Sheet,
    beside,
    legend,
    paragraph,
    rows_of,
    series_colour,
    stack,
    token_label,
    width_of,
)
from glassformer.rendering.panels import Gallery, Grid, Heads, Patches

MOST_TOKENS = 120
"""Tokens on a side: more would be no picture any more."""
ROW, BETWEEN = 0.25, 2.4
"""Inches: from token to token in a column, and between two columns."""
PALEST = 0.1
"""A line is drawn for weights of at least this share of their row's largest."""
LARGEST, LEAST = 1.25, 0.4
"""Inches: sides of a small heat map."""
MOST_LINES = 4
"""Lines of words beneath one."""
SIDE, SMALL_SIDE = 3.2, 1.5
"""Inches: the longer side of an image, and of a small one."""
GALLERY = 10.5
"""Inches of a row of small images."""
STRONGEST = 0.85
"""How much of an image the largest weight covers."""
FROM_WHITE = LinearSegmentedColormap.from_list("from white", ["#ffffff", ORANGE])


def heads(panel: Heads, wish: float) -> Block:
    weights = np.asarray(panel.weights, float)
    count, each = weights.shape[:2]
    for which, chosen, many in (("layer", panel.layer, count), ("head", panel.head, each)):
        if chosen is not None and not 0 <= chosen < many:
            raise Misuse(f"there is no {which} {chosen}: they are counted from 0, and the last is {many - 1}")
    single = (panel.layer is not None and panel.head is not None) or count * each == 1
    if panel.mode == "all" and not single:
        return _all(panel, weights, wish)
    _refuse(panel, MOST_TOKENS)
    if panel.mode == "lines" and not single:
        return _lines(panel, weights)
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


def weight_scale(weights: NDArray[Any]) -> Normalize:
    """The scale from 0 to the largest weight; weights that are all alike should look pale."""
    return Normalize(0, max(0.5, float(weights.max(initial=0))))


def chosen_words(layers: int, heads: int, layer: int | None, head: int | None) -> str:
    """Which of the layers and heads are shown, in words."""
    several = [side for side in (("layer", layers, layer), ("head", heads, head)) if side[1] > 1]
    parts = [f"{name} {chosen}" for name, _, chosen in several if chosen is not None]
    means = [f"{many} {name}s" for name, many, chosen in several if chosen is None]
    return ", ".join(parts + [f"mean over {' and '.join(means)}"] * bool(means))


def mean_over(weights: Float[Array, "L h T S"], layer: int | None, head: int | None) -> Float[Array, "T S"]:
    """The chosen layer and head; the mean over what is not chosen."""
    of_layer = weights.mean(0) if layer is None else weights[layer]
    return of_layer.mean(0) if head is None else of_layer[head]


def _refuse(panel: Heads, most: int) -> None:
    high, wide = len(panel.rows), len(panel.columns)
    if max(high, wide) > most:
        raise Misuse(f"{high} × {wide} tokens are too many for a picture ({most} a side at most): write .html")


def _lines(panel: Heads, weights: Float[Array, "L h T S"]) -> Block:
    """The tokens that look on the left, those looked at on the right; a colour for each head of the chosen layer."""
    count, each = weights.shape[:2]
    layer = weights.mean(0) if panel.layer is None else weights[panel.layer]
    which = range(each) if panel.head is None else [panel.head]
    rows, columns = list(map(token_label, panel.rows)), list(map(token_label, panel.columns))
    left, right = (max(width_of(name) for name in [*side, f"{title} →"]) for side, title in (
        (rows, panel.row_name), (columns, panel.column_name)
    ))  # fmt: skip
    top = (SMALL.line_height + GAP) * bool(panel.row_name or panel.column_name)
    high = ROW * max(len(rows), len(columns))

    def draw(sheet: Sheet, x: float, y: float) -> None:
        middle = x + left + GAP
        sides = ((rows, panel.row_name, -GAP, "right"), (columns, panel.column_name, BETWEEN + GAP, "left"))
        for names, title, across, ha in sides:
            sheet.words(middle + across, y, title, SMALL, color=GREY, ha=ha)
            for place, name in enumerate(names):
                sheet.words(middle + across, y + top + place * ROW, name, ha=ha)
        axes = sheet.axes(middle, y + top, BETWEEN, high)
        axes.set(xlim=(0, 1), ylim=(high, 0))
        axes.axis("off")
        for place, head in enumerate(which):
            axes.add_collection(_bundle(layer[head], series_colour(head), place, len(which)), autolim=False)

    subtitle = paragraph(chosen_words(count, 1, panel.layer, 0), MOST_WIDTH, colour=GREY)
    keys = legend([Key(f"head {head}", series_colour(head)) for head in which], max(left + right + BETWEEN, 5.0))
    return stack([subtitle, keys, Block(left + BETWEEN + right + 2 * GAP, top + high, draw)], 0.1)


def _bundle(weights: Float[Array, "T S"], colour: str, place: int, heads: int) -> LineCollection:
    """The lines of one head; those of several lie a little beside one another."""
    shift = (place - (heads - 1) / 2) * min(0.025, 0.14 / heads)
    strong = (weights >= PALEST * weights.max(-1, keepdims=True)) & (weights > 0)
    ends = (np.argwhere(strong) + 0.5) * ROW + shift
    segments = [((0, start), (1, end)) for start, end in ends]
    values = weights[strong].clip(0, 1)
    return LineCollection(
        segments, colors=[(*to_rgb(colour), 0.06 + 0.94 * value) for value in values], linewidths=0.6 + 2.4 * values,
        capstyle="round",
    )  # fmt: skip


def _all(panel: Heads, weights: Float[Array, "L h T S"], wish: float) -> Block:
    """A small heat map for every layer and head."""
    _refuse(panel, MOST_CELLS)
    count, each, rows, columns = weights.shape
    scale = weight_scale(weights)
    side = width_of(f"layer {count - 1}") + 2 * GAP
    wide = min(LARGEST, (wish - side - room_for_bar(scale)) / each - 2 * GAP)
    if wide < LEAST:
        raise Misuse(f"{each} heads a layer are too many for one picture: choose a layer and a head, or write .html")
    tall = float(np.clip(wide * rows / columns, LEAST, 2 * LARGEST))
    names = [[paragraph(name, wide, SMALL, colour=GREY, lines=MOST_LINES) for name in layer] for layer in panel.names]
    beneath = [max((name.height for name in layer), default=0.0) for layer in names] or [0.0] * count
    top = TEXT.line_height + GAP / 2
    tops = [top + sum(tall + below + 2 * GAP for below in beneath[:layer]) for layer in range(count + 1)]
    width, high = each * (wide + 2 * GAP), tops[-1]

    def draw(sheet: Sheet, x: float, y: float) -> None:
        axes = sheet.axes(x + side, y, width, high)
        axes.axis("off")
        for layer, head in np.ndindex(count, each):
            left, upper = head * (wide + 2 * GAP), tops[layer]
            place = (left, left + wide, upper + tall, upper)
            image = axes.imshow(weights[layer, head], cmap=UP, norm=scale, extent=place, aspect="auto")
            if panel.causal:
                hatch(axes, rows, (left, left + wide, upper, upper + tall))
            axes.add_patch(Rectangle((left, upper), wide, tall, fill=False, edgecolor=RULE, linewidth=0.8))
            if names:
                names[layer][head].draw(sheet, x + side + left, y + upper + tall + GAP / 2)
        axes.set(xlim=(0, width), ylim=(high, 0))
        for head in range(each):
            middle = x + side + head * (wide + 2 * GAP) + wide / 2
            label = f"head {head}" if width_of(f"head {each - 1}") < wide else f"{head}"
            sheet.words(middle, y, label, ha="center", color=GREY)
        for layer in range(count):
            sheet.words(x, y + tops[layer] + tall / 2 - TEXT.line_height / 2, f"layer {layer}", color=GREY)
        colour_bar(sheet, (x + side + width + GAP, y + top), min(max(tall, 0.8), 2.0), image)

    masked = f"; {HATCHED}" if panel.causal else ""
    subtitle = (
        f"down: {panel.row_name or 'the token that looks'}; across: {panel.column_name or 'the one looked at'}{masked}"
    )
    block = Block(side + width + room_for_bar(scale), max(high, top + 0.8), draw)
    return stack([paragraph(subtitle, MOST_WIDTH, colour=GREY), block])


# --- images ---


def patches(panel: Patches, wish: float) -> Block:
    """The image, and beside it how much each of its patches is looked at, over all that look."""
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
    """The image in grey, the more orange the larger a patch's share."""
    bright = _colour(pixels).astype(float)[..., :3] / 255
    grey = 0.4 + 0.6 * (bright @ [0.299, 0.587, 0.114])  # pale, so that orange can be seen on dark images too
    high, wide = grey.shape
    down = np.arange(high) * shares.shape[0] // high
    across = np.arange(wide) * shares.shape[1] // wide
    covered = STRONGEST * shares[down][:, across, None]
    mixed = (1 - covered) * grey[..., None] + covered * np.array(to_rgb(ORANGE))
    return np.rint(255 * mixed).astype(np.uint8)


def gallery(panel: Gallery, wish: float) -> Block:
    images = [
        _captioned(_image(pixels, SMALL_SIDE), caption)
        for pixels, caption in zip(panel.images, panel.captions, strict=True)
    ]
    return rows_of(images, min(wish, GALLERY), 0.22)


def _colour(pixels: UInt8[Array, "H W C"]) -> UInt8[Array, "H W D"]:
    """The pixels in colour: grey ones as red, green and blue that are alike."""
    return np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else np.asarray(pixels)


def _image(pixels: UInt8[Array, "H W C"], side: float) -> Block:
    """An image whose dots stay sharp."""
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
