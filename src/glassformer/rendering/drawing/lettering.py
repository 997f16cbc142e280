"""Words in pictures: fonts that know most scripts, how wide words are, lines that are not too long."""

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, fontManager

from glassformer.text.display import bare, cut

DPI = 150
FAMILIES = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS")
"""Together they know most scripts; those that are installed are used, in this order."""
RENDERER = cast(Any, RendererAgg)(1, 1, DPI)
LONGEST = 24
"""Letters of a token's name."""


@dataclass(frozen=True)
class Font:
    """How letters look: their size in points, and their kind."""

    size: float
    bold: bool = False
    code: bool = False
    """All letters of one width."""

    @property
    def line_height(self) -> float:
        """Inches from one line to the next."""
        return 1.4 * self.size / 72

    @cached_property
    def properties(self) -> FontProperties:
        """The font for matplotlib, in those families that are installed."""
        known = {font.name for font in fontManager.ttflist}
        families = [family for family in ("DejaVu Sans Mono",) * self.code + FAMILIES if family in known]
        return FontProperties(family=families, size=self.size, weight="bold" if self.bold else "normal")

    @property
    def style(self) -> dict[str, Any]:
        """The font as a text of matplotlib takes it; no letter of it is mathematics."""
        return {"fontproperties": self.properties, "parse_math": False}


TITLE, HEADING, STRONG = Font(15.0, bold=True), Font(12.0, bold=True), Font(10.0, bold=True)
TEXT, CODE, SMALL = Font(10.0), Font(10.0, code=True), Font(9.0)
"""A view's title, a panel's, and what is bold in it; what is read, and the least there is."""


@contextmanager
def any_letter() -> Iterator[None]:
    """While open, a letter that no font knows is drawn as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support")
        yield


def width_of(words: str, font: Font = TEXT) -> float:
    """Inches that one line of words takes."""
    if not words:
        return 0.0
    with any_letter():
        wide, _, _ = RENDERER.get_text_width_height_descent(words, font.properties, False)
    return float(wide) / DPI


def turned(words: str, font: Font, degrees: float) -> tuple[float, float]:
    """Width and height of a line of words that is turned."""
    angle, width, high = math.radians(degrees), width_of(words, font), font.size / 72
    return width * math.cos(angle) + high * math.sin(angle), width * math.sin(angle) + high * math.cos(angle)


def shorten(words: str, most: float, font: Font = TEXT) -> str:
    """Words cut to so many inches, with … at their end."""
    shorter, letters = words, len(words)
    while letters and (wide := width_of(shorter, font)) > most:
        letters = min(letters - 1, int(letters * most / wide))
        shorter = words[:letters].rstrip() + "…"
    return shorter


def wrap(words: str, most: float, font: Font = TEXT, lines: int | None = None) -> list[str]:
    """Lines of at most so many inches; a word that is longer than a line is cut. No more than `lines` of them."""
    wrapped = [line for part in words.split("\n") for line in _wrapped(part.replace("\t", "    "), most, font)]
    if lines is not None and len(wrapped) > lines:
        wrapped[lines - 1 :] = [shorten(wrapped[lines - 1] + " …", most, font)]
    return wrapped


def _wrapped(paragraph: str, most: float, font: Font) -> list[str]:
    if width_of(paragraph, font) <= most:
        return [paragraph]
    lines, line = [], ""
    for word in paragraph.split(" "):
        if width_of(longer := f"{line} {word}" if line else word, font) <= most:
            line = longer
            continue
        lines += [line] if line else []
        while width_of(word, font) > most:
            fitting = bisect_right(range(1, len(word)), most, key=lambda letters: width_of(word[:letters], font))
            lines.append(word[: max(1, fitting)])
            word = word[max(1, fitting) :]
        line = word
    return [*lines, line] if line else lines


def token_label(token: str, most: int = LONGEST) -> str:
    """A token as a name: bare, and not too long."""
    return cut(bare(token), most)


def number(value: float, style: str = ".3g") -> str:
    """A number with a true minus sign, but none before 0; – where there is none."""
    if math.isnan(value):
        return "–"
    digits = "∞" if math.isinf(value) else format(abs(value), style).replace("-", "−")
    return f"−{digits}" if value < 0 and digits.strip("0.,") else digits
