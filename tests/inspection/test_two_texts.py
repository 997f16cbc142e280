"""Two texts side by side: what differs, and models that cannot tell one order of words from another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.inspection.views.two_texts import (
    Output,
    Pair,
    Side,
    compare_sides,
    side_of,
    verdict,
    versus_view,
)
from glassformer.rendering.panels import Heads, Lines, Table, Tokens
from helpers.small_readers import VOCAB, reader_of, writer_of
from helpers.support import ready, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

BITES = torch.tensor([[7, 3, 5, 2, 9]])
BITTEN = torch.tensor([[5, 3, 7, 9, 2]])


def words_of(ids: Tensor) -> list[str]:
    return [f"w{one}" for one in ids[0].tolist()]


def side(model: nn.Module, ids: Tensor, text: str = "", **answers: float) -> Side:
    words = words_of(ids)
    return side_of(
        model,
        (ids,),
        text=text or " ".join(words),
        tokens=words,
        output=Output("yes (0.700)", answers or {"no": 0.3, "yes": 0.7}),
        ids=ids[0].tolist(),
    )


def by_hand(
    scores: list[float], text: str = "a b", said: str = "yes", answers: dict[str, float] | None = None, **more: Any
) -> Side:
    layers = [("embedding", np.array([3.0, 4.0], np.float32)), ("layer 0", np.array(scores[:2], np.float32))]
    ids = [sum(map(ord, word)) for word in text.split()]
    output = Output(said, {"no": 0.25, "yes": 0.75} if answers is None else answers)
    given: dict[str, Any] = {"layers": layers, "ids": ids, **more}
    return Side(text, text.split(), output, np.array(scores, np.float32), **given)


def judged(a: Side, b: Side) -> str:
    return verdict(Pair(a, b))


# --- order ---


@pytest.mark.parametrize("pool", ["mean", "max", "attention", "sum"])
def test_without_positions_a_transformer_cannot_tell_one_order_from_another(pool: str) -> None:
    model = reader_of("transformer", positions="none", pool=pool)
    a, b = side(model, BITES), side(model, BITTEN)
    found = compare_sides(a, b)
    assert found.largest <= 1e-5
    assert not found.can
    np.testing.assert_allclose(found.cosines, 1, atol=1e-5)
    np.testing.assert_allclose(found.distances, 0, atol=1e-5)
    view = versus_view([Pair(a, b)])
    assert "hold the same words, in another order" in view.note
    assert "cannot tell them apart" in view.note
    assert f"{found.largest:.3g}".replace("e-0", "e−") in view.note


@pytest.mark.parametrize(("name", "flags"), [
    ("transformer", {"positions": "rotary"}),
    ("transformer", {"positions": "sine"}),
    ("lstm", {}),
    ("cnn", {}),
    ("bag", {"ngrams": 2, "buckets": 101, "weighting": "counts"}),
], ids=str)  # fmt: skip
def test_with_positions_it_can(name: str, flags: dict[str, Any]) -> None:
    model = reader_of(name, **flags)
    a, b = side(model, BITES), side(model, BITTEN)
    found = compare_sides(a, b)
    assert found.can
    assert not found.does  # both are said to be yes (0.700)
    assert "could tell them apart, but hardly does" in versus_view([Pair(a, b)]).note


@pytest.mark.parametrize("name", ["bag", "average"])
def test_bags_cannot(name: str) -> None:
    model = reader_of(name)
    assert not compare_sides(side(model, BITES), side(model, BITTEN)).can
    assert compare_sides(side(model, BITES), side(model, BITES + 1)).can


# --- one side ---


def test_what_a_side_holds() -> None:
    model = reader_of("transformer", positions="rotary")
    found = side(model, BITES, "a text")
    with torch.no_grad():
        np.testing.assert_allclose(found.scores, model(BITES)[0], atol=1e-6)
        np.testing.assert_allclose(found.layers[-1][1], model.features(BITES)[0], atol=1e-6)
        np.testing.assert_allclose(found.layers[0][1], model.embed(BITES)[0].mean(0), atol=1e-6)
    assert [name for name, _ in found.layers] == ["embedding", "layer 0", "layer 1", "pooled"]
    assert found.attention is not None
    assert found.attention.shape == (2, 2, 5, 5)
    assert found.output == Output("yes (0.700)", {"no": 0.3, "yes": 0.7})
    assert found.ids == BITES[0].tolist()


def test_of_a_bag_a_language_model_and_a_translator() -> None:
    bag = side(reader_of("bag"), BITES)
    assert ([name for name, _ in bag.layers], bag.attention) == (["pooled"], None)
    writer = writer_of("gru")
    with torch.no_grad():
        np.testing.assert_allclose(side(writer, BITES).scores, writer(BITES)[0, -1], atol=1e-6)
        model, source = ready(translator()), tokens(1, 6, vocab=SOURCE_VOCAB)
        inputs = (source, None, tokens(1, 4, vocab=TARGET_VOCAB))
        found = side_of(model, inputs, text="", tokens=words_of(source), output=Output("x"))
        np.testing.assert_allclose(found.scores, model(*inputs)[0, 0], atol=1e-6)
    assert found.attention is not None
    assert found.attention.shape[2:] == (6, 6)


def test_of_a_model_of_ones_own() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(VOCAB, 4)
            self.pool = nn.Identity()

        def forward(self, ids: Tensor) -> Tensor:
            return self.pool(self.words(ids)).sum(1)

    model = Own()
    a, b = side(model, BITES), side(model, BITTEN)
    assert not a.layers
    assert not compare_sides(a, b).can
    assert {type(panel) for panel in versus_view([Pair(a, b)]).panels} == {Table, Tokens}


# --- compared, by hand ---


def test_differences_by_hand() -> None:
    found = compare_sides(by_hand([1.0, 0.0, 2.0]), by_hand([0.0, 1.0, -1.0], "b a"))
    assert found.largest == 3.0
    assert found.layers == ["embedding", "layer 0"]
    assert found.cosines == pytest.approx([1.0, 0.0])
    assert found.distances == pytest.approx([0.0, 2**0.5])
    assert compare_sides(by_hand([0.0, 0.0]), by_hand([0.0, 0.0])).distances == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_model_that_diverged_has_no_layer_that_differs_most() -> None:
    nan = by_hand([np.nan, np.nan], layers=[("embedding", np.full(2, np.nan, np.float32))])
    for view in (versus_view([Pair(nan, nan)]), versus_view([Pair(nan, nan, "a"), Pair(nan, nan, "b")])):
        lines = next(panel for panel in view.panels if isinstance(panel, Lines))
        assert lines.takeaway == ""


def test_the_verdict_says_how_much() -> None:
    one = by_hand([1.0, 0.5])
    assert judged(one, one) == ("The model cannot tell them apart: its scores differ by 0 at most, which is rounding.")
    nearly = by_hand([1.0, 0.5 + 2**-20])
    assert "differ by 9.54e−7 at most" in judged(one, nearly)
    other = by_hand([1.0, 0.0], said="no (0.625)", answers={"no": 0.625, "yes": 0.375})
    assert judged(one, other) == (
        "The model tells them apart (largest difference of its scores: 0.5). First text: yes; second text: no (0.625)."
    )
    assert judged(one, by_hand([1.0, 0.0])).startswith("The model could tell them apart, but hardly does")
    silent = (by_hand([1.0, 0.5], said="", answers={}), by_hand([1.0, 0.0], said="", answers={}))
    assert judged(*silent).endswith("First text: –; second text: –.")
    assert "could tell them apart" in judged(by_hand([0.01, 0.0]), by_hand([0.01, 2e-5]))


@pytest.mark.parametrize(("first", "second", "does"), [
    (Output("no (0.5)", {"no": 0.5001, "yes": 0.4999}), Output("yes (0.5)", {"no": 0.4999, "yes": 0.5001}), False),
    (Output("no", {"no": 0.55, "yes": 0.45}), Output("no", {"no": 0.61, "yes": 0.39}), True),
    (Output("a b"), Output("a b c"), True),
    (Output("a b"), Output("a b"), False),
    (Output("", cosine=0.99), Output("", cosine=0.99), False),
    (Output("", cosine=0.4), Output("", cosine=0.4), True),
    (Output("100", numeric=True), Output("101", numeric=True), False),
], ids=str)  # fmt: skip
def test_being_able_to_tell_apart_is_not_doing_so(first: Output, second: Output, does: bool) -> None:
    a, b = (replace(by_hand([100.0, at]), output=output) for at, output in ((0.0, first), (1.0, second)))
    found = compare_sides(a, b)
    assert (found.can, found.does) == (True, does)


def test_the_view_of_two_texts() -> None:
    a = by_hand([1.0, 0.0], "dog bites man", attention=np.full((2, 1, 3, 3), 1 / 3, np.float32))
    b = by_hand([0.0, 1.0], "man bites dog now", answers={"never": 0.125, "no": 0.375, "maybe": 0.5})
    view = versus_view([Pair(a, b)])
    answers, first, second, lines, heads = view.panels
    assert isinstance(answers, Table)
    assert answers.rows == [("yes", 0.75, None), ("no", 0.25, 0.375), ("maybe", None, 0.5), ("never", None, 0.125)]
    assert list(answers.bars) == ["first text", "second text"]
    assert isinstance(first, Tokens)
    assert isinstance(second, Tokens)
    assert (first.values.tolist(), second.values.tolist()) == ([[1, 0, 1]], [[1, 0, 1, 1]])
    assert (list(first.tokens), list(second.tokens)) == (["dog", "bites", "man"], ["man", "bites", "dog", "now"])
    assert isinstance(lines, Lines)
    assert list(lines.series[0].y) == pytest.approx([0.0, 2**0.5])
    assert list(lines.x_ticks) == ["embedding", "layer 0"]
    assert list(lines.series[1].y) == pytest.approx([1, 0])
    assert isinstance(heads, Heads)
    assert heads.title == "attention in the first text"
    assert heads.weights.shape == (2, 1, 3, 3)
    assert view.note.startswith("“dog bites man” beside “man bites dog now”. The model")


def test_texts_are_compared_by_their_words_and_only_where_there_is_nothing_else() -> None:
    a = by_hand([1.0, 0.0], "dog bites man", ids=[3, 5, 7])

    def said(**more: Any) -> str:
        return versus_view([Pair(a, replace(a, text="other", **more))]).note.partition(".")[0]

    assert said() == "“dog bites man” and “other” hold the same words, in another order"
    assert said(ids=[7, 5, 3]) == "“dog bites man” and “other” hold the same words, in another order"
    assert said(ids=[7, 5, 4]) == "“dog bites man” beside “other”"  # though the names of the tokens are the same
    a = replace(a, tokens=["age", "dog", "bites", "man"])  # a column, too
    assert said() == "“dog bites man” beside “other”"
    a = replace(a, tokens=["age", "size"], ids=())
    assert said() == "“dog bites man” beside “other”"
    assert not [panel for panel in versus_view([Pair(a, a)]).panels if isinstance(panel, Tokens)]


def test_what_is_no_choice_among_few_is_said_in_words() -> None:
    a, b = (by_hand([1.0], answers={}, said=said, layers=[]) for said in ("12.5", "13"))
    table = versus_view([Pair(a, b)]).panels[0]
    assert isinstance(table, Table)
    assert (table.rows, table.bars) == ([("12.5", "13")], ())


def test_two_runs_beside_each_other() -> None:
    pairs = []
    for name, positions in (("with", "rotary"), ("without", "none")):
        model = reader_of("transformer", positions=positions)
        pairs.append(Pair(side(model, BITES, "x y"), side(model, BITTEN, "y x"), name))
    view = versus_view(pairs)
    table, *panels = view.panels
    assert isinstance(table, Table)
    assert [(row[0], *row[4:]) for row in table.rows] == [("with", "yes", "no"), ("without", "no", "no")]
    assert [row[1] for row in table.rows] == ["yes (0.700)"] * 2
    assert table.rows[0][3] == pairs[0].difference.largest
    assert view.note.startswith(
        "“x y” and “y x” hold the same words, in another order. with: The model could tell them apart"
    )
    assert "without: The model cannot tell them apart" in view.note
    ends = []
    for pair, (first, second, lines, *heads) in zip(pairs, (panels[:5], panels[5:]), strict=True):
        assert isinstance(first, Tokens)
        assert isinstance(second, Tokens)
        assert (first.title, second.title) == (f"{pair.run}: the first text", f"{pair.run}: the second text")
        assert (first.tokens, second.tokens) == (words_of(BITES), words_of(BITTEN))
        assert second.values.tolist() == [[1, 0, 1, 1, 1]]
        assert isinstance(lines, Lines)
        ends.append(lines.series[0].y[-1])
        assert lines.title == f"{pair.run}: layer by layer"
        for panel, name, shown in zip(heads, ("first", "second"), (pair.first, pair.second), strict=True):
            assert isinstance(panel, Heads)
            assert panel.title == f"{pair.run}: attention in the {name} text"
            assert shown.attention is not None
            np.testing.assert_array_equal(panel.weights, shown.attention)
            assert panel.rows == panel.columns == shown.tokens
    assert ends[0] > 1e-3 > 1e-5 > ends[1]
