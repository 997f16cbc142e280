"""States, cells and gates of recurrent layers, and the activations of others: taken out of models, and shown."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.inspection.views.states import LayerStates, most_varying, states_of, states_view
from glassformer.rendering.panels import Frames, Grid, Lines
from helpers.small_readers import WORDS, T, reader_of, writer_of
from helpers.support import ready, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

LETTERS = {"rnn": "h", "gru": "hrzn", "lstm": "hcifgo"}
NAMES = [f"t{place}" for place in range(T)]


def looked(model: nn.Module, inputs: tuple[Any, ...], prefix: str = "encoder") -> list[LayerStates]:
    return states_of(model, inputs).get(prefix, [])


@pytest.mark.parametrize("kind", list(LETTERS))
@pytest.mark.parametrize("both", [False, True], ids=["", "both ways"])
def test_every_layer_and_way_of_a_recurrent_encoder(kind: str, both: bool) -> None:
    model = reader_of(kind, bidirectional=both)
    layers = looked(model, WORDS)
    ways = ["", ", backwards"] if both else [""]
    assert [layer.name for layer in layers] == [f"layer {number}{way}" for number in range(2) for way in ways]
    for layer in layers:
        assert set(layer.values) == set(LETTERS[kind])
        assert next(iter(layer.values)) == "h"
        assert all(values.shape == (T, 6 if both else 12) for values in layer.values.values())
    with torch.no_grad():
        states = model.states(*WORDS)[0].numpy()
    np.testing.assert_allclose(np.hstack([one.values["h"] for one in layers[-len(ways) :]]), states, atol=1e-5)
    for layer in layers:
        values = layer.values
        if kind == "lstm":
            np.testing.assert_allclose(values["h"], values["o"] * np.tanh(values["c"]), atol=1e-5)
        if kind == "gru" and not layer.name.endswith("backwards"):
            z, n, h = values["z"], values["n"], values["h"]
            np.testing.assert_allclose(h[1:], (1 - z[1:]) * n[1:] + z[1:] * h[:-1], atol=1e-5)


@pytest.mark.parametrize("feeding", [False, True], ids=["", "fed"])
def test_the_encoder_and_the_decoder_of_a_translator(feeding: bool) -> None:
    model = ready(translator("gru", "lstm", decoder_layers=2, attention="additive", input_feeding=feeding))
    inputs = (tokens(1, 6, vocab=SOURCE_VOCAB), None, tokens(1, 5, vocab=TARGET_VOCAB))
    source, target = (looked(model, inputs, prefix) for prefix in ("encoder", "decoder"))
    assert [set(layer.values) for layer in source] == [set("hrzn")] * 2
    assert [set(layer.values) for layer in target] == [set("hcifgo")] * 2
    assert source[0].values["h"].shape == (6, 14)
    assert target[1].values["f"].shape == (5, 14)


@pytest.mark.parametrize("name", ["cnn", "transformer", "window"])
def test_the_vectors_after_each_layer_of_others(name: str) -> None:
    model = writer_of(name)
    layers = looked(model, WORDS[:1])
    assert [layer.name for layer in layers] == (["output"] if name == "window" else ["layer 0", "layer 1"])
    last = Tensor(layers[-1].values["x"])
    assert last.shape == (T, 12)
    with torch.no_grad():
        after = last if name == "window" else model.encoder.norm(last[None], None)[0]  # type: ignore[operator]
        torch.testing.assert_close(after, model.features(*WORDS[:1])[0], atol=1e-5, rtol=1e-4)


def test_what_has_no_layers_has_no_states_and_is_not_shown() -> None:
    none = looked(writer_of("gru"), WORDS[:1], "decoder")
    assert none == []
    with pytest.raises(Misuse, match="no layers whose states"):
        states_view(NAMES, none)


def test_the_sides_of_a_translator_are_named() -> None:
    chance = np.random.default_rng(0)
    layers = [
        LayerStates(f"layer {number}", {letter: chance.random((T, 5)).astype(np.float32) for letter in "hrz"})
        for number in range(2)
    ]
    titles = [
        "Target · state h",
        "Target · gate r: what of the past is read",
        "Target · gate z: what of the past is kept",
    ]
    one = states_view(NAMES, layers[:1], side="Target · ")
    assert [panel.title for panel in one.panels] == [*titles, "Target · how open the gates are"]
    several = states_view(NAMES, layers, side="Target · ", most=3)
    (frames,) = several.panels
    assert isinstance(frames, Frames)
    assert frames.title == "Target · layer by layer"
    for frame in frames.frames:
        assert [panel.title for panel in frame] == [*titles, "Target · how open the gates are"]


def test_only_the_first_example_is_shown() -> None:
    model = reader_of("rnn")
    two = tuple(torch.cat([one, one.flip(1)]) for one in WORDS)
    np.testing.assert_allclose(looked(model, two)[0].values["h"], looked(model, WORDS)[0].values["h"], atol=1e-6)


def test_units_that_vary_most() -> None:
    values = np.array([[0.0, 5.0, 1.0, -2.0], [0.0, 5.0, 3.0, 2.0], [0.0, 5.0, 2.0, -2.0]], np.float32)
    assert most_varying(values, 2) == [2, 3]
    assert most_varying(values, 9) == [0, 1, 2, 3]


def test_the_view_of_an_lstm() -> None:
    chance = np.random.default_rng(0)
    values = {letter: chance.random((T, 5)).astype(np.float32) for letter in "hcifgo"}
    values["h"][:, 3] = 0.5  # never changes
    view = states_view(NAMES, [LayerStates("layer 0", values)], most=4)
    *grids, lines = view.panels
    assert [grid.title[:6] for grid in grids] == ["state ", "cell c", "gate i", "gate f", "candid", "gate o"]
    for letter, grid in zip("hcifgo", grids, strict=True):
        assert isinstance(grid, Grid)
        assert (grid.rows, grid.columns) == (["0", "1", "2", "4"], NAMES)  # the same units in all of them
        np.testing.assert_array_equal(grid.values, values[letter][:, [0, 1, 2, 4]].T)
        assert grid.signed == (letter in "hcg")
        assert grid.high == (None if letter in "hc" else 1.0)
        assert grid.note == "4 of 5 units vary most"
    assert isinstance(lines, Lines)
    assert [line.name for line in lines.series] == ["i", "f", "o"]
    np.testing.assert_allclose(lines.series[1].y, values["f"].mean(1), rtol=1e-6)
    assert list(lines.series[1].x) == list(range(T))
    assert view.title == "States: layer 0"


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_layers_are_frames_and_a_projected_lstm_has_two_widths() -> None:
    model = writer_of("lstm", cells=19)
    view = states_view(NAMES, looked(model, WORDS[:1]), most=15)
    (frames,) = view.panels
    assert isinstance(frames, Frames)
    assert (frames.name, frames.labels) == ("layer", ["0", "1"])
    state, cell, gate, *_ = frames.frames[0]
    assert isinstance(state, Grid)
    assert isinstance(cell, Grid)
    assert isinstance(gate, Grid)
    assert (state.values.shape, cell.values.shape) == ((12, T), (15, T))
    assert cell.rows == gate.rows
    assert state.note == ""


def test_a_plain_network_has_no_gates_to_draw() -> None:
    view = states_view(NAMES, looked(writer_of("rnn", layers=1), WORDS[:1]))
    assert [type(panel) for panel in view.panels] == [Grid]
