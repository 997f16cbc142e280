"""JSON has no infinity and no NaN: null stands for such a number, and a remark says so."""

from glassformer.serving.formats import encode
from helpers.serving import strict_json


def test_a_number_that_is_not_finite_becomes_null_with_a_remark() -> None:
    answer = {"value": float("nan"), "rows": [1.5, float("inf"), {"low": -float("inf")}], "remarks": ["before"]}
    assert strict_json(encode(answer)) == {
        "value": None,
        "rows": [1.5, None, {"low": None}],
        "remarks": ["before", "null replaces numbers that are not finite"],
    }
    assert encode({"a": (1, "ä")}) == '{"a":[1,"ä"]}'.encode()
