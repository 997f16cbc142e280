"""Requests and findings of an error analysis: panels, and sentences that summarise them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from glassformer.config.sentences import sentence as read_sentence
from glassformer.families.base import DataParts, EvaluatedPart, Prepared
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.statistics.intervals import Interval
from glassformer.tasks.base import Evaluation

SIGNIFICANCE = 0.05
"""Level of significance for sentences."""
MAX_ERRORS = 12
"""Maximum number of examples in a table."""
MAX_SENTENCES = 4
"""Maximum number of sentences above the panels."""

LABELS = "labels"
"""Key of the true labels in records of multilabel classification."""

T = TypeVar("T")

sentence = partial(read_sentence, __name__)


@dataclass(frozen=True, eq=False)
class ErrorRequest:
    """An evaluated part to analyse, and the run's own data."""

    evaluated: EvaluatedPart
    corpus: DataParts | None
    missing: str
    """The reason why the run's own data is missing."""
    accuracy: float
    """The share of a classifier's answers that should be right."""

    @property
    def loaded(self) -> Any:
        """The loaded run."""
        return self.evaluated.loaded

    @property
    def records(self) -> Records:
        return self.evaluated.evaluation.records

    @property
    def train(self) -> Any:
        """The training part; None if it is missing."""
        return None if self.corpus is None else self.corpus.parts["train"]


@dataclass(frozen=True, eq=False)
class ReportedPart:
    """A part that was evaluated for the report of a training run."""

    prepared: Prepared
    model: nn.Module
    part: str
    evaluations: Mapping[str, Evaluation]
    """Evaluations of this and other parts."""

    @property
    def records(self) -> Records:
        return self.evaluations[self.part].records

    @property
    def inputs(self) -> Any:
        return self.prepared.task.parts[self.part]


@dataclass(frozen=True)
class ErrorFinding:
    """Panels on one aspect of the errors, and a sentence if something stands out."""

    panels: list[Panel] = field(default_factory=list)
    sentence: str = ""
    """Summary with its numbers; empty if nothing stands out."""

    @property
    def captioned_panels(self) -> list[Panel]:
        """The panels; the sentence is the takeaway of the first panel, unless that has its own."""
        if not self.sentence or not self.panels or self.panels[0].takeaway:
            return self.panels
        takeaway = self.sentence.partition(". ")[0].removesuffix(".")
        return [replace(self.panels[0], takeaway=takeaway), *self.panels[1:]]


def panels_of(findings: Iterable[ErrorFinding]) -> list[Panel]:
    """Return the captioned panels of all findings."""
    return [panel for finding in findings for panel in finding.captioned_panels]


def sentences(findings: Iterable[ErrorFinding]) -> str:
    """Return the first sentences, which matter most."""
    return " ".join([finding.sentence for finding in findings if finding.sentence][:MAX_SENTENCES])


def worst(items: Sequence[T], badness: Callable[[T], float | None], most: int = MAX_ERRORS) -> list[T]:
    """Return the worst items, such as records, the worst first. A `badness` of None excludes an item."""
    values = [(value, item) for item in items if (value := badness(item)) is not None]
    return [item for _, item in sorted(values, key=lambda pair: -pair[0])[:most]]


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Return whether an example is wrong; with several labels, whether any label is."""
    return bool(record["predicted"] != record[LABELS if LABELS in record else "label"])


def wrong_rows(records: Records) -> NDArray[np.bool_]:
    """Return True for the examples that are wrong."""
    return np.array([is_wrong(record) for record in records], bool)


def table_or_words(title: str, columns: Sequence[str], rows: Rows, nothing: str, **more: Any) -> Panel:
    """Return a table, or without rows the text `nothing`."""
    if not rows:
        return Words(title=title, text=nothing)
    return Table(title=title, columns=columns, rows=rows, **more)


def percent(share: float) -> str:
    """Return a share as a percentage: whole numbers, but one decimal near 0 and 100 %."""
    if math.isnan(share):
        return "–"
    digits = 1 if 0 < share < 0.0995 or 0.9005 < share < 1 else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"


def span(interval: Interval) -> str:
    """Return the interval of a share as percentages, such as 12–19 %."""
    return f"{percent(interval.low).removesuffix(' %')}–{percent(interval.high)}"


def ends(interval: Interval) -> list[float | None]:
    """Return the ends of an interval for a table; None for an unknown end."""
    return [end if math.isfinite(end) else None for end in (interval.low, interval.high)]
