"""What looking at a table is made of: how lengths are spread, what occurs again, and the words for what was found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

EXAMPLES = 5
"""Of what is found, so many are shown at most."""


@dataclass(frozen=True)
class Spread:
    """How lengths are spread: nine texts in ten are at most `p90` long."""

    min: int
    median: int
    p90: int
    p99: int
    max: int


def spread_of(values: Sequence[int]) -> Spread:
    return Spread(*(int(value) for value in np.percentile(values, [0, 50, 90, 99, 100], method="inverted_cdf")))


def occurrences_of(texts: Iterable[str]) -> dict[str, list[int]]:
    """Each text, and the rows that have it."""
    found: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        found.setdefault(text.strip(), []).append(row)
    return found


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def lines_in_words(lines: Sequence[int]) -> str:
    return f"line{'' if len(lines) == 1 else 's'} {listed(lines)}"


def listed(items: Sequence[object], between: str = ", ") -> str:
    """The first few."""
    shown = between.join(f"{item:,}" if isinstance(item, int) else str(item) for item in items[:EXAMPLES])
    return shown + (", …" if len(items) > EXAMPLES else "")
