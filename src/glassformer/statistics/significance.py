"""Significance tests: two models on the same examples, two groups, and features over-represented in errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.statistics.intervals import (
    Interval,
    around,
    incomplete_beta,
    range_t_tail,
    share_interval,
    t_tail,
    weighted_mean,
)

ROUNDING = 1e-14
"""Relative rounding error of a score. Smaller variation counts as no variation."""


@dataclass(frozen=True)
class Difference(Interval):
    """Mean score of the first model minus that of the second; positive if the first is better."""

    p: float
    """Probability of a difference at least this large if the models are equal."""
    seeds: bool
    """Whether the interval includes the variation between seeds: both models have at least two training runs."""


@dataclass(frozen=True)
class McNemar:
    """Counts of the examples that each of two models answers correctly, and the p-value of McNemar's test."""

    only_first: int
    only_second: int
    both: int
    neither: int
    p: float


@dataclass(frozen=True)
class SeedSpread:
    """Variance of a mean score between training runs with different seeds."""

    variance: float
    from_examples: float
    """The part that is also in the variance over examples: seeds differ in which examples they answer well."""
    df: int
    examples: int

    def parts(self, share: float) -> list[tuple[float, int]]:
        """Return `share` of the variance as (variance, degrees of freedom) terms.

        A negative term subtracts the part that would be counted twice.
        """
        if self.variance <= self.from_examples:
            return []
        return [(share * self.variance, self.df), (-share * self.from_examples, self.df * (self.examples - 1))]


def seed_spread(models: Sequence[Float[Array, "S N"]], weights: Float[Array, " N"] | None = None) -> SeedSpread | None:
    """Return the pooled variance between seeds of several models.

    None if no model varies, no model has two training runs, or there is a single example.

    Pooling helps because few seeds estimate the variance badly: of eight equal models, one will hardly seem to vary.
    """
    varying = [scores for scores in models if _varies(scores) and scores.shape[1] > 1]
    if not varying:
        return None
    count = varying[0].shape[1]
    shares = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    total = from_examples = 0.0
    for scores in varying:
        means = scores @ shares
        residuals = scores - scores.mean(0) - (means - means.mean())[:, None]
        from_examples += float(np.square(residuals * shares).sum()) * count / (count - 1)
        total += float(np.square(means - means.mean()).sum())
    df = sum(len(scores) - 1 for scores in varying)
    return SeedSpread(total / df, from_examples / df, df, count)


def _varies(scores: Float[Array, "S N"]) -> bool:
    """Return whether seeds change the scores. A trivial baseline may be listed twice with the same scores."""
    return len(scores) > 1 and bool((scores != scores[0]).any())


