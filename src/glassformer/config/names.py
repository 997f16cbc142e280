"""Nearest right names for wrong ones."""

import difflib
from collections.abc import Iterable


def nearest(wrong: str, right: Iterable[str]) -> str | None:
    """The name a person most likely meant, if any is close."""
    names = list(right)
    matches = difflib.get_close_matches(wrong.lower(), [name.lower() for name in names], n=1, cutoff=0.5)
    return next((name for name in names if matches and name.lower() == matches[0]), None)


def unknown(what: str, wrong: str, right: Iterable[str]) -> str:
    """'unknown model "lsmt"; did you mean lstm? (one of: …)'."""
    names = list(right)
    meant = nearest(wrong, names)
    hint = f"; did you mean {meant}?" if meant else ""
    listed = f" (one of: {', '.join(names)})" if len(names) <= 24 else ""
    return f"unknown {what} '{wrong}'{hint}{listed}"
