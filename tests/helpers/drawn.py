"""Panels of every kind to draw, and what is found in a figure: its words and where they stand."""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from glassformer.rendering.drawing.picture import draw
from glassformer.rendering.panels import (
    Frames,
    Gallery,
    Grid,
    Guesses,
    Heads,
    Line,
    Lines,
    Panel,
    Patches,
    Points,
    Table,
    Tokens,
    Words,
)
from helpers.every_panel import PANELS, two_lanes
from helpers.support import softmax

SENTENCE = ["<start>", " the", " old", " cat", " sat", " on", " extraordinary", " mats"]
T = len(SENTENCE)


def weights_of(*shape: int, seed: int = 0) -> np.ndarray:
    return softmax(np.random.default_rng(seed).normal(scale=3, size=shape))


def numbers_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def pixels_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def heads(layers: int = 3, each: int = 5, **more: Any) -> Heads:
    return Heads(weights=weights_of(layers, each, T, T), rows=SENTENCE, columns=SENTENCE, **more)


def guesses(**more: Any) -> Guesses:
    words = [
        [["cat", "dog", "x"] if (layer + place) % 2 else ["mat", "y", "z"] for place in range(T)] for layer in range(3)
    ]
    chances = np.sort(np.random.default_rng(0).random((3, T, 3)), -1)[..., ::-1]
    layers = ["input", "layer 0", "layer 1"]
    return Guesses(tokens=SENTENCE, layers=layers, guesses=words, probabilities=chances, **more)


def every_kind() -> dict[str, Panel]:
    """A panel of every kind and mode, with a title and a note."""
    told: dict[str, Any] = {"title": "the panel's title", "note": "the panel's note"}
    series = [
        Line(name="noise", x=[1, 2, 3], y=[3.0, 1.0, 2.0], faint=True),
        Line(name="mean", x=[1, 2, 3], y=[2.5, 2.0, 1.5], low=[2, 1.5, 1], high=[3, 2.5, 2], dots=True),
    ]
    inner = [[Grid(values=numbers_of(3, 2, seed=seed), rows=["a", "b", "c"], columns=["x", "y"])] for seed in range(9)]
    return {
        "words": Words(text="first paragraph\n\nsecond paragraph", **told),
        "code": Words(text="glassformer look runs/a", code=True, **told),
        "table": Table(columns=["head", "share"], rows=[["0.1", 0.5], ["1.2", None]], bars=["share"], **told),
        "grid": Grid(values=numbers_of(T, 5), rows=SENTENCE, columns=list("vwxyz"), signed=True, numbers=True, **told),
        "heat": heads(layer=1, head=2, **told),
        "lines between": heads(mode="lines", layer=1, **told),
        "all": heads(mode="all", names=[[f"does {layer}.{head}" for head in range(5)] for layer in range(3)], **told),
        "patches": Patches(pixels=pixels_of(12, 18, 3), weights=weights_of(2, 3, 6, 6), grid=(2, 3), **told),
        "tokens": Tokens(tokens=SENTENCE, values=numbers_of(2, T), names=["one", "two"], signed=True, **told),
        "guesses": guesses(answers=[*SENTENCE[1:], ""], **told),
        "points": Points(points=numbers_of(7, 2), labels=list("abcdefg"), groups=["p", "q"] * 3 + ["p"], **told),
        "lines": Lines(series=series, x_name="updates", y_name="loss", **told),
        "gallery": Gallery(images=[pixels_of(5, 7, 1), pixels_of(7, 5, 3)], captions=["one", "two"], **told),
        "choices": replace(PANELS["choices"], **told),
        "tree": replace(PANELS["tree"], **told),
        "diagram": two_lanes(**told),
        "frames": Frames(name="update", labels=[str(2**place) for place in range(9)], frames=inner, **told),
    }


def drawn(*panels: Panel, title: str = "a title", note: str = "") -> Figure:
    figure = draw(panels, title=title, note=note)
    figure.canvas.draw()
    return figure


def texts_of(figure: Figure) -> list[Text]:
    """All that can be read; numbers beyond an axis's ends are there but not drawn."""
    hidden: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden |= {label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)}
    found = figure.findobj(lambda one: isinstance(one, Text) and one.get_visible() and bool(one.get_text().strip()))
    return [one for one in found if isinstance(one, Text) and one not in hidden]


def said_in(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts_of(figure)]


def find(figure: Figure, words: str) -> Text:
    """The one text that says this."""
    (found,) = [text for text in texts_of(figure) if text.get_text() == words]
    return found


def boxes_of(figure: Figure) -> list[Rectangle]:
    """Those that stand on the figure itself, in the order in which they were drawn."""
    return [one for one in figure.artists if isinstance(one, Rectangle)]


def outside(figure: Figure) -> list[str]:
    """Words that leave the picture."""
    width, height = figure.canvas.get_width_height()
    whole = Bbox([[-1, -1], [width + 1, height + 1]])
    placed = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    return [said for said, box in placed if not (whole.contains(box.x0, box.y0) and whole.contains(box.x1, box.y1))]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Words that stand on other words; slanted ones have boxes that cross where their letters do not."""
    flat = [text for text in texts_of(figure) if text.get_rotation() % 90 == 0]
    edges = np.array([text.get_window_extent().extents for text in flat])
    x0, y0, x1, y1 = (edges + np.array([1, 3, -1, -3])).T
    apart = (x1[:, None] <= x0) | (x1 <= x0[:, None]) | (y1[:, None] <= y0) | (y1 <= y0[:, None])
    return [(flat[one].get_text(), flat[two].get_text()) for one, two in np.argwhere(~apart) if one < two]
