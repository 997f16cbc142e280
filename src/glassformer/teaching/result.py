"""Points, as a person sees them: on a terminal, in a notebook, in files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.notebook.html import table
from glassformer.teaching.exercise import Item


@dataclass(frozen=True)
class Checked:
    """What a student got, item by item. A notebook shows it as a table."""

    items: Sequence[Item]
    more: float = 0
    """Points for what only grading tries."""

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)

    @property
    def out_of(self) -> float:
        return sum(item.out_of for item in self.items)

    @property
    def passed(self) -> bool:
        """Whether no point is missing."""
        return all(item.points >= item.out_of for item in self.items)

    @property
    def words(self) -> str:
        more = f"; grading tries more, for {self.more:g}" if self.more else ""
        return f"{self.points:g} of {self.out_of:g} points{more}"

    def rows(self) -> list[tuple[str, str, str]]:
        """Of each item: its name, points and what is wrong."""
        return [(item.name, f"{item.points:g} of {item.out_of:g}", item.line) for item in self.items]

    def to_dict(self) -> dict[str, Any]:
        return {"points": self.points, "out_of": self.out_of, "items": [asdict(item) for item in self.items]}

    def __str__(self) -> str:
        rows = [
            ("✓" if item.points >= item.out_of else "✗", *row)
            for item, row in zip(self.items, self.rows(), strict=True)
        ]
        widths = [max((len(row[place]) for row in rows), default=0) for place in range(3)]
        lines = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.words])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(("", "points", ""), self.rows(), self.words)
