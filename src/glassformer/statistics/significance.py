"""Tests of significance: two models on the same examples, two groups of examples, and what errors have in common."""

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
"""The part of a score that rounding changes: what varies by less does not vary."""


@dataclass(frozen=True)
class Difference(Interval):
    """The lead of the first over the second: by how much it is better."""

    p: float
    """How often chance alone would show a difference at least as large."""
    seeds: bool
    """Whether the chance of training is in it (both trained at least twice), not only that of the examples."""


@dataclass(frozen=True)
class McNemar:
    """Where two models are right, and how often chance alone would set them apart so unevenly."""

    only_first: int
    only_second: int
    both: int
    neither: int
    p: float


@dataclass(frozen=True)
class SeedSpread:
    """How much seeds change a mean score: its variance from one training to the next."""

    whole: float
    there: float
    """The part of it that follows from which examples each seed is good at: it is in the examples' variance too."""
    df: int
    examples: int

    def parts(self, share: float) -> list[tuple[float, int]]:
        """Such a share of the variance, in parts with their degrees of freedom; what is counted twice is taken off."""
        if self.whole <= self.there:
            return []
        return [(share * self.whole, self.df), (-share * self.there, self.df * (self.examples - 1))]


def seed_spread(models: Sequence[Float[Array, "S N"]], weights: Float[Array, " N"] | None = None) -> SeedSpread | None:
    """How much seeds change a score, over some models together; None where it never does, none was trained twice, or
    a single example was judged.

    A few seeds of one model tell little of it: of eight that are alike, one will seem hardly to vary.
    """
    several = [scores for scores in models if _varies(scores) and scores.shape[1] > 1]
    if not several:
        return None
    count = several[0].shape[1]
    shares = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    whole = there = 0.0
    for scores in several:
        means = scores @ shares
        rest = scores - scores.mean(0) - (means - means.mean())[:, None]
        there += float(np.square(rest * shares).sum()) * count / (count - 1)
        whole += float(np.square(means - means.mean()).sum())
    df = sum(len(scores) - 1 for scores in several)
    return SeedSpread(whole / df, there / df, df, count)


def _varies(scores: Float[Array, "S N"]) -> bool:
    """Whether seeds change anything: a floor's scores are given twice."""
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
    """The mean score of a less that of b on the same N examples, each trained S (R) times.

    Other examples would have given another difference, and so would other seeds; both kinds of chance add up, and
    Welch and Satterthwaite's formula says how well the sum is known. What never varies (a floor) may be given twice.
    Where both are of more `rows` than these, interval and p allow for it (Tukey and Kramer): of so many rows alike, in
    95 of 100 tables no two seem apart. `spread` is then that of all rows: it counts where the pair's own is smaller;
    of a larger one, what lies beyond it is known as well as the pair's own seeds tell.

    `limit`: the largest possible difference of two scores, 1 for accuracies. The interval stays within it. If all
    examples differ by the same amount, the interval allows for different examples that a sample this small can miss.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"scores on the same examples, a row for each seed, are compared; not {a.shape} and {b.shape}")
    count = a.shape[1]
    value, examples = weighted_mean(a.mean(0) - b.mean(0), weights)
    seeds = len(a) > 1 and len(b) > 1
    if math.isinf(examples):
        return Difference(value, -limit, limit, 1.0, seeds)
    varying = [scores for scores in (a, b) if _varies(scores)]
    own = [part for scores in varying for part in _seed_parts(scores, weights)]
    all_rows = [] if spread is None else spread.parts(sum(1 / len(scores) for scores in varying))
    beyond = max(0.0, 1 - _sum(all_rows) / _sum(own)) if own else 0.0
    of_seeds = [*all_rows, *((beyond * part, free) for part, free in own)] if beyond else all_rows
    variance = examples + _sum(of_seeds)
    least = ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    if variance <= least**2:
        # Every example differs by the same: what remains to ask is how often all signs would agree.
        pairs = rows * (rows - 1) / 2
        p = 1.0 if abs(value) <= least else min(1.0, pairs * 2.0 ** (1 - count))
        if math.isinf(limit):
            return Difference(value, value, value, p, seeds)
        missed = 1 - ((1 - level) / 2 / pairs) ** (1 / count)
        low, high = ((1 - missed) * value - missed * limit, (1 - missed) * value + missed * limit)
        return Difference(value, max(low, -limit), min(high, limit), p, seeds)
    df = _degrees([(examples, count - 1), *of_seeds])
    interval = around(value, variance, df, level, rows)
    p = range_t_tail(value / math.sqrt(variance), rows, df)
    return Difference(value, max(interval.low, -limit), min(interval.high, limit), p, seeds)


def _seed_parts(scores: Float[Array, "S N"], weights: Float[Array, " N"] | None) -> list[tuple[float, int]]:
    """The variance that seeds add to the mean over them."""
    spread = seed_spread([scores], weights)
    return [] if spread is None else spread.parts(1 / len(scores))


def _sum(parts: Sequence[tuple[float, int]]) -> float:
    return sum(part for part, _ in parts)


def _degrees(parts: Sequence[tuple[float, int]]) -> float:
    """The degrees of freedom of a sum of variances. It is known at least as well as the part of it that is known least;
    what is taken off could hide that.
    """
    fewest = min(free for part, free in parts if part > 0)
    return max(fewest, _sum(parts) ** 2 / sum(part**2 / free for part, free in parts))


def mcnemar(first: Bool[Array, " N"], second: Bool[Array, " N"]) -> McNemar:
    """Only examples on which they differ tell them apart; by chance each is a coin's throw (exact, two-sided)."""
    if first.shape != second.shape:
        raise ValueError(f"answers to the same examples are compared; not {len(first)} and {len(second)} of them")
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    fewer, apart = min(only_first, only_second), only_first + only_second
    p = min(1.0, 2 * incomplete_beta(0.5, apart - fewer, fewer + 1)) if apart else 1.0
    return McNemar(only_first, only_second, int((first & second).sum()), int((~first & ~second).sum()), p)


