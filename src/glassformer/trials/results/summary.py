"""A comparison as data: the rows, how far each is behind, and what is said of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.statistics.paired import Difference
from glassformer.trials.outcome import json_safe
from glassformer.trials.results.rows import Row
from glassformer.trials.results.significance import compare_rows

BEST, LEVEL, USE = "best", "within chance", "recommended"


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary:
    """Which model is how good on the same examples, for what cost, and what follows from it."""

    title: str
    budget: str
    """How long each was trained, in words."""
    mode: str
    rows: Sequence[Row]
    """From best to worst, or along a number that is varied; what failed, last."""
    behind: Sequence[Difference | None]
    """How much better than each row the best is, or with parts left out the whole; None: not to be told."""
    words: Sequence[str]
    """What it says, a sentence or two each."""
    notes: Sequence[str]
    """How the numbers came about."""

    @property
    def best(self) -> Row | None:
        return self._marked(BEST)

    @property
    def recommended(self) -> Row | None:
        """The best, or one within chance of it that trains much faster; None: nothing beats a floor."""
        return self._marked(USE)

    def _marked(self, mark: str) -> Row | None:
        return next((row for row in self.rows if mark in row.marks), None)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for programs; null where a number is not known, or an interval has no end."""
        rows = [
            {**row.to_dict(), "behind": None if found is None else asdict(found)}
            for row, found in zip(self.rows, self.behind, strict=True)
        ]
        first = next((row for row in self.rows if row.outcomes), None)
        return json_safe(
            {
                "title": self.title,
                "budget": self.budget,
                "mode": self.mode,
                "metric": first.metric if first else None,
                "lower_is_better": first.lower if first else None,
                "part": first.outcomes[0].part if first else None,
                "best": self.best.label if self.best else None,
                "recommended": self.recommended.label if self.recommended else None,
                "leader": self._leader(),
                "words": list(self.words),
                "notes": list(self.notes),
                "rows": rows,
            }
        )

    def _leader(self) -> dict[str, Any] | None:
        """The best of the trained models, against every other row: by how much it is better."""
        done = [row for row in self.rows if row.outcomes]
        leader = min((row for row in done if row.is_trained), key=lambda row: row.rank, default=None)
        if leader is None:
            return None
        found = {row.label: compare_rows(leader, row) for row in done if row is not leader}
        against = {label: None if one is None else asdict(one) for label, one in found.items()}
        return {"model": leader.label, "against": against}
