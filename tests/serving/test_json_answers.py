"""JSON has no infinity and no NaN: null stands for such a number, and a remark says so."""

from glassformer.serving.formats import MAX_NAMED, encode
from helpers.serving import strict_json


def test_a_number_that_is_not_finite_becomes_null_with_a_remark() -> None:
    answer = {"value": float("nan"), "rows": [1.5, float("inf"), {"low": -float("inf")}], "remarks": ["before"]}
    named = "value (NaN), rows.1 (infinity), rows.2.low (-infinity)"
    assert strict_json(encode(answer)) == {
        "value": None,
        "rows": [1.5, None, {"low": None}],
        "remarks": ["before", f"null replaces numbers that are not finite: {named}"],
    }
    many = strict_json(encode({"all": [float("nan")] * (MAX_NAMED + 3)}))
    assert many["remarks"][0].endswith("all.4 (NaN) and 3 more")
    assert encode({"a": (1, "ä")}) == '{"a":[1,"ä"]}'.encode()