def difference(
    a: Float[Array, "S N"],
    b: Float[Array, "R N"],
    weights: Float[Array, " N"] | None = None,
    *,
    rows: int = 2,
    spread: SeedSpread | None = None,
    limit: float = math.inf,
    level: float = 0.95,
) -> Difference:
    """Return the mean score of `a` minus that of `b` on the same N examples, with S and R seeds.

    Other examples and other seeds would both give another difference, so both variances add up. The Welch–Satterthwaite
    formula gives the degrees of freedom of the sum. The scores of a trivial baseline may be listed twice.

    If both are among more than two `rows`, interval and p are corrected for all pairs (Tukey and Kramer): of equal
    models, no pair differs significantly in 95 of 100 tables. `spread` is then the pooled spread of all rows, which is
    a lower bound. If the pair's own spread is larger, the excess counts with the pair's degrees of freedom.

    `limit` is the largest possible difference of two scores, 1 for accuracies. The interval stays within it. If all
    examples differ by the same amount, the interval allows for different examples that a sample this small can miss.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"scores on the same examples, a row for each seed, are compared; not {a.shape} and {b.shape}")
    count = a.shape[1]
    value, example_variance = weighted_mean(a.mean(0) - b.mean(0), weights)
    seeds = len(a) > 1 and len(b) > 1
    if math.isinf(example_variance):
        return Difference(value, -limit, limit, 1.0, seeds)
    varying = [scores for scores in (a, b) if _varies(scores)]
    own_parts = [part for scores in varying for part in _seed_parts(scores, weights)]
    pooled_parts = [] if spread is None else spread.parts(sum(1 / len(scores) for scores in varying))
    excess = max(0.0, 1 - _sum(pooled_parts) / _sum(own_parts)) if own_parts else 0.0
    seed_parts = [*pooled_parts, *((excess * part, df) for part, df in own_parts)] if excess else pooled_parts
    variance = example_variance + _sum(seed_parts)
    rounding = ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    if variance <= rounding**2:
        # Every example differs by the same amount, so only a sign test remains.
        pairs = rows * (rows - 1) / 2
        p = 1.0 if abs(value) <= rounding else min(1.0, pairs * 2.0 ** (1 - count))
        if math.isinf(limit):
            return Difference(value, value, value, p, seeds)
        missed = 1 - ((1 - level) / 2 / pairs) ** (1 / count)
        low, high = ((1 - missed) * value - missed * limit, (1 - missed) * value + missed * limit)
        return Difference(value, max(low, -limit), min(high, limit), p, seeds)
    df = _degrees([(example_variance, count - 1), *seed_parts])
    interval = around(value, variance, df, level, rows)
    p = range_t_tail(value / math.sqrt(variance), rows, df)
    return Difference(value, max(interval.low, -limit), min(interval.high, limit), p, seeds)


def _seed_parts(scores: Float[Array, "S N"], weights: Float[Array, " N"] | None) -> list[tuple[float, int]]:
    """Return the variance terms that seeds add to the mean over seeds."""
    spread = seed_spread([scores], weights)
    return [] if spread is None else spread.parts(1 / len(scores))


def _sum(parts: Sequence[tuple[float, int]]) -> float:
    return sum(part for part, _ in parts)


def _degrees(parts: Sequence[tuple[float, int]]) -> float:
    """Return the degrees of freedom of a sum of variances.

    It has at least those of its least certain positive term, which a negative term could hide.
    """
    fewest = min(df for part, df in parts if part > 0)
    return max(fewest, _sum(parts) ** 2 / sum(part**2 / df for part, df in parts))


def mcnemar(first: Bool[Array, " N"], second: Bool[Array, " N"]) -> McNemar:
    """Run the exact two-sided McNemar test: if the models are equal, each discordant example is a fair coin toss."""
    if first.shape != second.shape:
        raise ValueError(f"answers to the same examples are compared; not {len(first)} and {len(second)} of them")
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    fewer, discordant = min(only_first, only_second), only_first + only_second
    p = min(1.0, 2 * incomplete_beta(0.5, discordant - fewer, fewer + 1)) if discordant else 1.0
    return McNemar(only_first, only_second, int((first & second).sum()), int((~first & ~second).sum()), p)


def difference_p(first: Float[Array, " N"], second: Float[Array, " M"]) -> float:
    """Return the p-value for the difference of two group means: the larger of Welch's and Student's test.

    Welch's test treats two values that happen to be equal as a mean without uncertainty; Student's does not.
    """
    counts = len(first), len(second)
    if min(counts) < 2:
        return 1.0
    variances = float(first.var(ddof=1)), float(second.var(ddof=1))
    pooled = sum(variance * (count - 1) for variance, count in zip(variances, counts, strict=True)) / (sum(counts) - 2)
    distance = float(first.mean() - second.mean())
    if pooled <= (ROUNDING * max(np.abs(first).max(), np.abs(second).max())) ** 2:
        if distance == 0:
            return 1.0
        # Each group has a single distinct value, so only a permutation test remains.
        log = math.lgamma(counts[0] + 1) + math.lgamma(counts[1] + 1) - math.lgamma(sum(counts) + 1)
        return (1 + (counts[0] == counts[1])) * math.exp(log)
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    df = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    welch = t_tail(distance / math.sqrt(sum(parts)), df)
    student = t_tail(distance / math.sqrt(pooled * (1 / counts[0] + 1 / counts[1])), sum(counts) - 2)
    return max(welch, student)


# --- features over-represented in errors ---


@dataclass(frozen=True)
class Overrepresentation:
    """How often the examples with a feature are errors."""

    name: str
    in_errors: int
    in_all: int
    rate: Interval
    """Share of errors among the examples with the feature."""
    lift: float
    """`rate` divided by the error rate of all examples."""
    p: float
    """Probability of at least this many errors by chance (Fisher's exact test, one-sided)."""
    holm: float
    """The p-value after Holm's correction for the number of features."""


def over_represented(
    in_errors: Mapping[str, int], in_rest: Mapping[str, int], errors: int, rest: int
) -> dict[str, Overrepresentation]:
    """Return how over-represented each feature is in the errors, by name, with the smallest p-value first.

    `in_errors` and `in_rest` count the examples that have each feature, at most once per example.
    """
    logs = np.array([math.lgamma(number + 1) for number in range(errors + rest + 1)])

    @cache  # thousands of words have few distinct pairs of counts
    def chance(hits: int, having: int) -> tuple[float, Interval]:
        return _fisher(hits, having, errors, rest, logs), share_interval(hits, having)

    counts: dict[str, tuple[int, int]] = {}
    for name in sorted({*in_errors, *in_rest}):
        hits, others = in_errors.get(name, 0), in_rest.get(name, 0)
        if hits > errors or others > rest:
            raise ValueError(f"{name!r} was counted in more examples than there are")
        if hits + others:
            counts[name] = hits, hits + others
    rows = []
    p_values = [chance(*hits_and_having)[0] for hits_and_having in counts.values()]
    for (name, (hits, having)), corrected in zip(counts.items(), holm(p_values), strict=True):
        p, rate = chance(hits, having)
        lift = rate.value * (errors + rest) / errors if errors else 0.0
        rows.append(Overrepresentation(name, hits, having, rate, lift, p, corrected))
    return {row.name: row for row in sorted(rows, key=lambda row: (row.p, -row.lift, row.name))}


def _fisher(hits: int, having: int, errors: int, rest: int, logs: np.ndarray) -> float:
    """Return the probability that `errors` examples drawn at random include at least `hits` of the `having` ones."""
    lacking = errors + rest - having
    counts = np.arange(max(hits, errors - lacking), min(having, errors) + 1)
    ways = logs[having] - logs[counts] - logs[having - counts]
    others = logs[lacking] - logs[errors - counts] - logs[lacking - (errors - counts)]
    total = logs[errors + rest] - logs[errors] - logs[rest]
    return min(1.0, float(np.exp(ways + others - total).sum()))


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's correction, in the same order.

    Only 1 in 20 whole lists then has a value below 0.05 by chance.
    """
    corrected = [1.0] * len(values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        worst = max(worst, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = worst
    return corrected
