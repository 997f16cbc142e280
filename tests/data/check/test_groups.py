"""Rows that belong together by a column that is not read: found where the label tells it, and nowhere else."""

from datetime import date, timedelta
from random import Random

import pytest

from glassformer.config.sections import DataSettings
from glassformer.data.check.tables import check_table
from glassformer.data.columns.inference import Columns
from glassformer.data.io.table import Table

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
        "rows alike in column 'who' share their label more often than others (1.00 against 0.50): if it says whose "
        "they are, --data.split_by who keeps them in one part"
    )
    assert findings(labels, who=CUSTOMERS) == [said]
    assert findings(labels, who=CUSTOMERS, split_by="who") == []
    amounts = [f"{float(customer[9:]) + row / 1000}" for row, customer in enumerate(CUSTOMERS)]
    assert "rows alike in column 'who'" in findings(amounts, AMOUNTS, who=CUSTOMERS)[0]


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
