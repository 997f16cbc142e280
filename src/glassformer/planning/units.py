"""Bytes and times for a person to read."""


def size(count: float) -> str:
    """In GiB, MiB or KiB."""
    for unit, many in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= many:
            return f"{count / many:,.{0 if count >= 100 * many else 1}f} {unit}"
    return f"{count / 1024:,.1f} KiB"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    for unit, many in (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * many:
            return f"{seconds / many:,.1f} {unit}"
    return f"{seconds:.3g} seconds"


def count(number: float) -> str:
    """1,234,567, or of more 1.23 billion."""
    for word, many in (("trillion", 10**12), ("billion", 10**9)):
        if number >= many:
            return f"{number / many:,.3g} {word}"
    return f"{number:,.0f}"
