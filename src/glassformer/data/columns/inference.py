"""What each column is for, text, label or further numbers: inferred where it is obvious, asked for where it is not."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glassformer.config.data_section import ERROR, POINT
from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL, LABEL_SET, MIXED, NUMBER, TABLE, TASK_OF_LABELS, TEXT
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import are_dates
from glassformer.data.columns.heuristics import (
    NAMES,
    by_name,
    is_id,
    is_varied_text,
    named_columns,
    only_column,
    prefer_last,
    require_column,
    words_in,
)
from glassformer.data.columns.labels import filled_rows, label_column, label_columns, label_values, list_in, sets_of
from glassformer.data.columns.numbers import decimal_signs, numbers_in_words, plain_numbers, read_numbers
from glassformer.data.columns.schema import (
    all_columns,
    date_orders,
    dates_in_words,
    extra_columns,
    is_marker,
    other_texts,
    readable_columns,
    unread_columns,
    unread_in_words,
    why_unreadable,
)
from glassformer.data.io.table import Table, is_empty, text_parts
from glassformer.data.wording import counted, listed

ANY_VALUE = "write a number, or nothing; --task classification takes any value"
SAMPLE = 100
"""Rows that are looked at to find the text."""


@dataclass(frozen=True)
class Columns:
    """What each column is for."""

    text: str | None
    """Several that are joined have commas between them; None in a table without text."""
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

    def readable_rows(self, table: Table) -> list[int]:
        """The rows that a model can read: those with a text, or all rows if it reads other columns too."""
        return filled_rows(table, self.text if self.kind == TEXT else None)


def choose_columns(
    table: Table, settings: DataSettings, label_kind: str | None = ANY_LABEL, *, any_text: bool = False
) -> Columns:
    """`label_kind`: what a label is to be; None: no label is wanted. `any_text`: names are a text too."""
    decimals = decimal_signs(table, settings.decimal)
    written, table = table, plain_numbers(table, decimals)
    image = None if settings.image is None else require_column(table.name, settings.image, table.columns, "--image")
    also, text = extra_columns(table, settings), None
    if settings.kind != TABLE:
        sample = {name: values[:: -(-len(table) // SAMPLE)] for name, values in table.columns.items()}
        text = _choose_text(table, sample, settings, {image, *also}, label_kind, any_text)
        if text is None and image is None and (label_kind is None or len(table.columns) < 2):
            text = text_column(table.name, sample, settings.text)  # says what is wrong
        if settings.all_columns and settings.text is None:
            taken = {*text_parts(text, table.columns), *(settings.label or "").split(","), image, settings.split_by}
            text = ",".join(filter(None, [text, *other_texts(table, taken)])) or None
    texts = text_parts(text, table.columns)
    images = [] if image is None else [f"images named in column '{image}' (--image)"]
    if text is None:
        label, last = table_label(table, settings, image)
        flags, read = "--label", images or ["a table without text"]
    else:
        named = None if label_kind is None else label_column(table, texts, settings, label_kind)
        if named is None:
            if label_kind not in (None, ANY_LABEL):
                raise DataError(_no_label(table))
            return _text_alone(table, text)
        label, last, flags = named, False, "--text, --label"
        if label in texts:
            raise DataError(f"{table.name}: column '{label}' cannot be both the text (--text) and the label (--label)")
        read = [texts_in_words(texts), *images]
    taken = {*texts, *label_columns(table.name, label, table.columns), image}
    if settings.all_columns:
        also = all_columns(table, {*taken, settings.split_by})
    elif text is None and image is None and not also:
        also = readable_columns(table, {*taken, settings.split_by})
    if text is not None and also:
        read.insert(1, f"beside it {', '.join(also)} (--extra-columns)")
    unread = unread_columns(table, taken, also, settings, otherwise="only if named in --extra-columns")
    shown = [name for name in also if name not in unread]
    if text is None:
        read.append(f"{counted(len(shown), 'column')} read (--extra-columns)")
    kind = TABLE if text is None else TEXT
    if image is not None or (text is not None and also):
        kind = MIXED
    labels = label_values(table, text if kind == TEXT else None, label, label_kind, settings)
    column = f"label column '{label}'" if "," not in label else f"label columns {label}"
    read.append(f"{column}{', the last one,' if last else ''} with {labels.words} ({flags})")
    numbers = {*also, label} if labels.kind == NUMBER else {*also}
    decimals = {name: sign for name, sign in decimals.items() if name in numbers and name not in unread}
    found = f"{', '.join(read)}; task: {TASK_OF_LABELS[labels.kind]} (--task)"
    dates = date_orders(table, also)
    told = [
        found,
        numbers_in_words(written, decimals),
        dates_in_words({name: dates[name] for name in shown if name in dates}),
        unread_in_words(unread),
    ]
    why = "; ".join(filter(None, told))
    return Columns(text, label, labels.kind, why, kind, also, image, labels.separator, decimals, dates, unread)


def _text_alone(table: Table, text: str) -> Columns:
    """Return the columns of a table from which only the text is learned."""
    texts = text_parts(text, table.columns)
    unread = {name: "no part of the text" for name in table.columns if name not in texts}
    why = f"{texts_in_words(texts)} (--text), no label column (--label); task: {TASK_OF_LABELS[None]} (--task)"
    return Columns(text, None, None, "; ".join(filter(None, [why, unread_in_words(unread)])), unread=unread)


def _choose_text(
    table: Table,
    sample: dict[str, list[str]],
    settings: DataSettings,
    taken: set[str | None],
    label_kind: str | None,
    any_text: bool,
) -> str | None:
    """The column of the text; of what has a label, all that could be it, and what stands above it.

    Names and single words are the text only where nothing else is there to learn from, unless `any_text`.
    """
    if settings.text is not None:
        return text_column(table.name, sample, settings.text)
    sample = text_candidates(table.name, sample, settings, taken)
    found = plain_texts(sample)
    if not found:
        found = wordy_columns(sample)
        if label_kind is not None and found and not any_text and _has_more_than(found, table, settings, taken):
            return None
    if not found or label_kind is None:
        return text_column(table.name, sample, None) if found else None
    label = label_column(table, found, settings, label_kind)
    if label is None:
        return text_column(table.name, sample, None)
    return with_headings(found, sample, label_columns(table.name, label, table.columns))


def _has_more_than(found: Sequence[str], table: Table, settings: DataSettings, taken: set[str | None]) -> bool:
    """Whether a table has a column to learn from beside its label and these."""
    label, _ = table_label(table, settings, None)
    others = {*found, *taken, label, settings.split_by}
    return any(
        name not in others and len(set(values)) > 1 and why_unreadable(name, values) is None
        for name, values in table.columns.items()
    )


def _no_label(table: Table) -> str:
    return f"{table.name}: no column looks like a label: name one of {listed(table.columns)} with --label"


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Whether some rows leave it open that there is a label column; asked before a whole corpus is read."""
    table = plain_numbers(table, decimal_signs(table, settings.decimal))
    try:
        text = text_column(table.name, table.columns, settings.text)
        return label_column(table, text_parts(text, table.columns), settings, ANY_LABEL) is not None
    except DataError:  # all rows may tell what some do not
        return True


