"""The rows of a comparison: outcomes of one model with several seeds, put together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.trials.outcome import FLOOR, GIVEN, REFERENCE, TRAINED, Outcome
from glassformer.trials.results.metrics import is_paired, ranked_by, value_of, within
from glassformer.trials.results.rounding import rounded, score_decimals, with_ends

SURE = (FLOOR, REFERENCE)
"""Kinds in which no chance has a part: fitted twice they are the same."""
SECTIONS = ("model.", "training.", "data.", "tokenizer.")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of the table."""

    name: str
    kind: str
    varied: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    """Those of the seeds that were trained to the end, in the order of the seeds."""
    errors: Sequence[str]
    """Why the others were not."""
    metric: str
    lower: bool
    """The lower the metric, the better."""
    interval: Interval | None = None
    """The score's interval: over seeds; with a single one over examples, where all rows have but one."""
    decimals: int | None = None
    """How many of its score are known."""
    marks: Sequence[str] = field(default_factory=list)
    nameless: bool = False
    """All models have one name: what is varied says enough."""

    @property
    def label(self) -> str:
        return label_of("" if self.nameless and self.varied and self.is_trained else self.name, self.varied)

    @property
    def is_trained(self) -> bool:
        return self.kind in (TRAINED, GIVEN)

    @property
    def begins(self) -> bool:
        """It begins from weights that another run has learned."""
        return any(outcome.cell.begins for outcome in self.outcomes)

    @property
    def repeats(self) -> str:
        """What there are several of."""
        return "folds" if any("data.fold" in outcome.cell.settings for outcome in self.outcomes) else "seeds"

    @property
    def values(self) -> list[float]:
        return [value_of(outcome, self.metric) for outcome in self.outcomes]

    @property
    def score(self) -> float:
        return float(np.mean(self.values)) if self.outcomes else math.nan

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def score_with_interval(self) -> str:
        """The score, and how sure it is."""
        if self.interval is None:
            return rounded(self.score, self.decimals)
        return with_ends(self.score, self.interval.low, self.interval.high, self.decimals)

    @property
    def alike(self) -> bool:
        """All of several seeds came to the same score: they say nothing of how far another would be from it."""
        return len(self.outcomes) > 1 and self.half == 0

    @property
    def seen(self) -> bool:
        """It has learned from the examples that it is judged on."""
        return any(outcome.seen for outcome in self.outcomes)

    @property
    def rank(self) -> float:
        """The key to sort by: the lower the better; what has seen the examples comes last."""
        return math.inf if self.seen else self.score if self.lower else -self.score

    @property
    def parameters(self) -> int:
        return max((outcome.parameters for outcome in self.outcomes), default=0)

    @property
    def learned(self) -> int | None:
        """How many of these parameters were trained; None where nothing was trained here."""
        return max((outcome.learned for outcome in self.outcomes if outcome.learned is not None), default=None)

    @property
    def seconds(self) -> float:
        """Seconds of training, in the middle of the seeds."""
        return median(outcome.seconds for outcome in self.outcomes) if self.outcomes else math.nan

    @property
    def per_example(self) -> float | None:
        known = [outcome.per_example for outcome in self.outcomes if outcome.per_example is not None]
        return median(known) if known else None

    @property
    def memory(self) -> int | None:
        return max((outcome.memory for outcome in self.outcomes if outcome.memory is not None), default=None)

    @property
    def updates(self) -> tuple[int, int]:
        """The fewest and the most of a seed."""
        steps = [outcome.steps for outcome in self.outcomes]
        return min(steps, default=0), max(steps, default=0)

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each over the seeds."""
        names = self.outcomes[0].metrics if self.outcomes else {}
        return {name: float(np.mean([one.metrics[name] for one in self.outcomes])) for name in names}

    def to_dict(self) -> dict[str, Any]:
        known = bool(self.outcomes)
        return {
            "name": self.name,
            "kind": self.kind,
            "varied": dict(self.varied),
            "score": self.score if known else None,
            "low": self.interval.low if self.interval else None,
            "high": self.interval.high if self.interval else None,
            "values": self.values,
            "seeds": [outcome.cell.repeat for outcome in self.outcomes],
            "metrics": self.metrics,
            "parameters": self.parameters if known else None,
            "learned": self.learned,
            "seconds": self.seconds if known else None,
            "seconds_per_example": self.per_example,
            "memory": self.memory,
            "updates": [outcome.steps for outcome in self.outcomes],
            "runs": [outcome.run for outcome in self.outcomes],
            "failed": len(self.errors),
            "errors": list(self.errors),
            "marks": list(self.marks),
        }


def label_of(name: str, varied: Mapping[str, Any]) -> str:
    """A model, and what tells it from others of its name."""
    return ", ".join([*([name] if name else []), *(setting_in_words(key, value) for key, value in varied.items())])


def setting_in_words(key: str, value: Any) -> str:
    """A setting that tells rows apart, as it is typed but for its section."""
    if key == "data.train_fraction":
        return "all the data" if value == 1 else f"{percent(value)} of the data"
    for section in SECTIONS:
        key = key.removeprefix(section)
    return f"{key}={value}".lower() if isinstance(value, bool) else f"{key}={value}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """Put together by row, those that came to something from best to worst, the others after them."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.cell.row, []).append(outcome)
    good = [outcome for outcome in outcomes if outcome.error is None]
    metric, lower = ranked_by(good)
    several = any(sum(one.error is None for one in group) > 1 for group in groups.values())
    nameless = len({outcome.cell.name for outcome in outcomes if outcome.cell.kind in (TRAINED, GIVEN)}) == 1
    rows = []
    for group in groups.values():
        done = sorted((one for one in group if one.error is None), key=lambda one: one.cell.repeat)
        cell = group[0].cell
        row = Row(
            name=cell.name,
            kind=cell.kind,
            varied=cell.varied,
            outcomes=done,
            errors=[one.error for one in group if one.error is not None],
            metric=metric,
            lower=lower,
            interval=_interval(done, metric, several),
            nameless=nameless,
        )
        rows.append(row)
    finest = max((score_decimals(row.score, row.half) or 0 for row in rows if row.half), default=0)
    rows = [replace(row, decimals=_decimals(row, finest)) for row in rows]
    return sorted(rows, key=lambda row: (not row.outcomes, row.rank if row.outcomes else 0.0))


