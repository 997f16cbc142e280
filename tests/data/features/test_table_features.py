"""Rows as a model reads them: standardised by the training part alone, whatever comes later."""

import json

import numpy as np
import pytest

from glassformer.config.errors import DataError, RunError
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
    assert inputs.remarks == ("column 'city': 1 value not in training, such as 'Bonn', taken as unknown",)
    assert features.shape == Shape(numbers=2, categories=(4,))


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
    with pytest.raises(RunError, match="a card is damaged: it does not say how its examples are read"):
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
    assert inputs.remarks == ("column 'a': 2 values empty, taken as its mean",)


def test_a_constant_column_is_left_out_and_said() -> None:
    features = TableFeatures.learn(part_of(a=["1", "3"], b=["7", "7 "], c=["x", "x"], d=["", " "]))
    assert features.columns == ("a",)
    assert features.remarks == (
        "column 'b' is 7 in every row of training: left out",
        "column 'c' is x in every row of training: left out",
        "column 'd' is empty in every row of training: left out",
    )
    assert refused(a=["1", "1"], b=["x", "x"]) == (
        "a.csv: no column says anything (a, b: each the same in every row of training): name others with "
        "--extra-columns"
    )


def test_text_in_a_number_column() -> None:
    assert refused(a=["1", "2", "3", " 4 kg ", "5"]) == (
        "a.csv, line 5, column 'a': text where a number is wanted: '4 kg' (write a number or nothing there, or leave "
        "the column out: --extra-columns)"
    )
    assert TableFeatures.learn(part_of(a=["1", "x", "y"])).categories[0].values == ("1", "x", "y")
    assert "too large" in refused(a=["1e308", "-1e308"])


def test_a_missing_column() -> None:
    with pytest.raises(DataError) as caught:
        TableFeatures.learn(TRAIN).inputs(part_of(height=["1"], weight=["2"]), np.zeros(1))
    assert str(caught.value) == "a.csv: no column 'city', which this model reads (columns: height, weight)"


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
