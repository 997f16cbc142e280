"""Nearest words on hand-made tables, and maps that are the same every time."""

from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from torch import nn

from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.config.sections import TokenizerSettings
from glassformer.inspection.views.word_vectors import (
    Neighbours,
    cosines,
    map_of,
    nearest,
    neighbours_of,
    neighbours_view,
    no_words,
    plane,
    word_id,
    word_table,
)
from glassformer.models.build import build_language_model, build_predictor
from glassformer.rendering.panels import Grid, Points, Table
from glassformer.text.tokenizer import Tokenizer
from helpers.support import ready
from helpers.translators import translator

TABLE = np.array([[1.0, 0.0], [4.0, 4.0], [0.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [0.0, 5.0], [9.0, 0.0]], np.float32)
STORY = ["the cat saw the other cats and the dog; the catalogue was there too, then the dogs slept there"] * 4


def tokenizer_of(kind: str, **settings: Any) -> Tokenizer:
    return Tokenizer.train(STORY, TokenizerSettings(kind=kind, **settings))


WORD, CHAR, BPE = tokenizer_of("word"), tokenizer_of("char"), tokenizer_of("bpe", vocab_size=300)


# --- nearest ---


def test_nearest_by_dot_product() -> None:
    assert nearest(TABLE, 0, 4) == [6, 1, 3, 2]
    assert nearest(TABLE, 0, 10, skip={6}) == [1, 3, 2, 5, 4]


def test_dot_products_and_cosines_of_neighbours() -> None:
    found = Neighbours("a", ["b", "c", "d", "e"], TABLE[[0, 6, 1, 3, 2]])
    assert found.dots.tolist() == [9, 4, 2, 0]
    np.testing.assert_allclose(found.cosines, [1, np.sqrt(0.5), 1, 0])


def test_cosines() -> None:
    alike = cosines(TABLE[:5])
    np.testing.assert_allclose(alike[0], [1, np.sqrt(0.5), 0, 1, -1])
    assert alike[2].tolist() == [0] * 5
    assert np.abs(alike).max() <= 1


# --- words and tables ---


def test_ids_of_words() -> None:
    assert WORD.token(word_id("dog", WORD)) == "dog"
    assert CHAR.token(word_id("d", CHAR)) == "d"
    assert BPE.token(word_id("the", BPE)) == " the"  # as it stands within a text
    assert BPE.token(word_id(" the", BPE)) == " the"
    assert BPE.token(word_id("o", BPE)) == "o"


@pytest.mark.parametrize(
    ("word", "tokenizer", "said"),
    [
        ("horse", WORD, f"'horse' is unknown: it is not among the {len(WORD)} tokens"),
        ("<pad>", WORD, "'<pad>' is unknown"),
        ("Ж", CHAR, "'Ж' is unknown"),
        ("dog", CHAR, "cut into 3 tokens, d|o|g; ask for one"),
        ("zebra", BPE, "cut into 5 tokens, z|e|b|r|a"),
        (" ", WORD, "no word to look for"),
    ],
)
def test_words_without_a_vector(word: str, tokenizer: Tokenizer, said: str) -> None:
    with pytest.raises(Misuse) as caught:
        word_id(word, tokenizer)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def language_model(embed: str = "vectors") -> nn.Module:
    settings = resolve({}, {"model.encoder": "lstm", "model.width": 7, "model.embed": embed}).model
    return ready(build_language_model(settings, vocab=len(WORD)))


def reader(encoder: str, **flags: Any) -> Any:
    said = {"task": "classification", "model.encoder": encoder, **{f"model.{k}": v for k, v in flags.items()}}
    return ready(build_predictor(resolve({}, said).model, outputs=3, vocab=len(WORD)))


def test_tables_of_models() -> None:
    model: Any = language_model()
    np.testing.assert_allclose(word_table(model), model.embed.table.weight.detach().numpy(), rtol=1e-6)
    bag = reader("bag", ngrams=2, buckets=11)
    assert word_table(bag).shape == (len(WORD), 3)
    np.testing.assert_allclose(word_table(bag), bag.bag.table.weight[: len(WORD)].detach().numpy(), rtol=1e-6)
    text = reader("average", width=5)
    np.testing.assert_allclose(word_table(text), text.embed.table.weight.detach().numpy(), rtol=1e-6)
    both = ready(translator("gru", "gru"))
    np.testing.assert_allclose(word_table(both), both.embed_source.table.weight.detach().numpy(), rtol=1e-6)


def test_models_without_a_table() -> None:
    for model, said in ((language_model("onehot"), "one-hot"), (nn.Linear(2, 3), "Linear is a model of one's own")):
        with pytest.raises(Misuse, match=said):
            word_table(model)


def test_neighbours_are_words() -> None:
    model: Any = language_model()
    with torch.no_grad():
        model.embed.table.weight[list(WORD.specials)] = 100.0
    found = neighbours_of(model, WORD, "dog", most=99)
    assert found.word == "dog"
    assert len(found.words) == len(WORD) - len(WORD.specials) - 1
    assert "dog" not in found.words
    table = word_table(model)
    ids = [WORD.encode(word)[0] for word in ["dog", *found.words]]
    np.testing.assert_array_equal(found.vectors, table[ids])
    np.testing.assert_allclose(found.dots, table[ids[1:]] @ table[ids[0]], rtol=1e-4, atol=1e-5)
    assert (np.diff(found.dots) <= 0).all()


def test_what_is_no_word() -> None:
    assert no_words(WORD) == set(WORD.specials)
    bytes_ = {id for id in range(len(BPE)) if id not in BPE.specials and len(BPE.token_bytes(id)) == 1}
    left = {BPE.token(id) for id in bytes_ - no_words(BPE)}
    printed = {chr(code) for code in range(32, 127)}
    assert left == printed | {"\t", "\n", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f"}
    assert no_words(BPE) >= BPE.specials
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 3}, "a"))
    assert no_words(Tokenizer(rust)) == {1, 2}


