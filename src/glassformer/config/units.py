"""Formatting of bytes, times, counts and names of metrics."""

from glassformer.config.presets import read_settings

DURATIONS = (
    (365.25 * 86400, "years"),
    (86400.0, "days"),
    (3600.0, "h"),
    (60.0, "min"),
    (1.0, "s"),
    (1e-3, "ms"),
    (1e-6, "µs"),
)


def size(count: float) -> str:
    """Format bytes in GiB, MiB or KiB."""
    for unit, many in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= many:
            return f"{count / many:,.{0 if count >= 100 * many else 1}f} {unit}"
    return f"{count / 1024:,.1f} KiB"


def duration(seconds: float | None) -> str:
    """Format a time: 0.8 ms, 1.4 s, 12 min, 2.5 h, 3.5 days; an empty text for None."""
    if seconds is None:
        return ""
    for many, unit in DURATIONS:
        if seconds >= many * (2 if many > 1 else 1):
            return f"{two_digits(seconds / many)} {unit}"
    return "0 s" if seconds == 0 else f"{two_digits(seconds / 1e-6)} µs"


def two_digits(number: float) -> str:
    """Format a number with two significant digits, or all digits before the point: 1.4, 12, 250."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 9.95 else f"{number:.1f}"


def count(number: float) -> str:
    """Format a count: 1,234,567, or 1.23 billion."""
    for word, many in (("trillion", 10**12), ("billion", 10**9)):
        if number >= many:
            return f"{number / many:,.3g} {word}"
    return f"{number:,.0f}"


METRIC_NAMES: dict[str, str] = read_settings("names.toml")["metrics"]
"""Display names of metrics that differ from their keys."""


def metric_name(metric: str) -> str:
    return METRIC_NAMES.get(metric, metric)
