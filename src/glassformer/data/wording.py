"""Words for people: so many of a thing, and the first few of many."""

from collections.abc import Iterable, Sequence

EXAMPLES = 5
"""Examples that are shown of what is found, at most."""

NAMES = 12
"""Names of columns that are shown, at most."""


LOST = ("skipped: ", "left out: ")
"""How it is said that rows are not taken."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """`many`: what several are called, where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(items: Iterable[object], most: int = NAMES, between: str = ", ") -> str:
    """The first of them."""
    items = list(items)
    shown = between.join(f"{item:,}" if isinstance(item, int) else str(item) for item in items[:most])
    return shown + (", …" if len(items) > most else "")


def shortened(text: str, most: int = 60) -> str:
    """A text's beginning, in one line."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


class RowPosition(int):
    """Position of a row of data in memory, counted from 0; files have line numbers."""

    __slots__ = ()


def line_in_words(line: int) -> str:
    """Return "line 17", or for data in memory "row 17 (counted from 0)"."""
    return f"row {line:,} (counted from 0)" if isinstance(line, RowPosition) else f"line {line:,}"


def lines_in_words(lines: Sequence[int], line: str = "line") -> str:
    if lines and isinstance(lines[0], RowPosition):
        return f"row{'' if len(lines) == 1 else 's'} {listed(lines, EXAMPLES)} (counted from 0)"
    return f"{line}{'' if len(lines) == 1 else 's'} {listed(lines, EXAMPLES)}"
