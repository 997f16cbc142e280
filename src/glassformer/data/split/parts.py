"""What dividing rows is made of, whatever they hold: what was asked for, which rows are held out, and the words."""

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import existing
from glassformer.data.io.table import Table
from glassformer.data.mixing import Numbers
from glassformer.data.split.folds import KEPT, first_share, folds_of
from glassformer.data.split.groups import OTHER_DATE, Rows, grouped, held_by_chance, held_by_time, time_of
from glassformer.data.split.held_out import PURPOSES, REFITTED
from glassformer.data.split.part import digest
from glassformer.data.wording import counted

T = TypeVar("T")

FEW_ROWS = 10
"""A part of fewer rows deserves a warning."""


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

    def joined(self, other: Self) -> Self:
        """These, and then the other's, under this name."""


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
    digests, seed = whole.digests, settings.split_seed
    values, times = _split_by(table, rows, settings)
    of_kind = np.zeros(len(rows), dtype=np.int64) if kinds is None else kinds
    groups = grouped(digests, values)
    classes = " and each class stays in training" if kinds is not None else ""
    column = f" and column '{settings.split_by}'" if settings.split_by else ""
    stay = f"since equal {alike}{column} stay together{classes}"

    def too_few(wanted: str) -> DataError:
        there = f"{counted(len(rows), 'row')}, {len(np.unique(digests)):,} of them different"
        if values is not None and not times:
            there = f"{counted(len(np.unique(groups)), 'group')} in column '{settings.split_by}'"
        return DataError(f"{table.name} has {there}: too few for {wanted}, {stay}")

    if not fractions:
        held: dict[str, NDArray[np.bool_]] | None = {}
    elif times:
        held = held_by_time(digests, times, fractions)
    else:
        held = held_by_chance(digests, groups, of_kind, fractions, seed)
    if held is None or not all(inside.any() for inside in held.values()):
        raise too_few(f"{len(fractions) + 1} parts ({', '.join(['train', *fractions])})")
    how = _in_words(held, times, settings.split_by) if values is not None and (held or settings.folds) else []
    left = ~np.any([np.zeros(len(whole), dtype=np.bool_), *held.values()], axis=0)
    if settings.folds is not None and not settings.refit:
        if times:
            raise DataError(
                f"{table.name}: data.folds would learn from rows later than those held out by column "
                f"'{settings.split_by}': leave --data.split_by or the folds away"
            )
        found = folds_of(digests[left], _numbered(groups[left]), of_kind[left], settings.folds, seed)
        if found is None:
            raise too_few(f"{settings.folds} folds (--folds)")
        fold_of = np.full(len(whole), KEPT, dtype=np.int64)
        fold_of[left] = found
        held = {"validation": fold_of == settings.fold, **held}
        how += _folds_in_words(settings, int((found == KEPT).sum()))
        left &= ~held["validation"]
    if settings.refit:
        left |= held.pop("validation", False)
        how += [] if settings.validation else [REFITTED]
    if settings.train_fraction < 1:
        all_left = np.flatnonzero(left)
        left[all_left[~first_share(digests[left], of_kind[left], settings.train_fraction, seed)]] = False
        how.append(fewer_in_words(settings, int(left.sum()), len(all_left), "row"))
    return {name: whole.some(name, np.flatnonzero(of).tolist()) for name, of in {"train": left, **held}.items()}, how


def fewer_in_words(settings: DataSettings, kept: int, of: int, what: str) -> str:
    """How much of the training part is learned from."""
    share = f"{100 * settings.train_fraction:g} % of the training part is learned from"
    return f"{share}: {kept:,} of {counted(of, what)} (data.train_fraction)"


def _folds_in_words(settings: DataSettings, kept: int) -> list[str]:
    how = [f"validation is fold {settings.fold + 1} of {settings.folds} (data.fold {settings.fold})"]
    if kept:
        how.append(
            f"in training in every fold: {counted(kept, 'row')}, the only ones of their class that can be told apart"
        )
    return how


def _numbered(groups: Rows) -> Rows:
    """From 0 on, without gaps."""
    out: Rows = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return out


def _split_by(
    table: Table, rows: Sequence[int], settings: DataSettings
) -> tuple[list[str] | None, list[datetime.datetime]]:
    """The values of the column that holds rows together, and if they are dates, these."""
    if settings.split_by is None:
        return None, []
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
    return values, times


def _in_words(
    held: Mapping[str, NDArray[np.bool_]], times: Sequence[datetime.datetime], column: str | None
) -> list[str]:
    """What held rows together."""
    if not times:
        return [f"split by column '{column}': rows alike in it stay together"]
    begins = ", ".join(
        f"{name} from {min(time for time, here in zip(times, inside, strict=True) if here):%Y-%m-%d}"
        for name, inside in held.items()
    )
    return [f"split by time, column '{column}': {begins}"]


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


def with_validation(parts: dict[str, P], settings: DataSettings) -> list[str]:
    """In a refit, a validation part that came as a file is learned from too; in words."""
    if not settings.refit or "validation" not in parts:
        return []
    parts["train"] = parts["train"].joined(parts.pop("validation"))
    return [REFITTED]


def in_order(parts: Mapping[str, T]) -> dict[str, T]:
    """As they are always listed."""
    return {name: parts[name] for name in ("train", *PURPOSES) if name in parts}


def fingerprint_of(firsts: Sequence[str], seconds: Sequence[str]) -> str:
    """Of rows of two values."""
    whole = hashlib.sha256()
    for first, second in zip(firsts, seconds, strict=True):
        whole.update(f"{len(first)}:{len(second)}:{first}{second}".encode())
    return whole.hexdigest()


def size_in_words(parts: Mapping[str, Divisible], count: int, row: str = "row") -> str:
    """How many rows were divided (`count`), and how many of them are held out for what."""
    shares = " and ".join(
        f"{counted(len(part), row)} held out {PURPOSES[name]}" for name, part in parts.items() if name in PURPOSES
    )
    return counted(count, row) + (f": {shares}" if shares else "")


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
