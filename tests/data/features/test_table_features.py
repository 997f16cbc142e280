"""Rows as a model reads them: standardised by the training part alone, whatever comes later."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from glassformer.config.errors import DataError, RunError
from glassformer.data.columns.inference import Columns
from glassformer.data.features.build import learn_features, read_features
from glassformer.data.features.tables import TableFeatures
from glassformer.models.inputs import Shape
from helpers.kinds import config_of, part_of, rows_of

ROWS = rows_of(60)
TRAIN = part_of(**{name: [row[name] for row in ROWS] for name in ("height", "weight", "city")})
CONFIG = config_of("table", "linear")


def refused(**columns: list[str]) -> str:
    with pytest.raises(DataError) as caught:
        TableFeatures.learn(part_of(**columns))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_numbers_are_in_spreads_from_the_mean() -> None:
    inputs = TableFeatures.learn(TRAIN).inputs(TRAIN, np.arange(60))
    for place, name in enumerate(("height", "weight")):
        values = np.array([float(row[name]) for row in ROWS])
        np.testing.assert_allclose(inputs.numbers[:, place], (values - values.mean()) / values.std(), rtol=1e-4)
    assert inputs.numbers.dtype == np.float32
    assert inputs.remarks == ()


def test_categories_are_numbered_and_0_is_unknown() -> None:
    features = TableFeatures.learn(TRAIN)
    assert features.categories[0].values == ("Lima", "Oslo", "Rome")
    other = part_of(height=["1", "2", "3", "4"], weight=["1"] * 4, city=["Oslo", "Bonn", " Rome ", "Lima"])
    inputs = features.inputs(other, np.zeros(4))
    assert inputs.categories[:, 0].tolist() == [2, 0, 3, 1]
    assert inputs.remarks == ("column 'city': 1 value not in training, such as 'Bonn', treated as unknown",)
    assert inputs.unseen_categories["city"].tolist() == [False, True, False, False]
    assert features.shape == Shape(numbers=2, categories=(4,))


def test_empty_categories_are_missing_values() -> None:
    other = part_of(height=["1"] * 4, weight=["1"] * 4, city=["", "Bonn", " n/a ", "Lima"])
    inputs = TableFeatures.learn(TRAIN).inputs(other, np.zeros(4))
    assert inputs.remarks == (
        "column 'city': 2 values missing, treated as unknown",
        "column 'city': 1 value not in training, such as 'Bonn', treated as unknown",
    )
    assert inputs.unseen_categories["city"].tolist() == [False, True, False, False]
    assert inputs.categories[:, 0].tolist() == [0, 0, 0, 1]


def test_what_is_held_out_does_not_move_the_mean() -> None:
    features = TableFeatures.learn(part_of(a=["1", "3"]))
    found = features.inputs(part_of(a=["5", "101"]), np.zeros(2)).numbers
    assert found.tolist() == [[3.0], [99.0]]


def test_saved_and_read_again() -> None:
    features = learn_features(CONFIG, TRAIN, None)
    again = read_features(json.loads(json.dumps(features.to_json())), None, CONFIG, "a card")
    one, other = (each.inputs(TRAIN, np.zeros(60)) for each in (features, again))
    assert isinstance(again, TableFeatures)
    for row in (np.array([3, 1]), np.arange(60)):
        for first, second in zip(one.take(row), other.take(row), strict=True):
            assert first.equal(second)
    assert again.columns == ("height", "weight", "city")
    assert again.shape == features.shape


@pytest.mark.parametrize("card", [None, {}, {"numbers": []}, {"numbers": [{}], "categories": []}, [1]])
def test_a_damaged_card(card: object) -> None:
    with pytest.raises(RunError, match="a card is damaged: the features of its examples cannot be read"):
        read_features(card, None, CONFIG, "a card")


@pytest.mark.parametrize("nothing", ["", " ", "NA", "n/a", "NaN", "null", "None", "-", "?"])
def test_an_empty_number_is_the_mean_and_a_flag_says_so(nothing: str) -> None:
    features = TableFeatures.learn(part_of(a=["1", "3", nothing, "5"]))
    assert features.remarks == (
        "column 'a' is empty in 1 of 4 rows of training: they count as its mean, and a further number says which they "
        "are",
    )
    inputs = features.inputs(part_of(a=["3", nothing]), np.zeros(2))
    assert inputs.numbers.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert features.shape == Shape(numbers=2)
    assert inputs.remarks == ()


def test_an_empty_number_where_training_had_none() -> None:
    inputs = TableFeatures.learn(part_of(a=["1", "3"])).inputs(part_of(a=["", "NA", "3"]), np.zeros(3))
    assert inputs.numbers.tolist() == [[0.0], [0.0], [1.0]]
    assert inputs.remarks == ("column 'a': 2 values empty, replaced by its mean",)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1e308", "1e308 is too large for float32"),
        ("-1e40", "-1e40 is too large for float32"),
        ("1e18", "1e+18 is more than 1e+15 standard deviations from the training mean"),
    ],
)
def test_a_number_too_large_to_compute_with_is_refused(value: str, why: str) -> None:
    """A number that is finite in float32 is too large if sums of its squares are not finite."""
    features = TableFeatures.learn(part_of(a=["1", "3", "", "5"]))
    with pytest.raises(DataError) as caught:
        features.inputs(part_of(a=["3", value, "5"]), np.zeros(3))
    assert str(caught.value) == f"a.csv, line 3, column 'a': {why}: correct it, or leave it empty"


def test_numbers_outside_the_range_of_training_are_counted() -> None:
    features = TableFeatures.learn(part_of(a=["1", "3", "", "5"]))
    again = TableFeatures.from_json(json.loads(json.dumps(features.to_json())))
    assert again.described == {"a": {"type": "number", "range": [1.0, 5.0]}}
    inputs = again.inputs(part_of(a=["1", "5.01", "", "-2"]), np.zeros(4))
    assert inputs.outside_range["a"].tolist() == [False, True, False, True]
    assert inputs.select(np.array([3, 0])).outside_range["a"].tolist() == [True, False]


def test_a_constant_column_is_left_out_and_said() -> None:
    features = TableFeatures.learn(part_of(a=["1", "3"], b=["7", "7 "], c=["x", "x"], d=["", " "]))
    assert features.columns == ("a",)
    assert features.remarks == ("left out: b, c, d, the same in every row of training",)
    assert refused(a=["1", "1"], b=["x", "x"]) == (
        "a.csv: nothing to learn from (a, b: each the same in every row of training): name others with --extra-columns"
    )


def test_text_in_a_number_column() -> None:
    assert refused(a=["1", "2", "3", " 4 kg ", "5"]) == (
        "a.csv, line 5, column 'a': text where a number is wanted: '4 kg' (write a number or nothing there, or leave "
        "the column out: --extra-columns)"
    )
    assert TableFeatures.learn(part_of(a=["1", "x", "y"])).categories[0].values == ("1", "x", "y")
    assert "too large" in refused(a=["1e308", "-1e308"])


def test_text_in_a_number_column_after_training() -> None:
    with pytest.raises(DataError) as caught:
        TableFeatures.learn(TRAIN).inputs(part_of(height=["x"], weight=["2"], city=["Ulm"]), np.zeros(1))
    assert str(caught.value) == (
        "a.csv, line 2, column 'height': text where a number is wanted: 'x' (write a number or nothing there)"
    )


def test_a_missing_column() -> None:
    with pytest.raises(DataError) as caught:
        TableFeatures.learn(TRAIN).inputs(part_of(height=["1"], weight=["2"]), np.zeros(1))
    assert str(caught.value) == "a.csv: no column 'city', which this run reads (columns: height, weight)"


def test_what_is_taken() -> None:
    inputs = TableFeatures.learn(TRAIN).inputs(TRAIN, np.arange(60))
    numbers, categories = inputs.take(np.array([7, 2]))
    assert numbers.shape == (2, 2)
    assert categories.tolist() == [[2], [1]]
    assert inputs.lengths.tolist() == [3] * 60
    seen = [row for rows, _ in inputs.batches() for row in rows.tolist()]
    assert sorted(seen) == list(range(60))
    only = TableFeatures.learn(part_of(city=["a", "b"])).inputs(part_of(city=["b"]), np.zeros(1))
    assert [tensor.shape for tensor in only.take(np.array([0]))] == [(1, 0), (1, 1)]


def test_words() -> None:
    assert TableFeatures.learn(TRAIN).words == "number columns: height, weight; category columns: city"


# --- numbers and dates as people write them ---


def written(decimals: dict[str, str] | None = None, dates: dict[str, str] | None = None) -> Columns:
    return Columns(None, "label", "class", "", "table", decimals=decimals or {}, dates=dates or {})


def test_decimal_commas_are_kept_and_read_alike_later() -> None:
    features = TableFeatures.learn(part_of(a=["1,5", "2,5", "1.000,5"]), written(decimals={"a": ","}))
    plain = TableFeatures.learn(part_of(a=["1.5", "2.5", "1000.5"]))
    assert (features.numbers[0].mean, features.numbers[0].spread) == (plain.numbers[0].mean, plain.numbers[0].spread)
    assert plain.to_json() == {**features.to_json(), "numbers": [asdict(plain.numbers[0])]}
    again = TableFeatures.from_json(json.loads(json.dumps(features.to_json())))
    assert again == features
    given = part_of(a=["1.000", "2,25", "3.5", ""])
    inputs = again.inputs(given, np.zeros(4))
    expected = plain.inputs(part_of(a=["1000", "2.25", "3.5", ""]), np.zeros(4))
    np.testing.assert_array_equal(inputs.numbers, expected.numbers)
    assert inputs.remarks[0] == "column 'a': 1 value is written with the other decimal sign, '3.5' is read as 3.5"


def test_dates_become_columns_of_their_own() -> None:
    days = ["30.12.2023", "31.12.2023", "01.01.2024", "NA", "05.02.2024"]
    features = TableFeatures.learn(part_of(day=days, a=["1", "2", "3", "4", "5"]), written(dates={"day": "dmy"}))
    assert features.words == (
        "number columns: a, day: year, day: days; category columns: day: month, day: weekday"  # no hours are there
    )
    assert features.columns == ("a", "day")
    assert [column.flag for column in features.numbers] == [False, True, True]
    again = TableFeatures.from_json(json.loads(json.dumps(features.to_json())))
    assert again == features
    given = part_of(day=["31.12.2023", "-", "", "2024-01-01"], a=["1"] * 4)
    inputs = again.inputs(given, np.zeros(4))
    days_column = [column.name for column in again.numbers].index("day: days")
    column = again.numbers[days_column]
    assert inputs.numbers[0, days_column] == np.float32((1 - column.mean) / column.spread)
    assert inputs.numbers[1:3, days_column].tolist() == [0.0] * 2
    assert inputs.numbers[3, days_column] == np.float32((2 - column.mean) / column.spread)  # as programs write dates
    assert inputs.numbers[:, -1].tolist() == [0, 1, 1, 0]
    assert inputs.remarks == ()
    for value, wrong in (("soon", "text instead of a date"), ("12/31/2023", "a date written month first")):
        with pytest.raises(DataError) as caught:
            again.inputs(part_of(day=["31.12.2023", value], a=["1", "1"]), np.zeros(2))
        assert str(caught.value) == (
            f"a.csv, line 3, column 'day': {wrong}: '{value}' (dates are written day first here: write 2024-05-31 or "
            "leave it empty)"
        )
    assert features.cells(given.columns)["day: weekday"] == ["Sunday", "", "", "Monday"]


def test_one_date_in_every_row_is_left_out_and_not_asked_for_later() -> None:
    features = TableFeatures.learn(part_of(day=["31.05.2024"] * 3, a=["1", "2", "3"]), written(dates={"day": "dmy"}))
    assert (features.columns, features.dates) == (("a",), ())
    assert features.remarks == ("left out: day, the same in every row of training",)
    assert features.inputs(part_of(a=["2"]), np.zeros(1)).numbers.tolist() == [[0.0]]


def test_a_column_with_the_name_of_a_dates_part() -> None:
    part = part_of(**{"day": ["2024-05-30", "2024-06-01"], "day: year": ["1", "2"]})
    with pytest.raises(DataError) as caught:
        TableFeatures.learn(part, written(dates={"day": "ymd"}))
    assert str(caught.value) == "a.csv: column 'day: year' is also read from column 'day': rename it"


def test_thousands_are_read_by_a_column_whose_sign_is_the_point() -> None:
    features = learn_features(CONFIG, part_of(a=["1", "2", "3"]), None)
    card = json.loads(json.dumps(features.to_json()))
    assert read_features(card, None, CONFIG, "a card").inputs(part_of(a=["1,234"]), np.zeros(1)).numbers[0, 0] > 1000


def test_hours_are_read_where_there_are_some() -> None:
    moments = ["2024-05-30 08:00", "2024-05-31 20:30", "2024-06-01"]
    features = TableFeatures.learn(part_of(day=moments), written(dates={"day": "ymd"}))
    assert "day: hour" in features.words


def test_a_card_with_dates_that_cannot_be() -> None:
    good = TableFeatures.learn(part_of(day=["2024-05-30", "2024-05-31"]), written(dates={"day": "ymd"})).to_json()
    for damage in ({"order": "ydm"}, {"first": "soon"}, {"first": 3}):
        damaged = {**good, "dates": [{**good["dates"][0], **damage}]}
        with pytest.raises(RunError, match="the features of its examples cannot be read"):
            read_features(damaged, None, CONFIG, "a card")
    with pytest.raises(RunError, match="is no decimal sign"):
        read_features({**good, "numbers": [{**good["numbers"][0], "decimal": ";"}]}, None, CONFIG, "a card")