# --- maps ---


def test_a_map_shows_the_two_widest_directions() -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))
    flat = np.array([[3.0, 1.0], [-3.0, 1.0], [6.0, -1.0], [-6.0, -1.0]])
    vectors = np.concatenate([flat, np.zeros((4, 3))], 1) @ turn + 7
    points, shares = plane(vectors)
    np.testing.assert_allclose(points, flat, atol=1e-9)
    assert shares == pytest.approx((90 / 94, 4 / 94))
    np.testing.assert_allclose(plane(-vectors)[0], flat, atol=1e-9)  # a direction points one way only


def test_a_map_points_as_the_one_before() -> None:
    vectors = np.random.default_rng(1).normal(size=(6, 4))
    points, _ = plane(vectors)
    np.testing.assert_allclose(plane(vectors, points * [-1, 1])[0], points * [-1, 1])
    np.testing.assert_allclose(plane(vectors, points * [1, -1])[0], points * [1, -1])


@pytest.mark.parametrize("vectors", [
    np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),
    np.array([[1.0], [2.0], [4.0]]),
], ids=["two", "narrow"])  # fmt: skip
def test_points_on_a_line(vectors: np.ndarray) -> None:
    points, shares = plane(vectors)
    assert shares == pytest.approx((1, 0))
    assert not points[:, 1].any()
    assert points[0, 0] > 0
    assert np.ptp(points[:, 0]) == pytest.approx(np.linalg.norm(vectors[0] - vectors[-1]))


def test_points_that_are_all_one() -> None:
    points, shares = plane(np.full((3, 4), 0.1))
    assert not points.any()
    assert shares == (0, 0)


def test_a_map_has_names() -> None:
    shown = map_of("All of them on a map", TABLE[:3], ["a", "b", "c"], ["x", "x", "y"])
    assert (shown.title, shown.labels, shown.groups) == ("All of them on a map", ["a", "b", "c"], ["x", "x", "y"])
    points, shares = plane(TABLE[:3])
    np.testing.assert_array_equal(shown.points, points)
    assert shown.x_name == f"{shares[0]:.0%} of the spread"
    assert shown.y_name == f"{shares[1]:.0%} of the spread"


# --- views ---


def test_a_view_of_one_word() -> None:
    view = neighbours_view([Neighbours("cat", [" dog", "mouse"], np.array([[2.0, 0.0], [3.0, 4.0], [1.0, 0.0]]))])
    (table,) = view.panels
    assert isinstance(table, Table)
    assert list(table.rows) == [(" dog", 6.0, 0.6), ("mouse", 2.0, 1.0)]
    assert view.title == "Words like “cat”"
    assert table.bars == ("cosine",)
    (table,) = neighbours_view([Neighbours("cat", ["a"], np.array([[1.0], [-1.0]]))]).panels
    assert isinstance(table, Table)
    assert table.bars == ()  # a bar shows no number below 0


def test_a_view_of_several() -> None:
    one = Neighbours("cat", ["a", "b"], TABLE[[0, 1, 3]])
    two = Neighbours("dog", ["c"], TABLE[[5, 1]])
    three = Neighbours("eel", ["c"], TABLE[[1, 6]])
    view = neighbours_view([one, two, three])
    *tables, points, grid = view.panels
    assert [table.title for table in tables] == ["Like “cat”", "Like “dog”", "Like “eel”"]
    assert isinstance(points, Points)
    assert points.labels == ["cat", "a", "b", "dog", "c", "eel", "c"]
    assert points.groups == ["cat"] * 3 + ["dog"] * 2 + ["eel"] * 2
    np.testing.assert_array_equal(points.points, plane(TABLE[[0, 1, 3, 5, 1, 1, 6]])[0])
    assert isinstance(grid, Grid)
    np.testing.assert_allclose(grid.values, cosines(TABLE[[0, 5, 1]]))
    assert grid.rows == grid.columns == ["cat", "dog", "eel"]
    assert grid.takeaway == "2 pairs are the most alike (0.707)"
    assert [panel.kind for panel in neighbours_view([one]).panels] == ["table"]
