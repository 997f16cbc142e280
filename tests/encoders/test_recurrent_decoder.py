"""The recurrent decoder: its formulas written out, the bottleneck, and what cannot be."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.config.errors import SettingError
from glassformer.config.resolve import resolve
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.encoders.registry import Place, build_encoder
from helpers.cases import RECURRENT_DECODERS, Flags, build, label, small
from helpers.support import Seen, differs, numbers, ready, same, sigmoid, softmax

B, T, S, M = 3, 4, 5, 7
every_decoder = pytest.mark.parametrize("flags", RECURRENT_DECODERS, ids=label)


def made(flags: Flags, memory_width: int = M) -> RecurrentDecoder:
    alike = flags.get("attention") in ("dot", "scaled")
    decoder = build(flags, causal=True, memory_width=flags["width"] if alike else memory_width)
    assert isinstance(decoder, RecurrentDecoder)
    return decoder


def memory_for(decoder: RecurrentDecoder, lengths: tuple[int, ...] = (5, 2, 3)) -> Memory:
    width = decoder.bridges[0].in_features
    return Memory(numbers(B, S, width, seed=1), torch.arange(S) < torch.tensor(lengths)[:, None])


class WrittenOut:
    """One row through a decoder, number by number."""

    def __init__(self, decoder: RecurrentDecoder, kind: str) -> None:
        self.kind = kind
        self.attention = decoder.attention.kind if decoder.attention is not None else "none"
        self.feeding = decoder.input_feeding
        self.weights = {name: weight.detach().numpy() for name, weight in decoder.state_dict().items()}
        self.layers = decoder.layers.cell.num_layers
        self.width = decoder.width

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return self.weights[f"{name}.weight"] @ x + self.weights.get(f"{name}.bias", 0.0)

    def cell(self, layer: int, x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
        weights = {key: self.weights.get(f"layers.cell.{key}_l{layer}") for key in ("weight_ih", "weight_hh")}
        b_x, b_h = (self.weights.get(f"layers.cell.bias_{key}_l{layer}", 0.0) for key in ("ih", "hh"))
        from_x, from_h = weights["weight_ih"] @ x + b_x, weights["weight_hh"] @ state[0] + b_h
        if self.kind == "rnn":
            return [np.tanh(from_x + from_h)]
        if self.kind == "lstm":
            i, f, g, o = np.split(from_x + from_h, 4)
            c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            projection = self.weights.get(f"layers.cell.weight_hr_l{layer}")
            return [h if projection is None else projection @ h, c]
        (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(from_x, 3), np.split(from_h, 3)
        r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
        return [(1 - z) * np.tanh(n_x + r * n_h) + z * state[0]]

    def score(self, h: np.ndarray, m: np.ndarray) -> float:
        if self.attention == "bilinear":
            return float(self.linear("attention.bilinear", h) @ m)
        if self.attention == "query-key":
            query, key = self.linear("attention.of_query", h), self.linear("attention.of_memory", m)
            return float(query @ key) / np.sqrt(len(key))
        if self.attention == "additive":
            joint = np.tanh(self.linear("attention.of_query", h) + self.linear("attention.of_memory", m))
            return float(self.linear("attention.total", joint)[0])
        return float(h @ m) / (np.sqrt(self.width) if self.attention == "scaled" else 1.0)

    def __call__(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What comes out, and where each step looked."""
        summary = memory.mean(0)
        parts = 2 if self.kind == "lstm" else 1
        first = [np.split(np.tanh(self.linear(f"bridges.{part}", summary)), self.layers) for part in range(parts)]
        states = [[part[layer] for part in first] for layer in range(self.layers)]
        out, outs, looks = np.zeros(self.width), [], []
        for token in x:
            h = np.concatenate([token, out]) if self.feeding else token
            for layer in range(self.layers):
                states[layer] = self.cell(layer, h, states[layer])
                h = states[layer][0]
            out = h
            if self.attention != "none":
                looks.append(softmax(np.array([self.score(h, m) for m in memory])))
                out = np.tanh(self.linear("join", np.concatenate([h, looks[-1] @ memory])))
            outs.append(out)
        return np.array(outs), np.array(looks)


@every_decoder
def test_formulas(flags: Flags) -> None:
    decoder = made(flags)
    memory, x = memory_for(decoder), numbers(B, T, decoder.width)
    looks: list[Tensor] = []
    if decoder.attention is not None:
        decoder.attention.weights.register_forward_hook(lambda module, inputs, weights: looks.append(weights))
    out = decoder(x, memory=memory)
    for row, length in enumerate((5, 2, 3)):
        expected, weights = WrittenOut(decoder, flags["encoder"])(x[row].numpy(), memory.states[row, :length].numpy())
        same(out[row], expected)
        if looks:  # one token at a time, they are seen one at a time
            same(torch.cat(looks, 1)[row, :, :length], weights)
    assert bool(looks) == (flags.get("attention") != "none")


