"""Where a language model's loss is, and odd translations: from numbers and records made by hand."""

from typing import Any

import numpy as np
import pytest

from glassformer.error_analysis.finding import ErrorFinding
from glassformer.error_analysis.language import (
    TokenLosses,
    loss_by_document,
    loss_by_kind,
    loss_by_place,
    loss_by_token,
)
from glassformer.error_analysis.translations import (
    chrf_by_source_length,
    mean_chrf,
    odd_outputs,
    repeated,
    sentence_scores,
    worst_translations,
)
from glassformer.rendering.panels import Lines, Table

PIECES = [None, "the", " cat", "s", " 12", "3", ",", " ", "\n", " don't", None]
"""Ids 0 and 10 are special."""


def asked_of(*tokens: tuple[int, int, float], before: list[int] | None = None) -> TokenLosses:
    """The token before, the token asked for, and its loss."""
    previous, ids, losses = (np.array(column) for column in zip(*tokens, strict=True))
    places = np.array(before) if before is not None else np.arange(1, len(ids) + 1)
    return TokenLosses(ids, previous, places, losses.astype(float))


def table(found: ErrorFinding, place: int = 0) -> Table:
    panel = found.panels[place]
    assert isinstance(panel, Table)
    return panel


# --- language models ---


def test_tokens_by_loss_in_all_and_each() -> None:
    asked = asked_of(*[(0, 1, 1.0)] * 6, *[(0, 2, 0.5)] * 5, (0, 3, 3.0))
    found = loss_by_token(asked, lambda id: f"<{id}>")
    assert table(found).rows == [
        ["<1>", 6, 6 / 12, pytest.approx(6 / 11.5), 1.0],
        ["<3>", 1, 1 / 12, pytest.approx(3 / 11.5), 3.0],
        ["<2>", 5, 5 / 12, pytest.approx(2.5 / 11.5), 0.5],
    ]
    assert found.sentence == "26 % of the loss is on 8.3 % of the tokens (token: <3>)."  # <1> is only frequent


def test_no_loss_at_all() -> None:
    found = loss_by_token(asked_of((0, 1, 0.0), (1, 2, 0.0)), str)
    assert found.sentence == ""
    assert [row[-1] for row in table(found).rows] == [0, 0]


def test_kinds_of_one_loss_stand_in_one_order() -> None:
    """Whatever order a set has in this process."""
    asked = asked_of((0, 4, 1.0), (4, 6, 1.0), (6, 7, 1.0), (7, 1, 1.0), (1, 10, 1.0))
    names = [row[0] for row in table(loss_by_kind(asked, lambda id: PIECES[id], whole_words=False)).rows]
    assert names == sorted(names)


def test_kinds_of_tokens() -> None:
    asked = asked_of(
        (0, 1, 1.0),  # the first of a text
        (1, 2, 1.0),  # a blank before it
        (2, 3, 5.0),  # inside: "cat" + "s"
        (3, 4, 1.0),  # digits
        (4, 5, 1.0),
        (5, 6, 1.0),  # punctuation
        (6, 7, 1.0),  # a blank
        (7, 1, 1.0),  # after a blank: the first
        (1, 9, 1.0),  # a word with its apostrophe
        (9, 8, 1.0),
        (8, 10, 1.0),  # the end
        (6, 1, 1.0),  # after a comma: the first
    )
    found = loss_by_kind(asked, lambda id: PIECES[id], whole_words=False)
    rows = {row[0]: row for row in table(found).rows}
    assert {name: row[1] for name, row in rows.items()} == {
        "inside a word": 1,
        "the first of a word": 5,
        "digits": 2,
        "punctuation": 1,
        "blanks and line ends": 2,
        "the end of a text, or unknown": 1,
    }
    assert rows["inside a word"][2:] == [1 / 12, 5 / 16, 5.0]
    assert found.sentence == "31 % of the loss is on 8.3 % of the tokens (kind: inside a word)."
    whole = loss_by_kind(asked, lambda id: PIECES[id], whole_words=True)
    assert {row[0]: row[1] for row in table(whole).rows}["a word"] == 6


def test_loss_by_place_in_the_window() -> None:
    random = np.random.default_rng(0)
    before = np.tile(np.arange(1, 9), 50)
    losses = 4.0 / before + 0.01 * random.normal(size=400)
    found = loss_by_place(TokenLosses(np.ones(400, int), np.ones(400, int), before, losses))
    (panel,) = found.panels
    assert isinstance(panel, Lines)
    (line,) = panel.series
    assert line.x == [1, 2, 3, 4, 5.5, 7.5]
    assert line.y[:4] == pytest.approx([4 / n for n in range(1, 5)], abs=0.01)
    assert all(low < y < high for low, y, high in zip(line.low or (), line.y, line.high or (), strict=True))
    late = losses[before > 6].mean()
    assert found.sentence == f"A token costs 4 nats at the start of a window, {late:.3g} at its end."
    assert loss_by_place(asked_of((0, 1, 1.0))) == ErrorFinding()


