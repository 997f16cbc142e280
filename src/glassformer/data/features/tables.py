"""Rows of numbers and categories as a model reads them: numbers in spreads from the mean, categories by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.data.columns.heuristics import hold_numbers, is_empty, number_in
from glassformer.data.features.inputs import Features, Inputs, Tensors
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted, listed
from glassformer.models.inputs import Shape


@dataclass(frozen=True, eq=False)
class TableInputs(Inputs):
    """A row for each example."""

    numbers: NDArray[np.float32]
    categories: NDArray[np.int64]
    answers: NDArray[Any]
    texts: Sequence[str]
    remarks: tuple[str, ...] = ()

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.full(len(self), self.numbers.shape[1] + self.categories.shape[1], np.int64)

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return torch.from_numpy(self.numbers[rows]), torch.from_numpy(self.categories[rows])

    def select(self, rows: NDArray[np.int64]) -> "TableInputs":
        texts = [self.texts[row] for row in rows.tolist()]
        return TableInputs(self.numbers[rows], self.categories[rows], self.answers[rows], texts, self.remarks)


@dataclass(frozen=True)
class NumberColumn:
    """Its mean and spread in the training part, where an empty value counts as the mean."""

    name: str
    mean: float
    spread: float
    flag: bool
    """Whether some were empty: a second number says of each row whether this one is."""


@dataclass(frozen=True)
class CategoryColumn:
    """Its values in the training part. Any other is unknown and has the number 0."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class TableFeatures(Features):
    numbers: tuple[NumberColumn, ...]
    categories: tuple[CategoryColumn, ...]
    remarks: tuple[str, ...] = ()

    @staticmethod
    def learn(part: Labelled) -> "TableFeatures":
        """What the training part tells of its columns. A column that is the same in every row is left out."""
        numbers: list[NumberColumn] = []
        categories: list[CategoryColumn] = []
        remarks: list[str] = []
        for name, values in part.columns.items():
            different = {value.strip() for value in values}
            if len(different) == 1:
                value = next(iter(different)) or "empty"
                remarks.append(f"column '{name}' is {value} in every row of training: left out")
            elif hold_numbers(values):
                found = _numbers(part, name)
                filled = found[~np.isnan(found)]
                empty = len(found) - len(filled)
                with np.errstate(over="ignore", invalid="ignore"):
                    mean, spread = float(filled.mean()), float(filled.std())
                if not np.isfinite(spread):
                    raise DataError(f"{part.origin}: column '{name}' holds numbers too large to work with: divide them")
                numbers.append(NumberColumn(name, mean, spread or 1.0, empty > 0))
                if empty:
                    remarks.append(
                        f"column '{name}' is empty in {empty:,} of {len(found):,} rows of training: they count as its "
                        "mean, and a further number says which they are"
                    )
            else:
                categories.append(CategoryColumn(name, tuple(sorted(different))))
        if not numbers and not categories:
            raise DataError(
                f"{part.origin}: no column says anything ({listed(part.columns)}: each the same in every row of "
                "training): name others with --extra-columns"
            )
        return TableFeatures(tuple(numbers), tuple(categories), tuple(remarks))

    @property
    def shape(self) -> Shape:
        sizes = tuple(len(column.values) + 1 for column in self.categories)
        return Shape(numbers=len(self.numbers) + sum(column.flag for column in self.numbers), categories=sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*(column.name for column in self.numbers), *(column.name for column in self.categories))

    @property
    def words(self) -> str:
        numbers, categories = self.columns[: len(self.numbers)], self.columns[len(self.numbers) :]
        parts = {"number": numbers, "category": categories}
        return "; ".join(f"{kind} columns: {', '.join(names)}" for kind, names in parts.items() if names)

    def inputs(self, part: Labelled, answers: NDArray[Any]) -> TableInputs:
        for name in self.columns:
            if name not in part.columns:
                raise DataError(
                    f"{part.origin}: no column '{name}', which this model reads (columns: {listed(part.columns)})"
                )
        remarks: list[str] = []
        numbers, flags, categories = [], [], []
        for column in self.numbers:
            found = _numbers(part, column.name)
            empty = np.isnan(found)
            numbers.append(np.where(empty, 0.0, (found - column.mean) / column.spread))
            if column.flag:
                flags.append(empty.astype(np.float64))
            elif empty.any():
                remarks.append(f"column '{column.name}': {counted(int(empty.sum()), 'value')} empty, taken as its mean")
        for chosen in self.categories:
            places = {value: place for place, value in enumerate(chosen.values, 1)}
            ids = np.array([places.get(value.strip(), 0) for value in part.columns[chosen.name]], np.int64)
            categories.append(ids)
            if (ids == 0).any():
                first = part.columns[chosen.name][int(np.argmin(ids))].strip()
                some = counted(int((ids == 0).sum()), "value")
                remarks.append(f"column '{chosen.name}': {some} not in training, such as '{first}', taken as unknown")
        return TableInputs(
            _stack([*numbers, *flags], len(part), np.float32),
            _stack(categories, len(part), np.int64),
            answers,
            part.texts,
            tuple(remarks),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "numbers": [
                {"name": one.name, "mean": one.mean, "spread": one.spread, "flag": one.flag} for one in self.numbers
            ],
            "categories": [{"name": one.name, "values": list(one.values)} for one in self.categories],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "TableFeatures":
        return TableFeatures(
            tuple(
                NumberColumn(str(one["name"]), float(one["mean"]), float(one["spread"]), bool(one["flag"]))
                for one in value["numbers"]
            ),
            tuple(CategoryColumn(str(one["name"]), tuple(map(str, one["values"]))) for one in value["categories"]),
        )


def _numbers(part: Labelled, name: str) -> NDArray[np.float64]:
    """The values of a number column; where it is empty, NaN."""
    found = np.full(len(part), np.nan)
    for row, value in enumerate(part.columns[name]):
        if is_empty(value):
            continue
        number = number_in(value)
        if number is None:
            raise DataError(
                f"{part.origin}, line {part.lines[row]:,}, column '{name}': text where a number is wanted: "
                f"'{value.strip()[:40]}' (write a number or nothing there, or leave the column out: --extra-columns)"
            )
        found[row] = number
    return found


def _stack(columns: list[NDArray[Any]], rows: int, kind: type[Any]) -> NDArray[Any]:
    """Columns side by side; there may be none."""
    return np.column_stack(columns).astype(kind) if columns else np.empty((rows, 0), kind)
