"""The role of each column (text, label or another input): inferred if it is clear, otherwise an error asks for it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glassformer.config.data_section import ERROR, POINT
from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL, LABEL_SET, MIXED, NUMBER, TABLE, TASK_OF_LABELS, TEXT
from glassformer.config.sections import DataSettings
from glassformer.data.columns import schema
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
from glassformer.data.io.table import SAMPLE_ROWS, Table, is_empty, text_parts
from glassformer.data.wording import counted, listed

ANY_VALUE = "write a number, or nothing; --task classification takes any value"


@dataclass(frozen=True)
class Columns:
    """The role of each column."""

    text: str | None
    """The text column; names of several joined columns are separated by commas. None for a table without text."""
    label: str | None
    """The label column; None if only the text is learned."""
    label_kind: str | None
    why: str
    """Message on what was inferred, with the flags that change it."""
    kind: str = TEXT
    also: tuple[str, ...] = ()
    """Number and category columns that are read."""
    image: str | None = None
    """The column with names of image files."""
    separator: str | None = None
    """Separator between the labels of a cell; None if a cell holds one label."""
    decimals: Mapping[str, str] = field(default_factory=dict)
    """The decimal sign of columns whose numbers are not in Python's notation."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """The order of day, month and year in the date columns that are read."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The reason for every column that is not read."""

    @property
    def labels(self) -> str:
        """Name the label column, or several of them, in a message."""
        assert self.label is not None
        return f"column '{self.label}'" if "," not in self.label else f"columns {self.label}"

    def readable_rows(self, table: Table) -> list[int]:
        """Return the rows that a model can read: those with a text, or all rows if it reads other columns too."""
        return filled_rows(table, self.text if self.kind == TEXT else None)


