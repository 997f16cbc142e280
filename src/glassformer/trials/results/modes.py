"""What is said where more than the model differs: of parts of the data, of sizes, of settings, of parts left out, of
models that begin from a run.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from glassformer.statistics.significance import Difference
from glassformer.trials.results.metrics import SCALES, amount, from_to
from glassformer.trials.results.pairs import is_better, reverse
from glassformer.trials.results.rows import Row, compare_rows, label_of, percent
from glassformer.trials.results.sentences import (
    difference_in_words,
    difference_within,
    lead_in_words,
    scope,
    score_in_words,
    sentence,
)
from glassformer.trials.results.verdict import Verdict, undertrained, verdict
from glassformer.trials.running.candidates import MASK
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


def verdict_of(rows: Sequence[Row], mode: str) -> Verdict:
    """Sentences for a mode, and which rows these do not judge."""
    plain = _judge(rows, mode)
    return replace(plain, words=[*plain.words, *undertrained(rows)])


def _judge(rows: Sequence[Row], mode: str) -> Verdict:
    """Where models compete, they do so with all the data."""
    if mode == ABLATION:
        return _ablation(rows)
    if mode != FRACTIONS:
        plain = verdict(rows)
        larger = _gains(rows, SIZE) if mode == SIZES else ()
        return replace(plain, words=[*larger, *plain.words, *_finetuning(rows)])
    competing = with_all_data(rows)
    alike = [replace(row, varied={}) for row in competing]  # here only their names differ
    plain = verdict(alike)
    chosen = None if plain.recommended is None else competing[alike.index(plain.recommended)]
    words = [*_gains(rows, FRACTION), *plain.words, *_finetuning(in_order(rows, mode))]
    return Verdict(words, next((row for row in rows if row.is_judged), None), chosen)


def with_all_data(rows: Sequence[Row]) -> list[Row]:
    """The rows that learned from as much as any."""
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


def are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def in_order(rows: Sequence[Row], mode: str) -> list[Row]:
    """Rows as they are read: along a varied number, model by model; else from best to worst; last what failed."""
    keys = {key for row in rows for key in row.varied}
    values = [row.varied[key] for row in rows for key in row.varied]
    if mode == ABLATION or len(keys) != 1 or not (are_numbers(values) or keys == {SIZE}):
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


def _gains(rows: Sequence[Row], key: str) -> Iterator[str]:
    """What the last step along the data, or along the size of a model, bought; of data, what twice as much would buy,
    if the curve went on like that. Where it bought nothing beyond chance, only a narrow interval tells of little to
    gain.
    """
    for name, line in along(rows, key).items():
        judged = len(line) > 1 and line[-1].is_trained and all(row.is_judged for row in line[-2:])
        lead = compare_rows(line[-1], line[-2]) if judged else None
        if lead is None:
            continue
        before, after = line[-2:]
        if key == SIZE:
            better, what = "larger", "a larger model"
            step = f"from {amount(before.parameters)} to {amount(after.parameters)} parameters"
            twice = ""
        else:
            better, what = "more data", "more of the same data"
            shares = [float(row.varied[key]) for row in (before, after)]
            step = f"from {percent(shares[0])} to {percent(shares[1])} of the training part"
            doublings = math.log2(shares[1] / shares[0])
            twice = from_to(*(value / doublings for value in (lead.value, lead.low, lead.high)))
        top = SCALES.get(after.metric, (0.0, math.inf))[1]
        little = lead.high < LITTLE * (top if math.isfinite(top) else abs(after.score))
        lost = is_better(reverse(lead))
        kind = better if is_better(lead) else "lost" if lost else "little" if little else "unsure"
        by = lead_in_words(reverse(lead) if lost else lead, after)
        yield sentence(kind, name=name, step=step, by=by, what=what, twice=twice)


# --- parts left out ---


def parts_left_out(rows: Sequence[Row]) -> tuple[Row | None, list[tuple[Row, Difference]]]:
    """The whole model; and each that lacks a part, with what the part was worth, the most first."""
    whole = next((row for row in rows if row.is_trained and not row.varied and row.is_judged), None)
    if whole is None:
        return None, []
    others = [row for row in rows if row.is_trained and row.varied and row.is_judged]
    parts = [(row, worth) for row in others if (worth := compare_rows(whole, row)) is not None]
    return whole, sorted(parts, key=lambda part: -part[1].value)


def _ablation(rows: Sequence[Row]) -> Verdict:
    whole, parts = parts_left_out(rows)
    plain = verdict([row for row in rows if not row.is_trained or not row.varied or not row.outcomes])
    failures = [word for word in plain.words if " failed: " in word]
    if whole is None:
        return Verdict([sentence("no whole"), *failures])
    honest = [(row, worth) for row, worth in parts if row.varied.get(MASK) is not False]
    worse = [f"{_lacking(row)}, by {difference_in_words(worth, row)}" for row, worth in honest if is_better(worth)]
    better = [
        f"{_lacking(row)}, by {difference_in_words(reverse(worth), row)}"
        for row, worth in reversed(honest)
        if is_better(reverse(worth))
    ]
    level = [_lacking(row) for row, worth in honest if not is_better(worth) and not is_better(reverse(worth))]
    words = [sentence("whole", score=score_in_words(whole))]
    groups = {"parts worse": worse, "parts better": better, "parts level": level}
    once = next((scope(worth, whole) for _, worth in honest if not worth.seeds), "")
    words += [sentence(key, parts="; ".join(group), scope=once) for key, group in groups.items() if group]
    words += [sentence("mask")] if len(honest) < len(parts) else []
    more = [word for word in plain.words if word.startswith(("One seed", "It does not beat"))]
    return Verdict([*words, *more, *failures], whole, None)


def _lacking(row: Row) -> str:
    """What a model lacks: without the residual connections."""
    if row.varied == {"model.heads": 1}:
        return "with a single head"
    if not all(key in PARTS for key in row.varied):
        return f"with {label_of('', row.varied)}"
    return f"without {' and '.join(PARTS[key] for key in row.varied)}"


# --- beginning from a run ---


def _finetuning(rows: Sequence[Row]) -> list[str]:
    """Whether what a run had learned before is worth anything here: each that begins from one beside the same kind of
    model that begins from nothing, with as much data.
    """
    answers: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in rows:
        if row.begins and row.outcomes and (other := _from_nothing(row, rows)):
            answers.setdefault((row.name, other.name), []).append(_beside(row, other))
    words = []
    for (name, beside), several in answers.items():
        told = "; ".join(answer for answer, _ in several)
        once = next((held for _, held in several if held), "")
        words.append(sentence("fine-tuned", name=name, other=beside, answers=told, scope=once))
    return words


def _from_nothing(row: Row, rows: Sequence[Row]) -> Row | None:
    """The best of the same kind of model that begin from nothing."""
    others = [
        other
        for other in rows
        if other.is_trained and not other.begins and other.outcomes and other.varied == row.varied
    ]
    encoder = row.outcomes[0].cell.settings.get("model.encoder")
    same = [other for other in others if other.outcomes[0].cell.settings.get("model.encoder") == encoder]
    return min(same, key=lambda other: other.rank, default=None)


def _beside(row: Row, other: Row) -> tuple[str, str]:
    """How one does beside the other, and what that holds for."""
    where = f"with {varied}, " if (varied := label_of("", row.varied)) else ""
    if not (row.is_judged and other.is_judged):
        return f"{where}not trained to its end", ""
    lead = compare_rows(row, other)
    if lead is None:
        return f"{where}not judged on the same examples", ""
    if is_better(lead):
        answer = f"better by {difference_in_words(lead, row)}"
    elif is_better(reverse(lead)):
        answer = f"worse by {difference_in_words(reverse(lead), row)}"
    else:
        answer = f"not to be told apart ({difference_within(lead, row)})"
    return where + answer, scope(lead, row)
