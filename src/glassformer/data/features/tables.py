"""Rows of numbers and categories as a model reads them: numbers in spreads from the mean, categories by number."""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.data_section import POINT
from glassformer.config.errors import DataError
from glassformer.data.columns.dates import ORDER_IN_WORDS, ORDERS, date_in, date_parts, unread_dates
from glassformer.data.columns.heuristics import hold_numbers
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.numbers import OTHER_SIGN, plain_cells, read_numbers
from glassformer.data.columns.schema import empty_in_words, many_categories
from glassformer.data.features.inputs import Features, Inputs, Tensors
from glassformer.data.io.table import is_empty, require_columns
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted, line_in_words, listed
from glassformer.models.inputs import Shape

MAX_SPREADS = 1e15
"""How many standard deviations a value may be from the mean. Sums of squares of larger ones overflow in single
precision."""

Marks = dict[str, NDArray[np.bool_]]
"""Rows with values not seen in training, by column."""


@dataclass(frozen=True, eq=False)
class TableInputs(Inputs):
    """A row for each example."""

    numbers: NDArray[np.float32]
    categories: NDArray[np.int64]
    answers: NDArray[Any]
    texts: Sequence[str]
    remarks: tuple[str, ...] = ()
    outside_range: Marks = field(default_factory=dict)
    """Numbers below the smallest or above the largest of training."""
    unseen_categories: Marks = field(default_factory=dict)
    """Categories not seen in training."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.full(len(self), self.numbers.shape[1] + self.categories.shape[1], np.int64)

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return torch.from_numpy(self.numbers[rows]), torch.from_numpy(self.categories[rows])

    def select(self, rows: NDArray[np.int64]) -> "TableInputs":
        texts = [self.texts[row] for row in rows.tolist()]
        numbers, categories, answers = self.numbers[rows], self.categories[rows], self.answers[rows]
        outside = {name: marks[rows] for name, marks in self.outside_range.items()}
        unseen = {name: marks[rows] for name, marks in self.unseen_categories.items()}
        return TableInputs(numbers, categories, answers, texts, self.remarks, outside, unseen)


@dataclass(frozen=True)
class NumberColumn:
    """Its mean, spread and range in the training part. An empty value counts as the mean."""

    name: str
    mean: float
    spread: float
    low: float
    high: float
    flag: bool
    """Whether some were empty: a second number says of each row whether this one is."""
    decimal: str = POINT
    """The sign before a fraction, where both could be meant."""

    @staticmethod
    def from_json(value: dict[str, Any]) -> "NumberColumn":
        if value["decimal"] not in OTHER_SIGN:
            raise ValueError(f"{value['decimal']} is no decimal sign")
        mean, spread, low, high = (float(value[key]) for key in ("mean", "spread", "low", "high"))
        return NumberColumn(str(value["name"]), mean, spread, low, high, bool(value["flag"]), value["decimal"])


@dataclass(frozen=True)
class CategoryColumn:
    """Its values in the training part. Any other is unknown and has the number 0."""

    name: str
    values: tuple[str, ...]
    others: bool = False
    """Whether there were rare values too, which have the number 0 as well."""

    @staticmethod
    def learn(name: str, values: Sequence[str], rare: int) -> "CategoryColumn":
        """Of many values, those of fewer than `rare` rows are taken as one."""
        counts = many_categories(values) or Counter()
        kept = {value for value in map(str.strip, values) if counts.get(value, rare) >= rare}
        return CategoryColumn(name, tuple(sorted(kept)), len(kept) < len(counts))

    @staticmethod
    def from_json(value: dict[str, Any]) -> "CategoryColumn":
        return CategoryColumn(str(value["name"]), tuple(map(str, value["values"])), bool(value["others"]))


@dataclass(frozen=True)
class DateColumn:
    """A column of dates. What is read of one are columns of their own, such as "date: weekday"."""

    name: str
    order: str
    first: datetime.datetime
    """The first date in the training part, from which days are counted."""

    def parts(self, values: Sequence[str]) -> dict[str, list[str]]:
        return {f"{self.name}: {part}": cells for part, cells in date_parts(values, self.order, self.first).items()}

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "order": self.order, "first": self.first.isoformat()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "DateColumn":
        if value["order"] not in ORDERS:
            raise ValueError(f"{value['order']} is no order of a date")
        return DateColumn(str(value["name"]), value["order"], datetime.datetime.fromisoformat(value["first"]))


@dataclass(frozen=True)
class TableFeatures(Features):
    numbers: tuple[NumberColumn, ...]
    categories: tuple[CategoryColumn, ...]
    dates: tuple[DateColumn, ...] = ()
    """Those that some of the numbers and categories are made of."""
    remarks: tuple[str, ...] = ()

    @staticmethod
    def learn(part: Labelled, columns: Columns | None = None, rare: int = 1) -> "TableFeatures":
        """What the training part tells of its columns. A column that is the same in every row is left out.

        `columns`: how numbers and dates are written. `rare`: where a column has many categories, those of fewer rows
        are taken as one.
        """
        numbers: list[NumberColumn] = []
        categories: list[CategoryColumn] = []
        remarks: list[str] = []
        decimals, unread = ({}, {}) if columns is None else (columns.decimals, columns.unread)
        dates = [] if columns is None else _learn_dates(part, columns.dates)
        made = {name: date.name for date in dates for name in date.parts([])}
        if (twice := next((name for name in made if name in part.columns), None)) is not None:
            raise DataError(f"{part.origin}: column '{twice}' is also read from column '{made[twice]}': rename it")
        cells = _with_dates(part.columns, dates)
        for name, values in cells.items():
            different = {value.strip() for value in values}
            if name in made:
                different.discard("")
            if len(different) == 1:
                continue
            sign = decimals.get(name, POINT)
            if not hold_numbers(plain_cells(values, sign).values if name in decimals else values):
                categories.append(CategoryColumn.learn(name, values, rare))
                continue
            found = _numbers(part, name, values, sign, advice=", or leave the column out: --extra-columns")[0]
            filled = found[~np.isnan(found)]
            empty = len(found) - len(filled)
            mean, spread, low, high = map(float, (filled.mean(), filled.std(), filled.min(), filled.max()))
            numbers.append(NumberColumn(name, mean, spread or 1.0, low, high, empty > 0, sign))
            if empty and name in part.columns:
                some = empty_in_words(name, empty, len(found), " of training")
                remarks.append(f"{some}: they count as its mean, and a further number says which they are")
        if not numbers and not categories:
            same = f"{listed(part.columns)}: each the same in every row of training"
            raise DataError(f"{part.origin}: nothing to learn from ({same}): name others with --extra-columns")
        names = [*(column.name for column in numbers), *(column.name for column in categories)]
        read = {made[name] for name in names if name in made}
        lost = [name for name in part.columns if name not in {*names, *read, *unread}]
        if lost:
            remarks.append(f"left out: {listed(lost)}, the same in every row of training")
        dates = [date for date in dates if date.name in read]
        return TableFeatures(tuple(numbers), tuple(categories), tuple(dates), tuple(remarks))

    @property
    def shape(self) -> Shape:
        sizes = tuple(len(column.values) + 1 for column in self.categories)
        return Shape(numbers=len(self.numbers) + sum(column.flag for column in self.numbers), categories=sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        made = {name for date in self.dates for name in date.parts([])}
        names = [*(column.name for column in self.numbers), *(column.name for column in self.categories)]
        return (*(name for name in names if name not in made), *(date.name for date in self.dates))

    @property
    def described(self) -> dict[str, dict[str, Any]]:
        """The type of each column that is read, with the range of numbers and the known categories."""
        known: dict[str, dict[str, Any]] = {
            **{one.name: {"type": "number", "range": [one.low, one.high]} for one in self.numbers},
            **{one.name: {"type": "category", "values": list(one.values)} for one in self.categories},
            **{one.name: {"type": "date", "first": one.first.isoformat()} for one in self.dates},
        }
        return {name: known[name] for name in self.columns}

    @property
    def decimals(self) -> dict[str, str]:
        """The decimal sign of each column of numbers."""
        return {column.name: column.decimal for column in self.numbers}

    @property
    def words(self) -> str:
        numbers, categories = [column.name for column in self.numbers], [column.name for column in self.categories]
        parts = {"number": numbers, "category": categories}
        return "; ".join(f"{kind} columns: {', '.join(names)}" for kind, names in parts.items() if names)

    def inputs(self, part: Labelled, answers: NDArray[Any]) -> TableInputs:
        require_columns(part.origin, self.columns, part.columns)
        for date in self.dates:
            _refuse_other_dates(part, date)
        remarks: list[str] = []
        outside_range, unseen_categories = Marks(), Marks()
        numbers, flags, categories = [], [], []
        cells = _with_dates(part.columns, self.dates)
        for column in self.numbers:
            found, more = _numbers(part, column.name, cells[column.name], column.decimal)
            remarks += more
            with np.errstate(over="ignore"):
                spreads, empty = (found - column.mean) / column.spread, np.isnan(found)
            if (far := np.flatnonzero(np.abs(spreads) > MAX_SPREADS)).size:
                where = f"{part.origin}, {line_in_words(part.lines[far[0]])}, column '{column.name}'"
                far_off = f"more than {MAX_SPREADS:g} standard deviations from the training mean"
                raise DataError(f"{where}: {found[far[0]]:g} is {far_off}: correct it, or leave it empty")
            outside = (found < column.low) | (found > column.high)
            if outside.any():
                outside_range[column.name] = outside
            numbers.append(np.where(empty, 0.0, spreads))
            if column.flag:
                flags.append(empty.astype(np.float64))
            elif empty.any() and column.name in part.columns:
                some = counted(int(empty.sum()), "value")
                remarks.append(f"column '{column.name}': {some} empty, replaced by its mean")
        for chosen in self.categories:
            places = {value: place for place, value in enumerate(chosen.values, 1)}
            values = [value.strip() for value in cells[chosen.name]]
            categories.append(np.array([places.get(value, 0) for value in values], np.int64))
            unseen = np.array(
                [value not in places and bool(value or chosen.name in part.columns) for value in values], np.bool_
            )
            missing = unseen & np.array([is_empty(value) for value in values], np.bool_)
            if missing.any():
                some = counted(int(missing.sum()), "value")
                remarks.append(f"column '{chosen.name}': {some} missing, treated as unknown")
            unseen &= ~missing
            if unseen.any():
                unseen_categories[chosen.name] = unseen
                some = counted(int(unseen.sum()), "value")
                why = "rare in training or not in it" if chosen.others else "not in training"
                first = values[int(unseen.argmax())]
                remarks.append(f"column '{chosen.name}': {some} {why}, such as '{first}', treated as unknown")
        amounts, kinds = _stack([*numbers, *flags], len(part), np.float32), _stack(categories, len(part), np.int64)
        return TableInputs(amounts, kinds, answers, part.texts, tuple(remarks), outside_range, unseen_categories)

    def cells(self, columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Values as they are read: numbers as programs write them, dates in their parts."""
        cells = _with_dates(columns, self.dates)
        plain = {name: plain_cells(cells[name], sign).values for name, sign in self.decimals.items()}
        return {**cells, **plain}

    def to_json(self) -> dict[str, Any]:
        return {
            "numbers": [asdict(column) for column in self.numbers],
            "categories": [{**asdict(column), "values": list(column.values)} for column in self.categories],
            "dates": [column.to_json() for column in self.dates],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "TableFeatures":
        return TableFeatures(
            tuple(map(NumberColumn.from_json, value["numbers"])),
            tuple(map(CategoryColumn.from_json, value["categories"])),
            tuple(map(DateColumn.from_json, value["dates"])),
        )


def _numbers(
    part: Labelled, name: str, values: Sequence[str], sign: str, advice: str = ""
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the values of a number column, NaN for empty cells; and remarks on how they are written.

    `advice`: what else to do about a cell that is not a number.
    """
    advice = f"write a number or nothing there{advice}"
    found, cells = read_numbers(part.origin, part.lines, name, values, sign, advice=advice)
    return found, cells.remarks(name)


# --- dates: columns that others are made of ---


def _learn_dates(part: Labelled, orders: Mapping[str, str]) -> list[DateColumn]:
    """The date columns of a training part; one without a date is left out."""
    dates = []
    for name, order in orders.items():
        moments = [moment for value in part.columns.get(name, ()) if (moment := date_in(value, order)) is not None]
        if moments:
            dates.append(DateColumn(name, order, min(moments)))
    return dates


def _with_dates(columns: Mapping[str, list[str]], dates: Sequence[DateColumn]) -> dict[str, list[str]]:
    """The columns, with what is read of dates in place of these."""
    cells = {name: values for name, values in columns.items() if name not in {date.name for date in dates}}
    for date in dates:
        cells |= date.parts(columns[date.name])
    return cells


def _refuse_other_dates(part: Labelled, date: DateColumn) -> None:
    """Raise `DataError` if a value of a date column is not a date, or is written in another order."""
    values = part.columns[date.name]
    for other, rows in unread_dates(values, date.order).items():
        row = rows[0]
        wrong = "text instead of a date" if other is None else f"a date written {ORDER_IN_WORDS[other]}"
        where = f"{part.origin}, {line_in_words(part.lines[row])}, column '{date.name}'"
        advice = f"dates are written {ORDER_IN_WORDS[date.order]} here: write 2024-05-31 or leave it empty"
        raise DataError(f"{where}: {wrong}: '{values[row].strip()[:40]}' ({advice})")


def _stack(columns: list[NDArray[Any]], rows: int, kind: type[Any]) -> NDArray[Any]:
    """Columns side by side; there may be none."""
    return np.column_stack(columns).astype(kind) if columns else np.empty((rows, 0), kind)
