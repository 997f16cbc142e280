"""Switching heads off: what it costs, which heads a person can name, and that nothing stays switched off."""

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.views.head_ablation import (
    HeadAblation,
    ablate_each,
    ablation_view,
    all_heads,
    head_name,
    parse_heads,
)
from glassformer.rendering.panels import Grid, Table
from helpers.support import ready, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

ONE = {"self": (3, 5)}
SEVERAL = {"source": (2, 4), "target": (3, 4), "cross": (3, 4)}


def test_heads_by_name() -> None:
    assert parse_heads("2.3", ONE) == [("self", 2, 3)]
    assert parse_heads("0.1, 2.4,0.1", ONE) == [("self", 0, 1), ("self", 2, 4)]
    assert parse_heads("self:0.1", ONE) == [("self", 0, 1)]
    assert parse_heads("cross:2.3,source:0.1", SEVERAL) == [("cross", 2, 3), ("source", 0, 1)]
    assert parse_heads("0.0", {"cross": (1, 1)}) == [("cross", 0, 0)]
    for head in all_heads(SEVERAL):
        assert parse_heads(head_name(head), SEVERAL) == [head]
    assert head_name(("self", 2, 3)) == "2.3"


def test_all_heads() -> None:
    assert all_heads({"self": (2, 3)}) == [("self", layer, head) for layer in (0, 1) for head in (0, 1, 2)]
    assert len(all_heads(SEVERAL)) == 8 + 12 + 12


NO_HEAD = "is no head: write LAYER.HEAD, counted from 0, such as 0.1, or several as 0.1,2.3"


@pytest.mark.parametrize(
    ("text", "stacks", "message"),
    [
        ("3.0", ONE, "there is no head 3.0: this model has heads 0.0 to 2.4"),
        ("0.5", ONE, "there is no head 0.5: this model has heads 0.0 to 2.4"),
        ("cross:0.1", {"cross": (1, 1)}, "there is no head cross:0.1: this model has heads 0.0 to 0.0"),
        ("2", ONE, f"'2' {NO_HEAD}"),
        ("0.1,", ONE, f"'' {NO_HEAD}"),
        ("-1.0", ONE, f"'-1.0' {NO_HEAD}"),
        ("1.x", ONE, f"'1.x' {NO_HEAD}"),
        ("1.²", ONE, f"'1.²' {NO_HEAD}"),
        ("1.2.3", ONE, f"'1.2.3' {NO_HEAD}"),
        ("0.1", SEVERAL,
         "'0.1' could be a head of several attentions here: write source:0.1 or target:0.1 or cross:0.1"),
        ("corss:0.1", SEVERAL, "unknown attention 'corss'; did you mean cross? (one of: source, target, cross)"),
        ("cross:0.1", ONE, "unknown attention 'cross' (one of: self)"),
    ],
)  # fmt: skip
def test_heads_that_are_not_there(text: str, stacks: dict[str, tuple[int, int]], message: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_heads(text, stacks)
    assert str(caught.value) == message


@pytest.mark.slow
def test_costs_are_those_of_heads_written_out_of_the_weights() -> None:
    """Without a head is without its columns of W^O."""
    model = ready(translator("transformer", "transformer", decoder_layers=2))
    source, target = tokens(2, 7, vocab=SOURCE_VOCAB), tokens(2, 5, vocab=TARGET_VOCAB, seed=1)

    def loss() -> float:
        with torch.no_grad():
            scores: Tensor = model(source, None, target)
        return float(scores.square().mean())

    before = loss()
    worth = ablate_each(loss, model)
    assert worth.whole == before == loss()
    assert list(worth.lacking) == all_heads(sizes_of(model))
    chosen = ("cross", 1, 2)
    attention = model.decoder.get_submodule("blocks.1.cross_attention")
    assert isinstance(attention.output, torch.nn.Linear)
    wide = attention.output.in_features // sizes_of(model)["cross"][1]
    with torch.no_grad():
        attention.output.weight[:, 2 * wide : 3 * wide] = 0
    assert worth.lacking[chosen] == pytest.approx(loss(), rel=1e-9)
    assert abs(worth.cost(chosen)) > 1e-4
    assert worth.cost(chosen) == worth.lacking[chosen] - before


def test_only_the_heads_that_are_asked_for() -> None:
    model = ready(translator("transformer", "transformer"))
    losses = iter([2.0, 2.5, 1.5])
    worth = ablate_each(lambda: next(losses), model, [("cross", 0, 1), ("source", 0, 0)])
    assert worth == HeadAblation(2.0, {("cross", 0, 1): 2.5, ("source", 0, 0): 1.5})
    assert worth.cost(("source", 0, 0)) == -0.5


def some_worth() -> HeadAblation:
    costs = [[0.004, 0.5, -0.25], [0.0, 1.0, 0.01]]
    return HeadAblation(1.0, {("self", layer, head): 1 + costs[layer][head] for layer in range(2) for head in range(3)})


def test_the_view() -> None:
    view = ablation_view(some_worth(), what="loss on pronouns")
    table, grid = view.panels
    assert isinstance(table, Table)
    assert isinstance(grid, Grid)
    assert table.columns == ["head", "loss on pronouns without it", "more than with all"]
    assert [row[0] for row in table.rows] == ["1.1", "0.1", "1.2", "0.0", "1.0", "0.2"]
    assert table.rows[0] == ["1.1", 2.0, 1.0]
    np.testing.assert_allclose(grid.values, [[0.004, 0.5, -0.25], [0.0, 1.0, 0.01]], atol=1e-9)
    assert grid.signed
    assert (grid.rows, grid.columns) == (["0", "1"], ["0", "1", "2"])
    assert table.takeaway == "Head 1.1 is missed most: without it the loss on pronouns is 1 → 2"
    assert grid.takeaway == "3 of 6 heads cost less than 1 %"


def test_a_grid_for_each_stack_that_is_whole() -> None:
    lacking = dict.fromkeys(all_heads({"source": (2, 2), "cross": (1, 2)}), 2.0)
    view = ablation_view(HeadAblation(1.0, lacking))
    assert [panel.title for panel in view.panels] == [
        "Without one head",
        "Cost of a head (source)",
        "Cost of a head (cross)",
    ]
    scattered = ablation_view(HeadAblation(1.0, {("self", 0, 1): 2.0, ("self", 1, 0): 3.0}))
    assert [panel.title for panel in scattered.panels] == ["Without one head"]
    alone = ablation_view(HeadAblation(1.0, {("cross", 0, 1): 2.0}))
    assert len(alone.panels) == 1
    assert alone.panels[0].takeaway == "Head cross:0.1 is missed: without it the loss is 1 → 2"


def test_nothing_switched_off() -> None:
    with pytest.raises(Misuse, match="no head was switched off"):
        ablation_view(HeadAblation(1.0, {}))
