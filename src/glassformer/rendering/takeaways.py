"""Takeaways: the main result of a panel as a sentence computed from its numbers, also if no value stands out."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e-6
"""Largest relative difference of equal numbers."""
NEGLIGIBLE = 0.01
"""Largest relative change of a constant line."""

LIKELIEST = {
    "one": "{name} is the likeliest ({number})",
    "several": "{name} are equally likely ({number} each)",
    "all": "All {count} are equally likely ({number})",
    "alone": "{name} is the likeliest: {number}",
}
"""Templates of `leading` for probabilities."""
FAR_BEYOND = 0.2
"""Minimum excess of a named peak or low over both ends of a line, relative to the line's range."""


def three(value: float) -> str:
    """Format a number with three significant digits, without an exponent if it is large."""
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


def leading(names: Sequence[str], values: ArrayLike, wording: Mapping[str, str], **facts: object) -> str:
    """Return the sentence about the largest of several values.

    `wording` has a template per case; a case without one has no sentence. `one`: one value leads; `several`: some share
    the lead; `all`: all are equal; `alone`: there is only one; `none`: no value is known. A template may use {name} (of
    the leader or the leaders), {number} (the largest value), {leaders} and {count} (how many values), and `facts`.
    """
    flat = np.asarray(values, np.float64).ravel()
    first = leaders(flat)
    if not first:
        return wording.get("none", "")
    count = int((~np.isnan(flat)).sum())
    case = "one" if len(first) == 1 else "several"
    if len(first) == count:
        case = "alone" if count == 1 else "all"
    facts = {"number": three(float(flat[first[0]])), "leaders": len(first), "count": count, **facts}
    return wording.get(case, "").format(name=listed([names[at] for at in first]), **facts)


def course(y: Sequence[float], unit: str = "") -> str:
    """Describe a line from start to end: `rises from 0.03 to 0.45`.

    A peak or low clearly beyond both ends is added: `rises from 4.63 to 5.71 nats, with a peak of 7.2`.
    """
    known = [value for value in y if math.isfinite(value)]
    if not known:
        return "is unknown"
    first, last, after = known[0], known[-1], f" {unit}" if unit else ""
    if len(known) == 1:
        return f"is {three(first)}{after}"
    high, low = max(known), min(known)
    min_excess = FAR_BEYOND * (high - low) if high - low > NEGLIGIBLE * max(map(abs, known)) else math.inf
    peak = f", with a peak of {three(high)}" if high - max(first, last) > min_excess else ""
    dip = f", with a low of {three(low)}" if min(first, last) - low > min_excess else ""
    if abs(last - first) <= NEGLIGIBLE * max(map(abs, known)) or three(first) == three(last):
        return f"ends where it began, at {three(last)}{after}{peak}{dip}"
    return f"{'rises' if last > first else 'falls'} from {three(first)} to {three(last)}{after}{peak}{dip}"
