"""What errors have more often than the rest: a word, a length, a class, with the odds that it is chance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from glassformer.statistics.intervals import Interval, share_interval


@dataclass(frozen=True)
class Overrepresentation:
    """How often something that examples have or have not stands in errors."""

    name: str
    in_errors: int
    in_all: int
    rate: Interval
    """Which share of the examples that have it are errors."""
    lift: float
    """How many times more often these are errors than examples at large."""
    p: float
    """How often chance alone would put it into at least so many errors (Fisher, one-sided)."""
    holm: float
    """The p-value after Holm's correction, since so many things were looked at."""


def over_represented(
    in_errors: Mapping[str, int], in_rest: Mapping[str, int], errors: int, rest: int
) -> dict[str, Overrepresentation]:
    """Things counted in so many errors and so many other examples, each at most once an example: by name, the least
    probable first.
    """
    logs = np.array([math.lgamma(number + 1) for number in range(errors + rest + 1)])

    @cache  # of thousands of words, most are counted as often as some other
    def chance(hits: int, having: int) -> tuple[float, Interval]:
        return _fisher(hits, having, errors, rest, logs), share_interval(hits, having)

    counts: dict[str, tuple[int, int]] = {}
    for name in sorted({*in_errors, *in_rest}):
        hits, others = in_errors.get(name, 0), in_rest.get(name, 0)
        if hits > errors or others > rest:
            raise ValueError(f"{name!r} was counted in more examples than there are")
        if hits + others:
            counts[name] = hits, hits + others
    rows = []
    p_values = [chance(*both)[0] for both in counts.values()]
    for (name, (hits, having)), corrected in zip(counts.items(), holm(p_values), strict=True):
        p, rate = chance(hits, having)
        lift = rate.value * (errors + rest) / errors if errors else 0.0
        rows.append(Overrepresentation(name, hits, having, rate, lift, p, corrected))
    return {row.name: row for row in sorted(rows, key=lambda row: (row.p, -row.lift, row.name))}


def _fisher(hits: int, having: int, errors: int, rest: int, logs: np.ndarray) -> float:
    """Fisher's exact test: how probable that of errors drawn blindly from all examples at least so many have it."""
    lacking = errors + rest - having
    counts = np.arange(max(hits, errors - lacking), min(having, errors) + 1)
    ways = logs[having] - logs[counts] - logs[having - counts]
    others = logs[lacking] - logs[errors - counts] - logs[lacking - (errors - counts)]
    whole = logs[errors + rest] - logs[errors] - logs[rest]
    return min(1.0, float(np.exp(ways + others - whole).sum()))


def holm(values: Sequence[float]) -> list[float]:
    """p-values by Holm's correction, in the order given: only 1 in 20 whole lists has one below 0.05 by chance. Looking
    at many things, some look odd by chance alone.
    """
    corrected = [1.0] * len(values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = worst
    return corrected
