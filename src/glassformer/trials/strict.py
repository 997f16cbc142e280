"""Numbers for programs: JSON knows no infinity."""

import math
from collections.abc import Mapping
from typing import Any


def strict(value: Any) -> Any:
    """The same, with null for every number that is endless or unknown."""
    if isinstance(value, Mapping):
        return {key: strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [strict(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
