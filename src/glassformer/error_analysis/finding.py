"""What was found: panels to look at, and the one sentence that a person should remember."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from glassformer.rendering.panels import Panel
from glassformer.statistics.intervals import Interval

Rows = list[list[str | float | int | None]]

CHANCE = 0.05
"""What happens by chance less often than this is said."""
MOST_SAID = 4
"""Sentences that a person reads before looking."""


@dataclass(frozen=True)
class Found:
    panels: list[Panel] = field(default_factory=list)
    said: str = ""
    """With its numbers; empty where nothing stands out."""


def panels_of(found: Iterable[Found]) -> list[Panel]:
    return [panel for one in found for panel in one.panels]


def sentences(found: Iterable[Found], most: int = MOST_SAID) -> str:
    """The first of them: what is said first matters most."""
    return " ".join([one.said for one in found if one.said][:most])


def percent(share: float, *, exactly: bool = False) -> str:
    """A share for a person: whole hundredths, but for small ones, or where two are to be told apart (`exactly`)."""
    if math.isnan(share):
        return "–"
    digits = 1 if exactly or _extreme(share) else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"


def _extreme(share: float) -> bool:
    return 0 < share < 0.0995 or 0.9005 < share < 1


def span(interval: Interval) -> str:
    """Between which shares it lies: 12–19 %."""
    exactly = _extreme(interval.low) or _extreme(interval.high)
    low, high = percent(interval.low, exactly=exactly).removesuffix(" %"), percent(interval.high, exactly=exactly)
    return f"{low}–{high}"


def ends(interval: Interval) -> tuple[float | None, float | None]:
    """For a table: nothing where an end is not known."""
    low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
    return low, high


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def some(count: int, noun: str) -> str:
    """So many of them: 1 text, 2 texts."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
