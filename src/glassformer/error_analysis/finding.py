"""What an analysis of errors is asked and what it finds: panels to look at, and a sentence for each to remember."""

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

CHANCE = 0.05
"""What happens by chance less often than this is said."""
MOST_ERRORS = 12
"""Examples of a table."""
MOST_SENTENCES = 4
"""Sentences that a person reads before looking."""

LABELS = "labels"
"""What is true of an example, where that may be several labels."""

T = TypeVar("T")

sentence = partial(read_sentence, __name__)


@dataclass(frozen=True, eq=False)
class ErrorRequest:
    """An evaluated part in which errors are looked for, and the run's own data."""

    evaluated: EvaluatedPart
    corpus: DataParts | None
    missing: str
    """Why the run's own data is not there."""
    accuracy: float
    """The share of a classifier's answers that should be right."""

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
    """What a person should remember, with its numbers; empty if nothing stands out."""

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
    """The first sentences: what is said first matters most."""
    return " ".join([finding.sentence for finding in findings if finding.sentence][:MOST_SENTENCES])


def worst(items: Sequence[T], badness: Callable[[T], float | None], most: int = MOST_ERRORS) -> list[T]:
    """The worst of some, such as records, the worst first; None: nothing is wrong with it."""
    values = [(value, item) for item in items if (value := badness(item)) is not None]
    return [item for _, item in sorted(values, key=lambda pair: -pair[0])[:most]]


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Whether an example is wrong; where several labels may be true, whether not all labels are right."""
    return bool(record["predicted"] != record[LABELS if LABELS in record else "label"])


def wrong_rows(records: Records) -> NDArray[np.bool_]:
    """Which examples are wrong."""
    return np.array([is_wrong(record) for record in records], bool)


def table_or_words(title: str, columns: Sequence[str], rows: Rows, nothing: str, **more: Any) -> Panel:
    """A table; without rows, what it means that there is `nothing`."""
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
    """The interval's ends for a table: nothing where one is not known."""
    return [end if math.isfinite(end) else None for end in (interval.low, interval.high)]
