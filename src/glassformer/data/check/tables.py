"""What deserves attention in a table before anything is learned from it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
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

UNEVEN = 10
"""A largest class this many times the smallest deserves a word."""


@dataclass(frozen=True)
class Spread:
    """How lengths are spread: nine texts in ten are at most `p90` long."""

    min: int
    median: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True)
class Class:
    """A label, and how many rows have it."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class Contradiction:
    """A text that occurs with several labels."""

    text: str
    """How it begins."""
    labels: list[str]
    lines: list[int]


@dataclass(frozen=True)
class Amounts:
    """The numbers of a regression."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True)
class TableCheck:
    """A table's counts. Lengths are those of the texts that are not empty."""

    rows: int
    empty_texts: int
    missing_labels: int
    """Rows with a text and no label."""
    repeated_texts: int
    """Rows whose text an earlier row has, with all else that is read, by the rule of `data.same_text`."""
    near_duplicates: int
    """Texts that are nearly the same as an earlier one."""
    contradicting_texts: int
    """Texts that occur with several labels."""
    contradictions: list[Contradiction]
    """The first few of them."""
    classes: list[Class]
    """The largest first; empty where there are none."""
    imbalance: float | None
    """The largest class over the smallest."""
    single_example_classes: list[str]
    words: Spread | None
    tokens: Spread | None
    cut: int | None
    """Texts of more tokens than the context, which would be cut there."""
    shortest_line: int | None
    longest_line: int | None
    amounts: Amounts | None
    not_read: dict[str, str]
    """Every column that is not read, and why."""
    findings: list[str]
    """One sentence for each thing that is odd; empty where all is well."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_table(
    table: Table,
    columns: Columns,
    lengths: Callable[[list[str]], list[int]] | None = None,
    context: int | None = None,
    settings: DataSettings | None = None,
) -> TableCheck:
    """`lengths`: counts the tokens of texts; `context`: tokens that a model reads. Without text, rows are compared."""
    settings = settings or DataSettings()
    table = plain_numbers(table, columns.decimals)
    filled = columns.readable_rows(table)
    whole = None if columns.text is None else table.texts(columns.text)
    texts = [_row_in_words(table, columns, row) if whole is None else whole[row] for row in filled]
    lines, labels = [table.lines[row] for row in filled], _labels(table, columns, filled)
    part = rows_as_part(table, columns, settings, filled)
    near = part.near_duplicates()
    occurrences = occurrences_of(part.same(settings.same_text).tolist())
    contradictions = _contradictions(occurrences, texts, labels, lines) if labels else []
    kind = columns.label_kind
    missing = [line for line, label in zip(lines, labels, strict=True) if lacks_label(label, kind)] if labels else []
    names = names_of(filter(None, labels), kind) if kind in (CLASS, LABEL_SET) else []
    counts = Counter(sorted(chain.from_iterable(names))).most_common()
    classes = [Class(name, count, count / len(names)) for name, count in counts]
    written = [row for row, text in enumerate(texts) if text.strip()] if whole is not None else []
    words, text_lines = [len(texts[row].split()) for row in written], [lines[row] for row in written]
    tokens = lengths([texts[row] for row in written]) if lengths is not None and written else None
    found = TableCheck(
        rows=len(table),
        empty_texts=0 if whole is None else len(table) - len(written),
        missing_labels=len(missing),
        repeated_texts=len(texts) - len(occurrences),
        near_duplicates=len(np.unique(near[:, 1])),
        contradicting_texts=len(contradictions),
        contradictions=contradictions[:EXAMPLES],
        classes=classes,
        imbalance=counts[0][1] / counts[-1][1] if counts else None,
        single_example_classes=[item.name for item in classes if item.count == 1],
        words=spread_of(words),
        tokens=spread_of(tokens),
        cut=sum(count > context for count in tokens) if tokens and context is not None else None,
        shortest_line=text_lines[int(np.argmin(words))] if words else None,
        longest_line=text_lines[int(np.argmax(words))] if words else None,
        amounts=_amounts(labels) if kind == NUMBER else None,
        not_read=dict(columns.unread),
        findings=[],
    )
    row, place = ("picture", "number") if columns.kind == IMAGE else ("row", "line")
    noun = row if whole is None else "text"
    again = sorted(lines[row] for rows in occurrences.values() for row in rows[1:])
    differently = part.in_other_letters(settings.same_text)
    repeats = finding("repeat", again, place if whole is None else "line", row=row, noun=noun, differently=differently)
    repeats += near_finding(near, noun, texts, lines)
    skipped = skipped_lines({NO_LABEL: missing, NO_TEXT: table.lines_but(filled)}, row)
    bad = len(missing) + len(table) - len(filled)
    found.findings.extend(_findings(found, skipped, bad, repeats, context, noun))
    if kind == NUMBER:
        found.findings.extend(_refused_numbers(f"label column '{columns.label}'", labels, lines))
    if columns.kind != IMAGE:
        found.findings.extend(_column_findings(table, columns))
        if settings.split_by is None:
            found.findings.extend(group_findings(table, columns, labels, filled))
    return found


def _row_in_words(table: Table, columns: Columns, row: int) -> str:
    return ", ".join(table.columns[name][row] for name in columns.also)


def _labels(table: Table, columns: Columns, rows: list[int]) -> list[str]:
    """Return the labels of these rows, empty where there is none; no labels without a label column."""
    if columns.label is None:
        return []
    if columns.label_kind == LABEL_SET:
        return sets_of(table, columns.label, rows, columns.separator)
    values = table.columns[label_columns(table.name, columns.label, table.columns)[0]]
    return [values[row].strip() for row in rows]


def spread_of(values: Sequence[int] | None) -> Spread | None:
    """Return how lengths are spread; None without lengths."""
    if not values:
        return None
    return Spread(*(int(value) for value in np.percentile(values, [0, 50, 90, 99, 100], method="inverted_cdf")))


def occurrences_of(values: Iterable[T]) -> dict[T, list[int]]:
    """Each value, and the rows that have it."""
    rows: dict[T, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return rows


def finding(name: str, lines: list[int], place: str = "line", **facts: object) -> list[str]:
    """Return the finding of this name with the number of its lines and the first of them; no finding without lines."""
    if not lines:
        return []
    one, many, rest = sentence(__name__, name, **facts).split("|")
    return [f"{counted(len(lines), one, many)} {rest}: {lines_in_words(lines, place)}"]


def _contradictions(
    occurrences: dict[int, list[int]], texts: list[str], labels: list[str], lines: list[int]
) -> list[Contradiction]:
    found = []
    for rows in occurrences.values():
        first = {labels[row]: lines[row] for row in reversed(rows)}  # each label, and where it comes first
        if len(first) > 1:
            names, places = zip(*sorted(first.items(), key=lambda item: item[1]), strict=True)
            found.append(Contradiction(texts[rows[0]].strip()[:60], [*names], [*places]))
    return found


def _amounts(labels: list[str]) -> Amounts | None:
    """The least, the mean and the largest of the labels that are numbers."""
    numbers = [number for label in labels if (number := number_in(label)) is not None]
    return Amounts(min(numbers), sum(number / len(numbers) for number in numbers), max(numbers)) if numbers else None


def _findings(
    found: TableCheck, skipped: list[str], bad: int, repeats: list[str], context: int | None, noun: str
) -> Iterator[str]:
    """Yield one line per finding, the gravest first. `bad`: the number of rows that cannot be used."""
    classes, amounts = found.classes, found.amounts
    if len(classes) == 1 and classes[0].share == 1:
        yield sentence(__name__, "one label", name=classes[0].name)
    if found.contradicting_texts:
        place = "numbers" if noun == "picture" else "lines"
        shown = "; ".join(f"{place} {listed(item.lines, EXAMPLES, ' and ')}" for item in found.contradictions)
        more = ", …" if found.contradicting_texts > len(found.contradictions) else ""
        texts = counted(found.contradicting_texts, f"{noun} occurs", f"{noun}s occur")
        yield sentence(__name__, "contradictions", count=texts, shown=shown, more=more)
    if found.imbalance is not None and found.imbalance >= UNEVEN:
        yield sentence(__name__, "uneven", first=classes[0], last=classes[-1], times=found.imbalance)
    yield from odd_labels({item.name: item.count for item in classes})
    yield from skipped
    if (classes or amounts) and bad > MAX_SKIPPED * found.rows:
        yield sentence(__name__, "bad rows", bad=bad, rows=found.rows)
    yield from repeats
    if found.cut:
        yield sentence(__name__, "cut", count=counted(found.cut, "text is", "texts are"), context=context)
    if amounts is not None and amounts.min == amounts.max:
        yield sentence(__name__, "one number", number=amounts.min)


def _column_findings(table: Table, columns: Columns) -> Iterator[str]:
    """One line each: values that are no numbers or dates, empty ones, columns that are the same in every row."""
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
        if (order := columns.dates.get(name)) is not None:
            yield from (f"column '{name}': {remark}" for remark in _unread_dates(table.lines, values, order))
        numbers = hold_numbers(values)
        if numbers:
            yield from _refused_numbers(f"column '{name}'", values, table.lines)
        if empty := sum(is_empty(value) if numbers else not value.strip() for value in values):
            yield empty_in_words(name, empty, len(values))


def _refused_numbers(column: str, values: Sequence[str], lines: Sequence[int]) -> Iterator[str]:
    """Yield findings on the values of a number column that are not numbers or that float32 cannot hold."""
    numbers = [(line, number_in(value)) for value, line in zip(values, lines, strict=True) if not is_empty(value)]
    odd = [line for line, number in numbers if number is None]
    large = [line for line, number in numbers if number is not None and abs(number) > FLOAT32_MAX]
    yield from (f"{column}: {remark}" for remark in finding("no number", odd) + finding("large number", large))


def _unread_dates(lines: Sequence[int], values: Sequence[str], order: str) -> list[str]:
    """What is no date in a column of dates, and what is one in another order."""
    unread = unread_dates(values, order)
    odd = [lines[row] for row in unread.pop(None, [])]
    swapped = sorted(lines[row] for rows in unread.values() for row in rows)
    return finding("no date", odd) + finding("other date", swapped, order=ORDER_IN_WORDS[order])