class LabelledRows(NamedTuple):
    """The rows of a table that have a label."""

    rows: list[int]
    labels: list[str]
    """As a part holds them."""
    remarks: list[str]
    """Remark on the spelling of the labels, if it is unusual."""


def labelled_rows(table: Table, columns: Columns, rows: Sequence[int], settings: DataSettings) -> LabelledRows:
    """Return the rows that have a label; raise `DataError` if none has one, or for a text where a number belongs."""
    assert columns.label is not None
    if columns.label_kind == LABEL_SET:  # which may be empty
        return LabelledRows(list(rows), sets_of(table, columns.label, rows, columns.separator), [])
    values = table.columns[require_column(table.name, columns.label, table.columns, "--label")]
    is_number = columns.label_kind == NUMBER
    empty = [row for row in rows if lacks_label(values[row], columns.label_kind)]
    if empty and (settings.bad_rows == ERROR or len(empty) == len(rows)):
        some = counted(len(empty), "row has", "rows have")
        raise DataError(
            f"{table.at(empty[0])}: no label in column '{columns.label}' ({some} none): --label names another"
        )
    without = set(empty)
    filled = [row for row in rows if row not in without]
    if not is_number:
        return LabelledRows(filled, [values[row].strip() for row in filled], [])
    sign, lines = columns.decimals.get(columns.label, POINT), [table.lines[row] for row in filled]
    cells = [values[row] for row in filled]
    _, numbers = read_numbers(table.name, lines, columns.label, cells, sign, advice=ANY_VALUE)
    return LabelledRows(filled, [value.strip() for value in numbers.values], numbers.remarks(columns.label))


