"""What each column is for, text, label or further numbers: inferred where it is obvious, asked for where it is not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glassformer.config.data_section import PLAIN, POINT
from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL, LABEL_SET, MIXED, NUMBER, TABLE, TASK_OF_LABELS, TEXT
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import are_dates
from glassformer.data.columns.extra import (
    date_orders,
    extra_columns,
    is_marker,
    readable_columns,
    unread_columns,
    unread_in_words,
)
from glassformer.data.columns.heuristics import (
    AMOUNT_NAMES,
    LABEL_NAMES,
    by_name,
    is_id,
    is_varied_text,
    number_in,
    only_column,
    require_column,
    words_in,
)
from glassformer.data.columns.labels import (
    SET_NAMES,
    label_column,
    label_columns,
    label_values,
    list_in,
    sets_of,
)
from glassformer.data.columns.numbers import (
    decimal_signs,
    numbers_in_words,
    plain_cells,
    plain_numbers,
)
from glassformer.data.io.table import Table, is_empty
from glassformer.data.wording import counted, lines_in_words, listed

TEXT_NAMES = (
    "text", "sentence", "review", "content", "message", "tweet", "question", "comment", "body", "document", "post",
    "utterance", "paragraph", "passage", "description", "headline", "query", "abstract", "article", "story", "sms",
)  # fmt: skip
"""Well-known names of the text; the first wins over the others."""

SAMPLE = 100
"""Rows that are looked at to find the text."""


@dataclass(frozen=True)
class Columns:
    """What each column is for."""

    text: str | None
    """None in a table without text."""
    label: str | None
    """None where there is nothing but text."""
    label_kind: str | None
    """What a label is; None where there are none."""
    why: str
    """What was found, for a person, and the flags that change it."""
    kind: str = TEXT
    also: tuple[str, ...] = ()
    """Number and category columns that are read."""
    image: str | None = None
    """The column that names image files."""
    separator: str | None = None
    """What parts the labels of a cell, where there may be several."""
    decimals: Mapping[str, str] = field(default_factory=dict)
    """The decimal sign of columns of numbers that are not written as programs write them."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """The date columns among those that are read, and the order of their dates."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Every column that is not read, and why."""

    @property
    def labels(self) -> str:
        """The label column, or those of several, in words."""
        assert self.label is not None
        return f"column '{self.label}'" if "," not in self.label else f"columns {self.label}"


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """The column that was named, or has a well-known name, or is plainly prose. `sample`: some rows' values."""
    found = _find_text(where, sample, named)
    if found is None:
        raise DataError(
            f"{where}: no column looks like text (columns: {listed(sample)}; the first line names them): "
            "name one with --text"
        )
    return found


