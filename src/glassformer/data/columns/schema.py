"""The columns that a run reads: its schema, how columns are read, and why some are not read."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.config.data_section import ALL_COLUMNS
from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import ORDER_IN_WORDS, UNCLEAR, date_order
from glassformer.data.columns.heuristics import (
    MAX_CLASSES,
    are_row_numbers,
    has_no_name,
    hold_numbers,
    is_id_name,
    named_columns,
    require_column,
)
from glassformer.data.io.table import Table, is_empty, require_columns, text_parts
from glassformer.data.wording import counted, listed

ColumnFacts = Mapping[str, object]
"""The type of a column (text, number, category, date or image), and its `range`, `values` or `first` date."""


@dataclass(frozen=True)
class Schema:
    """Names and types of the columns that a run learned from, with the range of numbers and the known categories."""

    text: str | None = None
    """The text column; names of several joined columns are separated by commas. None if the run reads no text, or if
    its training data had no column names."""
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)
    """The other columns by name."""
    labels: tuple[str, ...] = ()
    """The columns that the run learned to predict; tables to predict from need not have them."""
    named: bool = True
    """False if `text` is only the default name, because the training files had no column names."""

    def text_columns(self, names: Iterable[str] = ()) -> list[str]:
        """Return the columns whose joined values form the text, in a table with these columns."""
        return text_parts(self.text, [*names])

    def match(self, where: str, names: Collection[str], text: str | None = None, advice: str = "") -> str | None:
        """Return the text column of a table with these columns; raise `DataError` if the table lacks a column.

        `text`: the name of the text column in this table (--text), where it differs from the learned one. None: the
        run reads no text, or it does not know the name of its text column. `advice`: what to do if the text is all that
        the run reads, and its column is missing.
        """
        names = list(names)
        if text is not None:
            text = ",".join(named_columns(where, text, names, "--text"))
        elif self.named or all(name in names for name in self.text_columns(names)):
            text = self.text
            require_columns(where, self.text_columns(names), names, "" if self.columns else advice)
        require_columns(where, self.columns, names)
        return text

    def ignored(self, names: Iterable[str], text: str | None = None) -> list[str]:
        """Return the columns of a table that the run does not read; `text`: as `match` returned it."""
        names = list(names)
        known = {*text_parts(text or self.text, names), *self.columns, *self.labels}
        return [name for name in names if name not in known]

    def to_dict(self) -> dict[str, dict[str, object]]:
        """Return the facts about each column."""
        texts: dict[str, dict[str, object]] = {name: {"type": "text"} for name in self.text_columns()}
        return {**texts, **{name: dict(column) for name, column in self.columns.items()}}


def ignored_in_words(where: str, names: Collection[str]) -> str:
    """Return the line that names the columns that are not read; empty if there are none."""
    columns = listed([name or "a column without a name" for name in names])
    return f"{where}: not read: {columns} (this run did not learn from them)" if names else ""


# --- the columns that are read as numbers, categories or dates ---

MAX_CATEGORIES = 50
"""Number of categories above which rare ones are treated as one."""


def date_orders(table: Table, names: Collection[str]) -> dict[str, str]:
    """Return the order of each column that holds dates."""
    orders = {name: _order_of(table.columns[name]) for name in names}
    return {name: order for name, order in orders.items() if order not in (None, UNCLEAR)}


def _order_of(values: Sequence[str]) -> str | None:
    return date_order(value for value in values if not is_empty(value))


def extra_columns(table: Table, settings: DataSettings) -> tuple[str, ...]:
    """Return the columns that --extra-columns names."""
    if settings.all_columns and ALL_COLUMNS in table.columns:
        raise DataError(f"{table.name}: --extra-columns {ALL_COLUMNS} means all columns: rename the one of this name")
    for name in settings.beside:
        require_column(table.name, name, table.columns, "--extra-columns")
        texts = [] if settings.text is None else named_columns(table.name, settings.text, table.columns, "--text")
        if name in (*texts, settings.label):
            part = "the text (--text)" if name in texts else "the label (--label)"
            raise DataError(f"{table.name}: column '{name}' is {part} and cannot be read beside it: --extra-columns")
    return _readable(table, dict.fromkeys(settings.beside))


def _readable(table: Table, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of these columns; raise `DataError` for one that cannot be read."""
    names = tuple(names)
    for name in names:
        if (reason := unreadable_values(table.columns[name])) is not None:
            raise DataError(f"{table.name}: column '{name}' cannot be read ({reason}): remove it from --extra-columns")
    return _without_commas(table, names)


