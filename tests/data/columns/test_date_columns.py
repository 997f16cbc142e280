"""Dates as people write them."""

import datetime

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import are_dates, date_order, date_parts, moment_of, unread_dates
from glassformer.data.columns.inference import choose_columns
from glassformer.data.io.table import Table


@pytest.mark.parametrize(
    ("value", "order", "moment"),
    [
        ("2024-05-31", "ymd", datetime.datetime(2024, 5, 31)),
        ("2024-05-31T13:45", "ymd", datetime.datetime(2024, 5, 31, 13, 45)),
        ("2024-05-31 13:45:09.123+02:00", "ymd", datetime.datetime(2024, 5, 31, 13, 45, 9)),
        ("2024-05-31T13:45:09Z", "ymd", datetime.datetime(2024, 5, 31, 13, 45, 9)),
        ("31.5.2024", "dmy", datetime.datetime(2024, 5, 31)),
        ("31/05/2024, 7:05", "dmy", datetime.datetime(2024, 5, 31, 7, 5)),
        ("05/31/2024 12:05 AM", "mdy", datetime.datetime(2024, 5, 31, 0, 5)),
        ("05/31/2024 1:05 pm", "mdy", datetime.datetime(2024, 5, 31, 13, 5)),
        ("31/05/2024", "mdy", None),
        ("2024-02-30", "ymd", None),
        ("2024-05/31", "ymd", None),
        ("2024-05-31 25:00", "ymd", None),
        ("13:00 PM", "ymd", None),
        ("soon", "dmy", None),
    ],
)
def test_a_date_in_an_order(value: str, order: str, moment: datetime.datetime | None) -> None:
    assert moment_of(f" {value} ", order) == moment


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["2024-05-06", "2024-06-05"], "ymd"),
        (["05.06.2024", "06.05.2024"], "dmy"),
        (["05/06/2024", "31/05/2024"], "dmy"),
        (["05/06/2024", "05/31/2024"], "mdy"),
        (["05/06/2024", "06/05/2024"], "unclear"),
        (["05-06-2024"], "unclear"),
        (["2024-05-06", "unknown", "2024-06-05"], "ymd"),
        (["2024-05-06", "unknown", "soon"], None),
        (["1.5", "2.25"], None),
        ([], None),
    ],
)
def test_the_column_tells_the_order(values: list[str], order: str | None) -> None:
    assert date_order(values) == order


def test_a_date_of_another_order_is_told_from_what_is_none() -> None:
    values = ["05/31/2024", "31/05/2024", "2024-05-31", "soon", "", "06/30/2024"]
    assert unread_dates(values, "dmy") == {"mdy": [0, 5], None: [3]}


def test_what_is_read_of_a_date() -> None:
    first = datetime.datetime(2024, 5, 30)
    assert date_parts(["2024-05-31 12:00", "soon"], "ymd", first) == {
        "year": ["2024", ""],
        "month": ["May", ""],
        "weekday": ["Friday", ""],
        "hour": ["12", ""],
        "days": ["1.5", ""],
    }


def test_dates_are_no_texts_and_no_labels() -> None:
    assert are_dates(["31.05.2024", "05/06/2024 12:00"])
    assert not are_dates(["31.05.2024", "x"])
    assert not are_dates([])


def test_dates_that_cannot_be_told_apart_are_left_out_with_a_word() -> None:
    days = [f"0{number % 9 + 1}/0{number % 8 + 1}/2024" for number in range(60)]
    table = Table("a.csv", {"day": days, "a": ["1.5", "2"] * 30, "kind": ["x", "y"] * 30}, list(range(60)))
    found = choose_columns(table, DataSettings())
    assert (found.also, found.dates) == (("a",), {})
    assert found.unread["day"] == "dates with an ambiguous order of day and month: write 2024-05-31"
    with pytest.raises(
        DataError, match=r"column 'day' cannot be read \(dates with an ambiguous order of day and month"
    ):
        choose_columns(table, DataSettings(extra_columns="day"))
