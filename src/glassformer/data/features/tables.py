"""Rows of a table as a model reads them: standardised numbers, and categories by number."""

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
from glassformer.data.features.inputs import Answers, Features, Inputs, Tensors
from glassformer.data.io.table import is_empty, require_columns
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted, line_in_words, listed
from glassformer.models.inputs import Shape

MAX_SPREADS = 1e15
"""Maximum distance of a value from the mean in standard deviations. Squares of larger ones overflow in float32."""

Marks = dict[str, NDArray[np.bool_]]
"""Rows with values not seen in training, by column."""


@dataclass(frozen=True, eq=False)
class TableInputs(Inputs):
    """Numbers and categories of each example."""

    numbers: NDArray[np.float32]
    categories: NDArray[np.int64]
    answers: Answers
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
    """Mean, standard deviation and range of a column in the training part. An empty value counts as the mean."""

    name: str
    mean: float
    spread: float
    low: float
    high: float
    flag: bool
    """Whether training had empty values; a second number then marks them in each row."""
    decimal: str = POINT
    """The decimal sign, for ambiguous numbers."""

    @staticmethod
    def from_json(value: dict[str, Any]) -> "NumberColumn":
        if value["decimal"] not in OTHER_SIGN:
            raise ValueError(f"{value['decimal']} is no decimal sign")
        mean, spread, low, high = (float(value[key]) for key in ("mean", "spread", "low", "high"))
        return NumberColumn(str(value["name"]), mean, spread, low, high, bool(value["flag"]), value["decimal"])


@dataclass(frozen=True)
class CategoryColumn:
    """Values of a column in the training part. Other values are unknown and have the number 0."""

    name: str
    values: tuple[str, ...]
    others: bool = False
    """Whether training had rare values, which also have the number 0."""

    @staticmethod
    def learn(name: str, values: Sequence[str], rare: int) -> "CategoryColumn":
        """Learn the values; if there are many, those in fewer than `rare` rows count as unknown."""
        counts = many_categories(values) or Counter()
        kept = {value for value in map(str.strip, values) if counts.get(value, rare) >= rare}
        return CategoryColumn(name, tuple(sorted(kept)), len(kept) < len(counts))

    @staticmethod
    def from_json(value: dict[str, Any]) -> "CategoryColumn":
        return CategoryColumn(str(value["name"]), tuple(map(str, value["values"])), bool(value["others"]))


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, from which the model reads derived columns such as "date: weekday"."""

    name: str
    order: str
    first: datetime.datetime
    """The first date in the training part; days are counted from it."""

    def parts(self, values: Sequence[str]) -> dict[str, list[str]]:
        return {f"{self.name}: {part}": cells for part, cells in date_parts(values, self.order, self.first).items()}

    def to_json(self) -> dict[str, object]:
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
    """The dates from which some numbers and categories are derived."""
    remarks: tuple[str, ...] = ()

    @staticmethod
    def learn(part: Labelled, columns: Columns | None = None, rare: int = 1) -> "TableFeatures":
        """Learn from the training part. A column with the same value in every row is left out.

        `columns`: spelling of numbers and dates. `rare`: minimum number of rows of a category if there are many.
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
        """Names of the columns that are read."""
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

    def inputs(self, part: Labelled, answers: Answers) -> TableInputs:
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
        """Return values as they are read: numbers in Python's notation, and dates in parts."""
        cells = _with_dates(columns, self.dates)
        plain = {name: plain_cells(cells[name], sign).values for name, sign in self.decimals.items()}
        return {**cells, **plain}

    def to_json(self) -> dict[str, object]:
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


# --- dates ---


def _learn_dates(part: Labelled, orders: Mapping[str, str]) -> list[DateColumn]:
    """Return the date columns of a training part that contain a date."""
    dates = []
    for name, order in orders.items():
        moments = [moment for value in part.columns.get(name, ()) if (moment := date_in(value, order)) is not None]
        if moments:
            dates.append(DateColumn(name, order, min(moments)))
    return dates


def _with_dates(columns: Mapping[str, list[str]], dates: Sequence[DateColumn]) -> dict[str, list[str]]:
    """Return the columns, with the parts of dates instead of the dates."""
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
    """Stack columns, of which there may be none, side by side."""
    return np.column_stack(columns).astype(kind) if columns else np.empty((rows, 0), kind)
