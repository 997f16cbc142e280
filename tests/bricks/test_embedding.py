import math

import pytest
import torch

from glassformer.bricks.embedding import OneHot, WordVectors
from helpers.support import numbers, ready, same, tokens


@pytest.mark.parametrize("scale", [False, True])
def test_row_of_the_table(scale: bool) -> None:
    embed = ready(WordVectors(vocab=11, width=5, scale=scale))
    words = tokens(3, 7, vocab=11)
    expected = embed.table.weight.detach().numpy()[words.numpy()]
    same(embed(words), expected * (math.sqrt(5) if scale else 1))


def test_dropout_in_training_only() -> None:
    embed = ready(WordVectors(vocab=11, width=101, dropout=0.4))
    words = tokens(3, 7, vocab=11)
    whole = embed(words)
    dropped = embed.train()(words)
    zero = (dropped == 0).double().mean().item()
    assert 0.3 < zero < 0.5
    same(dropped[dropped != 0], (whole / 0.6)[dropped != 0])


def test_one_hot() -> None:
    words = tokens(3, 7, vocab=11)
    hot = OneHot(vocab=11)
    assert hot.width == 11
    assert list(hot.parameters()) == []
    same(hot(words), torch.eye(11)[words])


def test_one_hot_times_a_matrix_is_its_row() -> None:
    table, words = numbers(11, 5), tokens(3, 7, vocab=11)
    same(OneHot(vocab=11)(words).double() @ table, table[words])


@pytest.mark.parametrize("scale", [False, True])
def test_a_table_of_another_width_is_brought_to_it(scale: bool) -> None:
    embed = ready(WordVectors(vocab=11, width=5, table_width=3, scale=scale))
    assert embed.width == 5
    words = tokens(3, 7, vocab=11)
    rows = embed.table.weight.detach().numpy()[words.numpy()]
    same(embed(words), rows @ embed.fit.weight.detach().numpy().T * (math.sqrt(5) if scale else 1))
    assert WordVectors(vocab=11, width=5, table_width=5).fit is None
