"""Whether a run computes the same whichever way it is asked. One more check: a name here, a function in `run.py`."""

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
"""What of a run can be checked, known without torch."""


def choose_checks(only: str | Iterable[str] | None) -> list[str]:
    """Their names in the order in which they are made; `only`: some of them."""
    if only is None:
        return list(NAMES)
    names = [name.strip() for name in only.split(",")] if isinstance(only, str) else list(only)
    for name in names:
        refuse_unknown("check", name, NAMES, Misuse)
    return [name for name in NAMES if name in names]
