"""Rows of a comparison's table: the outcomes of one model over its seeds or folds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeVar

import numpy as np

from glassformer.config.units import duration
from glassformer.rendering.takeaways import leaders
from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.trials.jobs import EXISTING, TRAINED, Outcome
from glassformer.trials.results.metrics import (
    is_paired,
    ranked_by,
    rounded,
    score_decimals,
    titled,
    value_of,
    with_ends,
    within,
)
from glassformer.trials.results.pairs import Lead, Pairs, repeats_of, scores_of

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of the table."""

    name: str
    kind: str
    varied: Mapping[str, Any]
    """Settings that distinguish the row from others of its name, by dotted key."""
    outcomes: Sequence[Outcome]
    """Outcomes of the seeds that were trained to the end, in the order of the seeds."""
    errors: Sequence[str]
    """Errors of the other seeds."""
    skipped: bool = False
    """Whether all errors are packages that are not installed."""
    metric: str
    lower: bool
    """Whether a lower value of the metric is better."""
    interval: Interval | None = None
    """Interval of the score: over seeds, or over examples if every row has one seed."""
    decimals: int | None = None
    """Number of significant decimals of the score."""
    behind: Lead | None = None
    """Lead of the best row (in an ablation: of the whole model) over this row; None if they are not comparable."""
    marks: Sequence[str] = field(default_factory=list)
    nameless: bool = False
    """Whether all models have the same name, so that the label shows the varied settings only."""
    pairs: Pairs = field(default_factory=Pairs, repr=False, compare=False)
    """Differences between the rows of this table."""

    @property
    def label(self) -> str:
        return label_of("" if self.nameless and self.varied and self.is_trained else self.name, self.varied)

    @property
    def is_trained(self) -> bool:
        return self.kind in (TRAINED, EXISTING)

    @property
    def begins(self) -> bool:
        """Whether training started from the weights of another run."""
        return any(outcome.job.begins for outcome in self.outcomes)

    @property
    def repeats(self) -> str:
        """Name of the repeats of the row: "seeds" or "folds"."""
        return repeats_of(self.outcomes)

    @property
    def values(self) -> list[float]:
        return [value_of(outcome, self.metric) for outcome in self.outcomes]

    @property
    def score(self) -> float:
        return float(np.mean(self.values)) if self.outcomes else math.nan

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval; twice the score if there is no interval."""
        return (self.score, self.score) if self.interval is None else (self.interval.low, self.interval.high)

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def score_text(self) -> str:
        return rounded(self.score, self.decimals)

    @property
    def score_with_interval(self) -> str:
        return self.score_text if self.interval is None else with_ends(self.score, *self.ends, self.decimals)

    @property
    def metric_and_score(self) -> str:
        """The score with its metric, its interval and the number of seeds or folds."""
        repeats = f", {len(self.outcomes)} {self.repeats}" if len(self.outcomes) > 1 else ""
        return f"{titled(self.metric)} {self.score_with_interval}{repeats}"

    @property
    def seen(self) -> bool:
        """Whether the model was trained on examples that it is scored on."""
        return any(outcome.seen for outcome in self.outcomes)

    @property
    def undertrained(self) -> str:
        """Reason why the model is undertrained, if at least half of its seeds are; else empty."""
        reasons = [outcome.undertrained for outcome in self.outcomes if outcome.undertrained]
        return reasons[0] if 2 * len(reasons) >= max(1, len(self.outcomes)) else ""

    @property
    def is_ranked(self) -> bool:
        """Whether the row has a score that shows how good the model is."""
        return bool(self.outcomes) and not self.seen and not self.undertrained

    @property
    def rank(self) -> float:
        """Sort key, lowest first; models that have seen the examples come last."""
        return math.inf if self.seen else self.score if self.lower else -self.score

    @property
    def table_order(self) -> tuple[bool, bool, float]:
        """Sort key of the table: undertrained rows follow the others, failed rows come last."""
        return not self.outcomes, bool(self.undertrained), self.rank if self.outcomes else 0.0

    @property
    def parameters(self) -> int:
        return max((outcome.parameters for outcome in self.outcomes), default=0)

    @property
    def learned(self) -> int | None:
        """Number of parameters that were trained; None if nothing was trained here."""
        return max(_known(outcome.learned for outcome in self.outcomes), default=None)

    @property
    def seconds(self) -> float:
        """Median training time over the seeds."""
        return median(outcome.seconds for outcome in self.outcomes) if self.outcomes else math.nan

    @property
    def took(self) -> str:
        """Training time with its unit."""
        return duration(self.seconds)

    @property
    def per_example(self) -> float | None:
        known = _known(outcome.per_example for outcome in self.outcomes)
        return median(known) if known else None

    @property
    def memory(self) -> int | None:
        return max(_known(outcome.memory for outcome in self.outcomes), default=None)

    @property
    def updates(self) -> tuple[int, int]:
        """Smallest and largest number of updates of a seed."""
        steps = [outcome.steps for outcome in self.outcomes] or [0]
        return min(steps), max(steps)

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each metric that all seeds have; a fold may lack a metric that is undefined there."""
        each = [outcome.metrics for outcome in self.outcomes]
        names = [name for name in next(iter(each), {}) if all(name in metrics for metrics in each)]
        return {name: float(np.mean([metrics[name] for metrics in each])) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, with those of each seed or fold; None for unknown numbers."""
        known = bool(self.outcomes)
        return {
            "name": self.name,
            "kind": self.kind,
            "varied": dict(self.varied),
            "score": self.score if known else None,
            "low": self.interval.low if self.interval else None,
            "high": self.interval.high if self.interval else None,
            "failed": 0 if self.skipped else len(self.errors),
            "parameters": self.parameters if known else None,
            "learned": self.learned,
            "seconds": self.seconds if known else None,
            "seconds_per_example": self.per_example,
            "memory": self.memory,
            "values": self.values,
            "seeds": [outcome.job.repeat for outcome in self.outcomes],
            "metrics": self.metrics,
            "updates": [outcome.steps for outcome in self.outcomes],
            "undertrained": [outcome.undertrained for outcome in self.outcomes],
            "runs": [outcome.run for outcome in self.outcomes],
            "skipped": self.skipped,
            "errors": list(self.errors),
            "marks": list(self.marks),
            "behind": self.behind and self.behind.numbers,
        }


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def label_of(name: str, varied: Mapping[str, Any]) -> str:
    """Return a model's name with the settings that distinguish it from others of that name."""
    return ", ".join([*([name] if name else []), *(_setting_text(key, value) for key, value in varied.items())])


def _setting_text(key: str, value: Any) -> str:
    if key == "data.train_fraction":
        return "all the data" if value == 1 else f"{percent(value)} of the data"
    name = key.split(".")[-1]
    return f"{name}={value}".lower() if isinstance(value, bool) else f"{name}={value}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """Group outcomes into rows, from best to worst; undertrained rows follow, then failed ones."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.job.row, []).append(outcome)
    metric, lower = ranked_by([outcome for outcome in outcomes if outcome.error is None])
    several = any(sum(outcome.error is None for outcome in group) > 1 for group in groups.values())
    nameless = len({outcome.job.name for outcome in outcomes if outcome.job.kind in (TRAINED, EXISTING)}) == 1
    rows = []
    for group in groups.values():
        done = sorted((outcome for outcome in group if outcome.error is None), key=lambda outcome: outcome.job.repeat)
        over_seeds = mean_interval([value_of(outcome, metric) for outcome in done])
        job = group[0].job
        rows.append(
            Row(
                name=job.name,
                kind=job.kind,
                varied=job.varied,
                outcomes=done,
                errors=_known(outcome.error for outcome in group),
                skipped=not done and all(outcome.skipped for outcome in group),
                metric=metric,
                lower=lower,
                interval=within(over_seeds if several else _over_examples(done, metric), metric),
                nameless=nameless,
            )
        )
    finest = max((score_decimals(row.score, row.half) or 0 for row in rows if row.half), default=0)
    pairs = Pairs.of([row.outcomes for row in rows if row.is_ranked])
    rows = [replace(row, decimals=_decimals(row, finest), pairs=pairs) for row in rows]
    return sorted(rows, key=lambda row: row.table_order)


def _decimals(row: Row, finest: int) -> int | None:
    """Return the number of decimals of a score.

    With one seed they follow from the examples, but are at least `finest`, the most that rows with several seeds have.
    """
    if row.half or not row.outcomes:
        return score_decimals(row.score, row.half or 0.0)
    interval = _over_examples(row.outcomes, row.metric)
    own = None if interval is None else score_decimals(row.score, (interval.high - interval.low) / 2)
    return None if own is None else max(own, finest)


def _over_examples(outcomes: Sequence[Outcome], metric: str) -> Interval | None:
    """Return the interval of the first seed's score over its examples."""
    if not outcomes or not is_paired(metric, outcomes[0]) or len(outcomes[0].scores) < 2:
        return None
    first, value = outcomes[0], value_of(outcomes[0], metric)
    if first.weights is None and set(first.scores) <= {0.0, 1.0}:
        share = share_interval(int(sum(first.scores)), len(first.scores))
        return Interval(value, share.low, share.high)
    mean = weighted_mean_interval(scores_of(first), first.weights)
    half = (mean.high - mean.low) / 2
    return Interval(value, value - half, value + half)


def compare_rows(first: Row, second: Row) -> Lead | None:
    """Return the lead of the first row over the second on the same examples; None if they share no examples."""
    return first.pairs.compare(first.outcomes, second.outcomes, first.metric)


def relation(first: Row, second: Row) -> str:
    """Return the result of comparing two rows on the same examples, as a phrase."""
    lead = compare_rows(first, second)
    return "not comparable example by example" if lead is None else lead.words


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the row with the best score; several if their scores are equal."""
    return [rows[at] for at in leaders([-row.rank for row in rows])]
