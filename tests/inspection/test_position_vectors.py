"""What positions add, against what an encoder really adds; and how alike they are."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.bricks.positions import rotate
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.views.positions import position_vectors, positions_view
from glassformer.inspection.views.word_vectors import cosines
from glassformer.models.build import build_language_model
from glassformer.rendering.panels import Grid, Lines
from helpers.cases import CONTEXT, WIDTH, build, small
from helpers.support import numbers, ready, same
from helpers.translators import translator

T = 7


def encoder_of(positions: str) -> TransformerEncoder:
    made = build(small("transformer", positions=positions), causal=True)
    assert isinstance(made, TransformerEncoder)
    return made


@pytest.mark.parametrize("kind", ["sine", "sine-halves", "learned", "onehot"])
def test_what_is_added(kind: str) -> None:
    encoder = encoder_of(kind)
    found, vectors = position_vectors(encoder, T)
    assert found == kind
    assert vectors.shape == (T, WIDTH)
    index = torch.arange(T)
    with torch.inference_mode():
        x = numbers(1, T, WIDTH)
        moved = encoder.positions(x, index)[0]
        there = x[0] if kind != "onehot" else encoder.positions.join(torch.cat([x[0], x.new_zeros(T, CONTEXT)], -1))
    same(torch.from_numpy(vectors), moved - there, 1e-5)


def test_rotary_turns() -> None:
    encoder = encoder_of("rotary")
    assert encoder.rotary is not None
    kind, vectors = position_vectors(encoder, 40)
    assert kind == "rotary"
    same(torch.from_numpy(vectors), torch.cos(torch.arange(40)[:, None] * encoder.rotary.frequencies), 1e-5)
    # what the picture says of a query and an equal key
    query = torch.ones(1, 1, 40, 2 * vectors.shape[1], dtype=torch.float64)
    turned = rotate(query, encoder.rotary(torch.arange(40)))[0, 0]
    lines, _ = positions_view(kind, vectors).panels
    assert isinstance(lines, Lines)
    same(torch.tensor(lines.series[0].y), turned @ turned[0] / (query[0, 0, 0] @ query[0, 0, 0]), 1e-5)


def test_of_a_model() -> None:
    settings = resolve({}, {"model.encoder": "transformer", "model.positions": "learned", "model.width": 12}).model
    model: Any = ready(build_language_model(settings, vocab=5))
    same(torch.from_numpy(position_vectors(model, 3)[1]), model.encoder.positions.table.weight[:3].detach(), 1e-6)
    both = ready(translator(positions="learned"))
    source: Any = both.encoder
    same(torch.from_numpy(position_vectors(both, 3)[1]), source.positions.table.weight[:3].detach(), 1e-6)
    target: Any = both.decoder
    same(torch.from_numpy(position_vectors(both.decoder, 3)[1]), target.positions.table.weight[:3].detach(), 1e-6)


@pytest.mark.parametrize("kind", ["learned", "onehot"])
def test_no_positions_beyond_the_context(kind: str) -> None:
    assert len(position_vectors(encoder_of(kind), CONTEXT)[1]) == CONTEXT
    assert len(position_vectors(encoder_of(kind), CONTEXT + 1)[1]) == CONTEXT


@pytest.mark.parametrize(
    ("model", "count", "said"),
    [
        (build(small("lstm"), causal=True), 3, "told no positions"),
        (nn.Linear(2, 3), 3, "told no positions"),
        (encoder_of("none"), 3, "told no positions"),
    ],
)
def test_nothing_to_look_at(model: nn.Module, count: int, said: str) -> None:
    with pytest.raises(Misuse, match=said) as caught:
        position_vectors(model, count)
    assert "\n" not in str(caught.value)


# --- view ---

HAND = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 1.0]])


def test_a_view_of_what_is_added() -> None:
    view = positions_view("learned", HAND)
    grid, alike, lines = view.panels
    assert isinstance(grid, Grid)
    np.testing.assert_array_equal(grid.values, HAND)
    assert (grid.rows, grid.columns, grid.signed) == (["0", "1", "2", "3"], ["0", "1"], True)
    assert grid.column_name == "number"
    assert isinstance(alike, Grid)
    np.testing.assert_array_equal(alike.values, cosines(HAND))
    assert alike.rows == alike.columns == grid.rows
    assert isinstance(lines, Lines)
    half = np.sqrt(0.5)
    assert lines.series[0].x == [0, 1, 2, 3]
    np.testing.assert_allclose(lines.series[0].y, [1, half, 0, -half], atol=1e-12)
    assert view.title == "Positions: learned"
    assert lines.takeaway == "From 1 token to 3 the cosine falls from 0.707 to −0.707"


def test_a_view_of_turns() -> None:
    view = positions_view("rotary", np.array([[1.0, 1.0], [0.0, 0.5], [-1.0, 0.25]]))
    lines, grid = view.panels
    assert isinstance(grid, Grid)
    assert grid.column_name == "pair"
    assert isinstance(lines, Lines)
    assert lines.series[0].y == [1, 0.25, -0.375]
    assert lines.takeaway == "From 1 token to 2 the score falls from 0.25 to −0.375"


def test_a_few_large_numbers_do_not_hide_the_others() -> None:
    vectors = np.random.default_rng(0).normal(0, 0.01, (17, 23))
    even = positions_view("learned", vectors).panels[0]
    vectors[0, 3] = 1.5
    grid = positions_view("learned", vectors).panels[0]
    assert isinstance(even, Grid)
    assert isinstance(grid, Grid)
    assert (even.high, even.note) == (None, "")
    assert grid.high is not None
    assert 0.02 < grid.high < 0.05
    assert grid.note == "A few numbers are beyond the scale's ends, up to 1.5."
