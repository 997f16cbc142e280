"""What deserves attention in a table before anything is learned from it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from glassformer.config.presets import CLASS, IMAGE, LABEL_SET, MIXED, NUMBER
from glassformer.config.sections import DataSettings
from glassformer.data.check.groups import group_findings
from glassformer.data.columns.dates import ORDER_IN_WORDS, unread_dates
from glassformer.data.columns.extra import empty_in_words
from glassformer.data.columns.heuristics import FLOAT32_MAX, hold_numbers, number_in
from glassformer.data.columns.inference import Columns, lacks_label
from glassformer.data.columns.labels import label_columns, names_of, odd_labels, sets_of
from glassformer.data.columns.numbers import plain_numbers
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
    if columns.text is None:
        texts = [", ".join(table.columns[name][row] for name in columns.also) for row in filled]
    else:
        whole = table.texts(columns.text)
        texts = [whole[row] for row in filled]
    lines = [table.lines[row] for row in filled]
    if columns.label is None:
        labels = []
    elif columns.label_kind == LABEL_SET:
        labels = sets_of(table, columns.label, filled, columns.separator)
    else:
        values = table.columns[label_columns(table.name, columns.label, table.columns)[0]]
        labels = [values[row].strip() for row in filled]
    part = rows_as_part(table, columns, settings, filled)
    near = part.near_duplicates()
    occurrences = occurrences_of(part.same(settings.same_text).tolist())
    contradictions = _contradictions(occurrences, texts, labels, lines) if labels else []
    kind = columns.label_kind
    missing = [line for line, label in zip(lines, labels, strict=True) if lacks_label(label, kind)] if labels else []
    has_classes = columns.label_kind in (CLASS, LABEL_SET)
    names = names_of(filter(None, labels), columns.label_kind) if has_classes else []
    counts = Counter(sorted(chain.from_iterable(names))).most_common()
    classes = [Class(name, count, count / len(names)) for name, count in counts]
    written = [row for row, text in enumerate(texts) if text.strip()] if columns.text is not None else []
    words, text_lines = [len(texts[row].split()) for row in written], [lines[row] for row in written]
    tokens = lengths([texts[row] for row in written]) if lengths is not None and written else None
    found = TableCheck(
        rows=len(table),
        empty_texts=0 if columns.text is None else len(table) - len(written),
        missing_labels=len(missing),
        repeated_texts=len(texts) - len(occurrences),
        near_duplicates=len(np.unique(near[:, 1])),
        contradicting_texts=len(contradictions),
        contradictions=contradictions[:EXAMPLES],
        classes=classes,
        imbalance=counts[0][1] / counts[-1][1] if counts else None,
        single_example_classes=[item.name for item in classes if item.count == 1],
        words=spread_of(words) if words else None,
        tokens=spread_of(tokens) if tokens else None,
        cut=sum(count > context for count in tokens) if tokens and context is not None else None,
        shortest_line=text_lines[int(np.argmin(words))] if words else None,
        longest_line=text_lines[int(np.argmax(words))] if words else None,
        amounts=_amounts(labels) if columns.label_kind == NUMBER else None,
        not_read=dict(columns.unread),
        findings=[],
    )
    again = [lines[row] for rows in occurrences.values() for row in rows[1:]]
    row = "picture" if columns.kind == IMAGE else "row"
    noun = row if columns.text is None else "text"
    repeats = finding(
        sorted(again),
        f"{row} repeats",
        f"{row}s repeat",
        f"an earlier {noun}{part.in_other_letters(settings.same_text)}",
        "number" if noun == "picture" else "line",
    )
    repeats += near_finding(near, noun, texts, lines)
    found.findings.extend(_findings(found, table.lines_but(filled), missing, repeats, context, noun))
    if columns.label_kind == NUMBER:
        found.findings.extend(_refused_numbers(f"label column '{columns.label}'", labels, lines))
    if columns.kind != IMAGE:
        found.findings.extend(_column_findings(table, columns))
        if settings.split_by is None:
            found.findings.extend(group_findings(table, columns, labels, filled))
    return found


def spread_of(values: Sequence[int]) -> Spread:
    return Spread(*(int(value) for value in np.percentile(values, [0, 50, 90, 99, 100], method="inverted_cdf")))


def occurrences_of(values: Iterable[T]) -> dict[T, list[int]]:
    """Each value, and the rows that have it."""
    rows: dict[T, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return rows


def finding(lines: list[int], one: str, many: str, rest: str, line: str = "line") -> list[str]:
    """How many of something there are, and on which lines; nothing, where there are none."""
    return [f"{counted(len(lines), one, many)} {rest}: {lines_in_words(lines, line)}"] if lines else []


def _contradictions(
    occurrences: dict[int, list[int]], texts: list[str], labels: list[str], lines: list[int]
) -> list[Contradiction]:
    found = []
    for rows in occurrences.values():
        if len(rows) > 1 and len({labels[row] for row in rows}) > 1:
            first = {labels[row]: lines[row] for row in reversed(rows)}  # each label, and where it comes first
            pairs = sorted(first.items(), key=lambda item: item[1])
            found.append(
                Contradiction(texts[rows[0]].strip()[:60], [label for label, _ in pairs], [line for _, line in pairs])
            )
    return found


def _amounts(labels: list[str]) -> Amounts | None:
    """The least, the mean and the largest of the labels that are numbers."""
    numbers = [number for label in labels if (number := number_in(label)) is not None]
    return Amounts(min(numbers), sum(number / len(numbers) for number in numbers), max(numbers)) if numbers else None


def _findings(
    found: TableCheck, empty: list[int], missing: list[int], repeats: list[str], context: int | None, noun: str
) -> Iterator[str]:
    """One line each, the gravest first. `repeats`: what is said of rows that are there before."""
    row, place = ("picture", "number") if noun == "picture" else ("row", "line")
    if len(found.classes) == 1 and found.classes[0].share == 1:
        yield f"all rows have the label '{found.classes[0].name}': there is nothing to tell apart (--label)"
    if found.contradicting_texts:
        shown = "; ".join(f"{place}s {listed(item.lines, EXAMPLES, ' and ')}" for item in found.contradictions)
        more = ", …" if found.contradicting_texts > len(found.contradictions) else ""
        texts = counted(found.contradicting_texts, f"{noun} occurs", f"{noun}s occur")
        yield f"{texts} with different labels: {shown}{more}"
    if found.imbalance is not None and found.imbalance >= UNEVEN:
        first, last = found.classes[0], found.classes[-1]
        yield (
            f"classes are uneven: '{first.name}' has {first.count:,} rows, {found.imbalance:.3g} times as many as "
            f"'{last.name}' ({last.count:,})"
        )
    yield from odd_labels({item.name: item.count for item in found.classes})
    yield from skipped_lines({NO_LABEL: missing, NO_TEXT: empty}, row)
    if (found.classes or found.amounts) and (bad := len(missing) + len(empty)) > MAX_SKIPPED * found.rows:
        yield f"{bad:,} of {found.rows:,} rows cannot be used, more than a tenth: `train` needs --bad-rows skip"
    yield from repeats
    if found.cut:
        yield (
            f"{counted(found.cut, 'text is', 'texts are')} longer than {context:,} tokens and would be cut there: "
            "raise --model.context"
        )
    if found.amounts is not None and found.amounts.min == found.amounts.max:
        yield f"every row has the number {found.amounts.min:g}: there is nothing to learn (--label)"


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
            yield f"column '{name}' is {next(iter(different)) or 'empty'} in every row: it says nothing"
            continue
        order = columns.dates.get(name)
        if order is not None:
            yield from (f"column '{name}': {remark}" for remark in _unread_dates(table.lines, values, order))
        numbers = hold_numbers(values)
        filled = [row for row, value in enumerate(values) if not (is_empty(value) if numbers else not value.strip())]
        if numbers:
            yield from _refused_numbers(f"column '{name}'", values, table.lines)
        if empty := len(values) - len(filled):
            yield empty_in_words(name, empty, len(values))


def _refused_numbers(column: str, values: Sequence[str], lines: Sequence[int]) -> Iterator[str]:
    """Yield findings on the values of a number column that are not numbers or that float32 cannot hold."""
    numbers = [(line, number_in(value)) for value, line in zip(values, lines, strict=True) if not is_empty(value)]
    odd = [line for line, number in numbers if number is None]
    large = [line for line, number in numbers if number is not None and abs(number) > FLOAT32_MAX]
    for found, why in ((odd, "no number among numbers"), (large, "too large for float32")):
        remarks = finding(found, "value is", "values are", f"{why}, and training would refuse it")
        yield from (f"{column}: {remark}" for remark in remarks)


def _unread_dates(lines: Sequence[int], values: Sequence[str], order: str) -> list[str]:
    """What is no date in a column of dates, and what is one in another order."""
    unread = unread_dates(values, order)
    odd = [lines[row] for row in unread.pop(None, [])]
    swapped = sorted(lines[row] for rows in unread.values() for row in rows)
    others = f"not written {ORDER_IN_WORDS[order]} like the others; training would refuse it"
    return [
        *finding(odd, "value is", "values are", "not a date in a column of dates; training would refuse it"),
        *finding(swapped, "date is", "dates are", others),
    ]
