"""Whole encoders against torch's own, and against their formulas written out in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.bricks.attention import Memory
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.transformer import TransformerEncoder
from helpers.cases import build, small
from helpers.support import ACTIVATIONS_WRITTEN_OUT, copy_block, differs, numbers, ready, same

B, T, S, WIDTH, HEADS, HIDDEN = 3, 7, 5, 21, 3, 11


def flags(norm_order: str, activation: str) -> dict[str, object]:
    return {
        "encoder": "transformer", "style": "classic", "positions": "none", "layers": 2, "width": WIDTH, "heads": HEADS,
        "hidden": HIDDEN, "norm_order": norm_order, "activation": activation,
    }  # fmt: skip


def their_sizes(norm_order: str, activation: str) -> dict[str, object]:
    return {
        "d_model": WIDTH, "nhead": HEADS, "dim_feedforward": HIDDEN, "dropout": 0.0, "activation": activation,
        "batch_first": True, "norm_first": norm_order == "pre",
    }  # fmt: skip


kinds = pytest.mark.parametrize(("norm_order", "activation"), [("post", "relu"), ("pre", "gelu")])


@kinds
@pytest.mark.parametrize("causal", [False, True])
def test_transformer_is_torchs_encoder(norm_order: str, activation: str, causal: bool) -> None:
    ours = build(flags(norm_order, activation), causal=causal)
    assert isinstance(ours, TransformerEncoder)
    theirs = [ready(nn.TransformerEncoderLayer(**their_sizes(norm_order, activation)), seed) for seed in (1, 2)]
    for block, layer in zip(ours.blocks, theirs, strict=True):
        copy_block(block, layer)
    x, mask = numbers(B, T, WIDTH), torch.arange(T) < torch.tensor([T, 2, 3])[:, None]
    future = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
    y = x
    for layer in theirs:
        y = layer(y, src_mask=future, src_key_padding_mask=~mask)
    y = ours.norm(y) if norm_order == "pre" else y
    same(ours(x, mask)[mask], y[mask])


@kinds
def test_transformer_with_memory_is_torchs_decoder(norm_order: str, activation: str) -> None:
    ours = build(flags(norm_order, activation), causal=True, memory_width=WIDTH)
    assert isinstance(ours, TransformerEncoder)
    theirs = [ready(nn.TransformerDecoderLayer(**their_sizes(norm_order, activation)), seed) for seed in (1, 2)]
    for block, layer in zip(ours.blocks, theirs, strict=True):
        copy_block(block, layer)
    x, states = numbers(B, T, WIDTH), numbers(B, S, WIDTH, seed=1)
    mask = torch.arange(S) < torch.tensor([S, 2, 3])[:, None]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    y = x
    for layer in theirs:
        y = layer(y, states, tgt_mask=future, memory_key_padding_mask=~mask)
    y = ours.norm(y) if norm_order == "pre" else y
    same(ours(x, memory=Memory(states, mask)), y)


def test_the_last_norm_stands_after_pre_norm_blocks_only() -> None:
    pre, post = (build(flags(order, "relu"), causal=True) for order in ("pre", "post"))
    assert list(post.norm.parameters()) == []
    x = numbers(B, T, WIDTH)
    with torch.no_grad():
        before = pre(x)
        pre.norm.weight.mul_(3)
        pre.norm.bias.zero_()
    assert differs(pre(x), before)


def test_the_lectures_positions_come_first() -> None:
    """Sine and cosine are added to the word vectors, before any block."""
    with_waves = build({**flags("post", "relu"), "positions": "sine"}, causal=True)
    without = build(flags("post", "relu"), causal=True)
    x = numbers(B, T, WIDTH)
    t, j = np.arange(T)[:, None], np.arange(WIDTH)[None]
    angle = t / 10_000 ** ((j - j % 2) / WIDTH)
    waves = np.where(j % 2 == 0, np.sin(angle), np.cos(angle))
    same(with_waves(x), without(x + torch.from_numpy(waves)), 1e-5)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_window_written_out(activation: str, bias: bool, layers: int) -> None:
    """The last `window` vectors laid side by side, then an MLP."""
    window = 4
    ours = build(small("window", window=window, layers=layers, activation=activation, bias=bias), causal=True)
    assert isinstance(ours, WindowEncoder)
    weights = {name: value.numpy() for name, value in ours.state_dict().items()}
    g = ACTIVATIONS_WRITTEN_OUT[activation]
    x = numbers(B, T, ours.width)
    padded = np.concatenate([np.zeros((B, window - 1, ours.width)), x.numpy()], 1)
    for t in range(T):
        side_by_side = padded[:, t : t + window].reshape(B, -1)
        matrix = weights["read.slide.weight"].transpose(2, 1, 0).reshape(-1, SMALL_HIDDEN)
        hidden = g(side_by_side @ matrix + weights.get("read.slide.bias", 0.0))
        for layer in range(layers - 1):
            hidden = g(hidden @ weights[f"deeper.{layer}.weight"].T + weights.get(f"deeper.{layer}.bias", 0.0))
        expected = hidden @ weights["output.weight"].T + weights.get("output.bias", 0.0)
        same(ours(x)[:, t], expected)


SMALL_HIDDEN = 11


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("dilation", [1, 3])
def test_cnn_written_out(dilation: int, residual: bool, causal: bool) -> None:
    """In every layer x + g(convolution(norm(x))), the reach growing by the dilation; one last norm."""
    kernel, layers = 3, 2
    flags = small("cnn", kernel=kernel, layers=layers, dilation=dilation, residual=residual, norm="layer")
    ours = build(flags, causal=causal)
    assert isinstance(ours, CnnEncoder)
    weights = {name: value.numpy() for name, value in ours.state_dict().items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return normed * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = numbers(B, T, ours.width)
    y = x.numpy()
    for layer in range(layers):
        step = dilation**layer
        normed = norm(y, f"around.{layer}.norm")
        out = np.zeros_like(y) + weights[f"convolutions.{layer}.slide.bias"]
        for t in range(T):
            for i in range(kernel):
                source = t + (i - (kernel - 1 if causal else kernel // 2)) * step
                if 0 <= source < T:
                    out[:, t] += normed[:, source] @ weights[f"convolutions.{layer}.slide.weight"][:, :, i].T
        out = ACTIVATIONS_WRITTEN_OUT["gelu"](out)
        y = y + out if residual else out
    same(ours(x), norm(y, "norm"))


@pytest.mark.parametrize(
    ("flags", "reach"),
    [
        (small("window", window=4), 3),
        (small("window", window=1), 0),
        (small("cnn", kernel=3, dilation=1, layers=2), 4),
        (small("cnn", kernel=3, dilation=2, layers=3), 2 + 4 + 8),
        (small("cnn", kernel=2, dilation=3, layers=2), 1 + 3),
    ],
    ids=str,
)
def test_how_far_back_an_encoder_reads(flags: dict[str, object], reach: int) -> None:
    encoder = build(flags, causal=True)
    length = 19
    x = numbers(1, length, encoder.width)
    other = x.clone()
    other[:, 2] += 1
    changed = (encoder(x) != encoder(other))[0].any(-1).nonzero().flatten()
    assert changed.min() == 2
    assert changed.max() == 2 + reach


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_recurrent_is_torchs_from_the_learned_first_state(name: str) -> None:
    ours = build(small(name), causal=True)
    assert isinstance(ours, RecurrentEncoder)
    theirs = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[name](14, 14, 2, batch_first=True).double()
    theirs.load_state_dict(ours.layers.cell.state_dict())
    first = [state.detach().unsqueeze(1).repeat(1, B, 1) for state in ours.layers.first]
    assert all((state != 0).all() for state in first)
    x = numbers(B, T, 14)
    same(ours(x), theirs(x, tuple(first) if name == "lstm" else first[0])[0])


def test_with_every_part_switched_off_an_encoder_still_goes_on() -> None:
    off = {"norm": "none", "scores": "plain", "output_projection": False, "feed_forward": False}
    encoder = build({"encoder": "transformer", "width": 12, "heads": 3, "layers": 2, **off}, causal=True)
    assert list(encoder.parameters()) == []
    x = numbers(B, T, 12, dtype=torch.float32)
    state = encoder.init_state(B, T)
    same(torch.cat([encoder.extend(x[:, :3], state), encoder.extend(x[:, 3:], state)], 1), encoder(x), 1e-6)
