"""Parts of messages: numbers of things, lists that are cut off, and line numbers."""

from collections.abc import Iterable, Sequence

EXAMPLES = 5
"""Maximum number of examples in a message."""
NAMES = 12
"""Maximum number of column names in a message."""
LOST = ("skipped: ", "left out: ")
"""Prefixes of remarks on rows that are not used."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return "1 row" or "3 rows". `many`: the plural; None: `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(items: Iterable[object], most: int = NAMES, between: str = ", ") -> str:
    """Return the first items with separators, and … if there are more."""
    items = list(items)
    shown = between.join(f"{item:,}" if isinstance(item, int) else str(item) for item in items[:most])
    return shown + (", …" if len(items) > most else "")


def shortened(text: str, most: int = 60) -> str:
    """Return the beginning of a text, in one line."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


class RowPosition(int):
    """Position of a row of data in memory, counted from 0; files have line numbers."""

    __slots__ = ()


def line_in_words(line: int) -> str:
    """Return "line 17", or for data in memory "row 17 (counted from 0)"."""
    return f"row {line:,} (counted from 0)" if isinstance(line, RowPosition) else f"line {line:,}"


def lines_in_words(lines: Sequence[int], line: str = "line") -> str:
    """Return "lines 17, 20, …", or for data in memory "rows 17, 20, … (counted from 0)"."""
    in_memory = bool(lines) and isinstance(lines[0], RowPosition)
    noun = f"{'row' if in_memory else line}{'' if len(lines) == 1 else 's'}"
    return f"{noun} {listed(lines, EXAMPLES)}{' (counted from 0)' if in_memory else ''}"
