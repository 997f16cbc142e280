"""Two runs on the same examples: which of them one gets and the other does not, and whether that may be chance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.error_analysis.classes import LABELS, MOST_ERRORS, wrong_in
from glassformer.error_analysis.finding import CHANCE, Found, Rows, capital, percent, some
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.statistics.paired import difference, mcnemar
from glassformer.text.display import cut

Names = tuple[str, str]
"""Of the two runs."""


def right_and_wrong(first: Bool[Array, " N"], second: Bool[Array, " N"], names: Names, noun: str) -> Found:
    """The table of two by two, and McNemar's exact test."""
    found, whole = mcnemar(first, second), len(first)
    rows: Rows = [
        [f"{names[0]} right", found.both, found.only_first, int(first.sum()), float(first.mean())],
        [f"{names[0]} wrong", found.only_second, found.neither, int((~first).sum()), float((~first).mean())],
        ["in all", int(second.sum()), int((~second).sum()), whole, 1.0],
    ]
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", f"{names[1]} right", f"{names[1]} wrong", f"{noun}s", "share"],
        rows=rows,
        bars=("share",),
        note=f"p = {found.p:.3g} (McNemar, exact): how often a fair coin would set the two apart so unevenly on the "
        f"{found.only_first + found.only_second:,} {noun}s on which they differ.",
    )
    if not found.only_first + found.only_second:
        said = f"Both runs are right and wrong on the very same {noun}s: {percent(float(first.mean()))} right."
        return Found([table], said)
    judged = "that is more than chance" if found.p < CHANCE else "that may be chance"
    said = (
        f"{names[0]} is right on {percent(float(first.mean()))} of {some(whole, noun)}, {names[1]} on "
        f"{percent(float(second.mean()))}: {found.only_first:,} only the first gets, {found.only_second:,} only the "
        f"second; {judged} (McNemar, p = {found.p:.3g})."
    )
    return Found([table], said)


def only_one_gets(one: Records, other: Records, names: Names, noun: str) -> list[Panel]:
    """Examples of a classifier that only one of the two gets, those first of which the other was surest."""
    right = ~wrong_in(one), ~wrong_in(other)
    panels: list[Panel] = []
    for first, which in enumerate(names):
        here, there = (one, other) if first == 0 else (other, one)
        places = np.flatnonzero(right[first] & ~right[1 - first]).tolist()
        pairs = [(here[place], there[place]) for place in places]
        title = f"Only {which} gets"
        panels.append(
            _gets(title, pairs, noun)
            if pairs
            else Words(title=title, text=f"There is no {noun} that only {which} gets.")
        )
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


def paired(
    first: Float[Array, " N"],
    second: Float[Array, " N"],
    names: Names,
    *,
    what: str,
    noun: str,
    better: str,
    weights: Float[Array, " N"] | None = None,
) -> Found:
    """The difference of two means on the same examples, with its interval. `better`: "higher" or "lower"."""
    found = difference(first[None], second[None], weights)
    means = [float(np.average(values, weights=weights)) for values in (first, second)]
    rows: Rows = [[names[0], means[0]], [names[1], means[1]], ["difference", found.value]]
    known = np.isfinite(found.low)
    between = f"{found.low:.3g} to {found.high:.3g}" if known else "unknown, for there is only one"
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", what],
        rows=rows,
        note=f"The difference lies within {between} in 95 of 100 draws of {some(len(first), noun)} (p = {found.p:.3g}, "
        "paired); trained again with another seed, either run would come out a little different, which one run of each "
        "cannot show.",
    )
    winner = names[0] if (found.value > 0) == (better == "higher") else names[1]
    if not found.value:
        said = f"Both runs have the same {what}, {means[0]:.4g}."
    elif found.p < CHANCE:
        said = (
            f"{winner} is better: {what} {means[0]:.4g} against {means[1]:.4g}, a difference of {found.value:.3g} "
            f"({between}), more than the chance of the {noun}s."
        )
    else:
        said = (
            f"{capital(what)} {means[0]:.4g} against {means[1]:.4g}: a difference of {found.value:.3g} ({between}), "
            "which may be chance."
        )
    return Found([table], said)


def largest_differences(
    first: Float[Array, " N"],
    second: Float[Array, " N"],
    names: Names,
    *,
    columns: Sequence[str],
    rows: Rows,
    what: str,
    better: str,
) -> list[Panel]:
    """The examples on which one is better than the other by most, each way. `rows`: what is shown of each example."""
    gain = (first - second) * (1 if better == "higher" else -1)
    panels: list[Panel] = []
    for sign, name in ((1, names[0]), (-1, names[1])):
        order = [place for place in np.argsort(-sign * gain, kind="stable").tolist() if sign * gain[place] > 0]
        title = f"{name} is better by most"
        if not order:
            panels.append(Words(title=title, text=f"There is nothing on which {name} is better."))
            continue
        shown: Rows = [[*rows[place], float(first[place]), float(second[place])] for place in order[:MOST_ERRORS]]
        heads = [*columns, f"{what}: {names[0]}", f"{what}: {names[1]}"]
        panels.append(Table(title=title, columns=heads, rows=shown))
    return panels
