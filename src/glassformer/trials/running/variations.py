"""What varies between the rows of a comparison: settings with several values (`model.heads=1,2,4`, several of them as a
grid), and the parts of the Transformer, each of which is taken out, all else equal.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.resolve import Config, check_ranges, flatten, full_key

Varied = Mapping[str, Sequence[Any]]
INSTEAD = {
    "model.encoder": "--models",
    "training.seed": "--seeds",
    "data.fold": "--folds",
    "data.path": "DATA",
    "model.from_run": "--from",
}
"""What is varied by a flag of its own."""


def parse_varied(vary: "str | Iterable[str] | Varied | None") -> dict[str, list[Any]]:
    """The values to try by dotted key, each once: from `key=a,b` (one, or several), or a mapping."""
    if vary is None:
        return {}
    wanted: dict[str, Any] = {}
    if isinstance(vary, Mapping):
        wanted = dict(vary)
    else:
        for word in [vary] if isinstance(vary, str) else vary:
            key, equals, values = str(word).partition("=")
            if not equals or not values:
                raise Misuse(f"--vary wants a setting and its values, as model.heads=1,2,4, not '{word}'")
            if full_key(key) in {full_key(other) for other in wanted}:
                raise Misuse(f"--vary {key} is given twice: put its values together, with commas between them")
            wanted[key] = values.split(",")
    return dict(_parse_values(key, values) for key, values in wanted.items())


def _parse_values(key: str, values: Any) -> tuple[str, list[Any]]:
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


def parse_list(name: str, values: "str | Iterable[Any]") -> list[str]:
    """The words of a flag with commas between them, or of a list."""
    several = values if isinstance(values, Iterable) else [values]
    words = values.split(",") if isinstance(values, str) else [str(value) for value in several]
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise Misuse(f"--{name}: give at least one value")
    return words


# --- parts of the Transformer ---

PARTS: tuple[dict[str, Any], ...] = (
    {"model.residual": False},
    {"model.norm": "none"},
    {"model.qk_norm": False},
    {"model.scale": False, "model.qk_norm": False},
    {"model.causal_mask": False},
    {"model.positions": "none"},
    {"model.feed_forward": False},
    {"model.output_projection": False},
    {"model.heads": 1},
)
"""The parts of the lectures. Scores are left unscaled together with the norm of queries and keys: that norm bounds
the scores whatever the weights, and the claim is about scores that grow with the width of a head. What the norm alone
is worth is the row before it. Without residual connections no branch starts at zero
(`models/weights.py`): such a model could not learn at all, which is not what is claimed of it."""

MASK = "model.causal_mask"
UNMASKED = "without the mask it reads the token it is to predict: its loss is no honest one"


def ablations(config: Config) -> list[dict[str, Any]]:
    """What to change, one row each: nothing at first, then all that this model has and can do without."""
    return [{}, *(part for part in PARTS if _has_part(part, config))]


def _has_part(part: dict[str, Any], config: Config) -> bool:
    return all(config.idle(key) is None for key in part) and any(config.get(key) != part[key] for key in part)
