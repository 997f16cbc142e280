"""Findings about a table before a model learns from it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from glassformer.config.presets import CLASS, IMAGE, LABEL_SET, MIXED, NUMBER
from glassformer.config.sections import DataSettings
from glassformer.config.sentences import sentence
from glassformer.data.check.groups import group_findings
from glassformer.data.columns.dates import ORDER_IN_WORDS, unread_dates
from glassformer.data.columns.heuristics import FLOAT32_MAX, hold_numbers, number_in
from glassformer.data.columns.inference import Columns, lacks_label
from glassformer.data.columns.labels import label_columns, names_of, odd_labels, sets_of
from glassformer.data.columns.numbers import plain_numbers
from glassformer.data.columns.schema import empty_in_words
from glassformer.data.io.table import Table, is_empty
from glassformer.data.same_text import near_finding
from glassformer.data.split.labelled import rows_as_part
from glassformer.data.split.rows import MAX_SKIPPED, NO_LABEL, NO_TEXT, skipped_lines
from glassformer.data.wording import EXAMPLES, counted, lines_in_words, listed

T = TypeVar("T")

MIN_IMBALANCE = 10
"""Ratio of the largest to the smallest class from which classes are reported as uneven."""


@dataclass(frozen=True)
class Spread:
    """Distribution of lengths; 90 % of the texts have at most the length `p90`."""

    min: int
    median: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True)
class Class:
    """A label and its number of rows."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class Amounts:
    """Range and mean of numeric labels."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True)
class DataCheck:
    """Counts of a data set, and findings about it."""

    counts: dict[str, int]
    lengths: dict[str, Spread | None]
    """Lengths of the texts that are not empty, by their unit; None if they are unknown."""
    findings: list[str]
    """One sentence per anomaly, the most serious first."""
    classes: list[Class] = field(default_factory=list)
    """Classes, the largest first."""
    amounts: Amounts | None = None
    """Numeric labels; None for other labels."""
    not_read: dict[str, str] = field(default_factory=dict)
    """The reason for every column that is not read."""

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values.pop("counts"), **values}


def check_table(
    table: Table,
    columns: Columns,
    lengths: Callable[[list[str]], list[int]] | None = None,
    context: int | None = None,
    settings: DataSettings | None = None,
) -> DataCheck:
    """Check a table with a label column. Without a text column, rows are compared by all columns.

    `lengths`: counts the tokens of each text. `context`: maximum number of tokens that a model reads.
    """
    settings = settings or DataSettings()
    table = plain_numbers(table, columns.decimals)
    filled, kind = columns.readable_rows(table), columns.label_kind
    whole = [] if columns.text is None else table.texts(columns.text)
    texts = [whole[row] for row in filled] if whole else []
    lines, labels = [table.lines[row] for row in filled], _labels(table, columns, filled)
    part = rows_as_part(table, columns, settings, filled)
    near, occurrences = part.near_duplicates(), occurrences_of(part.same(settings.same_text).tolist())
    contradictions = list(_contradictions(occurrences.values(), labels, lines)) if labels else []
    missing = [line for line, label in zip(lines, labels, strict=True) if lacks_label(label, kind)] if labels else []
    names = names_of(filter(None, labels), kind) if kind in (CLASS, LABEL_SET) else []
    counted_names = Counter(sorted(chain.from_iterable(names))).most_common()
    classes = [Class(name, count, count / len(names)) for name, count in counted_names]
    amounts = _amounts(labels) if kind == NUMBER else None
    written = [text for text in texts if text.strip()]
    tokens = lengths(written) if lengths is not None and written else []
    cut = sum(count > context for count in tokens) if context is not None else 0
    row = "picture" if columns.kind == IMAGE else "row"
    noun = row if columns.text is None else "text"
    differently = part.in_other_letters(settings.same_text)
    again = sorted(lines[row] for rows in occurrences.values() for row in rows[1:])
    bad = len(missing) + len(table) - len(filled)
    findings = [
        *_label_findings(classes, contradictions, noun),
        *skipped_lines({NO_LABEL: missing, NO_TEXT: table.lines_but(filled)}, row),
    ]
    if (classes or amounts) and bad > MAX_SKIPPED * len(table):
        findings.append(sentence(__name__, "bad rows", bad=bad, rows=len(table)))
    findings += finding("repeat", again, place_of(noun), row=row, noun=noun, differently=differently)
    findings += near_finding(near, noun, texts, lines)
    if cut:
        findings.append(sentence(__name__, "cut", count=counted(cut, "text is", "texts are"), context=context))
    if amounts is not None:
        if amounts.min == amounts.max:
            findings.append(sentence(__name__, "one number", number=amounts.min))
        findings += [f"label column '{columns.label}': {remark}" for remark in _refused_numbers(labels, lines)]
    if columns.kind != IMAGE:
        findings += _column_findings(table, columns)
        if settings.split_by is None:
            findings += group_findings(table, columns, labels, filled)
    counts = {
        "rows": len(table),
        "empty_texts": len(table) - len(written) if columns.text is not None else 0,
        "missing_labels": len(missing),
        f"repeated_{noun}s": len(filled) - len(occurrences),
        "near_duplicates": len(np.unique(near[:, 1])),
        f"contradicting_{noun}s": len(contradictions),
        "cut": cut,
    }
    spreads = {"words": spread_of([len(text.split()) for text in written]), "tokens": spread_of(tokens)}
    return DataCheck(counts, spreads, findings, classes, amounts, dict(columns.unread))


def _labels(table: Table, columns: Columns, rows: list[int]) -> list[str]:
    """Return the labels of these rows, empty where there is none; no labels without a label column."""
    if columns.label is None:
        return []
    if columns.label_kind == LABEL_SET:
        return sets_of(table, columns.label, rows, columns.separator)
    values = table.columns[label_columns(table.name, columns.label, table.columns)[0]]
    return [values[row].strip() for row in rows]


def spread_of(values: Sequence[int] | None) -> Spread | None:
    """Return the distribution of lengths; None without lengths."""
    if not values:
        return None
    return Spread(*(int(value) for value in np.percentile(values, [0, 50, 90, 99, 100], method="inverted_cdf")))


def occurrences_of(values: Iterable[T]) -> dict[T, list[int]]:
    """Return the rows of each value."""
    rows: dict[T, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return rows


def finding(name: str, lines: Sequence[int], place: str = "line", **facts: object) -> list[str]:
    """Return the finding of this name with the number of its lines and the first of them; no finding without lines."""
    if not lines:
        return []
    one, many, rest = sentence(__name__, name, **facts).split("|")
    return [f"{counted(len(lines), one, many)} {rest}: {lines_in_words(lines, place)}"]


def _contradictions(
    occurrences: Iterable[list[int]], labels: Sequence[str], lines: Sequence[int]
) -> Iterator[list[int]]:
    """Yield, for each text with several labels, the lines on which each of its labels comes first."""
    for rows in occurrences:
        first = {labels[row]: lines[row] for row in reversed(rows)}
        if len(first) > 1:
            yield sorted(first.values())


def _amounts(labels: list[str]) -> Amounts | None:
    """Return the range and mean of numeric labels; None without any."""
    numbers = [number for label in labels if (number := number_in(label)) is not None]
    return Amounts(min(numbers), sum(number / len(numbers) for number in numbers), max(numbers)) if numbers else None


def _label_findings(classes: Sequence[Class], contradictions: Sequence[list[int]], noun: str) -> Iterator[str]:
    """Yield findings on the labels, the most serious first."""
    if len(classes) == 1 and classes[0].share == 1:
        yield sentence(__name__, "one label", name=classes[0].name)
    if contradictions:
        shown = listed(
            (f"{place_of(noun)}s {listed(lines, EXAMPLES, ' and ')}" for lines in contradictions), EXAMPLES, "; "
        )
        texts = counted(len(contradictions), f"{noun} occurs", f"{noun}s occur")
        yield sentence(__name__, "contradictions", count=texts, shown=shown)
    if classes and (times := classes[0].count / classes[-1].count) >= MIN_IMBALANCE:
        yield sentence(__name__, "uneven", first=classes[0], last=classes[-1], times=times)
    yield from odd_labels({item.name: item.count for item in classes})


def place_of(noun: str) -> str:
    return "number" if noun == "picture" else "line"


def _column_findings(table: Table, columns: Columns) -> Iterator[str]:
    """Yield findings on columns: values that are not numbers or dates, empty values, and columns with one value."""
    if columns.kind == MIXED and columns.text is not None:
        texts = table.texts(columns.text)
        if empty := sum(not text.strip() for text in texts):
            yield empty_in_words(columns.text, empty, len(texts))
    for name in columns.also:
        values = table.columns[name]
        different = {value.strip() for value in values}
        if len(different) == 1:
            yield sentence(__name__, "one value", name=name, value=next(iter(different)) or "empty")
            continue
        numbers, order = hold_numbers(values), columns.dates.get(name)
        refused = _refused_dates(values, table.lines, order) if order is not None else []
        refused += _refused_numbers(values, table.lines) if numbers else []
        yield from (f"column '{name}': {remark}" for remark in refused)
        if empty := sum(is_empty(value) if numbers else not value.strip() for value in values):
            yield empty_in_words(name, empty, len(values))


def _refused_numbers(values: Sequence[str], lines: Sequence[int]) -> list[str]:
    """Return findings on the values of a number column that are not numbers or that float32 cannot hold."""
    numbers = [(line, number_in(value)) for value, line in zip(values, lines, strict=True) if not is_empty(value)]
    odd = [line for line, number in numbers if number is None]
    large = [line for line, number in numbers if number is not None and abs(number) > FLOAT32_MAX]
    return finding("no number", odd) + finding("large number", large)


def _refused_dates(values: Sequence[str], lines: Sequence[int], order: str) -> list[str]:
    """Return findings on the values of a date column that are not dates or have another order."""
    unread = unread_dates(values, order)
    odd = [lines[row] for row in unread.pop(None, [])]
    swapped = sorted(lines[row] for rows in unread.values() for row in rows)
    return finding("no date", odd) + finding("other date", swapped, order=ORDER_IN_WORDS[order])
