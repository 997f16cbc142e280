"""How weights start: the table at the head of `models/weights.py`, row by row."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.registry import BUILDERS
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.build import build_language_model, build_masked_model
from glassformer.models.modules import LanguageModel
from glassformer.models.weights import UndrawnWeights
from helpers.support import numbers, same

VOCAB, WIDTH, LAYERS = 211, 64, 2


def model_of(encoder: str = "transformer", **flags: object) -> LanguageModel:
    chosen = {"encoder": encoder, "width": WIDTH, "tied": False, **flags}
    if "layers" in used_keys(encoder):
        chosen["layers"] = LAYERS
    if encoder == "transformer":
        chosen = {"positions": "learned", "bias": True, "norm": "layer", "context": 199, **chosen}
    settings = resolve({}, {f"model.{key}": value for key, value in chosen.items()}).model
    return build_language_model(settings, vocab=VOCAB)


def spread(weight: Tensor) -> float:
    return weight.std().item()


def ends(model: LanguageModel) -> list[nn.Linear]:
    assert isinstance(model.encoder, TransformerEncoder)
    return [end for block in model.encoder.blocks for end in (block.attend.output, block.feed.output)]


def inner(model: LanguageModel) -> list[nn.Linear]:
    last = {id(end) for end in ends(model)}
    return [part for part in model.encoder.modules() if isinstance(part, nn.Linear) and id(part) not in last]


def test_zero() -> None:
    model = model_of(initialisation="zero")
    for end in ends(model):
        assert (end.weight == 0).all()
    for part in inner(model):
        assert spread(part.weight) == pytest.approx(part.in_features**-0.5, rel=0.1)


def test_zero_starts_every_block_as_the_identity() -> None:
    model = model_of(initialisation="zero")
    assert isinstance(model.encoder, TransformerEncoder)
    x = numbers(2, 5, WIDTH, dtype=torch.float32)
    for block in model.encoder.blocks:
        assert torch.equal(block(x), x)


def test_zero_without_residual_still_lets_something_through() -> None:
    model = model_of(initialisation="zero", residual=False)
    assert all(spread(end.weight) > 0 for end in ends(model))


def test_gpt2() -> None:
    model = model_of(initialisation="gpt2")
    for end in ends(model):
        assert spread(end.weight) == pytest.approx(0.02 / math.sqrt(2 * LAYERS), rel=0.1)
    for part in inner(model):
        assert spread(part.weight) == pytest.approx(0.02, rel=0.1)


def test_xavier() -> None:
    model = model_of(initialisation="xavier")
    for part in [*ends(model), *inner(model)]:
        bound = math.sqrt(6 / (part.in_features + part.out_features))
        assert part.weight.abs().max().item() <= bound
        assert part.weight.abs().max().item() > 0.95 * bound
        assert spread(part.weight) == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize(("how", "expected"), [("zero", 0.02), ("gpt2", 0.02), ("xavier", WIDTH**-0.5)])
def test_word_vectors_positions_and_head(how: str, expected: float) -> None:
    model = model_of(initialisation=how)
    for table in (model.embed.table.weight, model.encoder.positions.table.weight, model.head.weight):
        assert spread(table) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("how", ["zero", "gpt2", "xavier"])
def test_biases_at_zero_and_norms_at_one(how: str) -> None:
    model = model_of(initialisation=how, qk_norm=True)
    for name, weight in model.encoder.named_parameters():
        if name.endswith("bias"):
            assert (weight == 0).all(), name
        elif "norm" in name:
            assert (weight == 1).all(), name


@pytest.mark.parametrize(("how", "expected"), [("zero", WIDTH**-0.5), ("gpt2", 0.02), ("xavier", WIDTH**-0.5)])
def test_the_map_before_the_head_of_a_masked_model_is_one_of_the_linear_maps(how: str, expected: float) -> None:
    asked = {"task": "masked-language-model", "model.style": "bert", "model.width": WIDTH, "model.heads": 4,
             "model.layers": LAYERS, "model.initialisation": how}  # fmt: skip
    model = build_masked_model(resolve({}, asked).model, vocab=VOCAB)
    assert model.transform is not None
    assert spread(model.transform.map.weight) == pytest.approx(expected, rel=0.1)
    assert (model.transform.map.bias == 0).all()


def test_one_hot_positions_and_a_feed_forward_part_of_one_layer() -> None:
    for flags in ({"positions": "onehot"}, {"feed_layers": 1}, {"feed_forward": False}, {"output_projection": False}):
        model = model_of(initialisation="zero", **flags)
        assert all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if "initial" in info.keys])
@pytest.mark.parametrize("cells", [None, 96])
def test_recurrent_matrices_start_orthogonal(name: str, cells: int | None) -> None:
    if cells is not None and "cells" not in ENCODERS[name].keys:
        return
    model = model_of(name, **({} if cells is None else {"cells": cells}))
    assert isinstance(model.encoder, RecurrentEncoder)
    cell, gates = model.encoder.layers.cell, {"rnn": 1, "gru": 3, "lstm": 4}[name]
    for layer in range(LAYERS):
        for gate in getattr(cell, f"weight_hh_l{layer}").chunk(gates):
            same(gate.T @ gate, torch.eye(WIDTH), 1e-5)
        if name == "lstm":
            total = getattr(cell, f"bias_ih_l{layer}") + getattr(cell, f"bias_hh_l{layer}")
            assert (total.chunk(4)[1] == 1).all()
            assert total.chunk(4)[0].abs().max() < 0.5
    assert all((first == 0).all() for first in model.encoder.layers.first)


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "transformer"])
def test_word_vectors_of_the_others(name: str) -> None:
    model = model_of(name)
    assert spread(model.embed.table.weight) == pytest.approx(WIDTH**-0.5, rel=0.1)
    assert spread(model.head.weight) == pytest.approx(WIDTH**-0.5, rel=0.1)


WITHOUT_NUMBERS = """
import sys
from glassformer.config.resolve import resolve
from glassformer.encoders.registry import BUILDERS
from glassformer.models.build import build_language_model
from glassformer.models.weights import shapes_alone
for name in BUILDERS:
    with shapes_alone():
        model = build_language_model(resolve({}, {"model.encoder": name}).model, vocab=13)
    assert all(weight.is_meta for weight in model.state_dict().values()), name
    assert not {"torch._dynamo", "sympy"} & set(sys.modules), name
"""


@pytest.mark.slow
def test_a_model_without_numbers_needs_no_compiler() -> None:
    """To import it takes as long as torch itself, and every verb that loads a run would wait for it."""
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBERS], check=True)


def test_weights_that_are_replaced_next_are_not_drawn() -> None:
    settings = resolve({}, {"model.encoder": "transformer"}).model
    state = torch.get_rng_state()
    with UndrawnWeights():
        model = build_language_model(settings, vocab=VOCAB)
    assert torch.equal(torch.get_rng_state(), state)
    drawn = build_language_model(settings, vocab=VOCAB)
    model.load_state_dict(drawn.state_dict())
    for (name, mine), (_, theirs) in zip(model.named_buffers(), drawn.named_buffers(), strict=True):
        assert torch.equal(mine, theirs), name
