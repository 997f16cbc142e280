"""What panels show in a few words, true where nothing leads."""

import math
from typing import Any

import pytest

from glassformer.rendering.panels import Words
from glassformer.rendering.takeaways import course, leaders, leading, listed, three
from glassformer.rendering.view import View

SAYS = {
    "one": "{name} leads ({number})",
    "several": "{name} lead ({number} each)",
    "all": "All {count} are equal ({number})",
    "alone": "{name} is all there is: {number}",
    "none": "nothing is known",
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (-2.5, "−2.5"),
        (1234.5, "1,234"),
        (0.0, "0"),
        (1e-7, "1e−7"),
        (2.98e-08, "2.98e−8"),
        (3e-10, "3e−10"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert three(value) == text


def test_names() -> None:
    assert [listed("abcde"[:count]) for count in (1, 2, 3, 4, 5)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b and 2 more",
        "a, b and 3 more",
    ]


@pytest.mark.parametrize(
    ("values", "first"),
    [([1, 3, 2], [1]), ([3, 1, 3.0000001], [0, 2]), ([-1, -1], [0, 1]), ([math.nan, -5], [1]), ([math.nan], []),
     ([], []), ([0.0, -1e-9, -4.0], [0, 1]), ([math.inf, 2], [0])],
)  # fmt: skip
def test_leaders_share_a_tie(values: list[float], first: list[int]) -> None:
    assert leaders(values) == first


@pytest.mark.parametrize(
    ("values", "told"),
    [([0.25, 0.5], "b leads (0.5)"), ([1, 1, 0.5], "a and b lead (1 each)"), ([0.5] * 3, "All 3 are equal (0.5)"),
     ([0.5], "a is all there is: 0.5"), ([], "nothing is known"), ([math.nan], "nothing is known"),
     ([math.nan, 0.5, 0.5], "All 2 are equal (0.5)")],
)  # fmt: skip
def test_who_leads(values: list[float], told: str) -> None:
    assert leading("abc"[: len(values)], values, SAYS) == told


@pytest.mark.parametrize(
    ("y", "told"),
    [
        ([4.63, 7.2, 6.9, 5.71], "rises from 4.63 to 5.71 nats, with a peak of 7.2"),
        ([2.0, 0.5, 1.0], "falls from 2 to 1 nats, with a low of 0.5"),
        ([2.0, 5.0, 2.0], "ends where it began, at 2 nats, with a peak of 5"),
        ([1.0, 2.1, 2.0], "rises from 1 to 2 nats"),
        ([1.0, 1.0, 1.0], "ends where it began, at 1 nats"),
    ],
)
def test_a_peak_between_the_ends_is_named(y: list[float], told: str) -> None:
    assert course(y, "nats") == told


def test_a_case_without_a_sentence_and_facts() -> None:
    assert leading(["a"], [math.nan], {"one": "{name}"}) == ""
    assert leading("ab", [1, 2], {"one": "{name} leads in {where}: {leaders} of {count}"}, where="Rome") == (
        "b leads in Rome: 1 of 2"
    )


@pytest.mark.parametrize(
    ("y", "told"),
    [([1, 5, 2], "rises from 1 to 2, with a peak of 5"), ([4, 1], "falls from 4 to 1"),
     ([2, 9, 2.001], "ends where it began, at 2, with a peak of 9"),
     ([3], "is 3"), ([math.nan, 3, 4], "rises from 3 to 4"), ([], "is unknown")],
)  # fmt: skip
def test_the_course_of_a_line(y: list[float], told: str) -> None:
    assert course(y) == told


def test_a_takeaway_is_the_heading_in_pictures_too() -> None:
    def words(**told: Any) -> list[str]:
        figure = View("View", [Words(text="text", **told)]).figure()
        return [text.get_text() for text in figure.texts]

    assert words(title="What it is", takeaway="The one thing") == ["View", "What it is", "The one thing", "text"]
    assert words(title="What it is") == ["View", "What it is", "text"]
