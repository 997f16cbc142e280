"""Consistency checks of a run. A new check needs a name here and a function in `run.py`."""

from collections.abc import Iterable

from glassformer.config.errors import Misuse, refuse_unknown

NAMES = {
    "cached": "cached = uncached",
    "batched": "batched = single",
    "padded": "padded = unpadded",
    "looked-at": "looked at = not looked at",
    "saved": "saved = loaded",
    "resumed": "resumed = uninterrupted",
    "exported": "exported = original",
    "stdin": "file = stdin",
}
"""Titles of the checks by name, available without importing PyTorch."""


def choose_checks(only: str | Iterable[str] | None) -> list[str]:
    """Return the names of the checks to run, in order. `only`: names to choose; None: all."""
    if only is None:
        return list(NAMES)
    names = [name.strip() for name in only.split(",")] if isinstance(only, str) else list(only)
    for name in names:
        refuse_unknown("check", name, NAMES, Misuse)
    return [name for name in NAMES if name in names]
