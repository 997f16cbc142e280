"""The view of which words decided, from arrays made by hand; what leaving out means, in words."""

import json
from typing import Any

import numpy as np
import pytest

from glassformer.config.presets import IMAGE, MIXED, TABLE
from glassformer.inspection.views.attribution import (
    STRONGEST,
    WAYS,
    attribution_view,
    gradient_times_input,
    leave_one_out,
    occlusion_in_words,
    translation_attribution_view,
)
from glassformer.rendering.panels import Grid, Table, Tokens
from helpers.small_readers import WORDS as READ
from helpers.small_readers import T, reader_of, writer_of

WORDS = ["<start>", "not", "a", "good", "film"]
GRADIENT = np.array([0.1, -1.5, 0.0, 2.25, 0.5], np.float32)
LEFT_OUT = np.array([np.nan, -1.0, 0.25, 2.0, 0.5], np.float32)


def test_two_rows_of_tokens_a_table_and_what_they_say() -> None:
    view = attribution_view(
        WORDS, GRADIENT, LEFT_OUT, answer="positive", probability=0.875, score="the score", how="it is removed"
    )
    *ways, table = view.panels
    for tokens, name, values in zip(ways, WAYS, (GRADIENT, [0, -1.0, 0.25, 2.0, 0.5]), strict=True):
        assert isinstance(tokens, Tokens)
        assert (tokens.title, tokens.signed) == (name, True)
        np.testing.assert_array_equal(tokens.values, [values])
    assert ways[1].note == "leave-one-out: it is removed"
    assert isinstance(table, Table)
    assert table.rows[:2] == [("good", 3, 2.25, 2.0), ("not", 1, -1.5, -1.0)]
    assert [row for row in table.rows if row[1] == 0] == [("<start>", 0, pytest.approx(0.1), None)]
    assert view.title == "What decided: positive (87.5 %)"
    assert view.note == (
        "What is explained is the score. Most for it: “good” (+2.25), “film” (+0.5), “<start>” (+0.1); "
        "against it: “not” (−1.5). The two ways agree: they have the same sign for every token that counts in both "
        "(3 in all), and much the same order (rank correlation 1.00)."
    )
    assert [panel.takeaway for panel in view.panels] == [
        "“good” speaks most for it (+2.25)",
        "“good” speaks most for it (+2)",
        "Both ways name “good” first",
    ]
    json.dumps(view.to_dict(), allow_nan=False)


def test_when_the_two_ways_disagree_it_says_so() -> None:
    view = attribution_view(WORDS, GRADIENT, np.array([0.0, 1, 2, -1, 0], np.float32), answer="positive")
    assert "disagree in signs and in order. Tokens that count in both: 2; with opposite signs: 2" in view.note
    assert "(“not” and “good”). The order is another (rank correlation −0.11)" in view.note
    assert "neither should be trusted alone" in view.note
    assert view.title == "What decided: positive"
    assert view.panels[2].takeaway == "First by the gradient is “good”, by leaving out “a”"


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        (
            [0.1, 1.5, 0.0, -2.25, 0.6],
            "agree in order, not in signs. Tokens that count in both: 3; with opposite signs: 2",
        ),
        (
            [0.1, -0.4, 0.0, 0.3, 2.0],
            "agree in signs, not in order: they have the same sign for every token",
        ),
    ],
)
def test_signs_and_order_are_told_apart(left_out: list[float], says: str) -> None:
    note = attribution_view(WORDS, GRADIENT, np.array(left_out, np.float32), answer="positive").note
    assert says in note
    assert ", but " in note or ". But " in note


def test_ties_and_silence_have_no_winner() -> None:
    same, silent = np.array([1.0, -1.0, 0.5, 0.0, 0.0], np.float32), np.zeros(5, np.float32)
    first, second, table = attribution_view(WORDS, same, silent, answer="positive").panels
    assert first.takeaway == "“<start>” and “not” have equally large shares (1)"
    assert second.takeaway == "Nothing speaks for it or against it"
    assert table.takeaway == ""
    assert "agree" not in attribution_view(WORDS[:2], GRADIENT[:2], LEFT_OUT[:2], answer="x").note


