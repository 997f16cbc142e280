"""Errors of classifiers and regressors, from records made by hand whose truth is known."""

import math
from typing import Any

import numpy as np
import pytest

from glassformer.error_analysis.finding import ErrorFinding, percent, sentences, span
from glassformer.error_analysis.labelling import (
    confusions,
    error_count,
    errors_by_group,
    mean_error,
    residuals,
    wrong_rows,
)
from glassformer.error_analysis.traits import (
    error_rates,
    errors_by_length,
    means,
    over_represented_words,
    quartiles,
    rare_and_unknown,
    value_groups,
    words_in,
)
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.statistics.intervals import Interval, share_interval


def records_of(*answers: tuple[str, str], texts: list[str] | None = None) -> list[dict[str, Any]]:
    given = texts or [f"text {n}" for n in range(len(answers))]
    return [
        {"text": text, "label": label, "predicted": said, "probability": 0.75, "loss": 0.5}
        for text, (label, said) in zip(given, answers, strict=True)
    ]


def table_of(found: ErrorFinding, place: int = 0) -> Table:
    panel: Panel = found.panels[place]
    assert isinstance(panel, Table)
    return panel


# --- classes ---

SOME = records_of(
    *[("a", "b")] * 3, ("b", "a"), ("c", "a"), *[("a", "a")] * 5, *[("b", "b")] * 2, ("c", "c"), ("c", "c")
)


def test_the_most_frequent_confusion_comes_first_and_is_said() -> None:
    found = confusions(SOME, "text")
    assert table_of(found).rows == [
        ["a", "b", 3, 3 / 5, 3 / 8],
        ["b", "a", 1, 1 / 5, 1 / 3],
        ["c", "a", 1, 1 / 5, 1 / 3],
    ]
    assert found.sentence == "60 % of the errors (3) take a for b."
    assert confusions(records_of(("a", "b"), ("b", "a")), "text").sentence == ""  # once is no habit


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([("a", "a")], "None of the 1 text is wrong."),
        ([("a", "b")], "All of the 1 text is wrong."),
        ([("a", "b")] * 3, "All of the 3 texts are wrong."),
        ([("a", "b"), *[("a", "a")] * 3], "1 of 4 texts is wrong: 25 % (4.6–70 %)."),
    ],
)
def test_how_many_errors_in_words(answers: list[tuple[str, str]], said: str) -> None:
    assert error_count(records_of(*answers), "text").sentence == said


@pytest.mark.parametrize("answers", [[("a", "a")], [("a", "b")], [("a", "a"), ("b", "b")], [("a", "b"), ("b", "a")]])
def test_one_example_no_error_and_all_wrong(answers: list[tuple[str, str]]) -> None:
    """Nothing breaks, and nothing is said of which there is no telling."""
    records = records_of(*answers)
    wrong, texts = wrong_rows(records), [one["text"] for one in records]
    words = over_represented_words(texts, wrong, "text")
    (panel,) = words.panels
    assert isinstance(panel, Words)
    assert errors_by_length(texts, wrong, "text").sentence == ""
    assert rare_and_unknown(texts, wrong, "text", unknown=np.zeros(len(texts), int), train=[]).sentence == ""
    confusions(records, "text")


def test_several_labels() -> None:
    records = [
        {"text": "x", "labels": ["a", "b"], "predicted": ["a"], "loss": 1.0},
        {"text": "y", "labels": ["a"], "predicted": ["a"], "loss": 0.1},
        {"text": "z", "labels": [], "predicted": ["a"], "loss": 2.0},
    ]
    assert wrong_rows(records).tolist() == [True, False, True]


# --- groups ---


def test_quarters_hold_every_example_once_and_equal_values_together() -> None:
    values = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, np.nan])
    groups = quartiles("words", values)
    assert np.sum([group.rows for group in groups], axis=0).tolist() == [1] * 12 + [0]
    assert [group.name for group in groups] == ["1", "2 to 4", "5 to 8"]
    assert [group.size for group in groups] == [5, 3, 4]


