"""Rows that belong together by a column that is not read: found where the label tells it, and nowhere else."""

import re
import tracemalloc
from dataclasses import replace
from datetime import date, timedelta
from random import Random

import numpy as np
import pytest

from glassformer.config.sections import DataSettings
from glassformer.data.check.groups import _numbered, _periods
from glassformer.data.check.tables import check_table
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.schema import LIKE_NAMES
from glassformer.data.io.table import Table
from glassformer.data.split.labelled import split_table

CLASSES, AMOUNTS = (Columns("text", "label", kind, "") for kind in ("class", "number"))
CUSTOMERS = [f"customer {row * row % 41}" for row in range(200)]
DAYS = [f"{date(2024, 1, 1) + timedelta(days=row)}" for row in range(200)]


def findings(
    labels: list[str], columns: Columns = CLASSES, split_by: str | None = None, **more: list[str]
) -> list[str]:
    texts = [f"{number:o} {number * 7919:x}" for number in range(len(labels))]
    table = Table("a.csv", {"text": texts, "label": labels, **more}, list(range(2, len(labels) + 2)))
    return check_table(table, columns, settings=DataSettings(split_by=split_by)).findings


def test_a_customer_that_tells_the_label() -> None:
    labels = ["xy"[sum(map(int, customer[9:])) % 2] for customer in CUSTOMERS]
    said = (
        "rows with equal values in column 'who' share a label more often than other rows (1.00 instead of 0.50): if "
        "the column identifies a person or group, --data.split_by who keeps its rows in one part"
    )
    assert findings(labels, who=CUSTOMERS) == [said]
    assert findings(labels, who=CUSTOMERS, split_by="who") == []
    amounts = [f"{float(customer[9:]) + row / 1000}" for row, customer in enumerate(CUSTOMERS)]
    assert "rows with equal values in column 'who'" in findings(amounts, AMOUNTS, who=CUSTOMERS)[0]


@pytest.mark.parametrize("seed", range(10))
def test_chance_is_no_group(seed: int) -> None:
    labels = Random(seed).choices("xy", k=200)
    numbers = [str(row) for row in range(200)]
    assert findings(labels, who=CUSTOMERS, day=DAYS, kind=labels, number=numbers) == []


def test_labels_that_change_with_time() -> None:
    chance = Random(0)
    labels = ["xy"[chance.random() < row / 200] for row in range(200)]
    said = "labels change with time (column 'day'): --data.split_by day holds out the latest rows, as in use"
    assert findings(labels, day=DAYS) == [said]
    assert findings(labels[80:120], day=DAYS[:40]) == []  # too few to tell
    written = [f"{date.fromisoformat(day):%d.%m.%Y}" for day in DAYS]
    assert findings(labels, day=written) == [said]
    read = replace(CLASSES, also=("day",), dates={"day": "dmy"})
    assert findings(labels, read, day=written) == [said]  # a model that reads the date would judge the past no less


def test_dates_that_nothing_can_be_split_by_get_no_advice() -> None:
    days = [f"{row % 12 + 1:02}/{row % 12 + 1:02}/2024" for row in range(200)]
    assert findings(["xy"[row % 12 > 5] for row in range(200)], day=days) == []


def test_stretches_of_time_have_as_many_rows_each() -> None:
    many = 190 * ["2024-01-01"] + [f"2024-02-{day:02}" for day in range(1, 11)]
    assert np.bincount(_periods(many))[:9].tolist() == [190] + [0] * 8


def test_long_values_take_no_more_than_they_are() -> None:
    values = ["x" * 10_000_000, *(f"customer {row % 40}" for row in range(4_000))]
    tracemalloc.start()
    assert _numbered(values)[[0, 1, 41]].tolist() == [0, 1, 1]
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_texts_and_names_are_not_looked_at_and_neither_are_rows_without_a_label() -> None:
    labels = ["xy"[sum(map(int, customer[9:])) % 2] for customer in CUSTOMERS]
    names = replace(CLASSES, unread={"who": f"120 {LIKE_NAMES}"})
    assert findings(labels, names, who=CUSTOMERS) == []
    amounts = ["n/a" if row % 41 < 20 else str(row) for row in range(200)]
    who = [f"nobody {row % 10}" if label == "n/a" else f"somebody {row % 20}" for row, label in enumerate(amounts)]
    assert not any("'who'" in finding for finding in findings(amounts, AMOUNTS, who=who))


def noisy_amounts(seed: int = 0) -> list[str]:
    """Numbers of which about a quarter of the variance is the customer's."""
    chance = Random(seed)
    means = {customer: chance.gauss(0, 1) for customer in sorted(set(CUSTOMERS))}
    return [f"{means[customer] + chance.gauss(0, 1.6):.4f}" for customer in CUSTOMERS]


def test_a_customer_whose_numbers_are_correlated() -> None:
    (said,) = findings(noisy_amounts(), AMOUNTS, who=CUSTOMERS)
    pattern = r"rows with equal values in column 'who' have correlated labels \(0\.[23]\d\): if the column"
    assert re.match(pattern, said)
    shuffled = noisy_amounts()
    Random(1).shuffle(shuffled)
    assert findings(shuffled, AMOUNTS, who=CUSTOMERS) == []


def test_a_column_that_is_read_is_looked_at_if_it_names_customers() -> None:
    also = replace(AMOUNTS, also=("customer", "city"))
    (said,) = findings(noisy_amounts(), also, customer=CUSTOMERS, city=CUSTOMERS)
    assert said.startswith("rows with equal values in column 'customer'")


@pytest.mark.parametrize(("columns", "labels"), [(AMOUNTS, noisy_amounts()), (CLASSES, [c[-1] for c in CUSTOMERS])])
def test_a_training_warns_of_a_customer(columns: Columns, labels: list[str]) -> None:
    texts = [f"{number:o} {number * 7919:x}" for number in range(len(labels))]
    table = Table("a.csv", {"text": texts, "label": labels, "who": CUSTOMERS}, list(range(2, len(labels) + 2)))
    warned = [line for line in split_table(table, columns, DataSettings()).remarks if "column 'who'" in line]
    assert [line.split(" have ")[0].split(" share ")[0] for line in warned] == [
        "warning: rows with equal values in column 'who'"
    ]
    split = split_table(table, columns, DataSettings(split_by="who"))
    assert not [line for line in split.remarks if line.startswith("warning: rows with equal values")]
