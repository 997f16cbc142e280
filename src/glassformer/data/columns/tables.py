"""Number and category columns: which of them are read, and which one is learned where there is no text."""

from collections.abc import Collection

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import (
    AMOUNT_NAMES,
    FEW,
    LABEL_NAMES,
    are_dates,
    are_row_numbers,
    by_name,
    hold_numbers,
    is_id_name,
    only_column,
    require_column,
)
from glassformer.data.columns.label_sets import SET_NAMES, label_columns
from glassformer.data.io.table import Table
from glassformer.data.wording import listed

MEASURED_NAMES = ("species", "price", "outcome", "survived", "diagnosis", "quality")
"""Well-known names of what is learned from numbers and categories alone: beside a text, it is often something else."""


def extra_columns(table: Table, settings: DataSettings) -> tuple[str, ...]:
    """The columns that --extra-columns names."""
    for name in settings.beside:
        require_column(table.name, name, table.columns, "--extra-columns")
        taken = {settings.text: "the text (--text)", settings.label: "the label (--label)"}.get(name)
        if taken is not None:
            raise DataError(
                f"{table.name}: column '{name}' is {taken} and cannot be read beside it: see --extra-columns"
            )
        if (different := _like_names(table.columns[name])) is not None:
            raise DataError(
                f"{table.name}: column '{name}' has {different:,} different values in {len(table):,} rows, a text or a "
                "name and no category: leave it out of --extra-columns, or read it with --text"
            )
    return tuple(dict.fromkeys(settings.beside))


def table_label(table: Table, settings: DataSettings, image: str | None) -> tuple[str, bool]:
    """The column to learn, and whether it is only because it comes last."""
    if settings.label is not None:
        return ",".join(label_columns(table.name, settings.label, table.columns)), False
    taken = {settings.split_by, image, *settings.beside}
    free = {name: values for name, values in table.columns.items() if name not in taken}
    if found := by_name(free, LABEL_NAMES + AMOUNT_NAMES + MEASURED_NAMES + SET_NAMES):
        return only_column(table.name, found, "the label", "--label"), False
    usable = [name for name, values in free.items() if not _says_nothing(name, values)]
    if not usable:
        raise DataError(f"{table.name}: no column looks like a label: name one of {listed(table.columns)} with --label")
    return usable[-1], True


def readable(table: Table, taken: Collection[str | None]) -> tuple[tuple[str, ...], list[str]]:
    """The columns to learn from, and those that are left out: ids, dates, names."""
    free = {name: values for name, values in table.columns.items() if name not in taken}
    left_out = [name for name, values in free.items() if _says_nothing(name, values) or _like_names(values) is not None]
    read = tuple(name for name in free if name not in left_out)
    if not read:
        raise DataError(
            f"{table.name}: there is no number or category column to learn from (columns: {listed(table.columns)}): "
            "name some with --extra-columns"
        )
    if odd := next((name for name in read if "," in name), None):
        raise DataError(
            f"{table.name}: column '{odd}' has a comma in its name: rename it, or name others with --extra-columns"
        )
    return read, left_out


def readable_beside(table: Table, taken: Collection[str | None]) -> list[str]:
    """Number and category columns that could be read beside a text."""
    free = {name: values for name, values in table.columns.items() if name not in taken}
    return [
        name
        for name, values in free.items()
        if not _says_nothing(name, values) and _like_names(values) is None and len(set(values)) > 1
    ]


def _says_nothing(name: str, values: list[str]) -> bool:
    """Whether it only tells rows apart, or says when they were made."""
    return is_id_name(name) or are_row_numbers(values) or are_dates(values)


def _like_names(values: list[str]) -> int | None:
    """How many different values there are, if so many that they are texts or names."""
    different = len({value.strip() for value in values})
    many = different > FEW and different > len(values) / 2
    return different if many and not hold_numbers(values) else None