def test_few_different_values_are_groups_of_their_own() -> None:
    assert [(group.name, group.size) for group in quartiles("n", np.array([3.0, 1, 3, 2]))] == [
        ("1", 1),
        ("2", 1),
        ("3", 2),
    ]
    assert quartiles("n", np.array([np.nan])) == []
    assert [group.name for group in quartiles("n", np.array([7.0]))] == ["7"]


def test_quarters_of_many_are_about_equal() -> None:
    groups = quartiles("n", np.random.default_rng(1).normal(size=401))
    assert len(groups) == 4
    assert all(98 <= group.size <= 102 for group in groups)


def test_a_group_that_is_wrong_beyond_chance_is_said() -> None:
    cities = ["Rome"] * 20 + ["Oslo"] * 60 + [""] * 3
    wrong = np.array([n < 15 or n in (30, 81) for n in range(83)])
    found = error_rates("by city", value_groups("city", cities), wrong, "example")
    rows = {row[0]: row for row in table_of(found).rows}
    assert list(rows) == ["Oslo", "Rome", "(empty)"]
    assert rows["Rome"][1:4] == [20, 15, 0.75]
    assert (rows["Oslo"][2], rows["(empty)"][2]) == (1, 1)
    assert float(rows["Rome"][6] or 0) < 1e-8
    assert (
        found.sentence == "75 % (53–89 %) of the examples with “city: Rome” are wrong, against 20 % of all 83 examples."
    )
    shuffled = np.random.default_rng(0).permutation(wrong)
    assert error_rates("by city", value_groups("city", cities), shuffled, "example").sentence == ""


def test_several_columns_are_told_apart() -> None:
    wrong = np.array([True, False, True])
    groups = [*quartiles("height", np.array([1.0, 2, 3])), *value_groups("city", ["a", "a", "b"])]
    table = table_of(error_rates("by column", groups, wrong, "row"))
    assert list(table.columns[:2]) == ["column", "value"]
    assert [row[:4] for row in table.rows][-2:] == [["city", "a", 2, 1], ["city", "b", 1, 1]]


# --- words and lengths ---


def test_words_are_lower_case_and_keep_their_apostrophe() -> None:
    assert words_in("Don't say “NOT”, über-gut: 3.5") == ["don't", "say", "not", "über", "gut", "3", "5"]


def test_the_word_that_errors_have() -> None:
    texts = ["it was not good not at all"] * 12 + ["it was good"] * 4 + ["it was fine"] * 40 + ["not fine"] * 4
    wrong = np.array([True] * 16 + [False] * 44)
    found = over_represented_words(texts, wrong, "text")
    rows = {row[0]: row for row in table_of(found).rows}
    _, here, whole, of_errors, of_rest, rate, low, high, chance = rows["not"]
    assert (here, whole, of_errors, of_rest) == (12, 16, 12 / 16, 4 / 44)  # once a text, however often it stands there
    interval = share_interval(12, 16)
    assert (rate, low, high) == (interval.value, interval.low, interval.high)
    assert float(chance or 1) < 0.001
    assert "fine" not in rows
    first = table_of(found).rows[0]
    assert first[0] == "good"
    assert found.sentence == (
        "Of the 7 words seen in 5 texts or more, “good” is in 100 % of errors against 0 % of the rest."
    )


def test_words_that_are_there_by_chance_are_not_said() -> None:
    random = np.random.default_rng(4)
    texts = [" ".join(random.choice(["a", "b", "c", "d", "e", "f", "g"], 4)) for _ in range(80)]
    found = over_represented_words(texts, random.random(80) < 0.2, "text")
    assert found.sentence == ""
    assert "None of the 7 words" in table_of(found).note


def test_rare_words_are_not_looked_at() -> None:
    found = over_represented_words(["one"] * 4 + ["two"] * 4, np.array([True] * 4 + [False] * 4), "text")
    assert isinstance(found.panels[0], Words)
    assert "No word is in 5 texts" in found.panels[0].text


