"""What was tried against the house, how often, with what result."""

from collections.abc import Callable
from pathlib import Path

LOG = Path(__file__).parents[2] / "build" / "trust.jsonl"
"""A line for each attempt; tests/trust/table.py makes a table of it."""

Tried = Callable[[str, str, int, str], None]
"""What was tried, how, how many times, and the result."""
