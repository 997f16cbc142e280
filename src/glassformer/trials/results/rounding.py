"""Numbers as far as they are known: 0.868 ± 0.010, and no digit more."""

import math

from glassformer.config.units import two_digits

DIGITS = 3
"""Digits of a number whose uncertainty nobody knows."""
FEWEST, FEWEST_DECIMALS = 2, 2
"""Digits that a score has at least, however unsure it is: 0.65 ± 0.60; but no more decimals than these for it."""


def decimals_of(error: float) -> int | None:
    """Decimals that an error of this size leaves: two digits of it where it begins with 1 or 2, else one."""
    if not (math.isfinite(error) and error > 0):
        return None
    exponent = math.floor(math.log10(error))
    return -exponent + (error / 10**exponent < 2.95)


def rounded(value: float, decimals: int | None) -> str:
    """A number with so many decimals; None: with three digits. Below 0: tens, hundreds."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "?"
    if decimals is None:
        decimals = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
        decimals = max(decimals, 0)
    told = f"{abs(round(value, decimals)):,.{max(decimals, 0)}f}"
    return f"−{told}" if round(value, decimals) < 0 else told


def score_decimals(value: float, error: float) -> int | None:
    """Decimals of a score with such an error."""
    decimals = decimals_of(error)
    if decimals is None or not value:
        return decimals
    digits = FEWEST - 1 - math.floor(math.log10(abs(value)))
    return max(decimals, min(digits, FEWEST_DECIMALS))


def with_error(value: float, half: float | None, decimals: int | None = None) -> str:
    """A value and the half of its interval; without one, the value alone, with as many decimals as its neighbours."""
    if half is None or not math.isfinite(half) or half == 0:
        return rounded(value, decimals)
    decimals = score_decimals(value, half)
    return f"{rounded(value, decimals)} ± {rounded(half, decimals)}"


def with_ends(value: float, low: float, high: float, decimals: int | None = None) -> str:
    """A value and its interval: 0.868 ± 0.010 where it reaches as far up as down, else 0.65 (0.40 to 1.00)."""
    half = (high - low) / 2
    known = score_decimals(value, half)
    if known is None or rounded(value - low, known) == rounded(high - value, known) == rounded(half, known):
        return with_error(value, half, decimals)
    return f"{rounded(value, known)} ({rounded(low, known)} to {rounded(high, known)})"


def from_to(value: float, low: float, high: float) -> str:
    """A difference and the ends of its interval: 0.021 (0.010 to 0.032); alone where all examples differ alike."""
    if low == high:
        return rounded(value, None)
    decimals = decimals_of((high - low) / 2)
    if decimals is not None and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1  # on which side of 0 an end lies must be seen
    return f"{rounded(value, decimals)} ({rounded(low, decimals)} to {rounded(high, decimals)})"


def amount(number: float | None) -> str:
    """900, 12k, 3.4M."""
    if number is None:
        return ""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * (10 if letter == "k" else 1):
            return f"{two_digits(number / size)}{letter}"
    return f"{number:,.0f}"


def memory(size: int | None) -> str:
    if size is None:
        return ""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{two_digits(size / unit)} {name}"
    return f"{size / 2**10:.0f} KiB"


def times(more: float, less: float) -> str:
    """How many times as much: 3.4, 12, 250."""
    return two_digits(more / less) if less > 0 else "many"