def test_errors_are_longer() -> None:
    texts = ["a b c d e f g h i j"] * 5 + ["a b c d e f g h"] * 5 + ["a b", "a b c"] * 20
    wrong = np.array([True] * 10 + [False] * 40)
    found = errors_by_length(texts, wrong, "text")
    assert found.sentence == "100 % (57–100 %) of the texts with “words: 8” are wrong, against 20 % of all 50 texts."
    assert [row[:3] for row in table_of(found).rows] == [["2", 20, 0], ["3", 20, 0], ["8", 5, 5], ["10", 5, 5]]
    assert table_of(errors_by_length(["abc", "abcd"], np.array([True, False]), "text")).columns[0] == "characters"


def test_rare_and_unknown_words() -> None:
    texts = ["known rare"] * 10 + ["known new"] * 10 + ["known known"] * 30
    wrong = np.array([True] * 8 + [False] * 2 + [True] * 9 + [False] * 31)
    unknown = np.array([0] * 10 + [2] * 10 + [0] * 30)
    found = rare_and_unknown(texts, wrong, "text", unknown=unknown, train=["known rare"] * 4 + ["Known"])
    rows = table_of(found).rows
    assert [row[1:3] for row in rows] == [[10, 9], [10, 9], [20, 17]]
    assert "“contains: a word seen fewer than 5 times in training” are wrong" in found.sentence
    assert rare_and_unknown(texts, wrong, "text", unknown=None, train=None) == ErrorFinding()


# --- numbers ---


def numbers_of(*errors: float) -> list[dict[str, Any]]:
    return [{"row": f"r{n}", "number": 10.0, "predicted": 10 + e, "error": e} for n, e in enumerate(errors)]


def test_bias_and_size_of_errors() -> None:
    found = mean_error(numbers_of(2.0, 3.0, 2.5, 2.5), "row")
    bias, size = table_of(found).rows
    assert bias[1] == size[1] == 2.5
    assert 0 < float(bias[2] or 0) < 2.5 < float(bias[3] or 0)
    assert found.sentence == "4 rows: 2.5 off on average (bias: +2.5)."
    assert table_of(mean_error(numbers_of(2.0), "row")).rows[0] == ["predicted less true (bias)", 2.0, None, None]


def test_a_group_that_is_far_off_is_said() -> None:
    errors = [0.1, -0.1] * 20 + [3.0, -5.0] * 5
    groups = value_groups("city", ["Rome"] * 40 + ["Oslo"] * 10)
    found = errors_by_group(numbers_of(*errors), groups, "row")
    assert [row[:3] for row in table_of(found).rows] == [
        ["Rome", 40, pytest.approx(0.1)],
        ["Oslo", 10, pytest.approx(4.0)],
    ]
    assert found.sentence == "The mean absolute error is 4 for “city: Oslo”, against 0.88 of all."
    assert errors_by_group(numbers_of(1.0), [], "row") == ErrorFinding()


def test_the_mean_of_a_single_example_has_no_interval() -> None:
    table = table_of(means("x", quartiles("n", np.array([1.0, 2, 2])), np.array([5.0, 1, 3]), "row", "value"))
    assert table.rows[0] == ["1", 1, 5.0, None, None]
    assert table.rows[1][:3] == ["2", 2, 2.0]


def test_residuals_of_many_are_thinned() -> None:
    panel = residuals(numbers_of(*[float(n) for n in range(2000)]), "row")
    assert 400 < len(panel.points) <= 800
    assert panel.points[1].tolist() == [13.0, 3.0]
    assert panel.note == "Every 3-th of 2,000 rows."


# --- words for numbers ---


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.314, "31 %"), (0.0, "0 %"), (1.0, "100 %"), (0.0312, "3.1 %"), (0.95, "95 %"), (0.957, "95.7 %"), (0.03, "3 %"),
     (math.nan, "–")],
)  # fmt: skip
def test_shares_in_words(share: float, said: str) -> None:
    assert percent(share) == said


def test_spans_and_sentences() -> None:
    assert span(Interval(0.2, 0.115, 0.0 + 0.3)) == "12–30 %"
    assert sentences([ErrorFinding(sentence=word) for word in ("a.", "", "b.", "c.", "d.", "e.")]) == "a. b. c. d."
