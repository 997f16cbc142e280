"""What is said where more than the model differs: of parts of the data, of sizes, of settings, of parts left out."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from glassformer.inside.curves import named
from glassformer.measures.paired import Difference
from glassformer.trials.results.chance import beyond, compared, turned
from glassformer.trials.results.rounding import amount, from_to
from glassformer.trials.results.rows import Row, in_words, percent
from glassformer.trials.results.verdict import Verdict, score_in_words, verdict
from glassformer.trials.running.ablate import MASK
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES


def verdict_of(rows: Sequence[Row], mode: str) -> Verdict:
    """Sentences for a mode; where models compete, they do so with all the data."""
    if mode == ABLATION:
        return _ablation(rows)
    if mode == FRACTIONS:
        there = with_all_data(rows)
        alike = [replace(row, varied={}) for row in there]  # here only their names differ
        found = verdict(alike)
        best, chosen = (None if one is None else there[alike.index(one)] for one in (found.best, found.recommended))
        return Verdict([*_of_data(rows), *found.words], best, chosen)
    found = verdict(rows)
    more = _of_sizes(rows) if mode == SIZES else []
    return Verdict([*more, *found.words], found.best, found.recommended)


def with_all_data(rows: Sequence[Row]) -> list[Row]:
    """Those that learned from as much as any."""
    whole = max((row.varied.get(FRACTION, 0.0) for row in rows), default=1.0)
    return [row for row in rows if row.varied.get(FRACTION, whole) == whole]


def along(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """By model, those that came to something, from the least to the most of a setting."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if key in row.varied and row.outcomes:
            lines.setdefault(row.name, []).append(row)
    order = (lambda row: row.parameters) if key == SIZE else (lambda row: row.varied[key])
    return {name: sorted(line, key=order) for name, line in lines.items()}


def _of_data(rows: Sequence[Row]) -> list[str]:
    """What the last step along the data bought, and what twice as much would, if the curve went on like that."""
    words = []
    for name, line in along(rows, FRACTION).items():
        if len(line) < 2 or not line[-1].is_trained:
            continue
        few, many = line[-2], line[-1]
        shares = [float(row.varied[FRACTION]) for row in (few, many)]
        step = f"from {percent(shares[0])} to {percent(shares[1])} of the training part"
        found = compared(many, few)
        if found is None:
            continue
        if not beyond(found):
            words.append(
                f"{name}: {step} nothing was gained beyond chance, {_changed(found)}: more of the same data promises "
                "little."
            )
            continue
        doublings = math.log2(shares[1] / shares[0])
        twice = from_to(*(value / doublings for value in (found.value, found.low, found.high)))
        words.append(
            f"{name}: more data still helps: {step} it gained {_changed(found)}. Twice the data would bring about "
            f"{twice}, if it went on at this pace; curves flatten, so take that for the most."
        )
    return words


def _of_sizes(rows: Sequence[Row]) -> list[str]:
    words = []
    for name, line in along(rows, SIZE).items():
        if len(line) < 2:
            continue
        small, large = line[-2], line[-1]
        step = f"from {amount(small.parameters)} to {amount(large.parameters)} parameters"
        found = compared(large, small)
        if found is not None and beyond(found):
            words.append(f"{name}: a larger model still helps: {step} it gained {_changed(found)}.")
        elif found is not None:
            words.append(f"{name}: {step} nothing was gained beyond chance, {_changed(found)}.")
    return words


def _changed(found: Difference) -> str:
    return from_to(found.value, found.low, found.high)


# --- parts left out ---


def parts_left_out(rows: Sequence[Row]) -> tuple[Row | None, list[tuple[Row, Difference]]]:
    """The whole model; and each that lacks a part, with what the part was worth, the most first."""
    whole = next((row for row in rows if row.is_trained and not row.varied and row.outcomes), None)
    if whole is None:
        return None, []
    found = [(row, compared(whole, row)) for row in rows if row.is_trained and row.varied and row.outcomes]
    known = [(row, one) for row, one in found if one is not None]
    return whole, sorted(known, key=lambda pair: -pair[1].value)


def part_in_words(varied: Any) -> str:
    return ", ".join(in_words(key, value) for key, value in varied.items()) or "the whole"


def _ablation(rows: Sequence[Row]) -> Verdict:
    whole, parts = parts_left_out(rows)
    plain = verdict([row for row in rows if not row.is_trained or not row.varied or not row.outcomes])
    if whole is None:
        return plain
    honest = [(row, found) for row, found in parts if row.varied.get(MASK) is not False]
    needed = [(row, found) for row, found in honest if beyond(found)]
    better = [(row, turned(found)) for row, found in honest if beyond(turned(found))]
    idle = [part_in_words(row.varied) for row, found in honest if not beyond(found) and not beyond(turned(found))]
    words = [f"The whole model has {score_in_words(whole)}."]
    if needed:
        row, found = needed[0]
        words.append(
            f"The part worth most: with {part_in_words(row.varied)} it is worse by {_changed(found)} "
            f"{named(row.metric)}."
        )
        others = [f"{part_in_words(one.varied)} {_changed(lost)}" for one, lost in needed[1:]]
        words += [f"Also worse beyond chance: {'; '.join(others)}."] if others else []
    if idle:
        words.append(f"Not told from chance: {'; '.join(idle)}.")
    words += [f"Better without: {part_in_words(row.varied)}, by {_changed(found)}." for row, found in better]
    if any(row.varied.get(MASK) is False for row, _ in parts):
        words.append("Without the mask it reads the token it is to predict: that score is no honest one.")
    seeds = [word for word in plain.words if word.startswith("One seed") or " failed: " in word]
    return Verdict([*words, *seeds], whole, None)