def _find_text(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str | None:
    if named is not None:
        return require_column(where, named, sample, "--text")
    if found := by_name(sample, TEXT_NAMES):
        return only_column(where, found, "the text", "--text")
    texts = [name for name, values in sample.items() if is_varied_text(values) and not is_id(name, values)]
    prose = [name for name in texts if words_in(sample[name]) >= 2]
    found = prose or texts
    if len(found) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in found}
        first, second = sorted(found, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            found = [first]
    return only_column(where, found, "the text", "--text") if found else None


def choose_columns(table: Table, settings: DataSettings, label_kind: str | None = ANY_LABEL) -> Columns:
    """`label_kind`: what a label is to be; None: no label is wanted."""
    decimals = decimal_signs(table, settings.decimal)
    written, table = table, plain_numbers(table, decimals)
    image = None if settings.image is None else require_column(table.name, settings.image, table.columns, "--image")
    also, text = extra_columns(table, settings), None
    if settings.kind != TABLE:
        sample = {name: values[:: -(-len(table) // SAMPLE)] for name, values in table.columns.items()}
        if settings.text is None:
            sample = _text_candidates(table.name, sample, settings, {image, *also})
        text = _find_text(table.name, sample, settings.text)
        if text is None and image is None and (label_kind is None or len(table.columns) < 2):
            text = text_column(table.name, sample, settings.text)  # says what is wrong
    images = [] if image is None else [f"images named in column '{image}' (--image)"]
    if text is None:
        label, last = table_label(table, settings, image)
        flags = "--label"
        taken = {*label_columns(table.name, label, table.columns), image}
        if not also and image is None:
            also = readable_columns(table, {*taken, settings.split_by}, settings)
        read = [*(images or ["a table without text"]), f"{counted(len(also), 'column')} read (--extra-columns)"]
    else:
        named = None if label_kind is None else label_column(table, text, settings, label_kind)
        if named is None:
            if label_kind not in (None, ANY_LABEL):
                raise DataError(_no_label(table))
            why = f"text column '{text}' (--text), no label column (--label); task: {TASK_OF_LABELS[None]} (--task)"
            unread = {name: "no part of the text" for name in table.columns if name != text}
            return Columns(text, None, None, "; ".join(filter(None, [why, unread_in_words(unread)])), unread=unread)
        label, last, flags = named, False, "--text, --label"
        if label == text:
            raise DataError(
                f"{table.name}: column '{text}' cannot be both the text and the label: see --text and --label"
            )
        taken = {text, *label_columns(table.name, label, table.columns), image}
        beside = [f"beside it {', '.join(also)} (--extra-columns)"] if also else []
        read = [f"text column '{text}'", *beside, *images]
    labels = label_values(table, text, label, label_kind, settings)
    column = f"label column '{label}'" if "," not in label else f"label columns {label}"
    read.append(f"{column}{', the last one,' if last else ''} with {labels.words} ({flags})")
    unread = unread_columns(table, taken, also, settings, otherwise="only if named in --extra-columns")
    numbers = {*also, label} if labels.kind == NUMBER else {*also}
    decimals = {name: sign for name, sign in decimals.items() if name in numbers and name not in unread}
    found = f"{', '.join(read)}; task: {TASK_OF_LABELS[labels.kind]} (--task)"
    told = [found, numbers_in_words(written, decimals), unread_in_words(unread)]
    kind = TABLE if text is None else TEXT
    if image is not None or (text is not None and also):
        kind = MIXED
    return Columns(
        text,
        label,
        labels.kind,
        "; ".join(filter(None, told)),
        kind,
        also,
        image,
        labels.separator,
        decimals,
        date_orders(table, also, settings),
        unread,
    )


def _text_candidates(
    where: str, sample: dict[str, list[str]], settings: DataSettings, taken: set[str | None]
) -> dict[str, list[str]]:
    """The columns that may be the text where nobody named it; the first line must be names."""
    if odd := next((name for name in sample if len(name.split()) > 5), None):
        raise DataError(
            f"{where}: the first line looks like data, not like names of columns ('{odd[:30]}…'): "
            "write names such as text,label above it, or say --text and --label"
        )
    if settings.label is not None:
        taken |= {settings.label, *map(str.strip, settings.label.split(","))}
    free = {name: values for name, values in sample.items() if name not in taken}
    return {name: values for name, values in free.items() if not _are_lists(values)} or free


def _no_label(table: Table) -> str:
    return f"{table.name}: no column looks like a label: name one of {listed(table.columns)} with --label"


def _are_lists(values: Sequence[str]) -> bool:
    """Whether they are lists of labels, and no texts."""
    filled = [value for value in values if value.strip()]
    return bool(filled) and all(list_in(value) is not None for value in filled)


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Whether some rows leave it open that there is a label column; asked before a whole corpus is read."""
    table = plain_numbers(table, decimal_signs(table, settings.decimal))
    try:
        text = text_column(table.name, table.columns, settings.text)
        return label_column(table, text, settings, ANY_LABEL) is not None
    except DataError:  # all rows may tell what some do not
        return True


class LabelledRows(NamedTuple):
    """The rows of a table that have a label."""

    rows: list[int]
    labels: list[str]
    """As a part holds them."""
    remarks: list[str]
    """What was skipped, and what is odd about how the labels are written."""


def labelled_rows(table: Table, columns: Columns, rows: Sequence[int], settings: DataSettings) -> LabelledRows:
    """Those of these rows that have a label; a text for a number is refused, and if `strict` a missing label."""
    assert columns.label is not None
    if columns.label_kind == LABEL_SET:  # which may be empty
        return LabelledRows(list(rows), sets_of(table, columns.label, rows, columns.separator), [])
    values = table.columns[require_column(table.name, columns.label, table.columns, "--label")]
    is_number = columns.label_kind == NUMBER
    empty = [row for row in rows if lacks_label(values[row], columns.label_kind)]
    if empty and (settings.strict or len(empty) == len(rows)):
        some = counted(len(empty), "row has", "rows have")
        raise DataError(
            f"{table.name}, line {table.lines[empty[0]]:,}: no label in column '{columns.label}' ({some} none): "
            "fill it in, take such rows out, or choose another column with --label"
        )
    without = set(empty)
    filled = [row for row in rows if row not in without]
    remarks = [skipped([table.lines[row] for row in empty], "without a label")] if empty else []
    if not is_number:
        return LabelledRows(filled, [values[row].strip() for row in filled], remarks)
    sign = PLAIN if settings.decimal == PLAIN else columns.decimals.get(columns.label, POINT)
    cells = plain_cells([values[row] for row in filled], sign)
    for row, value in zip(filled, cells.values, strict=True):
        if number_in(value) is None:
            raise DataError(
                f"{table.name}, line {table.lines[row]:,}, column '{columns.label}': text where a number is "
                f"wanted: '{value.strip()[:40]}' ({_advice(value)})"
            )
    return LabelledRows(filled, [value.strip() for value in cells.values], [*remarks, *cells.remarks(columns.label)])


def lacks_label(value: str, label_kind: str | None) -> bool:
    """Whether a row has no label: nothing there, or where a number should be, what people write for none."""
    return is_empty(value) if label_kind == NUMBER else not value.strip()


def skipped(lines: list[int], why: str, noun: str = "row") -> str:
    """The sentence that says which rows are not taken, and on which lines they stand."""
    where = lines_in_words(lines, "number" if noun == "picture" else "line")
    return f"skipped: {counted(len(lines), noun)} {why}, {where} (--strict refuses them)"


def _advice(value: str) -> str:
    if number_in(plain := re.sub(r"[^\d,.-]", "", value).replace(",", ".")) is not None:
        return f"write {plain}"
    return "--task classification takes any value"


# --- which column is learned where there is no text ---

MEASURED_NAMES = ("species", "price", "outcome", "survived", "diagnosis", "quality")
"""Well-known names of what is learned from numbers and categories alone: beside a text, it is often something else."""


def table_label(table: Table, settings: DataSettings, image: str | None) -> tuple[str, bool]:
    """The column to learn, and whether it is only because it comes last."""
    if settings.label is not None:
        return ",".join(label_columns(table.name, settings.label, table.columns)), False
    taken = {settings.split_by, image, *settings.beside}
    free = {name: values for name, values in table.columns.items() if name not in taken}
    if found := by_name(free, LABEL_NAMES + AMOUNT_NAMES + MEASURED_NAMES + SET_NAMES):
        return only_column(table.name, found, "the label", "--label"), False
    usable = [name for name, values in free.items() if not (is_marker(name, values) or are_dates(values))]
    if not usable:
        raise DataError(_no_label(table))
    return usable[-1], True
