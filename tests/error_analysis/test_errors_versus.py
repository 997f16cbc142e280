"""Two runs side by side, from records made by hand."""

from typing import Any

import numpy as np
from scipy import stats

from glassformer.error_analysis.comparison import (
    PairedScores,
    largest_differences,
    mean_difference,
    only_one_gets,
    right_and_wrong,
)
from glassformer.rendering.panels import Panel, Rows, Table, Words

NAMES = ("bag", "gru")


def table(panel: Panel) -> Table:
    assert isinstance(panel, Table)
    return panel


def answers(both: int, first: int, second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    counts = [both, first, second, neither]
    return np.repeat([True, True, False, False], counts), np.repeat([True, False, True, False], counts)


def test_the_table_of_two_by_two_and_mcnemars_test() -> None:
    found = right_and_wrong(*answers(20, 14, 3, 5), NAMES, "text")
    rows = table(found.panels[0]).rows
    assert rows == [
        ["bag right", 20, 14, 34, 34 / 42],
        ["bag wrong", 3, 5, 8, 8 / 42],
        ["in all", 23, 19, 42, 1.0],
    ]
    p = stats.binomtest(3, 17).pvalue
    assert found.sentence == (
        "bag is right on 81 % of 42 texts, gru on 55 %: 14 only the first gets, 3 only the second "
        f"(McNemar's exact test: p = {p:.3g})."
    )


def test_two_runs_that_never_differ() -> None:
    found = right_and_wrong(*answers(3, 0, 0, 1), NAMES, "text")
    assert found.sentence.startswith("bag is right on 75 % of 4 texts, gru on 75 %: 0 only the first gets")
    assert found.sentence.endswith("p = 1).")


def record(text: str, label: str, said: str, probability: float) -> dict[str, Any]:
    return {"text": text, "label": label, "predicted": said, "probability": probability, "loss": 1.0}


def test_examples_that_only_one_gets() -> None:
    one = [
        record("a", "x", "x", 0.9),
        record("b", "x", "x", 0.6),
        record("c", "x", "y", 0.8),
        record("d", "x", "x", 0.7),
    ]
    two = [
        record("a", "x", "y", 0.7),
        record("b", "x", "x", 0.9),
        record("c", "x", "y", 0.9),
        record("d", "x", "z", 0.95),
    ]
    mine, theirs = only_one_gets(one, two, NAMES, "text")
    assert table(mine).title == "Only bag gets"
    assert table(mine).rows == [["d", "x", 0.7, "z", 0.95], ["a", "x", 0.9, "y", 0.7]]
    assert isinstance(theirs, Words)
    assert theirs.text == "There is no text that only gru gets."
    back = only_one_gets(two, one, NAMES, "text")[1]
    assert table(back).rows == table(mine).rows


def test_no_more_than_a_dozen_each_way() -> None:
    one = [record(str(n), "x", "x", 0.5) for n in range(30)]
    two = [record(str(n), "x", "y", n / 30) for n in range(30)]
    assert [row[0] for row in table(only_one_gets(one, two, NAMES, "text")[0]).rows] == [str(29 - n) for n in range(12)]


def test_sets_of_labels() -> None:
    one = [{"text": "a", "labels": ["x", "y"], "predicted": ["x", "y"], "loss": 0.1}]
    two = [{"text": "a", "labels": ["x", "y"], "predicted": ["x"], "loss": 0.9}]
    assert table(only_one_gets(one, two, NAMES, "text")[0]).rows == [["a", "x; y", "x"]]


def scores(
    first: np.ndarray, second: np.ndarray, measure: str = "error", noun: str = "example", *, lower: bool = True
) -> PairedScores:
    return PairedScores((first, second), NAMES, measure, noun, lower_is_better=lower)


def test_a_paired_difference() -> None:
    random = np.random.default_rng(0)
    first = random.normal(5, 1, 60)
    second = first + 0.5 + random.normal(0, 0.2, 60)
    found = mean_difference(scores(first, second))
    test = stats.ttest_rel(first, second)
    interval = test.confidence_interval()
    assert found.sentence == (
        f"Mean error {first.mean():.4g} against {second.mean():.4g}: a difference of {(first - second).mean():.3g} "
        f"({interval.low:.3g} to {interval.high:.3g}; paired test: p = {test.pvalue:.3g})."
    )
    higher = mean_difference(scores(first, second, "chrF", "pair", lower=False))
    assert higher.sentence.startswith("Mean chrF")
    assert mean_difference(scores(first, first)).sentence.endswith("p = 1).")
    assert "unknown, for there is only one" in mean_difference(scores(first[:1], second[:1])).sentence


def test_the_largest_differences_each_way() -> None:
    first, second = np.array([1.0, 5.0, 2.0, 3.0]), np.array([4.0, 1.0, 2.0, 2.5])
    rows: Rows = [["a"], ["b"], ["c"], ["d"]]
    lower = largest_differences(scores(first, second), ["text"], rows)
    assert [table(panel).rows for panel in lower] == [
        [["a", 1.0, 4.0]],
        [["b", 5.0, 1.0], ["d", 3.0, 2.5]],
    ]
    assert table(lower[0]).title == "bag is better by most"
    assert list(table(lower[0]).columns) == ["text", "error: bag", "error: gru"]
    higher = largest_differences(scores(first, second, "chrF", lower=False), ["text"], rows)
    assert [row[0] for row in table(higher[0]).rows] == ["b", "d"]
    none = largest_differences(scores(first, first, "chrF", lower=False), ["text"], rows)
    assert all(isinstance(panel, Words) for panel in none)
