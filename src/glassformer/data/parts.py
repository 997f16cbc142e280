"""What dividing rows is made of, whatever they hold: what was asked for, which rows are held out, and the words."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.groups import OTHER_DATE, Rows, grouped, held_by_chance, held_by_time, time_of
from glassformer.data.looks import existing
from glassformer.data.mixing import Numbers
from glassformer.data.part import digest
from glassformer.data.split import PURPOSES
from glassformer.data.table import Table
from glassformer.data.wording import counted

T = TypeVar("T")

FEW_ROWS = 10
"""A part of fewer rows deserves a warning."""


def asked_for(settings: DataSettings) -> tuple[dict[str, str], dict[str, float]]:
    """The parts that come from files, with these, and those that are split off, with their fractions."""
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    return files, {name: fraction for name, fraction in fractions.items() if fraction > 0}


class Divisible(Protocol):
    """Rows that can be divided, whatever they hold."""

    @property
    def name(self) -> str: ...

    @property
    def origin(self) -> str:
        """The file or data set they come from."""

    @property
    def digests(self) -> Numbers:
        """Rows of one digest are never in two parts that were split."""

    @property
    def fingerprint(self) -> str:
        """Of all that is read of them."""

    def __len__(self) -> int: ...

    def some(self, name: str, rows: list[int]) -> Self: ...


P = TypeVar("P", bound=Divisible)


def divided(
    whole: P,
    table: Table,
    rows: Sequence[int],
    fractions: dict[str, float],
    settings: DataSettings,
    *,
    alike: str,
    kinds: Rows | None = None,
) -> tuple[dict[str, P], list[str]]:
    """The training part and those that are held out, and in words what held their rows together.

    `rows`: which of the table's they are. Each of the `kinds` is held out by its share, and stays in training.
    `alike` names, where there are too few rows, what has to stay together.
    """
    held, how = _held_out(table, rows, whole.digests, kinds, fractions, settings, alike)
    left = ~np.any([np.zeros(len(whole), dtype=np.bool_), *held.values()], axis=0)
    return {name: whole.some(name, np.flatnonzero(of).tolist()) for name, of in {"train": left, **held}.items()}, how


def _held_out(
    table: Table,
    rows: Sequence[int],
    digests: Numbers,
    kinds: Rows | None,
    fractions: dict[str, float],
    settings: DataSettings,
    alike: str,
) -> tuple[dict[str, NDArray[np.bool_]], list[str]]:
    values, times = None, None
    if settings.split_by is not None:
        values = _split_values(table, rows, settings.split_by)
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
        of_kind = np.zeros(len(rows), dtype=np.int64) if kinds is None else kinds
        held = held_by_chance(digests, grouped(digests, values), of_kind, fractions, settings.split_seed)
        how = f"split by column '{settings.split_by}': rows alike in it stay together"
    if held is None or not all(inside.any() for inside in held.values()):
        column = f" and column '{settings.split_by}'" if settings.split_by else ""
        also = "" if kinds is None else " and each class stays in training"
        raise DataError(
            f"{table.name} has {counted(len(rows), 'row')}, {len(np.unique(digests)):,} of them different: too few for "
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


def fingerprint_of_split(whole: Divisible, table: Table, rows: Sequence[int], column: str | None) -> str:
    """Of rows, and of the column by which they are divided, if there is one."""
    return whole.fingerprint if column is None else digest(whole.fingerprint, *_split_values(table, rows, column))


def _split_values(table: Table, rows: Sequence[int], column: str) -> list[str]:
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


def in_order(parts: Mapping[str, T]) -> dict[str, T]:
    """As they are always listed."""
    return {name: parts[name] for name in ("train", *PURPOSES) if name in parts}


def fingerprint_of(firsts: Sequence[str], seconds: Sequence[str]) -> str:
    """Of rows of two values."""
    whole = hashlib.sha256()
    for first, second in zip(firsts, seconds, strict=True):
        whole.update(f"{len(first)}:{len(second)}:{first}{second}".encode())
    return whole.hexdigest()


def size_in_words(parts: Mapping[str, Divisible], row: str = "row") -> str:
    """How many rows were divided, and how many of them are held out for what."""
    shares = " and ".join(
        f"{counted(len(part), row)} held out {PURPOSES[name]}" for name, part in parts.items() if name in PURPOSES
    )
    return counted(sum(map(len, parts.values())), row) + (f": {shares}" if shares else "")


def left_out(lost: int, without: str) -> list[str]:
    return [f"left out: {counted(lost, 'row')} without {without}"] if lost else []


def repeated(whole: Divisible, what: str, row: str = "row") -> list[str]:
    again = len(whole) - len(np.unique(whole.digests))
    return [f"{counted(again, f'{row} repeats', f'{row}s repeat')} an earlier {what}"] if again else []


def few_rows(name: str, count: int) -> list[str]:
    """A warning of a held-out part that says little."""
    return [f"warning: a score over {counted(count, 'row')} of {name} says little"] if count < FEW_ROWS else []


def given_in_words(part: P, train: P, also: Sequence[str] = (), row: str = "row") -> list[str]:
    """Of a part that is taken as it is: where it is from, what else is said of it, and what of it is trained on."""
    count = counted(len(part), row)
    seen = int(np.isin(part.digests, train.digests).sum())
    warning = f"warning: {seen:,} of {count} of {part.name} also in training"
    return [f"{part.name} from {part.origin}: {count}", *also, *([warning] if seen else [])]