def choose_columns(
    table: Table, settings: DataSettings, label_kind: str | None = ANY_LABEL, *, any_text: bool = False
) -> Columns:
    """Return the role of each column; raise `DataError` if a role is not clear.

    `label_kind`: the kind of labels to learn; None: no label. `any_text`: names and single words may be the text.
    """
    decimals = decimal_signs(table, settings.decimal)
    written, table = table, plain_numbers(table, decimals)
    image = None if settings.image is None else require_column(table.name, settings.image, table.columns, "--image")
    also, text = schema.extra_columns(table, settings), None
    if settings.kind != TABLE:
        sample = {name: values[:: -(-len(table) // SAMPLE_ROWS)] for name, values in table.columns.items()}
        text = _choose_text(table, sample, settings, {image, *also}, label_kind, any_text)
        if text is None and image is None and (label_kind is None or len(table.columns) < 2):
            text = text_column(table.name, sample, settings.text)  # raises the error
        if settings.all_columns and settings.text is None:
            taken = {*text_parts(text, table.columns), *(settings.label or "").split(","), image, settings.split_by}
            text = ",".join(filter(None, [text, *schema.other_texts(table, taken)])) or None
    texts = text_parts(text, table.columns)
    images = [] if image is None else [f"images named in column '{image}' (--image)"]
    if text is None:
        label, is_last = table_label(table, settings, image)
        flags, inputs = "--label", images or ["a table without text"]
    else:
        named = None if label_kind is None else label_column(table, texts, settings, label_kind)
        if named is None:
            if label_kind not in (None, ANY_LABEL):
                raise DataError(_no_label(table))
            return _text_alone(table, text)
        label, is_last, flags = named, False, "--text, --label"
        if label in texts:
            raise DataError(f"{table.name}: column '{label}' cannot be both the text (--text) and the label (--label)")
        inputs = [texts_in_words(texts), *images]
    taken = {*texts, *label_columns(table.name, label, table.columns), image}
    if settings.all_columns:
        also = schema.all_columns(table, {*taken, settings.split_by})
    elif text is None and image is None and not also:
        also = schema.readable_columns(table, {*taken, settings.split_by})
    unread = schema.unread_columns(table, taken, also, settings, otherwise="only if named in --extra-columns")
    read = [name for name in also if name not in unread]
    if text is None:
        inputs.append(f"{counted(len(read), 'column')} read (--extra-columns)")
    elif also:
        inputs.insert(1, f"beside it {', '.join(also)} (--extra-columns)")
    kind = MIXED if image is not None or (text is not None and also) else TABLE if text is None else TEXT
    labels = label_values(table, text if kind == TEXT else None, label, label_kind, settings)
    column = f"label column '{label}'" if "," not in label else f"label columns {label}"
    inputs.append(f"{column}{', the last one,' if is_last else ''} with {labels.words} ({flags})")
    numbers = {*also, label} if labels.kind == NUMBER else {*also}
    decimals = {name: sign for name, sign in decimals.items() if name in numbers and name not in unread}
    dates = schema.date_orders(table, also)
    messages = [
        f"{', '.join(inputs)}; task: {TASK_OF_LABELS[labels.kind]} (--task)",
        numbers_in_words(written, decimals),
        schema.dates_in_words({name: dates[name] for name in read if name in dates}),
        schema.unread_in_words(unread),
    ]
    why = "; ".join(filter(None, messages))
    return Columns(text, label, labels.kind, why, kind, also, image, labels.separator, decimals, dates, unread)


def _text_alone(table: Table, text: str) -> Columns:
    """Return the columns of a table from which only the text is learned."""
    texts = text_parts(text, table.columns)
    unread = {name: "no part of the text" for name in table.columns if name not in texts}
    why = f"{texts_in_words(texts)} (--text), no label column (--label); task: {TASK_OF_LABELS[None]} (--task)"
    return Columns(text, None, None, "; ".join(filter(None, [why, schema.unread_in_words(unread)])), unread=unread)


def _choose_text(
    table: Table,
    sample: dict[str, list[str]],
    settings: DataSettings,
    taken: set[str | None],
    label_kind: str | None,
    any_text: bool,
) -> str | None:
    """Return the text column, or for a table with labels all text columns and their headings; None without a text.

    Names and single words are the text only if there is no other column to learn from, or with `any_text`.
    """
    if settings.text is not None:
        return text_column(table.name, sample, settings.text)
    sample = text_candidates(table.name, sample, settings, taken)
    texts = plain_texts(sample)
    if not texts:
        texts = wordy_columns(sample)
        if label_kind is not None and texts and not any_text and _has_others(table, settings, {*texts, *taken}):
            return None
    if not texts:
        return None
    label = None if label_kind is None else label_column(table, texts, settings, label_kind)
    if label is None:
        return text_column(table.name, sample, None)
    return with_headings(texts, sample, label_columns(table.name, label, table.columns))


def _has_others(table: Table, settings: DataSettings, texts: set[str | None]) -> bool:
    """Return whether a table has a column to learn from other than its label and these."""
    taken = {*texts, table_label(table, settings, None)[0], settings.split_by}
    return any(
        name not in taken and len(set(values)) > 1 and schema.why_unreadable(name, values) is None
        for name, values in table.columns.items()
    )


def _no_label(table: Table) -> str:
    return f"{table.name}: no column looks like a label: name one of {listed(table.columns)} with --label"


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Return whether a table may have a label column, by its first rows."""
    table = plain_numbers(table, decimal_signs(table, settings.decimal))
    try:
        text = text_column(table.name, table.columns, settings.text)
        return label_column(table, text_parts(text, table.columns), settings, ANY_LABEL) is not None
    except DataError:  # the other rows may make it clear
        return True


class LabelledRows(NamedTuple):
    """The rows of a table that have a label."""

    rows: list[int]
    labels: list[str]
    """The labels as a part stores them."""
    remarks: list[str]
    """Remark on the spelling of the labels, if it is unusual."""


def labelled_rows(table: Table, columns: Columns, rows: Sequence[int], settings: DataSettings) -> LabelledRows:
    """Return the rows that have a label; raise `DataError` if none has one, or for a text where a number belongs."""
    assert columns.label is not None
    if columns.label_kind == LABEL_SET:  # an empty cell is a valid, empty set
        return LabelledRows(list(rows), sets_of(table, columns.label, rows, columns.separator), [])
    values = table.columns[require_column(table.name, columns.label, table.columns, "--label")]
    empty = [row for row in rows if lacks_label(values[row], columns.label_kind)]
    if empty and (settings.bad_rows == ERROR or len(empty) == len(rows)):
        some = counted(len(empty), "row has", "rows have")
        raise DataError(
            f"{table.at(empty[0])}: no label in column '{columns.label}' ({some} none): --label names another"
        )
    without = set(empty)
    filled = [row for row in rows if row not in without]
    cells = [values[row] for row in filled]
    if columns.label_kind != NUMBER:
        return LabelledRows(filled, [cell.strip() for cell in cells], [])
    sign, lines = columns.decimals.get(columns.label, POINT), [table.lines[row] for row in filled]
    _, numbers = read_numbers(table.name, lines, columns.label, cells, sign, advice=ANY_VALUE)
    return LabelledRows(filled, [value.strip() for value in numbers.values], numbers.remarks(columns.label))


def lacks_label(value: str, label_kind: str | None) -> bool:
    """Return whether a cell has no label: it is blank, or for numbers a text such as "n/a"."""
    return is_empty(value) if label_kind == NUMBER else not value.strip()


# --- the label of a table without text ---


def table_label(table: Table, settings: DataSettings, image: str | None) -> tuple[str, bool]:
    """Return the column to learn, and whether it was chosen only because it is the last one."""
    if settings.label is not None:
        return ",".join(label_columns(table.name, settings.label, table.columns)), False
    taken = {settings.split_by, image, *settings.beside}
    free = {name: values for name, values in table.columns.items() if name not in taken}
    if candidates := by_name(free, NAMES["label"] + NAMES["amount"] + NAMES["measured"] + NAMES["label_set"]):
        return only_column(table.name, prefer_last(candidates, free), "the label", "--label"), False
    usable = [name for name, values in free.items() if not (schema.is_marker(name, values) or are_dates(values))]
    if not usable:
        raise DataError(_no_label(table))
    return usable[-1], True


# --- text columns ---


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """Return the column that --text names (or several, title,body), or the one that looks like a text.

    `sample`: values of some rows.
    """
    if named is not None:
        return ",".join(named_columns(where, named, sample, "--text"))
    if not (candidates := plain_texts(sample) or wordy_columns(sample)):
        raise DataError(f"{where}: no column looks like text (columns: {listed(sample)}): name one with --text")
    return only_column(where, candidates, "the text", "--text", joined=True)


def plain_texts(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the columns with a well-known name or with prose; only the longest one, if it is by far the longest."""
    if known := by_name(sample, NAMES["text"]):
        return [name for name in known if name.lower() not in NAMES["heading"]] or known
    prose = [
        name for name in wordy_columns(sample) if words_in(sample[name]) >= 2 and name.lower() not in NAMES["other"]
    ]
    texts = [name for name in prose if name.lower() not in NAMES["heading"]] or prose
    if len(texts) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in texts}
        first, second = sorted(texts, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            return [first]
    return texts


def wordy_columns(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the columns with prose, names or varied single words."""
    return [name for name, values in sample.items() if is_varied_text(values) and not is_id(name, values)]


def with_headings(texts: Sequence[str], sample: Mapping[str, Sequence[str]], taken: Collection[str | None]) -> str:
    """Return the names of text columns, those of their headings first, with commas between them."""
    headings = [
        name
        for name, values in sample.items()
        if name.lower() in NAMES["heading"] and name not in (*texts, *taken) and is_varied_text(values)
    ]
    return ",".join([*headings, *texts])


def text_candidates(
    where: str, sample: dict[str, list[str]], settings: DataSettings, taken: set[str | None]
) -> dict[str, list[str]]:
    """Return the columns that may be the text; raise `DataError` if the header looks like data."""
    if odd := next((name for name in sample if len(name.split()) > 5), None):
        raise DataError(f"{where}: the first line looks like data ('{odd[:30]}…'): write names of columns above it")
    if settings.label is not None:
        taken |= {settings.label, *map(str.strip, settings.label.split(","))}
    free = {name: values for name, values in sample.items() if name not in taken}
    return {name: values for name, values in free.items() if not _are_lists(values)} or free


def _are_lists(values: Sequence[str]) -> bool:
    """Return whether all values that are not blank are lists of labels."""
    filled = [value for value in values if value.strip()]
    return bool(filled) and all(list_in(value) is not None for value in filled)


def texts_in_words(names: Iterable[str]) -> str:
    """Name the text column, or several that are joined, in a message."""
    first, *more = (f"'{name}'" for name in names)
    return f"text columns {', '.join([first, *more[:-1]])} and {more[-1]}, joined" if more else f"text column {first}"
