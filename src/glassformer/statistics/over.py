"""What errors have more often than the rest: a word, a length, a class, with the odds that it is chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from glassformer.statistics.holm import holm
from glassformer.statistics.intervals import Interval, share_interval


@dataclass(frozen=True)
class Over:
    """Something that examples have or have not."""

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
    """The same, since so many things were looked at."""


def over_represented(in_errors: Mapping[str, int], in_rest: Mapping[str, int], errors: int, rest: int) -> list[Over]:
    """Of things counted in so many errors and so many other examples, each at most once an example; the least
    probable first.
    """
    names = sorted({*in_errors, *in_rest})
    for name in names:
        if in_errors.get(name, 0) > errors or in_rest.get(name, 0) > rest:
            raise ValueError(f"{name!r} was counted in more examples than there are")
    logs = np.array([math.lgamma(number + 1) for number in range(errors + rest + 1)])
    rows = []
    for name in names:
        hits = in_errors.get(name, 0)
        having = hits + in_rest.get(name, 0)
        if having == 0:
            continue
        rate = share_interval(hits, having)
        lift = rate.value * (errors + rest) / errors if errors else 0.0
        rows.append((name, hits, having, rate, lift, _at_least(hits, having, errors, rest, logs)))
    corrected = holm([row[-1] for row in rows])
    found = [Over(*row, holm=each) for row, each in zip(rows, corrected, strict=True)]
    return sorted(found, key=lambda row: (row.p, -row.lift, row.name))


def _at_least(hits: int, having: int, errors: int, rest: int, logs: np.ndarray) -> float:
    """Drawing the errors blindly from all examples: how probable that at least so many of them have it."""
    lacking = errors + rest - having
    counts = np.arange(max(hits, errors - lacking), min(having, errors) + 1)
    ways = logs[having] - logs[counts] - logs[having - counts]
    others = logs[lacking] - logs[errors - counts] - logs[lacking - (errors - counts)]
    whole = logs[errors + rest] - logs[errors] - logs[rest]
    return min(1.0, float(np.exp(ways + others - whole).sum()))
