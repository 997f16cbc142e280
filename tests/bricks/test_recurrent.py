import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.bricks.recurrent import Gates, Recurrent, elman_step, gru_gates, gru_step, lstm_gates, lstm_step
from helpers.support import numbers, ready, same, sigmoid

B, T, INPUT, D = 3, 5, 7, 4
Weights = dict[str, np.ndarray]


def linear(x: np.ndarray, weights: Weights, kind: str, layer: str) -> np.ndarray:
    return x @ weights[f"weight_{kind}_{layer}"].T + weights.get(f"bias_{kind}_{layer}", 0.0)


def step(
    kind: str, x: np.ndarray, state: list[np.ndarray], weights: Weights, layer: str, nonlinearity: str
) -> list[np.ndarray]:
    """The lectures' equations; gates lie in torch's order: i f g o, and r z n."""
    h = state[0]
    a, b = linear(x, weights, "ih", layer), linear(h, weights, "hh", layer)
    if kind == "rnn":
        return [np.tanh(a + b) if nonlinearity == "tanh" else np.maximum(a + b, 0)]
    if kind == "gru":
        (r_a, z_a, n_a), (r_b, z_b, n_b) = np.split(a, 3, -1), np.split(b, 3, -1)
        z = sigmoid(z_a + z_b)
        return [(1 - z) * np.tanh(n_a + sigmoid(r_a + r_b) * n_b) + z * h]
    i, f, g, o = np.split(a + b, 4, -1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return [h @ weights[f"weight_hr_{layer}"].T if f"weight_hr_{layer}" in weights else h, c]


def written_out(
    brick: Recurrent, kind: str, x: np.ndarray, *, layers: int, ways: int, nonlinearity: str = "tanh"
) -> tuple[np.ndarray, list[np.ndarray]]:
    """One row, token after token, layer after layer, each way by itself."""
    weights = {name: value.detach().numpy() for name, value in brick.cell.named_parameters()}
    last: list[list[np.ndarray]] = []
    for layer in range(layers):
        outs = []
        for way in range(ways):
            state = [first.detach().numpy()[layer * ways + way] for first in brick.first]
            order = range(len(x)) if way == 0 else reversed(range(len(x)))
            out: dict[int, np.ndarray] = {}
            for t in order:
                state = step(kind, x[t], state, weights, f"l{layer}" + "_reverse" * way, nonlinearity)
                out[t] = state[0]
            last.append(state)
            outs.append(np.stack([out[t] for t in range(len(x))]))
        x = np.concatenate(outs, -1)
    return x, [np.stack(parts) for parts in zip(*last, strict=True)]


VARIANTS = [
    ("rnn", {}),
    ("rnn", {"nonlinearity": "relu", "layers": 2}),
    ("rnn", {"bias": False}),
    ("lstm", {}),
    ("lstm", {"layers": 3}),
    ("lstm", {"cells": 11, "layers": 2}),
    ("lstm", {"bidirectional": True, "layers": 2}),
    ("lstm", {"bidirectional": True, "cells": 11}),
    ("gru", {}),
    ("gru", {"bidirectional": True, "layers": 2, "bias": False}),
    ("gru", {"initial": False}),
    ("rnn", {"bias": "single"}),
    ("lstm", {"bias": "single", "layers": 2}),
    ("gru", {"bias": "single", "bidirectional": True}),
]


@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_written_out(kind: str, options: dict[str, object]) -> None:
    brick = ready(Recurrent(kind=kind, input_width=INPUT, width=D, **options))
    x = numbers(B, T, INPUT)
    out, after = brick(x, brick.init_state(B))
    assert out.shape == (B, T, D)
    for row in range(B):
        expected, last = written_out(
            brick,
            kind,
            x[row].numpy(),
            layers=int(options.get("layers", 1)),
            ways=2 if options.get("bidirectional") else 1,
            nonlinearity=str(options.get("nonlinearity", "tanh")),
        )
        same(out[row], expected)
        assert len(after) == len(last)
        for part, wanted in zip(after, last, strict=True):
            same(part[:, row], wanted)


@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_padding_is_not_read(kind: str, options: dict[str, object]) -> None:
    brick = ready(Recurrent(kind=kind, input_width=INPUT, width=D, **options))
    lengths = [5, 2, 3]
    x = numbers(B, T, INPUT)
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    x[~mask] = 1e3
    out, after = brick(x, brick.init_state(B), mask)
    assert torch.equal(out[~mask], torch.zeros_like(out[~mask]))
    for row, length in enumerate(lengths):
        alone, last = brick(x[row : row + 1, :length], brick.init_state(1))
        same(out[row, :length], alone[0])
        for part, wanted in zip(after, last, strict=True):
            same(part[:, row], wanted[:, 0])


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_row_of_padding_stays_where_it_was(kind: str) -> None:
    brick = ready(Recurrent(kind=kind, input_width=INPUT, width=D, layers=2))
    _, before = brick(numbers(B, T, INPUT), brick.init_state(B))
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    out, after = brick(numbers(B, 2, INPUT, seed=1), before, mask)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    for new, old in zip(after, before, strict=True):
        assert torch.equal(new[:, 1], old[:, 1])
        assert not torch.equal(new[:, 2], old[:, 2])


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_a_single_bias_is_one_vector_per_layer(kind: str, gates: int) -> None:
    two, one = (Recurrent(kind=kind, input_width=INPUT, width=D, layers=2, bias=bias) for bias in (True, "single"))
    assert sum(w.numel() for w in two.parameters()) - sum(w.numel() for w in one.parameters()) == 2 * gates * D
    assert not [name for name in one.state_dict() if "bias_hh" in name]
    one.init_weights()
    x = numbers(B, T, INPUT, dtype=torch.float32)
    one(x, one.init_state(B))[0].sum().backward()
    assert one.cell.bias_hh_l0.grad is None
    assert torch.equal(one.cell.bias_hh_l1, torch.zeros(gates * D))
    again = Recurrent(kind=kind, input_width=INPUT, width=D, layers=2, bias="single")
    again.load_state_dict(one.state_dict())
    assert torch.equal(again(x, again.init_state(B))[0], one(x, one.init_state(B))[0])


@pytest.mark.parametrize("initial", [True, False])
def test_the_first_state_is_learned_or_zero(initial: bool) -> None:
    brick = ready(Recurrent(kind="lstm", input_width=INPUT, width=D, initial=initial, cells=11))
    h, c = brick.init_state(B)
    assert h.shape == (1, B, D)
    assert c.shape == (1, B, 11)
    assert bool(h.abs().sum() > 0) == bool(c.abs().sum() > 0) == initial
    out, _ = brick(numbers(B, T, INPUT), (h, c))
    out.sum().backward()
    for first in brick.first:
        assert (first.grad is not None and bool(first.grad.abs().sum() > 0)) == initial


def test_dropout_between_layers_in_training_only() -> None:
    brick = ready(Recurrent(kind="gru", input_width=INPUT, width=D, layers=2, dropout=0.5))
    x = numbers(B, T, INPUT)
    out, _ = brick(x, brick.init_state(B))
    again, _ = brick(x, brick.init_state(B))
    assert torch.equal(out, again)
    trained, _ = brick.train()(x, brick.init_state(B))
    assert not torch.equal(out, trained)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_elman_step_is_torchs_cell(bias: bool, nonlinearity: str) -> None:
    cell = ready(nn.RNNCell(INPUT, D, bias=bias, nonlinearity=nonlinearity))
    x, h = numbers(B, INPUT), numbers(B, D, seed=1)
    total = cell.bias_ih + cell.bias_hh if bias else None
    ours = elman_step(x, h, w_x=cell.weight_ih, w_h=cell.weight_hh, bias=total, nonlinearity=nonlinearity)
    same(ours, cell(x, h))


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_step_is_torchs_cell(bias: bool) -> None:
    cell = ready(nn.LSTMCell(INPUT, D, bias=bias))
    x, h, c = numbers(B, INPUT), numbers(B, D, seed=1), numbers(B, D, seed=2)
    total = cell.bias_ih + cell.bias_hh if bias else None
    gates = lstm_gates(x, h, w_x=cell.weight_ih, w_h=cell.weight_hh, bias=total)
    ours, theirs = lstm_step(gates, c), cell(x, (h, c))
    same(ours[0], theirs[0])
    same(ours[1], theirs[1])


def test_gates_by_name() -> None:
    """Only the bias speaks: a gate is known by where its bias lies."""
    zero = torch.zeros(4, 1, dtype=torch.float64)
    bias = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    gates = lstm_gates(torch.zeros(1, 1).double(), torch.zeros(1, 1).double(), w_x=zero, w_h=zero, bias=bias)
    for name, value in zip("ifo", (1, 2, 4), strict=True):
        same(getattr(gates, name), [[1 / (1 + np.exp(-value))]])
    same(gates.g, [[np.tanh(3)]])


def test_lstm_keeps_and_lets_in() -> None:
    def step(i: float, f: float) -> float:
        gates = Gates(*(torch.tensor([[value]]) for value in (i, f, 0.5, 1.0)))
        return lstm_step(gates, torch.tensor([[7.0]]))[1].item()

    assert step(i=0, f=1) == 7
    assert step(i=1, f=0) == 0.5
    assert step(i=0, f=0) == 0


def test_lstm_projection() -> None:
    cell = ready(nn.LSTM(INPUT, 11, proj_size=D, batch_first=True))
    x, h, c = numbers(B, INPUT), numbers(B, D, seed=1), numbers(B, 11, seed=2)
    total = cell.bias_ih_l0 + cell.bias_hh_l0
    gates = lstm_gates(x, h, w_x=cell.weight_ih_l0, w_h=cell.weight_hh_l0, bias=total)
    ours = lstm_step(gates, c, cell.weight_hr_l0)
    theirs: tuple[Tensor, Tensor] = cell(x.unsqueeze(1), (h.unsqueeze(0), c.unsqueeze(0)))[1]
    same(ours[0], theirs[0][0])
    same(ours[1], theirs[1][0])


@pytest.mark.parametrize("bias", [True, False])
def test_gru_step_is_torchs_cell(bias: bool) -> None:
    cell = ready(nn.GRUCell(INPUT, D, bias=bias))
    x, h = numbers(B, INPUT), numbers(B, D, seed=1)
    biases = {"b_x": cell.bias_ih, "b_h": cell.bias_hh} if bias else {}
    gates = gru_gates(x, h, w_x=cell.weight_ih, w_h=cell.weight_hh, **biases)
    same(gru_step(gates, h), cell(x, h))
