"""Numbers as people write them."""

import dataclasses

import pytest

from glassformer.config.presets import ANY_LABEL
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns, choose_columns, labelled_rows
from glassformer.data.columns.numbers import decimal_signs, plain_cells, plain_number, spelled_with
from glassformer.data.io.table import Table

LABELS = ["good", "bad", "so-so"] * 20
COMMAS = [f"{number},{number % 10}5" for number in range(60)]
POINTS = [f"{number}.{number % 10}5" for number in range(60)]
THOUSANDS = [f"{number + 1},{number * 7 % 1000:03}" for number in range(60)]


def table(**columns: list[str]) -> Table:
    return Table("a.csv", columns, list(range(2, 2 + len(next(iter(columns.values()))))))


def chosen(settings: DataSettings | None = None, **columns: list[str]) -> Columns:
    return choose_columns(table(**columns), settings or DataSettings(), ANY_LABEL)


@pytest.mark.parametrize(
    ("value", "sign", "plain"),
    [
        ("84,44", ",", "84.44"),
        ("84,44", ".", None),
        ("1.234,56", ",", "1234.56"),
        ("1.234,56", ".", None),
        ("1,234.56", ".", "1234.56"),
        ("1,234", ".", "1234"),
        ("1,234", ",", "1.234"),
        ("0,123", ".", None),
        ("1.234", ",", "1234"),
        ("1.234", ".", "1.234"),
        ("12.34", ",", None),
        ("1.234.567", ",", "1234567"),
        ("1 234,5", ",", "1234.5"),
        ("1\u202f234", ",", "1234"),
        ("1'234.5", ".", "1234.5"),
        ("-3,5e2", ",", "-3.5e2"),
        (",5", ",", ".5"),
        ("1,23,456", ".", None),
        ("31.05.2024", ",", None),
        ("", ",", None),
        ("-", ",", None),
        ("x", ".", None),
    ],
)
def test_a_number_with_a_sign(value: str, sign: str, plain: str | None) -> None:
    assert plain_number(f" {value} ", sign) == plain


def test_the_column_decides() -> None:
    assert decimal_signs(table(a=COMMAS, b=POINTS), None) == {"a": ","}  # of numbers that a program reads, nothing
    assert decimal_signs(table(a=["84,44", "1,234", "7"]), None) == {"a": ","}
    assert decimal_signs(table(a=["1,234.5", "1,234", "7"]), None) == {"a": "."}
    assert decimal_signs(table(a=["0,123", "1,234"]), None) == {"a": ","}
    assert decimal_signs(table(a=LABELS, b=["good, 1,5", "x"] * 30), None) == {}


def test_where_both_could_be_meant_the_other_columns_decide_and_else_the_point() -> None:
    assert decimal_signs(table(a=THOUSANDS), None) == {"a": "."}
    assert decimal_signs(table(a=THOUSANDS, b=COMMAS), None) == {"a": ",", "b": ","}
    assert decimal_signs(table(a=["1.234", "2.345"] * 30, b=COMMAS), None) == {"a": ",", "b": ","}
    assert decimal_signs(table(a=THOUSANDS, b=COMMAS, c=["1,234.5", "2"] * 30), None)["a"] == "."
    assert decimal_signs(table(a=["1.234", "2.345"] * 30), None) == {}


def test_the_setting_decides_first() -> None:
    assert decimal_signs(table(a=THOUSANDS), ",") == {"a": ","}
    assert decimal_signs(table(a=THOUSANDS, b=COMMAS), ".") == {"a": ".", "b": ","}  # b has no other reading


def test_files_that_know_numbers_have_a_point() -> None:
    typed = dataclasses.replace(table(a=["1.234", "2.345"] * 30, b=COMMAS), typed=True)
    assert decimal_signs(typed, None) == {"b": ","}
    assert decimal_signs(typed, ",") == {"b": ","}
    assert spelled_with(typed, {"a": ","}).columns["a"][:2] == ["1,234", "2,345"]
    assert spelled_with(table(a=["1.234"]), {"a": ","}).columns["a"] == ["1.234"]


def test_other_spellings_are_read_and_said() -> None:
    cells = plain_cells(["84,44", "3.5", "NA", "2.25", "x"], ",")
    assert cells.values == ["84.44", "3.5", "NA", "2.25", "x"]
    assert cells.remarks("price") == [
        "column 'price': 2 values are written with the other decimal sign, '3.5' is read as 3.5"
    ]
    assert plain_cells(["84,44"], ".").remarks("a") == [
        "column 'a': 1 value is written with the other decimal sign, '84,44' is read as 84.44"
    ]


def test_a_column_written_with_the_other_sign_is_read_with_it() -> None:
    cells = plain_cells(["1.234", "1.5", "7", "1.25"], ",")
    assert cells.values == ["1.234", "1.5", "7", "1.25"]
    assert cells.remarks("a") == [
        "column 'a': 3 values are written with the other decimal sign, '1.234' is read as 1.234"
    ]
    cells = plain_cells(["1,234", "84,44"], ".")
    assert cells.values == ["1.234", "84.44"]
    assert "'1,234' is read as 1.234" in cells.remarks("a")[0]
    assert plain_cells(["1.234", "1.5", "2,5"], ",").values == ["1234", "1.5", "2.5"]  # some have this sign
    assert decimal_signs(table(a=["1.234", "2.345", "1.5"]), ",") == {}  # the sign that it is read with later too


def test_decimal_commas_are_numbers_to_learn_from_and_to_learn() -> None:
    found = chosen(a=COMMAS, b=THOUSANDS, amount=[f"{number * 3},5" for number in range(60)])
    assert (found.also, found.label, found.label_kind) == (("a", "b"), "amount", "number")
    assert found.decimals == {"a": ",", "b": ",", "amount": ","}
    assert "; numbers: '0,05' in a is 0.05, " in found.why
    assert "'0,5' in amount is 0.5, '1,000' in b is 1.000 (--data.decimal)" in found.why
    rows = labelled_rows(table(amount=["1,5", "2.5", "", "3"]), found, range(4), DataSettings())
    assert (rows.rows, rows.labels) == ([0, 1, 3], ["1.5", "2.5", "3"])
    assert len(rows.remarks) == 1


def test_a_class_keeps_its_name() -> None:
    few = choose_columns(table(a=POINTS, kind=["1,5", "2,5"] * 30), DataSettings(), "class")
    assert labelled_rows(table(kind=["1,5"]), few, [0], DataSettings(bad_rows="error")).labels == ["1,5"]