def test_a_long_window_is_drawn_in_few_points() -> None:
    asked = TokenLosses(*(np.ones(5000, int),) * 2, np.arange(1, 5001), np.ones(5000))
    panel = loss_by_place(asked).panels[0]
    assert isinstance(panel, Lines)
    assert 16 < len(panel.series[0].x) <= 32
    assert panel.log_x
    assert panel.series[0].x[-1] <= 5000


def test_worst_documents() -> None:
    asked = asked_of(*[(0, 1, 1.0)] * 6, *[(0, 1, 3.0)] * 7, *[(0, 1, 2.0)] * 5, (0, 1, 9.0))
    found = loss_by_document(np.repeat([0, 1, 2, 3], [6, 7, 5, 1]), asked, lambda number: f"doc {number}")
    assert [(row[0], row[1], row[-1]) for row in table(found).rows] == [
        ("doc 1", 7, 3.0),
        ("doc 2", 5, 2.0),
        ("doc 0", 6, 1.0),
    ]
    assert loss_by_document(np.zeros(3, int), asked_of(*[(0, 1, 1.0)] * 3), str) == ErrorFinding()


# --- translations ---


def pair(source: str, target: str, output: str) -> dict[str, Any]:
    return {"source": source, "target": target, "output": output, "exact": target == output, "loss": 1.0, "tokens": 3}


ODD = [
    pair("a b c", "x y z", "x y z"),
    pair("a b c", "x y z", ""),
    pair("a b c", "x y z", "x y z and more than that"),
    pair("a b c d", "x y z w v u", "x"),
    pair("a b c", "x y z", "a b c"),
    pair("a b c", "so it is", "so it is so it is so it is"),
]


def test_odd_outputs_are_counted() -> None:
    scores = np.array([100.0, 0, 50, 10, 5, 40])
    found = odd_outputs(ODD, scores, np.array([True] + [False] * 5))
    rows = {row[0]: row for row in table(found).rows}
    assert {name: row[1] for name, row in rows.items()} == {
        "empty": 1,
        "more than twice as long as the target": 2,
        "less than half as long as the target": 1,
        "the source, copied": 1,
        "a phrase again and again": 1,
        "from a source with an unknown token": 1,
    }
    assert rows["empty"][5:] == [0.0, 41.0]
    assert rows["from a source with an unknown token"][5:] == [100.0, 21.0]
    assert found.sentence == "33 % of the outputs are more than twice as long as the target."
    fine = odd_outputs(ODD[:1], scores[:1])
    assert fine.sentence == "No output is odd."
    assert table(fine).rows[0][5:] == [None, 100.0]


def test_repeated_phrases() -> None:
    assert repeated("no no no no no")
    assert repeated("a b c x a b c y a b c")
    assert not repeated("a b c x a b c y a b")
    assert not repeated("ab ab ab")
    assert repeated("abcdefabcdefabcdef")
    assert not repeated("abcdefabcdef")
    assert not repeated("")


def test_copies_that_are_right_are_not_odd() -> None:
    found = odd_outputs([pair("2024", "2024", "2024")], np.array([100.0]))
    assert {row[0]: row[1] for row in table(found).rows}["the source, copied"] == 0


def test_chrf_by_length_of_the_source() -> None:
    records = [pair("a b", "x", "x")] * 9 + [pair("a b c d e f", "x", "x")] * 9
    scores = np.array([80.0, 82, 81] * 3 + [20.0, 22, 21] * 3)
    found = chrf_by_source_length(records, scores)
    assert [row[:3] for row in table(found).rows] == [["2", 9, pytest.approx(81)], ["6", 9, pytest.approx(21)]]
    assert found.sentence == "The mean chrF is 21 for “words of the source: 6”, against 51 of all."
    assert chrf_by_source_length(records[:1], scores[:1]).sentence == ""


def test_the_worst_by_scores_that_are_known() -> None:
    panel = worst_translations(ODD, np.array([100.0, 3, 50, 10, 5, 40]))
    assert isinstance(panel, Table)
    assert [row[3] for row in panel.rows] == [3.0, 5.0, 10.0, 40.0, 50.0]


def test_how_good_in_words() -> None:
    scores = sentence_scores(ODD[:2])
    assert scores.tolist() == [pytest.approx(100), pytest.approx(0, abs=1)]
    assert mean_chrf(ODD[:1], scores[:1]).sentence.endswith("a chrF of 100.0 on average.")
    assert mean_chrf(ODD[:2], scores).sentence.startswith("2 pairs: 50 % are exactly the target;")