def _without_commas(table: Table, names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    if (odd := next((name for name in names if "," in name), None)) is not None:
        raise DataError(f"{table.name}: column '{odd}' has a comma in its name: rename it, or see --extra-columns")
    return names


def all_columns(table: Table, taken: Collection[str | None]) -> tuple[str, ...]:
    """Return all columns except those that are already used, for `--extra-columns all`."""
    return _readable(table, (name for name in table.columns if name not in taken))


def other_texts(table: Table, taken: Collection[str | None]) -> list[str]:
    """Return the columns that can be read only as text, for `--extra-columns all`."""
    free = {name: values for name, values in table.columns.items() if name not in taken}
    return [name for name, values in free.items() if (unreadable_values(values) or "").endswith(LIKE_NAMES)]


def readable_columns(table: Table, taken: Collection[str | None]) -> tuple[str, ...]:
    """Return the columns to learn from without a text: all except those already used, ids and names."""
    names = [name for name, values in table.columns.items() if name not in taken and not why_unreadable(name, values)]
    if not names:
        problem = f"there is no number or category column to learn from (columns: {listed(table.columns)})"
        raise DataError(f"{table.name}: {problem}: name some with --extra-columns")
    return _without_commas(table, names)


def dates_in_words(orders: Mapping[str, str]) -> str:
    """Return a message on the date columns and their order; empty if there are none."""
    columns = [f"{name}, {ORDER_IN_WORDS[order]}" for name, order in orders.items()]
    return f"dates: {'; '.join(columns)} (read as year, month, weekday, hour and days)" if columns else ""


def many_categories(values: Sequence[str]) -> Counter[str] | None:
    """Return the number of rows per category if there are many categories, else None."""
    counts = Counter(value.strip() for value in values)
    return counts if len(counts) > MAX_CATEGORIES and not hold_numbers(counts) else None


def empty_in_words(name: str, empty: int, rows: int, of: str = "") -> str:
    return f"column '{name}' is empty in {empty:,} of {counted(rows, 'row')}{of}"


# --- the columns that are not read, and the reasons ---

LIKE_NAMES = "different values, a text or a name; --text reads it"


def unread_columns(
    table: Table, taken: Collection[str | None], also: Collection[str], settings: DataSettings, *, otherwise: str
) -> dict[str, str]:
    """Return the reason for every column that a model does not learn from. `otherwise`: the default reason.

    `taken`: the text, the label and the like. `also`: the other columns to read, except those with one value.
    """
    reasons: dict[str, str] = {}
    also = set(also)
    for name, values in table.columns.items():
        if name in taken:
            continue
        if name == settings.split_by and name not in also:
            reasons[name] = "decides what is held out, --data.split_by"
        elif len(different := {value.strip() for value in values}) == 1:
            reasons[name] = "the same in every row" if different != {""} else "empty in every row"
        elif name not in also:
            reasons[name] = why_unreadable(name, values) or otherwise
    return reasons


def why_unreadable(name: str, values: Sequence[str]) -> str | None:
    """Return why a column is not read unless it is named; None if it is read."""
    if are_row_numbers(values):
        return "numbers the rows"
    if has_no_name(name):
        return "has no name"
    if is_id_name(name):
        reason = f"an id with {len({value.strip() for value in values}):,} values"
        return reason if like_names(values) is not None else f"{reason}; --extra-columns reads it"
    return unreadable_values(values)


def unreadable_values(values: Sequence[str]) -> str | None:
    """Return why values can be read neither as numbers nor as categories nor as dates; None if they can."""
    order = _order_of(values)
    if order == UNCLEAR:
        return "dates with an ambiguous order of day and month: write 2024-05-31"
    different = like_names(values) if order is None else None
    return None if different is None else f"{different:,} {LIKE_NAMES}"


def unread_in_words(reasons: Mapping[str, str]) -> str:
    """Return a message on the columns that are not read, grouped by reason; empty if there are none."""
    columns: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        columns.setdefault(reason, []).append(name)
    groups = ", ".join(f"{listed(names)} ({reason})" for reason, names in columns.items())
    return f"not read: {groups}" if groups else ""


def is_marker(name: str, values: Sequence[str]) -> bool:
    """Return whether a column only distinguishes rows: an id by its name, an unnamed column, or row numbers."""
    return is_id_name(name) or has_no_name(name) or are_row_numbers(values)


def like_names(values: Sequence[str]) -> int | None:
    """Return the number of different values if it is too large for categories, as for texts or names, else None."""
    different = len({value.strip() for value in values})
    many = different > MAX_CLASSES and different > len(values) / 2
    return different if many and not hold_numbers(values) else None