@pytest.mark.parametrize("which", [0, 2])
def test_where_the_score_is_a_sum_the_two_ways_are_one(which: int) -> None:
    """A linear bag; with a hidden layer they only agree, or do not."""

    def note(**flags: Any) -> str:
        model = reader_of("bag", weighting="tfidf", **flags)
        gradient, left_out = (way(model, READ, which) for way in (gradient_times_input, leave_one_out))
        return attribution_view([str(place) for place in range(T)], gradient, left_out, answer="x").note

    assert "The two ways are identical here" in note(head_layers=0)
    assert "rank correlation" not in note(head_layers=0)
    deep = note(head_layers=1)
    assert "identical" not in deep
    assert "rank correlation" in deep


def test_nothing_that_speaks_is_not_named() -> None:
    zeros = np.zeros(5, np.float32)
    assert attribution_view(WORDS, zeros, zeros, answer="x").note == ""
    against = attribution_view(WORDS, -np.abs(GRADIENT) - 1, zeros, answer="x").note
    assert against == "Most against it: “good” (−3.25), “not” (−2.5), “film” (−1.5)."


def test_only_the_strongest_stand_in_the_table() -> None:
    many = np.linspace(-1, 1, 41).astype(np.float32)
    (*_, table) = attribution_view([str(place) for place in range(41)], many, many, answer="x").panels
    assert isinstance(table, Table)
    assert len(table.rows) == STRONGEST
    assert {row[1] for row in table.rows} == {*range(6), *range(35, 41)}


def test_patches_are_laid_out_as_the_image_is() -> None:
    values = np.arange(6, dtype=np.float32)
    view = attribution_view(
        [str(place) for place in range(6)], values, values * 2, answer="x", grid=(2, 3), how="painted"
    )
    first, second, _ = view.panels
    assert isinstance(first, Grid)
    assert isinstance(second, Grid)
    assert (first.title, second.title) == WAYS
    assert first.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.values.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (len(first.rows), len(first.columns), first.signed, second.signed) == (2, 3, True, True)
    assert second.note == "leave-one-out: painted"


def test_a_translation() -> None:
    gradients = np.array([[1.0, 0, 0], [0, -2.0, 0.5]], np.float32)
    left_out = np.array([1.5, -1.0, np.nan], np.float32)
    prefix = np.array([[0.25, 0], [0.5, 0.75]], np.float32)
    view = translation_attribution_view(
        ["das", "Haus", "<end>"], ["house", "<end>"], gradients, left_out, answer="house", probability=0.5,
        written=["<start>", "house"], prefix=prefix,
    )  # fmt: skip
    grid, before, gradient, lost, table = view.panels
    assert isinstance(grid, Grid)
    assert (grid.rows, grid.columns, grid.signed) == (["house", "<end>"], ["das", "Haus", "<end>"], True)
    np.testing.assert_array_equal(grid.values, gradients)
    assert isinstance(before, Grid)
    assert (before.columns, before.signed) == (["<start>", "house"], True)
    np.testing.assert_array_equal(before.values, prefix)
    assert isinstance(gradient, Tokens)
    assert isinstance(lost, Tokens)
    assert (gradient.values.tolist(), lost.values.tolist()) == ([[1, -2, 0.5]], [[1.5, -1, 0]])
    assert isinstance(table, Table)
    assert table.rows[0] == ("Haus", 1, -2.0, -1.0)
    assert view.title == "What decided the translation: house (50.0 %)"
    assert "for it: “das” (+1), “<end>” (+0.5); against it: “Haus” (−2)" in view.note
    alone = translation_attribution_view(["a", "b", "c"], ["x", "y"], gradients, left_out, answer="x y")
    assert len(alone.panels) == 4


def test_what_leaving_out_means() -> None:
    assert occlusion_in_words(writer_of("window")) == "it is removed from the text"
    assert occlusion_in_words(reader_of("average")) == "it is removed from the text"
    assert occlusion_in_words(reader_of("bag", weighting="counts")) == "its share of the sum is taken away"
    assert "keep their weights" in occlusion_in_words(reader_of("bag", weighting="tfidf"))
    columns, image, mixed = (occlusion_in_words(reader_of("transformer", kind)) for kind in (TABLE, IMAGE, MIXED))
    assert columns == "a number is put at its mean, a category at an unknown value"
    assert image == "a patch is painted over with the mean colour of the training images"
    assert mixed == f"{columns}; {image}; a word is removed"
    assert occlusion_in_words(reader_of("linear", IMAGE)).startswith("a pixel is painted")
