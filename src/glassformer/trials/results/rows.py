"""The rows of a comparison: outcomes of one model with several seeds, put together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from glassformer.config.units import duration
from glassformer.rendering.takeaways import leaders
from glassformer.statistics.intervals import Interval, mean_interval, share_interval, weighted_mean_interval
from glassformer.trials.jobs import GIVEN, TRAINED, Outcome
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


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of the table."""

    name: str
    kind: str
    varied: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    """The outcomes of the seeds that were trained to the end, in the order of the seeds."""
    errors: Sequence[str]
    """Why the others were not."""
    skipped: bool = False
    """Whether all of these errors are packages that are not installed."""
    metric: str
    lower: bool
    """The lower the metric, the better."""
    interval: Interval | None = None
    """The score's interval: over seeds; with a single one over examples, where all rows have but one."""
    decimals: int | None = None
    """How many of its score are known."""
    behind: Lead | None = None
    """How much better the best row of the table is, or with parts left out the whole model; None: not comparable."""
    marks: Sequence[str] = field(default_factory=list)
    nameless: bool = False
    """All models have one name: what is varied says enough."""
    pairs: Pairs = field(default_factory=Pairs, repr=False, compare=False)
    """The differences between the rows of its table."""

    @property
    def label(self) -> str:
        return label_of("" if self.nameless and self.varied and self.is_trained else self.name, self.varied)

    @property
    def is_trained(self) -> bool:
        return self.kind in (TRAINED, GIVEN)

    @property
    def begins(self) -> bool:
        """It begins from weights that another run has learned."""
        return any(outcome.job.begins for outcome in self.outcomes)

    @property
    def encoder(self) -> Any:
        return self.outcomes[0].job.settings.get("model.encoder")

    @property
    def repeats(self) -> str:
        """What there are several of."""
        return repeats_of(self.outcomes)

    @property
    def values(self) -> list[float]:
        return [value_of(outcome, self.metric) for outcome in self.outcomes]

    @property
    def score(self) -> float:
        return float(np.mean(self.values)) if self.outcomes else math.nan

    @property
    def low(self) -> float:
        """The lower end of the interval; the score where there is none."""
        return self.score if self.interval is None else self.interval.low

    @property
    def high(self) -> float:
        """The upper end of the interval; the score where there is none."""
        return self.score if self.interval is None else self.interval.high

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def score_text(self) -> str:
        """The score alone."""
        return rounded(self.score, self.decimals)

    @property
    def score_with_interval(self) -> str:
        """The score, and how sure it is."""
        if self.interval is None:
            return self.score_text
        return with_ends(self.score, self.interval.low, self.interval.high, self.decimals)

    @property
    def metric_and_score(self) -> str:
        """The score with its metric, its interval and the number of seeds or folds."""
        repeats = f", {len(self.outcomes)} {self.repeats}" if len(self.outcomes) > 1 else ""
        return f"{titled(self.metric)} {self.score_with_interval}{repeats}"

    @property
    def alike(self) -> bool:
        """All of several seeds came to the same score: they say nothing of how far another would be from it."""
        return len(self.outcomes) > 1 and self.half == 0

    @property
    def seen(self) -> bool:
        """It has learned from the examples that it is judged on."""
        return any(outcome.seen for outcome in self.outcomes)

    @property
    def undertrained(self) -> str:
        """Why it counts as not trained to its end, where half of its seeds do; of others, and of outcomes that do not
        say, nothing.
        """
        reasons = [outcome.undertrained for outcome in self.outcomes if outcome.undertrained]
        return reasons[0] if 2 * len(reasons) >= max(1, len(self.outcomes)) else ""

    @property
    def is_judged(self) -> bool:
        """It came to a score that says how good it is."""
        return bool(self.outcomes) and not self.seen and not self.undertrained

    @property
    def rank(self) -> float:
        """The key to sort by: the lower the better; what has seen the examples comes last."""
        return math.inf if self.seen else self.score if self.lower else -self.score

    @property
    def table_order(self) -> tuple[bool, bool, float]:
        """The key that sorts the rows of the table: undertrained rows come after the others, failed rows last."""
        return not self.outcomes, bool(self.undertrained), self.rank if self.outcomes else 0.0

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
    def took(self) -> str:
        """The time of training in words."""
        return duration(self.seconds)

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
        """The mean of each over the seeds; of folds, one may lack what is not defined there."""
        of_each = [outcome.metrics for outcome in self.outcomes]
        names = [name for name in next(iter(of_each), {}) if all(name in metrics for metrics in of_each)]
        return {name: float(np.mean([metrics[name] for metrics in of_each])) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, for programs, with each seed or fold; None for unknown numbers."""
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


def label_of(name: str, varied: Mapping[str, Any]) -> str:
    """A model, and what tells it from others of its name."""
    return ", ".join([*([name] if name else []), *(setting_in_words(key, value) for key, value in varied.items())])


def setting_in_words(key: str, value: Any) -> str:
    """A setting that tells rows apart, as it is typed but for its section."""
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
    nameless = len({outcome.job.name for outcome in outcomes if outcome.job.kind in (TRAINED, GIVEN)}) == 1
    rows = []
    for group in groups.values():
        done = sorted((outcome for outcome in group if outcome.error is None), key=lambda outcome: outcome.job.repeat)
        # over examples only where no row has more than one seed
        interval = (
            mean_interval([value_of(outcome, metric) for outcome in done]) if several else _over_examples(done, metric)
        )
        job = group[0].job
        rows.append(
            Row(
                name=job.name,
                kind=job.kind,
                varied=job.varied,
                outcomes=done,
                errors=[outcome.error for outcome in group if outcome.error is not None],
                skipped=not done and all(outcome.skipped for outcome in group),
                metric=metric,
                lower=lower,
                interval=within(interval, metric),
                nameless=nameless,
            )
        )
    finest = max((score_decimals(row.score, row.half) or 0 for row in rows if row.half), default=0)
    pairs = Pairs.of([row.outcomes for row in rows if row.is_judged])
    rows = [replace(row, decimals=_decimals(row, finest), pairs=pairs) for row in rows]
    return sorted(rows, key=lambda row: row.table_order)


def _decimals(row: Row, finest: int) -> int | None:
    """Decimals of a score; of a row with one seed as many as its examples tell, and no fewer than others have."""
    if row.half or not row.outcomes:
        return score_decimals(row.score, row.half or 0.0)
    interval = _over_examples(row.outcomes, row.metric)
    own = None if interval is None else score_decimals(row.score, (interval.high - interval.low) / 2)
    return None if own is None else max(own, finest)


def _over_examples(outcomes: Sequence[Outcome], metric: str) -> Interval | None:
    """The interval of the first seed's score over its examples."""
    if not outcomes or not is_paired(metric, outcomes[0]) or len(outcomes[0].scores) < 2:
        return None
    first = outcomes[0]
    value = value_of(first, metric)
    if first.weights is None and set(first.scores) <= {0.0, 1.0}:
        share = share_interval(int(sum(first.scores)), len(first.scores))
        return Interval(value, share.low, share.high)
    mean = weighted_mean_interval(scores_of(first), first.weights)
    half = (mean.high - mean.low) / 2
    return Interval(value, value - half, value + half)


def compare_rows(first: Row, second: Row) -> Lead | None:
    """The difference on the same examples: by how much one is better than the other; None: there are none."""
    return first.pairs.compare(first.outcomes, second.outcomes, first.metric)


def relation(first: Row, second: Row) -> str:
    """Return how the first row compares with the second on the same examples, in words."""
    lead = compare_rows(first, second)
    return "not comparable example by example" if lead is None else lead.words


def is_level(first: Row, second: Row) -> bool:
    """Whether one is known not to be better beyond chance."""
    lead = compare_rows(first, second)
    return lead is not None and not lead.is_better


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the row with the best score; several if their scores are equal."""
    return [rows[at] for at in leaders([-row.rank for row in rows])]
