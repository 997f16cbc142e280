"""Two runs on the same examples, matched one by one: which of them one gets and the other does not, and whether that
may be chance.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError, Say
from glassformer.error_analysis.classes import LABELS, wrong_rows
from glassformer.error_analysis.finding import CHANCE, MOST_ERRORS, ErrorFinding, percent, plural
from glassformer.families.base import EvaluatedPart
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.statistics.paired import difference, mcnemar
from glassformer.text.display import cut

Names = tuple[str, str]
"""What the two runs are called."""


@dataclass(frozen=True, eq=False)
class RunPair:
    """Two runs, evaluated on the same part."""

    first: EvaluatedPart
    second: EvaluatedPart
    names: Names
    say: Say


def match_records(pair: RunPair, keys: Callable[[EvaluatedPart], Iterable[Hashable]]) -> tuple[Records, Records]:
    """The records of the examples that both runs were judged on, in the order of the first. `keys`: what tells an
    example from the others, but for equal ones (of a refit, rows of two files), which are matched in their order.
    """
    places = {key: place for place, key in enumerate(_numbered(keys(pair.second)))}
    common = [(place, places[key]) for place, key in enumerate(_numbered(keys(pair.first))) if key in places]
    if not common:
        raise DataError(
            f"{pair.first.loaded.run.path} and {pair.second.loaded.run.path} have no example in common here: give DATA "
            "that both can read"
        )
    first, second = pair.first.evaluation.records, pair.second.evaluation.records
    if len(common) < len(first):
        pair.say(f"left out, for {pair.names[1]} does not read them: {plural(len(first) - len(common), 'example')}")
    return [first[here] for here, _ in common], [second[there] for _, there in common]


def _numbered(keys: Iterable[Hashable]) -> list[Hashable]:
    """Each key, and which of several equal ones it is."""
    met: dict[Hashable, count[int]] = {}
    return [(key, next(met.setdefault(key, count()))) for key in keys]


# --- right or wrong ---


def right_and_wrong(first: Bool[Array, " N"], second: Bool[Array, " N"], names: Names, noun: str) -> ErrorFinding:
    """The table of two by two, and McNemar's exact test."""
    test, whole = mcnemar(first, second), len(first)
    rows: Rows = [
        [f"{names[0]} right", test.both, test.only_first, int(first.sum()), float(first.mean())],
        [f"{names[0]} wrong", test.only_second, test.neither, int((~first).sum()), float((~first).mean())],
        ["in all", int(second.sum()), int((~second).sum()), whole, 1.0],
    ]
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", f"{names[1]} right", f"{names[1]} wrong", f"{noun}s", "share"],
        rows=rows,
        bars=("share",),
        note=f"p = {test.p:.3g} (McNemar, exact): how often a fair coin would set the two apart so unevenly on the "
        f"{test.only_first + test.only_second:,} {noun}s on which they differ.",
    )
    if not test.only_first + test.only_second:
        same = f"Both runs are right and wrong on the very same {noun}s: {percent(float(first.mean()))} right."
        return ErrorFinding([table], same)
    chance = "that is more than chance" if test.p < CHANCE else "that may be chance"
    return ErrorFinding(
        [table],
        f"{names[0]} is right on {percent(float(first.mean()))} of {plural(whole, noun)}, {names[1]} on "
        f"{percent(float(second.mean()))}: {test.only_first:,} only the first gets, {test.only_second:,} only the "
        f"second; {chance} (McNemar, p = {test.p:.3g}).",
    )


def only_one_gets(one: Records, other: Records, names: Names, noun: str) -> list[Panel]:
    """Examples of a classifier that only one of the two gets, those first of which the other was surest."""
    right = ~wrong_rows(one), ~wrong_rows(other)
    panels: list[Panel] = []
    for first, which in enumerate(names):
        here, there = (one, other) if first == 0 else (other, one)
        places = np.flatnonzero(right[first] & ~right[1 - first]).tolist()
        pairs = [(here[place], there[place]) for place in places]
        title = f"Only {which} gets"
        none = Words(title=title, text=f"There is no {noun} that only {which} gets.")
        panels.append(_gets(title, pairs, noun) if pairs else none)
    return panels


