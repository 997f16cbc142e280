"""Images: where a model looks in one, and many small ones."""

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb

from glassformer.config.arrays import Array
from glassformer.rendering.drawing.cells import colour_bar, room_for_bar
from glassformer.rendering.drawing.colours import GREY, ORANGE, RULE
from glassformer.rendering.drawing.heads import chosen_words, mean_over
from glassformer.rendering.drawing.lettering import SMALL
from glassformer.rendering.drawing.sheet import Block, Sheet, beside, paragraph, rows_of, stack
from glassformer.rendering.panels import Gallery, Patches

SIDE, SMALL_SIDE = 3.2, 1.5
"""Inches: the longer side of an image, and of a small one."""
GALLERY = 10.5
"""Inches of a row of small images."""
STRONGEST = 0.85
"""How much of an image the largest weight covers."""
FROM_WHITE = LinearSegmentedColormap.from_list("from white", ["#ffffff", ORANGE])


def patches(panel: Patches, wish: float) -> Block:
    """The image, and beside it how much each of its patches is looked at, over all that look."""
    weights = np.asarray(panel.weights, float)
    shares = mean_over(weights, panel.layer, panel.head).mean(0).reshape(panel.grid)
    scale = Normalize(0, float(shares.max()) or 1.0)
    left = _captioned(_image(panel.pixels, SIDE), "the image")
    shaded = _image(overlay(panel.pixels, shares / scale.vmax), SIDE)
    colours = ScalarMappable(scale, FROM_WHITE)
    bar = Block(room_for_bar(scale), 1.6, lambda sheet, x, y: colour_bar(sheet, (x + 0.02, y), 1.6, colours))
    right = _captioned(beside([shaded, bar], 0.1), "what is looked at")
    which = chosen_words(weights.shape[0], weights.shape[1], panel.layer, panel.head)
    return stack([paragraph(which, wish, colour=GREY), beside([left, right], 0.3)])


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
    room = max(image.width, SMALL_SIDE)
    return stack([image, paragraph(caption, room, SMALL, colour=GREY, lines=4)], 0.04)
