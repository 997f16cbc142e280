"""Takeaways: the one thing that a panel shows, in words made of its numbers. Where nothing leads, they say so."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e-6
"""Numbers that differ by no more than this share of the largest are equal."""
LITTLE = 0.01
"""A line that changes by less than this share of its largest number stays where it is."""

FAR_BEYOND = 0.2
"""A peak or a low is named if it exceeds both ends of a line by more than this share of the line's range."""


def three(value: float) -> str:
    """A number in three digits, without an exponent where it is large."""
    shown = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"
    return re.sub(r"e-0*", "e−", shown).replace("-", "−")


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return "a, b and c"; for many names the first ones and the number of others; for none an empty text."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1:,} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def leaders(values: ArrayLike) -> list[int]:
    """Return the indices of the largest values: all of them if several are equal up to rounding.

    NaN is never the largest value. If all values are NaN, as for a model that diverged, the list is empty.
    """
    flat = np.asarray(values, np.float64).ravel()
    known = np.where(np.isnan(flat), -np.inf, flat)
    if not known.size or (top := known.max()) == -np.inf:
        return []
    return np.flatnonzero(known >= top - ROUNDING * np.abs(flat[np.isfinite(flat)]).max(initial=0.0)).tolist()


def leading(
    names: Sequence[str], values: ArrayLike, *, does: str, do: str, even: str, alone: str = "", none: str = ""
) -> str:
    """Which of some is the largest: `“olga” counts most (0.42)`. `does`: what is said of one, `do`: of several that
    share the lead; `even`: where all are equal; `alone`: where there is only one; `none`: where there are none.
    """
    flat = np.asarray(values, np.float64).ravel()
    first = leaders(flat)
    if not first:
        return none
    number = three(float(flat[first[0]]))
    if len(flat) == 1:
        return (alone or "{name} {does}: {number}").format(name=names[0], does=does, number=number)
    if len(first) == len(flat):
        return even.format(count=len(flat), number=number)
    if len(first) == 1:
        return f"{names[first[0]]} {does} ({number})"
    return f"{listed([names[at] for at in first])} {do} ({number} each)"


def course(y: Sequence[float], unit: str = "") -> str:
    """How a line goes from its start to its end: `rises from 0.03 to 0.45`; with a peak or low that is clearly beyond
    both ends: `rises from 4.63 to 5.71 nats, with a peak of 7.2`.
    """
    known = [value for value in y if math.isfinite(value)]
    if not known:
        return "is unknown"
    first, last, after = known[0], known[-1], f" {unit}" if unit else ""
    if len(known) == 1:
        return f"is {three(first)}{after}"
    high, low = max(known), min(known)
    beyond = FAR_BEYOND * (high - low) if high - low > LITTLE * max(map(abs, known)) else math.inf
    peak = f", with a peak of {three(high)}" if high - max(first, last) > beyond else ""
    dip = f", with a low of {three(low)}" if min(first, last) - low > beyond else ""
    if abs(last - first) <= LITTLE * max(map(abs, known)) or three(first) == three(last):
        return f"ends where it began, at {three(last)}{after}{peak}{dip}"
    return f"{'rises' if last > first else 'falls'} from {three(first)} to {three(last)}{after}{peak}{dip}"
