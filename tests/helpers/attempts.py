"""Record what the trust tests tried, how often, and the result."""

from collections.abc import Callable
from pathlib import Path

LOG = Path(__file__).parents[2] / "build" / "trust.jsonl"
"""One line per attempt, from which tests/trust/table.py makes a table."""

Tried = Callable[[str, str, int, str], None]
"""Record an attempt: `(what, how, times, result)`. In `kills: train`, `train` is one case of the row `kills`."""
