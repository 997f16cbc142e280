"""What a comparison says where more than the model differs: amounts of data, sizes, parts, weights of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from glassformer.trials.results.metrics import amount, sentence
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.rows import Row, compare_rows, label_of, percent, relation
from glassformer.trials.results.verdict import Verdict, baseline_words, failures, one_seed, undertrained, verdict
from glassformer.trials.running.candidates import MASK
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES


def verdict_of(rows: Sequence[Row], mode: str) -> Verdict:
    """Return the sentences of a mode, and those about rows that are not ranked."""
    plain = _ablation(rows) if mode == ABLATION else _competition(rows, mode)
    return replace(plain, words=[*plain.words, *undertrained(rows)])


def _competition(rows: Sequence[Row], mode: str) -> Verdict:
    """Compare models that were trained on all of the data; with parts of it, the best row may be another one."""
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
    """Return the rows with the largest share of the training data."""
    whole = max((row.varied.get(FRACTION, 0.0) for row in rows), default=1.0)
    return [row for row in rows if row.varied.get(FRACTION, whole) == whole]


def along(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Return each model's rows with an outcome, from the smallest to the largest value of a setting."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if key in row.varied and row.outcomes:
            lines.setdefault(row.name, []).append(row)
    order = (lambda row: row.parameters) if key == SIZE else (lambda row: row.varied[key])
    return {name: sorted(line, key=order) for name, line in lines.items()}


def are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def in_order(rows: Sequence[Row], mode: str) -> list[Row]:
    """Sort rows for reading: along a varied number, model by model; else from best to worst; failed rows last."""
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


def _gains(rows: Sequence[Row], key: str) -> Iterator[str]:
    """Say what the last step to more data, or to a larger model, gained."""
    for name, line in along(rows, key).items():
        if len(line) < 2 or not line[-1].is_trained or not all(row.is_judged for row in line[-2:]):
            continue
        before, after = line[-2:]
        if key == SIZE:
            step = f"from {amount(before.parameters)} to {amount(after.parameters)} parameters"
        else:
            step = f"from {percent(before.varied[key])} to {percent(after.varied[key])} of the training data"
        yield sentence("gain", name=name, step=step, words=relation(after, before))


# --- parts left out ---


def parts_left_out(rows: Sequence[Row]) -> tuple[Row | None, list[tuple[Row, Lead]]]:
    """Return the whole model, and each row without a part with the value of that part, the largest first."""
    whole = next((row for row in rows if row.is_trained and not row.varied and row.is_judged), None)
    if whole is None:
        return None, []
    others = [row for row in rows if row.is_trained and row.varied and row.is_judged]
    parts = [(row, worth) for row in others if (worth := compare_rows(whole, row)) is not None]
    return whole, sorted(parts, key=lambda part: -part[1].value)


def _ablation(rows: Sequence[Row]) -> Verdict:
    whole, parts = parts_left_out(rows)
    if whole is None:
        return Verdict([sentence("no whole"), *failures(rows)])
    words = [
        f"{label_of('', row.varied)} is {worth.reversed.words}"
        for row, worth in parts
        if row.varied.get(MASK) is not False  # its remark says that it reads the answer
    ]
    return Verdict(
        [
            sentence("whole", row=whole),
            *baseline_words(whole, [row for row in rows if row.is_judged]),
            *([sentence("parts", parts="; ".join(words))] if words else []),
            *one_seed([whole]),
            *failures(rows),
        ],
        whole,
    )


# --- starting from a run ---


def _finetuning(rows: Sequence[Row]) -> Iterator[str]:
    """Compare rows that start from a run with the best row of the same encoder and data that starts from nothing."""
    for row in rows:
        if row.begins and row.is_judged:
            same = [
                other
                for other in rows
                if other.is_trained and other.is_judged and not other.begins
                and (other.varied, other.encoder) == (row.varied, row.encoder)
            ]  # fmt: skip
            if same:
                other = min(same, key=lambda other: other.rank)
                yield sentence("fine-tuned", row=row, other=other, words=relation(row, other))
