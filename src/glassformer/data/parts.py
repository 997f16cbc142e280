"""What dividing rows is made of, whatever they hold: what was asked for, which rows are held out, and the words."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.groups import OTHER_DATE, Rows, digests_of, grouped, held_by_chance, held_by_time, time_of
from glassformer.data.looks import existing
from glassformer.data.mixing import Numbers
from glassformer.data.split import PURPOSES
from glassformer.data.table import Table

FEW_ROWS = 10
"""A part of fewer rows deserves a warning."""


def asked_for(settings: DataSettings) -> tuple[dict[str, str], dict[str, float]]:
    """The parts that come from files, with these, and those that are split off, with their fractions."""
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    return files, {name: fraction for name, fraction in fractions.items() if fraction > 0}


def held_out(
    table: Table,
    rows: Sequence[int],
    digests: Numbers,
    kinds: Rows,
    fractions: dict[str, float],
    settings: DataSettings,
    *,
    alike: str,
    also: str = "",
) -> tuple[dict[str, NDArray[np.bool_]], list[str]]:
    """The rows of each part, and in words what held them together.

    `rows`: those of the table that are divided. Rows of one digest stay together; each kind is held out by its share.
    `alike` and `also` name, where there are too few rows, what has to stay together and what else is kept to.
    """
    values, times = None, None
    if settings.split_by is not None:
        values = split_values(table, rows, settings.split_by)
        times = [time for value in values if (time := time_of(value))]
        if times and len(times) < len(values):
            odd = next(place for place, value in enumerate(values) if time_of(value) is None)
            raise DataError(
                f"{table.name}, line {table.lines[rows[odd]]:,}, column '{settings.split_by}': '{values[odd][:40]}' "
                "among dates: write it as 2024-05-31, or choose another column with --data.split_by"
            )
        if not times and values and all(OTHER_DATE.fullmatch(value) for value in values):
            raise DataError(
                f"{table.name}, column '{settings.split_by}': dates such as '{values[0]}' have no certain order: "
                "write them as 2024-05-31, or choose another column with --data.split_by"
            )
    if not fractions:
        return {}, []
    if times:
        held, how = held_by_time(digests, times, fractions), f"split by time, column '{settings.split_by}'"
    else:
        held = held_by_chance(digests, grouped(digests, values), kinds, fractions, settings.split_seed)
        how = f"split by column '{settings.split_by}': rows alike in it stay together"
    if held is None or not all(inside.any() for inside in held.values()):
        column = f" and column '{settings.split_by}'" if settings.split_by else ""
        raise DataError(
            f"{table.name} has {rows_in_words(len(rows))}, {len(np.unique(digests)):,} of them different: too few for "
            f"{len(fractions) + 1} parts ({', '.join(['train', *fractions])}), since equal {alike}{column} stay "
            f"together{also}"
        )
    if times:
        begins = ", ".join(
            f"{name} from {min(time for time, here in zip(times, inside, strict=True) if here):%Y-%m-%d}"
            for name, inside in held.items()
        )
        how += f": {begins}"
    return held, [how] if values is not None else []


def left_to_training(size: int, held: dict[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """The rows that no other part holds."""
    out: NDArray[np.bool_] = ~np.any([np.zeros(size, dtype=np.bool_), *held.values()], axis=0)
    return out


def split_values(table: Table, rows: Sequence[int], column: str) -> list[str]:
    """Of these rows of the table."""
    values = table.columns[existing(table.name, column, table.columns, "--data.split_by")]
    return [values[row].strip() for row in rows]


def given_tables(
    table: Table, files: dict[str, str], settings: DataSettings, read: Callable[[str, DataSettings], Table]
) -> dict[str, Table]:
    """The files that were named, and a data set's own test rows where nothing else is the test."""
    given = {name: read(path, settings) for name, path in files.items()}
    if table.test is not None and settings.test is None and settings.test_fraction == 0:
        given["test"] = table.test()
    return given


def in_order(names: Iterable[str]) -> list[str]:
    """The names of parts as they are always listed."""
    present = set(names)
    return [name for name in ("train", *PURPOSES) if name in present]


def fingerprint_of(firsts: Sequence[str], seconds: Sequence[str]) -> str:
    """Of rows of two values."""
    whole = hashlib.sha256()
    for first, second in zip(firsts, seconds, strict=True):
        whole.update(f"{len(first)}:{len(second)}:{first}{second}".encode())
    return whole.hexdigest()


def rows_in_words(count: int, row: str = "row") -> str:
    return f"{count:,} {row}{'' if count == 1 else 's'}"


def size_in_words(size: int, held: dict[str, NDArray[np.bool_]], row: str = "row") -> str:
    """How many rows there are, and how many of them are held out for what."""
    counts = {name: rows_in_words(int(rows.sum()), row) for name, rows in held.items()}
    shares = " and ".join(f"{count} held out {PURPOSES[name]}" for name, count in counts.items())
    return rows_in_words(size, row) + (f": {shares}" if shares else "")


def left_out(lost: int, without: str) -> list[str]:
    return [f"left out: {rows_in_words(lost)} without {without}"] if lost else []


def repeated(digests: Numbers, what: str, row: str = "row") -> list[str]:
    again = len(digests) - len(np.unique(digests))
    return [f"{rows_in_words(again, row)} repeat{'s' if again == 1 else ''} an earlier {what}"] if again else []


def few_rows(name: str, count: int) -> list[str]:
    """A warning of a held-out part that says little."""
    return [f"warning: a score over {rows_in_words(count)} of {name} says little"] if count < FEW_ROWS else []


def seen_in_training(name: str, texts: Sequence[str], training: Numbers) -> list[str]:
    """A warning of a given part's texts that are among the training part's, of which these are the digests."""
    seen = int(np.isin(digests_of(texts), training).sum())
    return [f"warning: {seen:,} of {rows_in_words(len(texts))} of {name} also in training"] if seen else []
