"""Examples in groups: by quarter of a number (length, a column), or by category; and how often each group is wrong."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.columns.heuristics import hold_numbers, number_in
from glassformer.data.split.labelled import Labelled
from glassformer.error_analysis.finding import CHANCE, ErrorFinding, ends, percent, plural, span
from glassformer.rendering.panels import Rows, Table
from glassformer.statistics.distributions import t_tail
from glassformer.statistics.intervals import weighted_mean_interval
from glassformer.statistics.overrepresentation import Overrepresentation, over_represented
from glassformer.statistics.paired import ROUNDING
from glassformer.text.display import cut

MOST_VALUES = 12
"""Values of a category column: the most frequent ones."""
MOST_LETTERS = 40


@dataclass(frozen=True, eq=False)
class Group:
    """Some of the examples, and what they have in common."""

    of: str
    """What was looked at: the length, a column."""
    name: str
    rows: NDArray[np.bool_]
    """Which examples they are."""

    @property
    def size(self) -> int:
        return int(self.rows.sum())


def quartiles(of: str, values: Float[Array, " N"]) -> list[Group]:
    """Four groups from the smallest values to the largest; equal values stand in one group, so that there may be fewer.
    NaN stands in none.
    """
    known = values[~np.isnan(values)]
    different = np.unique(known)
    if not len(different):
        return []
    if len(different) <= 4:
        borders = different[1:]
    else:
        borders = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="lower"))
        borders = borders[borders > different[0]]
    place = np.searchsorted(borders, values, side="right")
    groups = []
    for number in range(len(borders) + 1):
        rows = (place == number) & ~np.isnan(values)
        if rows.any():
            groups.append(Group(of, _range(float(values[rows].min()), float(values[rows].max())), rows))
    return groups


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def value_groups(of: str, values: Sequence[str]) -> list[Group]:
    """A group for each of the most frequent values."""
    column = np.array(values, dtype=object)
    common = Counter(values).most_common(MOST_VALUES)
    return [Group(of, cut(value, MOST_LETTERS) or "(empty)", column == value) for value, _ in common]


def column_groups(part: Labelled) -> list[Group]:
    """Quarters of every number column, and the values of every category column."""
    groups: list[Group] = []
    for name, values in part.columns.items():
        if hold_numbers(values):
            numbers = [number_in(value) for value in values]
            groups += quartiles(name, np.array([np.nan if one is None else one for one in numbers], float))
        else:
            groups += value_groups(name, [value.strip() for value in values])
    return groups


def among_errors(rows: Mapping[str, NDArray[np.bool_]], wrong: Bool[Array, " N"]) -> list[Overrepresentation]:
    """How often examples of each kind are wrong, the least probable first; a kind without any example is left out."""
    wrong_counts = {name: int((chosen & wrong).sum()) for name, chosen in rows.items()}
    other_counts = {name: int((chosen & ~wrong).sum()) for name, chosen in rows.items()}
    return over_represented(wrong_counts, other_counts, int(wrong.sum()), int((~wrong).sum()))


def error_rates(title: str, groups: Sequence[Group], wrong: Bool[Array, " N"], noun: str) -> ErrorFinding:
    """How many examples of each group are wrong, with Wilson's interval; what no chance explains is said."""
    groups = [group for group in groups if group.size]
    if not groups:
        return ErrorFinding()
    errors, rest = int(wrong.sum()), int((~wrong).sum())
    names = {f"{place}": group for place, group in enumerate(groups)}
    over = among_errors({name: group.rows for name, group in names.items()}, wrong)
    by_name = {row.name: row for row in over}
    first, labels = _labels(groups)
    rows: Rows = [
        [*label, row.in_all, row.in_errors, row.rate.value, row.rate.low, row.rate.high, row.holm]
        for label, row in zip(labels, (by_name[name] for name in names), strict=True)
    ]
    table = Table(
        title=title,
        columns=[*first, f"{noun}s", "wrong", "error rate", "from", "to", "chance"],
        rows=rows,
        bars=("error rate",),
        note=f"Of all, {percent(errors / (errors + rest))} are wrong. The true rate of a group lies between “from” and "
        "“to” in 95 of 100 cases. Chance: how often so many errors, or more, would fall into it by chance alone "
        "(Fisher, corrected for looking at all of these by Holm's method).",
    )
    worst = over[0]
    if worst.holm >= CHANCE:
        return ErrorFinding([table])
    group = names[worst.name]
    return ErrorFinding(
        [table],
        f"Where {group.of} is {group.name}, {percent(worst.rate.value)} are wrong ({span(worst.rate)}), against "
        f"{percent(errors / (errors + rest))} of all {plural(errors + rest, noun)}.",
    )


def means(title: str, groups: Sequence[Group], values: Float[Array, " N"], noun: str, measured: str) -> Table | None:
    """The mean of what was measured of each group, with its interval over examples."""
    groups = [group for group in groups if group.size]
    if not groups:
        return None
    first, labels = _labels(groups)
    intervals = [weighted_mean_interval(values[group.rows]) for group in groups]
    rows: Rows = [
        [*label, group.size, interval.value, *ends(interval)]
        for label, group, interval in zip(labels, groups, intervals, strict=True)
    ]
    note = "The true mean of a group lies between “from” and “to” in 95 of 100 cases; of a single example nobody knows."
    return Table(title=title, columns=[*first, f"{noun}s", measured, "from", "to"], rows=rows, note=note)


def _labels(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """The heads of a table's first columns, and what stands there of each group."""
    if len({group.of for group in groups}) == 1:
        return [groups[0].of], [[group.name] for group in groups]
    return ["column", "value"], [[group.of, group.name] for group in groups]


def difference_p(one: Float[Array, " N"], other: Float[Array, " M"]) -> float:
    """How often chance alone would set two means so far apart: what Welch's test says, or Student's if that is more.

    Welch's takes two values that happen to be equal for a mean that is known exactly; Student's does not.
    """
    counts = len(one), len(other)
    if min(counts) < 2:
        return 1.0
    variances = float(one.var(ddof=1)), float(other.var(ddof=1))
    pooled = sum(variance * (count - 1) for variance, count in zip(variances, counts, strict=True)) / (sum(counts) - 2)
    distance = float(one.mean() - other.mean())
    if pooled <= (ROUNDING * max(np.abs(one).max(), np.abs(other).max())) ** 2:
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
