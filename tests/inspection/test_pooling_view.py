"""How much each token gives to the pooled vector: its weights make that vector again."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.bricks.pooling import FUNCTIONS, make_pool
from glassformer.config.errors import Misuse
from glassformer.config.presets import MIXED
from glassformer.inspection.views.pooling import POOL_TEXTS, pool_kind, pooling_view, pooling_weights, token_weights
from glassformer.rendering.panels import Table, Tokens
from helpers.small_readers import INPUTS, WORDS, T, reader_of, writer_of
from helpers.support import numbers, randomise, same

B, SIZE, D = 3, 5, 8
LENGTHS = (5, 3, 1)
MASK = torch.arange(SIZE) < torch.tensor(LENGTHS)[:, None]
X = numbers(B, SIZE, D)
KINDS = [*FUNCTIONS, "attention"]


def pool_of(kind: str) -> nn.Module:
    pool = make_pool(kind, width=D).double()
    return randomise(pool) if kind == "attention" else pool


@pytest.mark.parametrize("kind", ["mean", "sum", "first", "last", "attention"])
@pytest.mark.parametrize("mask", [MASK, None], ids=["mask", ""])
def test_weights_times_states_are_the_pooled_vector(kind: str, mask: Any) -> None:
    pool = pool_of(kind)
    weights = pooling_weights(pool, X, mask)
    same(torch.einsum("bt,btd->bd", weights, X), pool(X, mask))
    if kind == "attention":
        assert np.unique(weights[0].detach().numpy().round(4)).size == SIZE


@pytest.mark.parametrize("kind", KINDS)
def test_weights_sum_to_one_or_count_whole_and_padding_is_nothing(kind: str) -> None:
    weights = pooling_weights(pool_of(kind), X, MASK)
    whole = kind in ("sum", "flatten")
    same(weights.sum(1), torch.tensor(LENGTHS if whole else (1, 1, 1)).double())
    assert (weights[~MASK] == 0).all()
    nothing = pooling_weights(pool_of(kind), X, torch.zeros_like(MASK))
    assert (nothing == 0).all()


def test_one_place_and_both_ends() -> None:
    assert pooling_weights(pool_of("last"), X, MASK).tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert pooling_weights(pool_of("first"), X).tolist() == [[1, 0, 0, 0, 0]] * B
    ends = pooling_weights(pool_of("ends"), X, MASK).tolist()
    assert ends == [[0.5, 0, 0, 0, 0.5], [0.5, 0, 0.5, 0, 0], [1, 0, 0, 0, 0]]
    assert pooling_weights(pool_of("mean"), X, MASK)[1].tolist() == pytest.approx([1 / 3] * 3 + [0, 0])


def test_max_counts_the_numbers_taken_from_each_token() -> None:
    x = torch.tensor([[[1.0, 5.0, 0.0, 2.0], [3.0, 4.0, 0.0, 9.0], [2.0, 7.0, -1.0, 99.0]]])
    two = torch.tensor([[True, True, False]])
    assert pooling_weights(make_pool("max", width=4), x, two).tolist() == [[0.375, 0.625, 0]]  # equal ones share
    assert pooling_weights(make_pool("max", width=4), x).tolist() == [[0.125, 0.375, 0.5]]


def test_every_pool_has_a_name_and_words() -> None:
    for kind in KINDS:
        assert pool_kind(make_pool(kind, width=D)) == kind
        assert kind in POOL_TEXTS
    with pytest.raises(Misuse, match=r"^Linear is none of the pools"):
        pool_kind(nn.Linear(2, 2))


@pytest.mark.parametrize("flags", [{"pool": "attention"}, {"pool": "mean"}, {"bidirectional": True, "pool": "last"}])
def test_of_a_reader(flags: dict[str, Any]) -> None:
    model = reader_of("gru", **flags)
    weights, kind = token_weights(model, WORDS)
    assert kind == ("ends" if "bidirectional" in flags else flags["pool"])
    assert weights.shape == (T,)
    if kind != "ends":
        with torch.no_grad():
            same(torch.from_numpy(weights) @ model.states(*WORDS)[0], model.features(*WORDS)[0], 1e-5)


def test_of_a_mixed_example_and_a_bag() -> None:
    assert token_weights(reader_of("transformer", MIXED, pool="mean"), INPUTS[MIXED])[0].shape == (4 + 6 + T,)
    for weighting in ("tfidf", "counts"):
        model = reader_of("bag", weighting=weighting, ngrams=2, buckets=101)
        weights, kind = token_weights(model, WORDS)
        assert kind == weighting
        assert weights.shape == (T,)
        if weighting == "counts":
            assert (weights == 1).all()
        else:
            words = weights * (WORDS[0][0].numpy() >= 0)
            assert 0 < words.max() < 1
            idf = model.bag.idf[WORDS[0][0]].numpy()
            known = idf > 0
            np.testing.assert_allclose(weights[known] / idf[known], (weights[known] / idf[known])[0], rtol=1e-5)
    with pytest.raises(Misuse, match="no pool to look at"):
        token_weights(writer_of("window"), WORDS[:1])


def test_the_view() -> None:
    weights = np.array([0.1, 0.6, 0.3], np.float32)
    view = pooling_view(["a", "b", "c"], weights, "attention")
    tokens, table = view.panels
    assert isinstance(tokens, Tokens)
    np.testing.assert_array_equal(tokens.values, weights[None])
    assert not tokens.signed
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [("b", 1), ("c", 2), ("a", 0)]
    assert table.rows[0][2] == pytest.approx(0.6)
    assert table.bars == ("weight",)
    assert view.title.endswith("attention")
    assert view.note.startswith("A learned query")
    assert view.note.endswith("Spread evenly over 3 tokens, each would count 0.333.")
    assert pooling_view(["a"], weights[:1], "mean").note.startswith("The mean: each of the T tokens counts 1/T.")
    assert "counts whole" in pooling_view(["a", "b"], np.ones(2, np.float32), "sum").note
