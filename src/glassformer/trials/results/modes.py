"""What is said where more than the model differs: of parts of the data, of sizes, of settings, of parts left out, of
models that begin from a run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer.statistics.paired import Difference
from glassformer.trials.results.metrics import SCALES
from glassformer.trials.results.rounding import amount, from_to
from glassformer.trials.results.rows import Row, label_of, percent, setting_in_words
from glassformer.trials.results.sentences import difference_in_words, difference_within, score_in_words, sentence
from glassformer.trials.results.significance import compare_rows, is_better, reverse
from glassformer.trials.results.verdict import Verdict, verdict
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES
from glassformer.trials.running.variations import MASK

ENCODER = "model.encoder"
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
        competing = with_all_data(rows)
        alike = [replace(row, varied={}) for row in competing]  # here only their names differ
        found = verdict(alike)
        chosen = None if found.recommended is None else competing[alike.index(found.recommended)]
        words = [*_more_data(rows), *found.words, *_finetuning(in_order(rows, mode))]
        return Verdict(words, next((row for row in rows if row.outcomes and not row.seen), None), chosen)
    found = verdict(rows)
    larger = _larger_models(rows) if mode == SIZES else ()
    return Verdict([*larger, *found.words, *_finetuning(rows)], found.best, found.recommended)


def with_all_data(rows: Sequence[Row]) -> list[Row]:
    """Those that learned from as much as any."""
    whole = max((row.varied.get(FRACTION, 0.0) for row in rows), default=1.0)
    return [row for row in rows if row.varied.get(FRACTION, whole) == whole]


def along(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Each model's rows that came to something, from the least to the most of a setting."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if key in row.varied and row.outcomes:
            lines.setdefault(row.name, []).append(row)
    order = (lambda row: row.parameters) if key == SIZE else (lambda row: row.varied[key])
    return {name: sorted(line, key=order) for name, line in lines.items()}


def in_order(rows: Sequence[Row], mode: str) -> list[Row]:
    """Rows as they are read: along a varied number, model by model; else from best to worst; last what failed."""
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


# --- more data, larger models ---


def _more_data(rows: Sequence[Row]) -> Iterator[str]:
    """What the last step along the data bought, and what twice as much would, if the curve went on like that."""
    for name, line in along(rows, FRACTION).items():
        if len(line) < 2 or not line[-1].is_trained:
            continue
        few, many = line[-2:]
        shares = [float(row.varied[FRACTION]) for row in (few, many)]
        step = f"from {percent(shares[0])} to {percent(shares[1])} of the training part"
        found = compare_rows(many, few)
        if found is None:
            continue
        if is_better(found):
            doublings = math.log2(shares[1] / shares[0])
            twice = from_to(*(value / doublings for value in (found.value, found.low, found.high)))
            yield sentence("more data", name=name, step=step, by=difference_in_words(found, many), twice=twice)
        else:
            yield _not_gained(found, many, name=name, step=step, what="more of the same data")


def _larger_models(rows: Sequence[Row]) -> Iterator[str]:
    for name, line in along(rows, SIZE).items():
        if len(line) < 2 or (found := compare_rows(line[-1], line[-2])) is None:
            continue
        small, large = line[-2:]
        step = f"from {amount(small.parameters)} to {amount(large.parameters)} parameters"
        if is_better(found):
            yield sentence("larger", name=name, step=step, by=difference_in_words(found, large))
        else:
            yield _not_gained(found, large, name=name, step=step, what="a larger model")


def _not_gained(found: Difference, row: Row, **facts: str) -> str:
    """The sentence for a step that gained nothing beyond chance: only a narrow interval tells of little to gain."""
    if is_better(reverse(found)):
        return sentence("lost", by=difference_in_words(reverse(found), row), **facts)
    top = SCALES.get(row.metric, (0.0, math.inf))[1]
    little = found.high < LITTLE * (top if math.isfinite(top) else abs(row.score))
    return sentence("little" if little else "unsure", by=difference_in_words(found, row), **facts)


# --- parts left out ---


def parts_left_out(rows: Sequence[Row]) -> tuple[Row | None, list[tuple[Row, Difference]]]:
    """The whole model; and each that lacks a part, with what the part was worth, the most first."""
    whole = next((row for row in rows if row.is_trained and not row.varied and row.outcomes), None)
    if whole is None:
        return None, []
    found = [(row, compare_rows(whole, row)) for row in rows if row.is_trained and row.varied and row.outcomes]
    known = [(row, one) for row, one in found if one is not None]
    return whole, sorted(known, key=lambda pair: -pair[1].value)


def part_in_words(varied: Any) -> str:
    return ", ".join(setting_in_words(key, value) for key, value in varied.items()) or "the whole"


def _ablation(rows: Sequence[Row]) -> Verdict:
    whole, parts = parts_left_out(rows)
    plain = verdict([row for row in rows if not row.is_trained or not row.varied or not row.outcomes])
    if whole is None:
        return plain
    worse, better, level = list[str](), list[str](), list[str]()
    for row, found in parts:
        if row.varied.get(MASK) is False:
            continue
        if is_better(found):
            worse.append(f"{_lacking(row.varied)}, by {difference_in_words(found, row)}")
        elif is_better(reverse(found)):
            better.insert(0, f"{_lacking(row.varied)}, by {difference_in_words(reverse(found), row)}")
        else:
            level.append(_lacking(row.varied))
    words = [sentence("whole", score=score_in_words(whole))]
    groups = {"parts worse": worse, "parts better": better, "parts level": level}
    words += [sentence(key, parts="; ".join(group)) for key, group in groups.items() if group]
    words += [sentence("mask")] if any(row.varied.get(MASK) is False for row, _ in parts) else []
    more = [word for word in plain.words if word.startswith(("One seed", "It does not beat")) or " failed: " in word]
    return Verdict([*words, *more], whole, None)


def _lacking(varied: Mapping[str, Any]) -> str:
    """What a model lacks: without the residual connections."""
    if varied == ONE_HEAD:
        return "with a single head"
    if not all(key in PARTS for key in varied):
        return f"with {part_in_words(varied)}"
    return f"without {' and '.join(PARTS[key] for key in varied)}"


# --- beginning from a run ---


def _finetuning(rows: Sequence[Row]) -> list[str]:
    """Whether what a run had learned before is worth anything here: each that begins from one beside the same kind of
    model that begins from nothing, with as much data.
    """
    answers: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.begins and row.outcomes and (other := _from_nothing(row, rows)):
            answers.setdefault((row.name, other.name), []).append(_beside(row, other))
    return [
        sentence("fine-tuned", name=name, other=other, answers="; ".join(several))
        for (name, other), several in answers.items()
    ]


def _from_nothing(row: Row, rows: Sequence[Row]) -> Row | None:
    """The best of the same kind of model that begin from nothing."""
    alike = [one for one in rows if one.is_trained and not one.begins and one.outcomes and one.varied == row.varied]
    encoders = [one.outcomes[0].cell.settings.get(ENCODER) for one in (row, *alike)]
    same = [one for one, encoder in zip(alike, encoders[1:], strict=True) if encoder == encoders[0]]
    return min(same, key=lambda one: one.rank, default=None)


def _beside(row: Row, other: Row) -> str:
    found = compare_rows(row, other)
    where = f"with {varied}, " if (varied := label_of("", row.varied)) else ""
    if found is None:
        return f"{where}not judged on the same examples"
    if is_better(found):
        return f"{where}better by {difference_in_words(found, row)}"
    if is_better(reverse(found)):
        return f"{where}worse by {difference_in_words(reverse(found), row)}"
    return f"{where}not to be told apart ({difference_within(found, row)})"