def _gets(title: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], noun: str) -> Table:
    """What the one that gets them says of examples, and what the other."""
    if LABELS in pairs[0][0]:
        pairs = sorted(pairs, key=lambda pair: -pair[1]["loss"])[:MOST_ERRORS]
        sets: Rows = [[cut(good[noun]), "; ".join(good[LABELS]), "; ".join(bad["predicted"])] for good, bad in pairs]
        return Table(title=title, columns=[noun, "true", "said by the other"], rows=sets)
    pairs = sorted(pairs, key=lambda pair: -pair[1]["probability"])[:MOST_ERRORS]
    rows: Rows = [
        [cut(good[noun]), good["label"], good["probability"], bad["predicted"], bad["probability"]]
        for good, bad in pairs
    ]
    columns = [noun, "true", "probability", "taken for", "probability of that"]
    return Table(title=title, columns=columns, rows=rows, bars=("probability", "probability of that"))


# --- scores ---


@dataclass(frozen=True, eq=False)
class PairedScores:
    """What two runs reach on each of the same examples."""

    values: Sequence[Float[Array, " N"]]
    """The values of the first run, and those of the second."""
    names: Names
    measure: str
    """What it is that they reach: a loss, chrF."""
    noun: str
    """What an example is called."""
    lower_is_better: bool = True
    weights: Float[Array, " N"] | None = None
    """How much each example counts."""


def compare_scores(scores: PairedScores, columns: Sequence[str], rows: Rows) -> list[ErrorFinding]:
    """The mean difference, and the examples that differ most. `columns`, `rows`: what is shown of each example."""
    return [mean_difference(scores), ErrorFinding(largest_differences(scores, columns, rows))]


def mean_difference(scores: PairedScores) -> ErrorFinding:
    """The difference of two means on the same examples, with its interval."""
    names, what, weights = scores.names, f"mean {scores.measure}", scores.weights
    gap = difference(scores.values[0][None], scores.values[1][None], weights)
    means = [float(np.average(values, weights=weights)) for values in scores.values]
    rows: Rows = [[names[0], means[0]], [names[1], means[1]], ["difference", gap.value]]
    between = f"{gap.low:.3g} to {gap.high:.3g}" if np.isfinite(gap.low) else "unknown, for there is only one"
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", what],
        rows=rows,
        note=f"The difference lies within {between} in 95 of 100 draws of {plural(len(scores.values[0]), scores.noun)} "
        f"(p = {gap.p:.3g}, paired); trained again with another seed, either run would come out a little different, "
        "which one run of each cannot show.",
    )
    winner = names[1] if (gap.value > 0) == scores.lower_is_better else names[0]
    against = f"{means[0]:.4g} against {means[1]:.4g}"
    if not gap.value:
        sentence = f"Both runs have the same {what}, {means[0]:.4g}."
    elif gap.p < CHANCE:
        sentence = (
            f"{winner} is better: {what} {against}, a difference of {gap.value:.3g} ({between}), more than the chance "
            f"of the {scores.noun}s."
        )
    else:
        sentence = f"Mean {scores.measure} {against}: a difference of {gap.value:.3g} ({between}), which may be chance."
    return ErrorFinding([table], sentence)


def largest_differences(scores: PairedScores, columns: Sequence[str], rows: Rows) -> list[Panel]:
    """The examples on which one is better than the other by most, each way."""
    (first, second), names = scores.values, scores.names
    gain = second - first if scores.lower_is_better else first - second
    heads = [*columns, *(f"{scores.measure}: {name}" for name in names)]
    panels: list[Panel] = []
    for sign, name in ((1, names[0]), (-1, names[1])):
        order = [place for place in np.argsort(-sign * gain, kind="stable").tolist() if sign * gain[place] > 0]
        title = f"{name} is better by most"
        if not order:
            panels.append(Words(title=title, text=f"There is nothing on which {name} is better."))
            continue
        cells: Rows = [[*rows[place], float(first[place]), float(second[place])] for place in order[:MOST_ERRORS]]
        panels.append(Table(title=title, columns=heads, rows=cells))
    return panels
