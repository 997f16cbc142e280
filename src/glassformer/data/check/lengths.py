"""What looking at a table is made of: how lengths are spread, and what occurs again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


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
