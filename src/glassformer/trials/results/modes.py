"""What is said where more than the model differs: of parts of the data, of sizes, of settings, of parts left out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer.statistics.paired import Difference
from glassformer.trials.results.beginnings import of_beginnings
from glassformer.trials.results.chance import beyond, compared, turned
from glassformer.trials.results.metrics import SCALES
from glassformer.trials.results.rounding import amount, from_to
from glassformer.trials.results.rows import Row, in_words, percent
from glassformer.trials.results.verdict import Verdict, by, score_in_words, verdict
from glassformer.trials.running.ablate import MASK
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES

LITTLE = 0.01
"""A gain that is surely below such a part of the scale (of the score itself, where the scale has no end) is little."""
PARTS = {
    "model.residual": "the residual connections",
    "model.norm": "the norm",
    "model.qk_norm": "the norm of queries and keys",
    "model.scale": "the scaling of the scores",
    "model.causal_mask": "the mask",
    "model.positions": "positions",
    "model.feed_forward": "the feed-forward layers",
    "model.output_projection": "the output projection",
}
ONE_HEAD = {"model.heads": 1}


def verdict_of(rows: Sequence[Row], mode: str) -> Verdict:
    """Sentences for a mode; where models compete, they do so with all the data."""
    if mode == ABLATION:
        return _ablation(rows)
    if mode == FRACTIONS:
        there = with_all_data(rows)
        alike = [replace(row, varied={}) for row in there]  # here only their names differ
        found = verdict(alike)
        chosen = None if found.recommended is None else there[alike.index(found.recommended)]
        return Verdict(
            [*_of_data(rows), *found.words, *of_beginnings(in_order(rows, mode))],
            next((row for row in rows if row.outcomes and not row.seen), None),
            chosen,
        )
    found = verdict(rows)
    more = _of_sizes(rows) if mode == SIZES else []
    return Verdict([*more, *found.words, *of_beginnings(rows)], found.best, found.recommended)


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


def in_order(rows: Sequence[Row], mode: str) -> list[Row]:
    """As they are read: along a number that is varied, model by model; else from best to worst. What failed, last."""
    keys = {key for row in rows for key in row.varied}
    values = [row.varied[key] for row in rows for key in row.varied]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if mode == ABLATION or len(keys) != 1 or not (numbers or keys == {SIZE}):
        return list(rows)
    lines = along(rows, keys.pop())
    ordered: list[Row] = []
    for row in rows:
        if row.outcomes and row.varied:
            ordered += lines.pop(row.name, [])
        elif row.outcomes:
            ordered.append(row)
    return [*ordered, *(row for row in rows if not row.outcomes)]


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
            words.append(f"{name}: {step} {_not_gained(found, many, 'more of the same data')}.")
            continue
        doublings = math.log2(shares[1] / shares[0])
        twice = from_to(*(value / doublings for value in (found.value, found.low, found.high)))
        words.append(
            f"{name}: more data still helps: {step} it gained {by(found, many)}. Twice the data would bring about "
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
            words.append(f"{name}: a larger model still helps: {step} it gained {by(found, large)}.")
        elif found is not None:
            words.append(f"{name}: {step} {_not_gained(found, large, 'a larger model')}.")
    return words


def _not_gained(found: Difference, row: Row, what: str) -> str:
    """After a step that gained nothing beyond chance: only a narrow interval says that there is little to gain."""
    if beyond(turned(found)):
        return f"it lost {by(turned(found), row)}: {what} did not help"
    top = SCALES.get(row.metric, (0.0, math.inf))[1]
    if found.high < LITTLE * (top if math.isfinite(top) else abs(row.score)):
        return f"nothing was gained beyond chance, {by(found, row)}: {what} promises little"
    return f"it gained {by(found, row)}, which may be chance: whether {what} helps cannot be told by these examples"


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
    worse = [f"{_lacking(row.varied)}, by {by(found, row)}" for row, found in honest if beyond(found)]
    better = [f"{_lacking(row.varied)}, by {by(turned(found), row)}" for row, found in honest if beyond(turned(found))]
    untold = [_lacking(row.varied) for row, found in honest if not beyond(found) and not beyond(turned(found))]
    words = [f"The whole model has {score_in_words(whole)}."]
    words += [f"Worse, the part worth most first: {'; '.join(worse)}."] if worse else []
    words += [f"Better: {'; '.join(reversed(better))}."] if better else []
    words += [f"Cannot be told from the whole: {'; '.join(untold)}."] if untold else []
    if any(row.varied.get(MASK) is False for row, _ in parts):
        words.append("Without the mask it reads the token it is to predict: that score is no honest one.")
    kept = [word for word in plain.words if word.startswith(("One seed", "It does not beat")) or " failed: " in word]
    return Verdict([*words, *kept], whole, None)


def _lacking(varied: Mapping[str, Any]) -> str:
    """What a model lacks: without the residual connections."""
    if varied == ONE_HEAD:
        return "with a single head"
    if not all(key in PARTS for key in varied):
        return f"with {part_in_words(varied)}"
    return f"without {' and '.join(PARTS[key] for key in varied)}"
