"""Pictures: panels one below another, each at its own size."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context, style
from matplotlib.figure import Figure

from glassformer.config.errors import Misuse
from glassformer.rendering.drawing import sheet
from glassformer.rendering.drawing.cells import MAX_WIDTH, gallery, grid, guesses, heads, patches
from glassformer.rendering.drawing.charts import lines, points
from glassformer.rendering.drawing.sheet import Block, Sheet, any_letter, paragraph, rows_of, stack
from glassformer.rendering.drawing.text import chips, choices, diagram, table, tokens, tree, words
from glassformer.rendering.panels import Frames, Panel
from glassformer.runs.files import aside
from glassformer.text.escaping import encodable

DRAWERS: dict[str, Callable[[Any, float], Block]] = {
    drawer.__name__: drawer
    for drawer in (
        chips, choices, diagram, gallery, grid, guesses, heads, lines, patches, points, table, tokens, tree, words,
    )
}  # fmt: skip
"""Functions from a panel and its maximum width to a block, by the kind of panel."""

EDGE = 0.2
"""Margin of a picture in inches."""
MAX_FRAMES = 6
MAX_FRAME = 4.2
"""Maximum width of a frame in inches: three fit side by side."""
MIN_TEXT_WIDTH = 6.0
"""Inches for titles and notes, however narrow a panel is."""
MAX_HEIGHT = 200.0
"""Inches; a higher picture cannot be stored sensibly."""


def draw(panels: Sequence[Panel], *, title: str, note: str = "") -> Figure:
    """Return a figure with the title, the note and the panels, one below another."""
    title, note = encodable(title, "utf-8"), encodable(note, "utf-8")  # they may contain a file name
    with _our_style(), any_letter():
        blocks = [_panel(panel, MAX_WIDTH) for panel in panels]
        room = max([MIN_TEXT_WIDTH, *(block.width for block in blocks)])
        whole = stack(
            [stack([paragraph(title, room, sheet.TITLE), paragraph(note, room, colour=sheet.GREY)]), *blocks],
            sheet.PANEL_GAP,
        )
        if whole.height > MAX_HEIGHT:
            raise Misuse(
                f"{title!r} would be a picture {whole.height:.0f} inches high ({MAX_HEIGHT:.0f} at most): write .html"
            )
        page = Sheet(whole.width + 2 * EDGE, whole.height + 2 * EDGE)
        whole.draw(page, EDGE, EDGE)
        return page.figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure to a reproducible .png, .svg or .pdf; text in .svg remains text."""
    plain: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    ending = path.suffix.lower()
    with _our_style(), any_letter(), aside(path) as temporary:
        figure.savefig(temporary, format=ending[1:], metadata=plain.get(ending), facecolor="white")


@contextmanager
def _our_style() -> Iterator[None]:
    """Ignore the user's matplotlib settings within the context."""
    with style.context("default"), rc_context({"svg.fonttype": "none", "svg.hashsalt": "glassformer"}):
        yield


def _panel(panel: Panel, wish: float, font: sheet.Font = sheet.HEADING) -> Block:
    body = _frames(panel, wish) if isinstance(panel, Frames) else DRAWERS[panel.kind](panel, wish)
    room = min(max(body.width, MIN_TEXT_WIDTH), wish)
    what = paragraph(panel.title if panel.takeaway else "", room, sheet.SMALL, colour=sheet.GREY)
    heading = stack([what, paragraph(panel.takeaway or panel.title, room, font)], 0.02)
    return stack([heading, body, paragraph(panel.note, room, colour=sheet.GREY)], 0.1)


def _frames(panel: Frames, wish: float) -> Block:
    """Return evenly spaced frames, including the first and the last one."""
    count = len(panel.frames)
    chosen = np.linspace(0, count - 1, min(count, MAX_FRAMES)).round().astype(int)
    frames = []
    for place in chosen:
        label = paragraph(f"{panel.name} {panel.labels[place]}".strip(), MAX_FRAME, sheet.HEADING, colour=sheet.BLUE)
        frames.append(
            stack([label, *(_panel(inner, min(MAX_FRAME, wish), sheet.STRONG) for inner in panel.frames[place])], 0.15)
        )
    remark = f"{len(chosen)} of {count} moments" if len(chosen) < count else ""
    return stack([rows_of(frames, MAX_WIDTH), paragraph(remark, wish, colour=sheet.GREY)], 0.15)