def difference_p(first: Float[Array, " N"], second: Float[Array, " M"]) -> float:
    """How often chance alone would set the means of two groups so far apart: what Welch's test says, or Student's if
    that is more.

    Welch's takes two values that happen to be equal for a mean that is known exactly; Student's does not.
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
        # Each group has one value alone: what remains to ask is how often a draw would part them so, or the other way.
        log = math.lgamma(counts[0] + 1) + math.lgamma(counts[1] + 1) - math.lgamma(sum(counts) + 1)
        return (1 + (counts[0] == counts[1])) * math.exp(log)
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    free = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    welch = t_tail(distance / math.sqrt(sum(parts)), free)
    student = t_tail(distance / math.sqrt(pooled * (1 / counts[0] + 1 / counts[1])), sum(counts) - 2)
    return max(welch, student)


# --- what errors have more often than the rest ---


@dataclass(frozen=True)
class Overrepresentation:
    """How often something that examples have or have not stands in errors."""

    name: str
    in_errors: int
    in_all: int
    rate: Interval
    """Which share of the examples that have it are errors."""
    lift: float
    """How many times more often these are errors than examples at large."""
    p: float
    """How often chance alone would put it into at least so many errors (Fisher, one-sided)."""
    holm: float
    """The p-value after Holm's correction, since so many things were looked at."""


def over_represented(
    in_errors: Mapping[str, int], in_rest: Mapping[str, int], errors: int, rest: int
) -> dict[str, Overrepresentation]:
    """Things counted in so many errors and so many other examples, each at most once an example: by name, the least
    probable first.
    """
    logs = np.array([math.lgamma(number + 1) for number in range(errors + rest + 1)])

    @cache  # of thousands of words, most are counted as often as some other
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
    p_values = [chance(*both)[0] for both in counts.values()]
    for (name, (hits, having)), corrected in zip(counts.items(), holm(p_values), strict=True):
        p, rate = chance(hits, having)
        lift = rate.value * (errors + rest) / errors if errors else 0.0
        rows.append(Overrepresentation(name, hits, having, rate, lift, p, corrected))
    return {row.name: row for row in sorted(rows, key=lambda row: (row.p, -row.lift, row.name))}


def _fisher(hits: int, having: int, errors: int, rest: int, logs: np.ndarray) -> float:
    """Fisher's exact test: how probable that of errors drawn blindly from all examples at least so many have it."""
    lacking = errors + rest - having
    counts = np.arange(max(hits, errors - lacking), min(having, errors) + 1)
    ways = logs[having] - logs[counts] - logs[having - counts]
    others = logs[lacking] - logs[errors - counts] - logs[lacking - (errors - counts)]
    whole = logs[errors + rest] - logs[errors] - logs[rest]
    return min(1.0, float(np.exp(ways + others - whole).sum()))


def holm(values: Sequence[float]) -> list[float]:
    """p-values by Holm's correction, in the order given: only 1 in 20 whole lists has one below 0.05 by chance. Looking
    at many things, some look odd by chance alone.
    """
    corrected = [1.0] * len(values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = worst
    return corrected
