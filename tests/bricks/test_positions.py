import numpy as np
import pytest
import torch

from glassformer.bricks.positions import (
    LearnedPositions,
    NoPositions,
    OneHotPositions,
    Rotary,
    SineCosine,
    rotate,
    sine_cosine,
)
from glassformer.config.errors import SettingError
from glassformer.config.model_section import Scaling
from helpers.support import differs, numbers, ready, same, tokens

B, T, D, CONTEXT = 2, 5, 7, 11
HEADS, E = 3, 10
PLACES = {"together": torch.arange(T), "each row its own": tokens(B, T, vocab=CONTEXT)}
"""The positions of T tokens: the same in every row, or not."""


def waves(index: np.ndarray, width: int) -> np.ndarray:
    out = np.zeros((*index.shape, width))
    for place in np.ndindex(*index.shape):
        for j in range(width):
            angle = index[place] / 10_000 ** ((j - j % 2) / width)
            out[(*place, j)] = np.sin(angle) if j % 2 == 0 else np.cos(angle)
    return out


@pytest.mark.parametrize("width", [7, 8])
@pytest.mark.parametrize("where", PLACES)
def test_sine_cosine(where: str, width: int) -> None:
    index, x = PLACES[where], numbers(B, T, width)
    same(sine_cosine(index, width), waves(index.numpy(), width), 1e-6)
    same(SineCosine()(x, index), x.numpy() + waves(index.numpy(), width), 1e-6)


def test_sine_cosine_far_away_is_still_right_to_a_thousandth() -> None:
    index = torch.tensor([9_973])
    same(sine_cosine(index, 8), waves(index.numpy(), 8), 1e-3)


@pytest.mark.parametrize("where", PLACES)
def test_learned(where: str) -> None:
    index, x = PLACES[where], numbers(B, T, D)
    brick = ready(LearnedPositions(width=D, context=CONTEXT))
    same(brick(x, index), x.numpy() + brick.table.weight.detach().numpy()[index.numpy()])


@pytest.mark.parametrize("where", PLACES)
def test_one_hot(where: str) -> None:
    index, x = PLACES[where], numbers(B, T, D)
    brick = ready(OneHotPositions(width=D, context=CONTEXT))
    hot = np.broadcast_to(np.eye(CONTEXT)[index.numpy()], (B, T, CONTEXT))
    same(brick(x, index), np.concatenate([x.numpy(), hot], -1) @ brick.join.weight.detach().numpy().T)


def test_none() -> None:
    x = numbers(B, T, D)
    assert torch.equal(NoPositions()(x, torch.arange(T)), x)


@pytest.mark.parametrize("base", [10_000.0, 500.0])
@pytest.mark.parametrize("where", PLACES)
def test_rotary_written_out(where: str, base: float) -> None:
    """Number i and number i + e/2 are one complex number, turned by the angle t · base^(−2i/e)."""
    index, x = PLACES[where], numbers(B, HEADS, T, E)
    half = E // 2
    angle = index.numpy()[..., None] * base ** (-2 * np.arange(half) / E)
    angle = np.broadcast_to(angle, (B, T, half))[:, None]
    turned = (x.numpy()[..., :half] + 1j * x.numpy()[..., half:]) * np.exp(1j * angle)
    rotary = Rotary(head_width=E, base=base)
    same(rotate(x, rotary(index)), np.concatenate([turned.real, turned.imag], -1), 1e-5)


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_rotary_is_llamas(base: float) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(
        hidden_size=HEADS * E,
        num_attention_heads=HEADS,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    queries = numbers(B, HEADS, T, E, dtype=torch.float32)
    keys = numbers(B, HEADS, T, E, seed=1, dtype=torch.float32)
    index = PLACES["each row its own"]
    theirs = apply_rotary_pos_emb(queries, keys, *LlamaRotaryEmbedding(config)(queries, index))
    rotation = Rotary(head_width=E, base=base)(index)
    same(rotate(queries, rotation), theirs[0], 1e-5)
    same(rotate(keys, rotation), theirs[1], 1e-5)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    rotary = Rotary(head_width=E).double()
    queries, keys = numbers(B, HEADS, T, E), numbers(B, HEADS, T, E, seed=1)

    def products(shift: int) -> torch.Tensor:
        rotation = rotary(torch.arange(T) + shift)
        return rotate(queries, rotation) @ rotate(keys, rotation).transpose(2, 3)

    same(products(0), products(3))
    assert differs(products(0), queries @ keys.transpose(2, 3))
    same(products(0).diagonal(dim1=2, dim2=3), (queries @ keys.transpose(2, 3)).diagonal(dim1=2, dim2=3))


def test_rotary_learns_nothing_and_saves_nothing() -> None:
    rotary = Rotary(head_width=E)
    assert list(rotary.parameters()) == []
    assert rotary.state_dict() == {}


def test_halves_are_the_same_waves_in_another_order() -> None:
    """As Marian lays them out: all sines, then all cosines."""
    index, x = torch.arange(T), numbers(B, T, 6)
    written = waves(index.numpy(), 6)
    same((SineCosine(halves=True)(x, index) - x)[1], written[:, [0, 2, 4, 1, 3, 5]], 1e-6)


SCALINGS = {
    "linear:4": {"rope_type": "linear", "factor": 4.0},
    "llama3:8:1:4:64": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


@pytest.mark.parametrize("text", SCALINGS)
def test_slowed_rotary_is_llamas(text: str) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(hidden_size=32, num_attention_heads=2, rope_parameters={"rope_theta": 500.0, **SCALINGS[text]})
    theirs = LlamaRotaryEmbedding(config)
    scaling = Scaling.read(text)
    assert str(scaling) == text
    ours = Rotary(head_width=16, base=500.0, scaling=scaling)
    same(ours.frequencies, theirs.inv_freq, 1e-7)
    assert not torch.equal(ours.frequencies, Rotary(head_width=16, base=500.0).frequencies)


def test_a_scaling_keeps_every_digit() -> None:
    scaling = Scaling("llama3", 4 / 3, 1.00000001, 4.5, 12_345_678)
    assert Scaling.read(str(scaling)) == scaling
    assert Scaling.read("linear:1.33333333333").factor == 1.33333333333


@pytest.mark.parametrize(
    "text", ["yarn:4", "linear", "linear:x", "linear:0.5", "linear:2:3", "llama3:8", "llama3:8:4:1:64"]
)
def test_scalings_that_cannot_be(text: str) -> None:
    with pytest.raises(SettingError, match=r"model\.rotary_scaling"):
        Scaling.read(text)
