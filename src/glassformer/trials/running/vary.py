"""Settings that are tried with several values: `model.heads=1,2,4`, several of them as a grid."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.resolve import check_ranges, flatten, full_key

Varied = Mapping[str, Sequence[Any]]
INSTEAD = {
    "model.encoder": "--models",
    "training.seed": "--seeds",
    "data.fold": "--folds",
    "data.path": "DATA",
    "model.from_run": "--from",
}
"""What is varied by a flag of its own."""


def varied_by(vary: "str | Iterable[str] | Varied | None") -> dict[str, list[Any]]:
    """By dotted key, the values to try, each once: from `key=a,b` (one, or several), or a mapping."""
    if vary is None:
        return {}
    asked: dict[str, Any] = {}
    if isinstance(vary, Mapping):
        asked = dict(vary)
    else:
        for word in [vary] if isinstance(vary, str) else vary:
            key, equals, values = str(word).partition("=")
            if not equals or not values:
                raise Misuse(f"--vary wants a setting and its values, as model.heads=1,2,4, not '{word}'")
            if full_key(key) in {full_key(other) for other in asked}:
                raise Misuse(f"--vary {key} is given twice: put its values together, with commas between them")
            asked[key] = values.split(",")
    return dict(_several(key, values) for key, values in asked.items())


def _several(key: str, values: Any) -> tuple[str, list[Any]]:
    """A setting's dotted key and its values, each brought to the setting's type and within its range."""
    key = full_key(key.strip())
    if key in INSTEAD:
        raise Misuse(f"--vary {key}: that is what {INSTEAD[key]} is for")
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    parsed = [flatten({key: value.strip() if isinstance(value, str) else value})[key] for value in values]
    if not parsed:
        raise Misuse(f"--vary {key}: give at least one value")
    for value in parsed:
        check_ranges({key: value})
    return key, list(dict.fromkeys(parsed))


def grid(varied: Varied) -> list[dict[str, Any]]:
    """Every combination; one empty one where nothing is varied."""
    return [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]


def listed(name: str, values: "str | Iterable[Any]") -> list[str]:
    """The words of a flag with commas between them, or of a list."""
    several = values if isinstance(values, Iterable) else [values]
    words = values.split(",") if isinstance(values, str) else [str(value) for value in several]
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise Misuse(f"--{name}: give at least one value")
    return words
