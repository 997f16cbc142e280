"""The view of which words decided, from arrays made by hand; what leaving out means, in words."""

import json
from typing import Any

import numpy as np
import pytest

from glassformer.inspection.views.attribution import (
    MAX_ROWS,
    METHODS,
    Explained,
    attribution_view,
    from_each,
    gradient_times_input,
    leave_one_out,
)
from glassformer.rendering.panels import Grid, Table, Tokens
from helpers.small_readers import WORDS as READ
from helpers.small_readers import T, reader_of

WORDS = ["<start>", "not", "a", "good", "film"]
GRADIENT = np.array([0.1, -1.5, 0.0, 2.25, 0.5], np.float32)
LEFT_OUT = np.array([np.nan, -1.0, 0.25, 2.0, 0.5], np.float32)
OUTPUT = Explained(0, "positive", "the score", 0.875)


def test_two_rows_of_tokens_a_table_and_what_they_say() -> None:
    view = attribution_view(WORDS, GRADIENT, LEFT_OUT, OUTPUT)
    *ways, table = view.panels
    for tokens, name, values in zip(ways, METHODS, (GRADIENT, [0, -1.0, 0.25, 2.0, 0.5]), strict=True):
        assert isinstance(tokens, Tokens)
        assert (tokens.title, tokens.signed) == (name, True)
        np.testing.assert_array_equal(tokens.values, [values])
    assert ways[1].note.startswith("leave-one-out: a word is removed")
    assert isinstance(table, Table)
    assert table.rows[:2] == [("good", 3, 2.25, 2.0), ("not", 1, -1.5, -1.0)]
    assert [row for row in table.rows if row[1] == 0] == [("<start>", 0, pytest.approx(0.1), None)]
    assert view.title == "What decided: positive (87.5 %)"
    assert view.note.startswith("Explained is the score.")
    assert [panel.takeaway for panel in view.panels] == [
        "“good” supports it most (+2.25)",
        "“good” supports it most (+2)",
        "Opposite signs: no token, of 3 that count in both ways; rank correlation of the sizes 1.00",
    ]
    json.dumps(view.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("left_out", "names", "both", "order"),
    [
        ([0.0, 1, 2, -1, 0], "“not” and “good”", 2, "−0.11"),
        ([0.1, 1.5, 0.0, -2.25, 0.6], "“not” and “good”", 3, "1.00"),
        ([0.1, -0.4, 0.0, 0.3, 2.0], "no token", 3, "0.60"),
    ],
)
def test_signs_and_order_are_compared(left_out: list[float], names: str, both: int, order: str) -> None:
    view = attribution_view(WORDS, GRADIENT, np.array(left_out, np.float32), Explained(0, "positive", "the score"))
    assert view.title == "What decided: positive"
    assert view.panels[2].takeaway == (
        f"Opposite signs: {names}, of {both} that count in both ways; rank correlation of the sizes {order}"
    )


def test_ties_and_silence_have_no_winner() -> None:
    same, silent = np.array([1.0, -1.0, 0.5, 0.0, 0.0], np.float32), np.zeros(5, np.float32)
    first, second, table = attribution_view(WORDS, same, silent, OUTPUT).panels
    assert first.takeaway == "“<start>” and “not” have equally large shares (1)"
    assert second.takeaway == "No token supports or opposes it"
    assert table.takeaway == ""
    assert attribution_view(WORDS[:2], GRADIENT[:2], LEFT_OUT[:2], OUTPUT).panels[2].takeaway == ""


@pytest.mark.parametrize("which", [0, 2])
def test_where_the_score_is_a_sum_the_two_ways_are_one(which: int) -> None:
    """A linear bag; with a hidden layer they only agree, or do not."""

    def takeaway(**flags: Any) -> str:
        model = reader_of("bag", weighting="tfidf", **flags)
        gradient, left_out = (way(model, READ, which) for way in (gradient_times_input, leave_one_out))
        return attribution_view([str(place) for place in range(T)], gradient, left_out, OUTPUT).panels[2].takeaway

    assert "The two ways are identical" in takeaway(head_layers=0)
    deep = takeaway(head_layers=1)
    assert "rank correlation" in deep


def test_only_the_strongest_stand_in_the_table() -> None:
    many = np.linspace(-1, 1, 41).astype(np.float32)
    (*_, table) = attribution_view([str(place) for place in range(41)], many, many, OUTPUT).panels
    assert isinstance(table, Table)
    assert len(table.rows) == MAX_ROWS
    assert {row[1] for row in table.rows} == {*range(6), *range(35, 41)}


def test_patches_are_laid_out_as_the_image_is() -> None:
    values = np.arange(6, dtype=np.float32)
    view = attribution_view([str(place) for place in range(6)], values, values * 2, OUTPUT, grid=(2, 3))
    first, second, _ = view.panels
    assert isinstance(first, Grid)
    assert isinstance(second, Grid)
    assert (first.title, second.title) == METHODS
    assert first.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.values.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (len(first.rows), len(first.columns), first.signed, second.signed) == (2, 3, True, True)


def test_the_tokens_behind_each_token_of_a_translation() -> None:
    gradients = np.array([[1.0, 0, 0], [0, -2.0, 0.5]], np.float32)
    grid = from_each("from the source", gradients, ["house", "<end>"], ["das", "Haus", "<end>"], "source")
    assert (grid.rows, grid.columns, grid.signed) == (["house", "<end>"], ["das", "Haus", "<end>"], True)
    np.testing.assert_array_equal(grid.values, gradients)
    assert grid.takeaway == "“house” comes most from “das” (+1)"
