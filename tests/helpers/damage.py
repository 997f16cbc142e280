"""Damage to JSON files: every value of a sound one replaced, removed, or cut off."""

import copy
import json
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (None, True, -1, 0, 10**6, 2**70, 10**400, 1e308, float("nan"), "", "x", "../../x", [], [None],
                        [[]], {}, {"a": []}, "\x00", "\ud83d")  # fmt: skip
"""Values that are of another type, or larger than anybody wrote."""


def damaged(text: str, odd: tuple[Any, ...] = ODD) -> Iterator[tuple[str, str]]:
    """What was done to a JSON file, and the file's text after it."""
    value = json.loads(text)
    for place in places(value):
        for one in odd:
            changed = copy.deepcopy(value)
            holder, key = _holder(changed, place)
            holder[key] = one
            yield f"{place} = {one!r:.20}", json.dumps(changed)
        changed = copy.deepcopy(value)
        holder, key = _holder(changed, place)
        del holder[key]
        yield f"{place} removed", json.dumps(changed)
    for share in range(10):
        yield f"cut off at {share}/10", text[: len(text) * share // 10]
    for one in ("null", "[]", "1", '"x"', "{}", "\ufeff{}", "[" * 100_000, "{" * 500, "nonsense", "\x00"):
        yield f"all of it {one:.20}", one


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value, outer ones first; of a list, to its first and its last."""
    keys = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1}) if isinstance(value, list) else []
    for key in keys if value else ():
        yield (*before, key)
        yield from places(value[key], (*before, key))


def _holder(value: Any, place: tuple[Any, ...]) -> tuple[Any, Any]:
    for key in place[:-1]:
        value = value[key]
    return value, place[-1]