@every_decoder
def test_rows_without_a_new_token_stay_where_they_were(flags: Flags) -> None:
    decoder = made(flags)
    memory = memory_for(decoder)
    state = decoder.init_state(B, 9, memory)
    texts, outs = ([numbers(0, decoder.width) for _ in range(B)] for _ in range(2))
    for seed, lengths in enumerate([(3, 1, 0), (0, 2, 1), (1, 1, 1), (1, 0, 2)], 2):
        x, mask = (
            numbers(B, max(lengths), decoder.width, seed=seed),
            torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1),
        )
        x[~mask] = 100.0
        out = decoder.extend(x, state, mask)
        for row, length in enumerate(lengths):
            texts[row] = torch.cat([texts[row], x[row, :length]])
            outs[row] = torch.cat([outs[row], out[row, :length]])
    for row in range(B):
        alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
        same(outs[row], decoder(texts[row].unsqueeze(0), memory=alone)[0])


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("pool", ["last", "ends", "mean"])
def test_the_bottleneck(name: str, pool: str) -> None:
    """Without attention the decoder knows of the memory what its summary says, and nothing else."""
    settings = resolve({}, {"task": "translation", **small_flags(name, attention="none")}).model
    decoder = ready(build_encoder(settings, Place(settings.width, True, 8, pool)))
    x, states = numbers(B, T, decoder.width), numbers(B, S, 8, seed=1)
    lengths = torch.tensor([5, 4, 3])
    mask = torch.arange(S) < lengths[:, None]
    before = decoder(x, memory=Memory(states, mask))

    other = states.clone()
    other[:, 1] += numbers(B, 8, seed=2)
    if pool == "mean":  # something else elsewhere, and the mean stays
        other[:, 0] -= numbers(B, 8, seed=2)
    same(decoder(x, memory=Memory(other, mask)), before)

    for at, half in {"last": [(-1, slice(8))], "ends": [(-1, slice(4)), (0, slice(4, 8))]}.get(pool, [(1, slice(8))]):
        changed = states.clone()
        rows = torch.arange(B)
        place = lengths - 1 if at == -1 else torch.full((B,), at)
        changed[rows, place, half] += 1
        assert differs(decoder(x, memory=Memory(changed, mask)), before)
    if pool == "ends":  # the half that reads backwards has read everything at the beginning, not at the end
        unread = states.clone()
        unread[rows, lengths - 1, 4:] += 1
        unread[:, 0, :4] += 1
        same(decoder(x, memory=Memory(unread, mask)), before)


def small_flags(name: str, **flags: Any) -> dict[str, Any]:
    flags = {"bidirectional": False, "dropout": 0.0, "decoder": name, **flags}
    return {f"model.{key}": value for key, value in small(name, **flags).items()}


def test_with_attention_all_of_the_memory_is_seen() -> None:
    decoder = made(small("gru"))
    memory, x = memory_for(decoder), numbers(B, T, decoder.width)
    other = memory.states.clone()
    other[:, 1] += numbers(B, M, seed=2)
    other[:, 0] -= numbers(B, M, seed=2)  # the summary, a mean, stays
    assert differs(decoder(x, memory=Memory(other, memory.mask)), decoder(x, memory=memory))


def test_keys_are_made_once() -> None:
    decoder = made(small("lstm", input_feeding=True))
    calls = []
    decoder.attention.of_memory.register_forward_hook(lambda *_: calls.append(1))
    state = decoder.init_state(B, T, memory_for(decoder))
    for t in range(T):
        decoder.extend(numbers(B, 1, decoder.width, seed=t), state)
    assert len(calls) == 1


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("attention", ["none", "additive"])
def test_dropout_in_training_only(attention: str, input_feeding: bool) -> None:
    if attention == "none" and input_feeding:
        return
    flags = small("gru", layers=1, attention=attention, input_feeding=input_feeding)
    decoder, without = (made({**flags, "dropout": dropout}) for dropout in (0.3, 0.0))
    x, memory = numbers(B, T, decoder.width), memory_for(decoder)
    assert torch.equal(decoder(x, memory=memory), without(x, memory=memory))
    out = decoder.train()(x, memory=memory)
    assert 0.1 < (out == 0).double().mean() < 0.5
    same(without.train()(x, memory=memory), without.eval()(x, memory=memory))


@every_decoder
def test_every_weight_is_learned(flags: Flags) -> None:
    decoder = made(flags)
    x, memory = numbers(B, T, decoder.width).requires_grad_(), memory_for(decoder)
    memory.states.requires_grad_()
    decoder(x, memory=memory).pow(3).sum().backward()
    for name, weight in [*decoder.named_parameters(), ("x", x), ("memory", memory.states)]:
        assert weight.grad is not None, name
        assert (weight.grad != 0).any(), name
    assert [name for name, _ in decoder.named_buffers() if "bias_hh" not in name] == [  # h0 is computed from the source
        f"layers.first.{part}" for part in range(2 if flags["encoder"] == "lstm" else 1)
    ]


def test_an_empty_source_harms_no_one() -> None:
    decoder = made(small("lstm"))
    memory, x = memory_for(decoder, (5, 0, 3)), numbers(B, T, decoder.width)
    out = decoder(x, memory=memory)
    assert out.isfinite().all()
    same(out[:1], decoder(x[:1], memory=Memory(memory.states[:1], memory.mask[:1])))


@pytest.mark.parametrize("attention", ["dot", "scaled"])
def test_two_widths_cannot_be_compared(attention: str) -> None:
    with pytest.raises(SettingError, match=rf"model\.attention {attention} .* 14 and the 7 .*query-key or bilinear"):
        build(small("gru", attention=attention), causal=True, memory_width=7)
    build(small("gru", attention=attention), causal=True, memory_width=14)


def test_what_cannot_be() -> None:
    with pytest.raises(SettingError, match=r"model\.input_feeding .* model\.attention is none"):
        build(small("gru", attention="none", input_feeding=True), causal=True, memory_width=7)


def test_where_it_looked_can_be_seen() -> None:
    decoder = made(small("gru"))
    with Seen(weights=decoder.attention.weights) as seen:
        decoder(numbers(B, T, decoder.width), memory=memory_for(decoder))
    assert seen["weights"].shape == (B, T, S)
    same(seen["weights"].sum(-1), torch.ones(B, T))