def _decimals(row: Row, finest: int) -> int | None:
    """Decimals of a score; of a row with one seed as many as its examples tell, and no fewer than others have."""
    if row.half or not row.outcomes:
        return score_decimals(row.score, row.half or 0.0)
    found = _over_examples(row.outcomes[0], row.metric)
    own = None if found is None else score_decimals(row.score, (found.high - found.low) / 2)
    return None if own is None else max(own, finest)


def _interval(done: Sequence[Outcome], metric: str, several: bool) -> Interval | None:
    """A score's interval over seeds; where no row has more than one, over examples. Never beyond the metric's scale."""
    if several or not done:
        return within(mean_interval([value_of(outcome, metric) for outcome in done]), metric)
    return within(_over_examples(done[0], metric), metric)


def _over_examples(one: Outcome, metric: str) -> Interval | None:
    if not is_paired(metric, one) or len(one.scores) < 2:
        return None
    value = value_of(one, metric)
    if one.weights is None and set(one.scores) <= {0.0, 1.0}:
        found = share_interval(int(sum(one.scores)), len(one.scores))
        return Interval(value, found.low, found.high)
    found = weighted_mean_interval(scores_of(one), one.weights)
    half = (found.high - found.low) / 2
    return Interval(value, value - half, value + half)


def scores_of(one: Outcome) -> NDArray[np.float64]:
    """A score for each example, such that the mean is the metric, below zero where lower is better. An RMSE is the root
    of a mean: there they lie on the root's tangent at that mean.
    """
    scores = np.array(one.scores, float)
    root = one.metrics[one.primary]
    return (scores / root - root) / 2 if one.primary == "rmse" and root > 0 else scores