def lacks_label(value: str, label_kind: str | None) -> bool:
    """Whether a row has no label: nothing there, or where a number should be, what people write for none."""
    return is_empty(value) if label_kind == NUMBER else not value.strip()


# --- which column is learned where there is no text ---


def table_label(table: Table, settings: DataSettings, image: str | None) -> tuple[str, bool]:
    """The column to learn, and whether it is only because it comes last."""
    if settings.label is not None:
        return ",".join(label_columns(table.name, settings.label, table.columns)), False
    taken = {settings.split_by, image, *settings.beside}
    free = {name: values for name, values in table.columns.items() if name not in taken}
    if found := by_name(free, NAMES["label"] + NAMES["amount"] + NAMES["measured"] + NAMES["label_set"]):
        return only_column(table.name, prefer_last(found, free), "the label", "--label"), False
    usable = [name for name, values in free.items() if not (is_marker(name, values) or are_dates(values))]
    if not usable:
        raise DataError(_no_label(table))
    return usable[-1], True


# --- which columns are the text ---


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """The column that was named, or has a well-known name, or is plainly prose; several that were named as title,body.
    `sample`: some rows' values."""
    if named is not None:
        return ",".join(named_columns(where, named, sample, "--text"))
    if not (found := plain_texts(sample) or wordy_columns(sample)):
        raise DataError(f"{where}: no column looks like text (columns: {listed(sample)}): name one with --text")
    return only_column(where, found, "the text", "--text", joined=True)


def plain_texts(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns with a well-known name, or with prose; where one of these is the longest by far, it alone."""
    if found := by_name(sample, NAMES["text"]):
        return [name for name in found if name.lower() not in NAMES["heading"]] or found
    prose = [
        name for name in wordy_columns(sample) if words_in(sample[name]) >= 2 and name.lower() not in NAMES["other"]
    ]
    found = [name for name in prose if name.lower() not in NAMES["heading"]] or prose
    if len(found) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in found}
        first, second = sorted(found, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            return [first]
    return found


def wordy_columns(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """Prose, and also names and single words, which are the text where there is nothing else to learn from."""
    return [name for name, values in sample.items() if is_varied_text(values) and not is_id(name, values)]


def with_headings(found: Sequence[str], sample: Mapping[str, Sequence[str]], taken: Collection[str | None]) -> str:
    """The columns of a text as one name, what stands above it first."""
    above = [
        name
        for name, values in sample.items()
        if name.lower() in NAMES["heading"] and name not in (*found, *taken) and is_varied_text(values)
    ]
    return ",".join([*above, *found])


def text_candidates(
    where: str, sample: dict[str, list[str]], settings: DataSettings, taken: set[str | None]
) -> dict[str, list[str]]:
    """The columns that may be the text where nobody named it; the first line must be names."""
    if odd := next((name for name in sample if len(name.split()) > 5), None):
        raise DataError(f"{where}: the first line looks like data ('{odd[:30]}…'): write names of columns above it")
    if settings.label is not None:
        taken |= {settings.label, *map(str.strip, settings.label.split(","))}
    free = {name: values for name, values in sample.items() if name not in taken}
    return {name: values for name, values in free.items() if not _are_lists(values)} or free


def _are_lists(values: Sequence[str]) -> bool:
    """Whether they are lists of labels, and no texts."""
    filled = [value for value in values if value.strip()]
    return bool(filled) and all(list_in(value) is not None for value in filled)


def texts_in_words(names: Iterable[str]) -> str:
    """The column of the text, or those that are joined."""
    first, *more = (f"'{name}'" for name in names)
    return f"text columns {', '.join([first, *more[:-1]])} and {more[-1]}, joined" if more else f"text column {first}"
