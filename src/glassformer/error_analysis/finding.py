"""What an analysis of errors is asked and what it finds: panels to look at, and a sentence for each to remember."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.errors import Say
from glassformer.families.base import DataParts, EvaluatedPart
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel
from glassformer.statistics.intervals import Interval

CHANCE = 0.05
"""What happens by chance less often than this is said."""
MOST_ERRORS = 12
"""Examples of a table."""
MOST_SENTENCES = 4
"""Sentences that a person reads before looking."""


@dataclass(frozen=True, eq=False)
class ErrorRequest:
    """An evaluated part in which errors are looked for, and the run's own data."""

    evaluated: EvaluatedPart
    corpus: DataParts | None
    missing: str
    """Why the run's own data is not there."""
    accuracy: float
    """The share of a classifier's answers that should be right."""
    say: Say

    @property
    def loaded(self) -> Any:
        """The run's model, as its family has it."""
        return self.evaluated.loaded

    @property
    def records(self) -> Records:
        return self.evaluated.evaluation.records

    @property
    def train(self) -> Any:
        """The training part; None where it is not there."""
        return None if self.corpus is None else self.corpus.parts["train"]


@dataclass(frozen=True)
class ErrorFinding:
    """What stands out among errors."""

    panels: list[Panel] = field(default_factory=list)
    sentence: str = ""
    """What a person should remember, with its numbers; empty where nothing stands out."""


def panels_of(findings: Iterable[ErrorFinding]) -> list[Panel]:
    return [panel for finding in findings for panel in finding.panels]


def sentences(findings: Iterable[ErrorFinding], most: int = MOST_SENTENCES) -> str:
    """The first sentences: what is said first matters most."""
    return " ".join([finding.sentence for finding in findings if finding.sentence][:most])


def worst(records: Records, badness: Callable[[Mapping[str, Any]], float | None], most: int = MOST_ERRORS) -> list[int]:
    """The places of the worst records, the worst first; None: nothing is wrong with it."""
    values = [(value, place) for place, record in enumerate(records) if (value := badness(record)) is not None]
    return [place for _, place in sorted(values, key=lambda one: (-one[0], one[1]))[:most]]


def percent(share: float, *, exactly: bool = False) -> str:
    """A share for a person: whole hundredths, but for small ones, or where two are to be told apart (`exactly`)."""
    if math.isnan(share):
        return "–"
    digits = 1 if exactly or _extreme(share) else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"


def _extreme(share: float) -> bool:
    return 0 < share < 0.0995 or 0.9005 < share < 1


def span(interval: Interval) -> str:
    """The interval of a share for a person: 12–19 %."""
    exactly = _extreme(interval.low) or _extreme(interval.high)
    low, high = percent(interval.low, exactly=exactly).removesuffix(" %"), percent(interval.high, exactly=exactly)
    return f"{low}–{high}"


def ends(interval: Interval) -> tuple[float | None, float | None]:
    """The interval's ends for a table: nothing where one is not known."""
    low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
    return low, high


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 text, 2 texts."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
