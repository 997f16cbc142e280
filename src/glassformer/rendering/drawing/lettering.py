"""Words in pictures: fonts that know most scripts, how wide words are, lines that are not too long."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, fontManager

from glassformer.text.display import bare, cut

FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS")
"""Together they know most scripts; those that are installed are used, in this order."""

TITLE, HEADING, TEXT, SMALL = 15.0, 12.0, 10.0, 9.0
"""Sizes of letters in points: of a view, of a panel, of what is read, and the least there is."""

MEASURED_AT = 150
LONGEST = 24
"""Letters of a token's name."""


@cache
def fonts(code: bool = False) -> tuple[str, ...]:
    """Those that are installed; for code, letters of one width first."""
    known = {font.name for font in fontManager.ttflist}
    wanted = ("DejaVu Sans Mono", *FONTS) if code else FONTS
    return tuple(font for font in wanted if font in known)


def line_height(size: float) -> float:
    """Inches from one line to the next."""
    return 1.4 * size / 72


@contextmanager
def any_letter() -> Iterator[None]:
    """While open, a letter that no font knows is drawn as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support")
        yield


@cache
def _measure() -> Any:
    maker: Any = RendererAgg
    return maker(1, 1, MEASURED_AT)


@cache
def _style(size: float, bold: bool, code: bool) -> FontProperties:
    return FontProperties(family=list(fonts(code)), size=size, weight="bold" if bold else "normal")


def width_of(words: str, size: float = TEXT, *, bold: bool = False, code: bool = False) -> float:
    """Inches that one line of words takes."""
    if not words:
        return 0.0
    with any_letter():
        wide, _, _ = _measure().get_text_width_height_descent(words, _style(size, bold, code), False)
    return float(wide) / MEASURED_AT


def turned(width: float, size: float, degrees: float) -> tuple[float, float]:
    """Width and height of a line of words that is turned."""
    angle, high = math.radians(degrees), size / 72
    return width * math.cos(angle) + high * math.sin(angle), width * math.sin(angle) + high * math.cos(angle)


def shorten(words: str, most: float, size: float = TEXT, *, bold: bool = False, code: bool = False) -> str:
    """To so many inches, with … at its end."""
    shorter, kept = words, len(words)
    while kept and (wide := width_of(shorter, size, bold=bold, code=code)) > most:
        kept = min(kept - 1, int(kept * most / wide))
        shorter = words[:kept].rstrip() + "…"
    return shorter


def wrap(
    words: str, most: float, size: float = TEXT, *, bold: bool = False, code: bool = False, lines: int | None = None
) -> list[str]:
    """In lines of at most so many inches; a word that is longer than a line is cut. No more than `lines` of them."""
    found: list[str] = []
    for paragraph in words.split("\n"):
        found += _wrapped(paragraph.replace("\t", "    "), most, size, bold, code)
    if lines is not None and len(found) > lines:
        last = shorten(found[lines - 1] + " …", most, size, bold=bold, code=code)
        found = [*found[: lines - 1], last]
    return found


def _wrapped(paragraph: str, most: float, size: float, bold: bool, code: bool) -> list[str]:
    def fits(words: str) -> bool:
        return width_of(words, size, bold=bold, code=code) <= most

    if fits(paragraph):
        return [paragraph]
    lines, line = [], ""
    for word in paragraph.split(" "):
        if fits(longer := f"{line} {word}" if line else word):
            line = longer
            continue
        lines += [line] if line else []
        while not fits(word):
            starts = [word[:letters] for letters in range(1, len(word))]
            kept = max(1, bisect_left(starts, True, key=lambda start: not fits(start)))
            lines.append(word[:kept])
            word = word[kept:]
        line = word
    return [*lines, line] if line else lines


def shown(token: str, most: int = LONGEST) -> str:
    """A token as a name: bare, and not too long."""
    return cut(bare(token), most)


def number(value: float, digits: int = 3) -> str:
    """A number by itself, with so many digits that count."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−") if value else "0"
