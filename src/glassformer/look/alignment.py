"""Which tokens of the source a translator looks at while it writes each token."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text
from numpy.typing import NDArray
from torch import Tensor

from glassformer.bricks.attention import attention_weights
from glassformer.bricks.tap import Tap
from glassformer.config.errors import Misuse
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.look.curves import GREY, save
from glassformer.models.seq2seq import Seq2Seq

FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS")
"""Together they know most scripts; those that are installed are used, in this order."""

MOST_TOKENS = 120
"""On a side: more would be no picture any more."""

DPI = 150
CELL, GAP, EDGE, NAME, SCALE, LEAST_SCALE = 0.3, 0.08, 0.15, 0.25, 0.6, 0.8
"""Inches: a cell's side, the room between parts and at the edge, a line for a side's name, the scale's room beside the
cells and its least height."""

TURN = 50
"""Degrees."""


@torch.inference_mode()
def alignment_weights(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int]
) -> Float[NDArray[np.float32], "L h T S"]:
    """The weights of every layer and head, for each token after which the next one is written (START among them).

    The model computes what it always computes; of a Transformer, weights are made beside it from its queries and keys.
    """
    decoder, device = model.decoder, model.head.weight.device
    ids, after = (torch.tensor([list(side)], device=device) for side in (source, target))
    if isinstance(decoder, TransformerEncoder):
        looking = [block.recall for block in decoder.own_blocks() if block.recall is not None]
        with _tapped([tap for one in looking for tap in (one.queries, one.keys)]) as seen:
            model.features(ids, None, after)
        pairs = zip(looking, seen[::2], seen[1::2], strict=True)
        layers = [attention_weights(queries[-1], keys[-1], scale=one.scale)[0] for one, queries, keys in pairs]
        return torch.stack(layers).float().cpu().numpy()
    if not isinstance(decoder, RecurrentDecoder) or decoder.attention is None:
        raise Misuse("this translator has no attention to look at (model.attention none): it knows only a summary")
    with _tapped([decoder.attention.weights]) as seen:
        model.features(ids, None, after)
    return torch.cat(seen[0], 1).unsqueeze(0).float().cpu().numpy()


@contextmanager
def _tapped(taps: list[Tap]) -> Iterator[list[list[Tensor]]]:
    """What passes through each tap while this is open."""
    seen: list[list[Tensor]] = [[] for _ in taps]
    hooks = [
        tap.register_forward_hook(lambda _, inputs, output, kept=kept: kept.append(output))
        for tap, kept in zip(taps, seen, strict=True)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def draw_alignment(
    source: Sequence[str],
    output: Sequence[str],
    weights: Float[NDArray[np.float32], "T S"],
    *,
    path: Path,
    title: str = "",
) -> None:
    """A picture in a file: .png, .svg or .pdf."""
    if max(len(source), len(output)) > MOST_TOKENS:
        raise Misuse(f"{len(source)} × {len(output)} tokens are too many for a picture: {MOST_TOKENS} a side at most")
    save(alignment_figure(source, output, weights, title=title), path)


def alignment_figure(
    source: Sequence[str], output: Sequence[str], weights: Float[NDArray[np.float32], "T S"], *, title: str = ""
) -> Figure:
    """The source across, the output down; the darker a cell, the more the output's token looked at the source's."""
    figure = Figure(dpi=DPI)
    FigureCanvasAgg(figure)
    axes, scale = figure.add_axes((0, 0, 1, 1)), figure.add_axes((0, 0, 1, 1))
    darkest = max(0.5, float(weights.max()))  # weights that are all alike should look pale
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=darkest, aspect="auto")
    figure.colorbar(image, cax=scale, ticks=[0, darkest], format="%.2g").outline.set_visible(False)
    _write_tokens(axes, source, output)
    axes.set_xticks(np.arange(0.5, len(source) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(output) - 1), minor=True)
    axes.grid(which="minor", color="#e6e6e6", linewidth=0.6)
    for one in (axes, scale):
        one.tick_params(which="both", length=0)
        one.spines[:].set_visible(False)
    scale.tick_params(labelsize=8, labelcolor=GREY)
    heading = figure.text(0, 0, title, fontsize=11, va="top", parse_math=False, fontfamily=_fonts())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        _lay_out(figure, axes, scale, heading, (len(source), len(output)))
    return figure


def _write_tokens(axes: Axes, source: Sequence[str], output: Sequence[str]) -> None:
    """Names of columns are turned, but for those of a letter or two."""
    how: dict[str, Any] = {"parse_math": False, "fontfamily": _fonts(), "fontsize": 10}
    axes.set_yticks(range(len(output)), list(map(_shown, output)), **how)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), list(map(_shown, source)), **how)
    letters = all(len(token) <= 2 or token.startswith("<") for token in map(_shown, source))
    for label in axes.get_xticklabels():
        if letters and len(label.get_text()) <= 2:
            label.set(rotation=0, ha="center")
        else:
            label.set(rotation=TURN, ha="left", va="center", rotation_mode="anchor")


def _lay_out(figure: Figure, axes: Axes, scale: Axes, heading: Text, cells: tuple[int, int]) -> None:
    """Cells of one size, and around them as much room as the texts need, in inches."""

    def size(text: Text) -> tuple[float, float]:
        box = text.get_window_extent()
        return box.width / DPI, box.height / DPI

    above = [size(label) for label in axes.get_xticklabels()]
    beside = [size(label) for label in axes.get_yticklabels()]
    wide, high = CELL * cells[0], CELL * cells[1]
    left = EDGE + NAME + max(width for width, _ in beside) + GAP
    reach = max(place * CELL + width for place, (width, _) in enumerate(above, 1))  # a turned name leans to the right
    width = max(left + max(reach, wide + GAP + SCALE) + EDGE, 3.0)
    _shorten(heading, (width - 2 * EDGE) * DPI)
    head = size(heading)[1] + 2 * GAP if heading.get_text() else 0.0
    top = EDGE + head + NAME + max(height for _, height in above) + GAP
    height = top + max(high, LEAST_SCALE) + EDGE
    figure.set_size_inches(width, height)

    def place(x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
        """From the upper left corner, in inches, to what a figure wants."""
        return x / width, 1 - (y + h) / height, w / width, h / height

    axes.set_position(place(left, top, wide, high))
    scale.set_position(place(left + wide + 2 * GAP, top, 0.1, min(max(high, LEAST_SCALE), 2.0)))
    heading.set_position((EDGE / width, 1 - EDGE / height))
    named: dict[str, Any] = {"fontsize": 9, "color": GREY}
    figure.text(left / width, 1 - (EDGE + head) / height, "source →", va="top", **named)
    figure.text(EDGE / width, 1 - top / height, "output →", va="top", rotation=270, **named)


def _shorten(text: Text, most: float) -> None:
    """To so many pixels, with … at its end."""
    whole = text.get_text()
    kept = len(whole)
    while kept and text.get_window_extent().width > most:
        kept = min(kept - 1, int(kept * most / text.get_window_extent().width))
        text.set_text(whole[:kept].rstrip() + "…")


def _fonts() -> list[str]:
    known = {font.name for font in fontManager.ttflist}
    return [font for font in FONTS if font in known]


def _shown(token: str) -> str:
    """A token without the blanks around it; a blank alone as an open box."""
    bare = token.strip(" ").replace("\n", "⏎").replace("\t", "⇥")
    bare = bare or "␣"
    return bare if len(bare) <= 24 else bare[:23] + "…"
