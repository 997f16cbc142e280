"""Recurrent networks, convolutions, images, bags and heads number by number."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.attention import MemoryAttention
from glassformer.bricks.convolution import convolve_written_out, max_pool_written_out
from glassformer.config.errors import Misuse
from glassformer.config.model_section import POOLS
from glassformer.config.resolve import resolve, used_keys
from glassformer.encoders.base import Encoder
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.inspection.capture import Seen, capture
from glassformer.inspection.numbers.encoders import cell_panels
from glassformer.inspection.numbers.walk import walk
from glassformer.models.build import build_language_model, build_predictor
from glassformer.models.inputs import ColumnTokens, Shape
from glassformer.models.modules import BagPredictor, LanguageModel, Predictor, Seq2Seq
from glassformer.rendering.panels import Table, Words
from glassformer.rendering.view import View
from helpers.arithmetic import check_sentences, grid_of, holds, written_in_full  # noqa: F401
from helpers.support import ACTIVATIONS_WRITTEN_OUT, numbers, ready, sigmoid, softmax, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

T, VOCAB = 5, 11
NAMES = ["<s>", " the", " cat", " sat", "."]
IDS = tokens(1, T, vocab=VOCAB, seed=4)
Flags = dict[str, Any]

full = pytest.mark.usefixtures("written_in_full")


def settings_of(task: str, encoder: str, **flags: Any) -> Any:
    small = {
        "width": 14,
        "layers": 2,
        "context": 9,
        "window": 3,
        "kernel": 3,
        "hidden": 11,
        "heads": 2,
        "head_width": 6,
    }
    chosen = {key: value for key, value in small.items() if key in used_keys(encoder)} | flags
    said = {f"model.{key}": value for key, value in {"encoder": encoder, **chosen}.items()}
    kind = {"data.kind": "image"} if "patch" in flags else {}
    if kind:
        del said["model.context"]
    return resolve({}, {"task": task, **kind, **said}).model


def language_model(encoder: str, **flags: Any) -> LanguageModel:
    return ready(build_language_model(settings_of("language-model", encoder, **flags), vocab=VOCAB))


def reader(encoder: str, outputs: int = 3, shape: Shape | None = None, **flags: Any) -> Any:
    settings = settings_of("classification", encoder, **flags)
    return ready(build_predictor(settings, vocab=VOCAB, outputs=outputs, shape=shape))


@torch.no_grad()
def seen_of(model: Any, *inputs: Tensor | None) -> Seen:
    with capture(model) as seen:
        model(*inputs)
    return seen


def titles_of(view: View) -> list[str]:
    return [panel.title for panel in view.panels]


# --- recurrent ---

RECURRENT: list[tuple[str, Flags]] = [
    ("rnn", {}),
    ("rnn", {"nonlinearity": "relu", "bias": False}),
    ("lstm", {}),
    ("lstm", {"bias": False, "initial": False}),
    ("lstm", {"cells": 19}),
    ("gru", {}),
    ("gru", {"bias": False}),
    ("gru", {"bias": "single"}),
    ("rnn", {"bias": "single"}),
]


@pytest.mark.sample(5)
@full
@pytest.mark.parametrize("both_ways", [False, True], ids=["", "both ways"])
@pytest.mark.parametrize("at", [0, 2, 4])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(("encoder", "flags"), RECURRENT, ids=str)
def test_a_recurrent_step(encoder: str, flags: Flags, layer: int, at: int, both_ways: bool) -> None:
    model = reader(encoder, bidirectional=both_ways, **flags)
    view = walk(model, (IDS,), NAMES, layer=layer, position=at, shown=1000)
    seen = seen_of(model, IDS)
    assert isinstance(model.encoder, RecurrentEncoder)
    cell = model.encoder.layers.cell
    for way in range(2 if both_ways else 1):
        name = f"Layer {layer}" + (("", ", backwards") if way else ("", ", forwards"))[both_ways]
        back = "_reverse" if way else ""
        where = f"encoder.layers.{layer}{'.back' if way else ''}"
        new = grid_of(view, f"{name}: the new state")
        np.testing.assert_allclose(new.values[-1], seen[f"{where}.states"][0, at], atol=1e-6)
        x = grid_of(view, f"{name}: what it reads").values[0]
        h = grid_of(view, f"{name}: what it remembers").values[0]
        total = getattr(cell, f"weight_ih_l{layer}{back}") @ torch.from_numpy(x)
        past = getattr(cell, f"weight_hh_l{layer}{back}") @ torch.from_numpy(h)
        if cell.bias:
            total, past = (
                total + getattr(cell, f"bias_ih_l{layer}{back}"),
                past + getattr(cell, f"bias_hh_l{layer}{back}"),
            )
        sums = (total + past).detach().numpy()
        letters = {"lstm": "ifgo", "gru": "rz", "rnn": ""}[encoder]
        size = len(sums) // {"lstm": 4, "gru": 3, "rnn": 1}[encoder]
        for place, letter in enumerate(letters):
            panel = next(one for one in view.panels if one.title.startswith(f"{name}: {letter}, "))
            mine = sums[place * size : (place + 1) * size]
            squashed = np.tanh(mine) if letter == "g" else sigmoid(mine)
            np.testing.assert_allclose(panel.values[-1], squashed, atol=1e-6)  # type: ignore[attr-defined]
            np.testing.assert_allclose(panel.values[-2], mine, atol=1e-6)  # type: ignore[attr-defined]
            np.testing.assert_allclose(panel.values[-1], seen[f"{where}.gates.{letter}"][0, at], atol=1e-6)  # type: ignore[attr-defined]
        if encoder == "rnn":
            np.testing.assert_allclose(new.values[-2], sums, atol=1e-6)
            assert ("relu" in new.formula) == ("nonlinearity" in flags)
        if encoder == "lstm":
            holds_row = grid_of(view, f"{name}: the cell").values[-1]
            np.testing.assert_allclose(holds_row, seen[f"{where}.cells"][0, at], atol=1e-6)
        assert ("t+1" in grid_of(view, f"{name}: what it remembers").formula) == bool(way)
    if layer == 1:  # equal to what torch's fused layers give
        whole = model.encoder.layers.cell(seen["encoder.input"], _first(model.encoder))[0][0]
        states = [grid_of(view, title).values[-1] for title in titles_of(view) if title.endswith("the new state")]
        np.testing.assert_allclose(np.concatenate(states), whole[at].detach(), atol=1e-6)
    check_sentences(view, 4 if encoder == "rnn" else 6)


def _first(encoder: RecurrentEncoder) -> Any:
    hidden = encoder.layers.init_state(1)
    return hidden if len(hidden) == 2 else hidden[0]


DECODERS: list[Flags] = [
    {"attention": kind, "input_feeding": feeding, "bias": bias}
    for kind in ("dot", "scaled", "query-key", "bilinear", "additive")
    for feeding, bias in [(False, True), (True, False)]
] + [{"attention": "none"}]


@pytest.mark.sample(5)
@full
@pytest.mark.parametrize("decoder", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("flags", DECODERS, ids=str)
@pytest.mark.parametrize("at", [0, 2])
def test_a_recurrent_decoder_looks_at_the_source(decoder: str, flags: Flags, at: int) -> None:
    model: Seq2Seq = ready(translator("gru", decoder, decoder_layers=2, **flags))
    source, target = tokens(1, 4, vocab=SOURCE_VOCAB, seed=1), tokens(1, 3, vocab=TARGET_VOCAB, seed=2)
    inputs = (source, torch.ones(1, 4, dtype=torch.bool), target)
    names = {"tokens": ["a", "b", "c", "d"], "written": ["<s>", "x", "y"]}
    view = walk(model, inputs, **names, layer=1, position=at, shown=1000)
    seen = seen_of(model, *inputs)
    assert isinstance(model.decoder, RecurrentDecoder)
    holds(
        view, "Target · The first state", model.decoder.init_state(1, 3, model.encode(source)).hidden[0][:, 0].detach()
    )
    new = grid_of(view, "Target · Layer 1: the new state").values[-1]
    np.testing.assert_allclose(new, seen["decoder.layers.1.states"][0, at], atol=1e-6)
    check_sentences(view, 8)
    name = "Target · Attention to the source"
    if flags["attention"] == "none":
        holds(view, "Target · What the decoder gives", seen["decoder.output"][0])
        assert not any(title.startswith(name) for title in titles_of(view))
        return
    holds(view, f"{name}: queries", seen["decoder.layers.output"][0])
    holds(view, f"{name}: memory", seen["encoder.output"][0])
    holds(view, f"{name}: weights", seen["decoder.attention.weights"][0])
    scores = grid_of(view, f"{name}: scores").values
    np.testing.assert_allclose(softmax(scores), seen["decoder.attention.weights"][0], atol=1e-6)
    holds(view, f"{name}: what was found", seen["decoder.attention.weights"][0] @ seen["encoder.output"][0])
    holds(view, "Target · State and source joined", seen["decoder.output"][0])
    if decoder != "gru":  # one kind is enough for what the layers read
        return
    first = walk(model, inputs, **names, layer=0, position=at, shown=1000)
    assert ("Target · What the first layer reads" in titles_of(first)) == flags["input_feeding"]
    read = grid_of(first, "Target · Layer 0: what it reads").values[0]
    expected = seen["decoder.input"][0, at]
    if flags["input_feeding"]:
        last = seen["decoder.output"][0, at - 1] if at else torch.zeros(14)
        expected = torch.cat([expected, last])
    np.testing.assert_allclose(read, expected, atol=1e-6)
    check_sentences(first, 8)


@pytest.mark.parametrize("kind", ["dot", "additive"])
def test_scores_and_weights_of_a_decoder_are_those_that_were_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Seq2Seq = ready(translator("gru", "gru", attention=kind))
    source, target = tokens(1, 4, vocab=SOURCE_VOCAB, seed=1), tokens(1, 3, vocab=TARGET_VOCAB, seed=2)
    inputs = (source, torch.tensor([[True, True, True, False]]), target)
    used: list[int] = []
    score = MemoryAttention.score
    monkeypatch.setattr(MemoryAttention, "score", lambda *args: (used.append(1), score(*args))[1])
    seen, before = seen_of(model, *inputs), len(used)
    view = walk(model, inputs, ["a", "b", "c", "<pad>"], written=["<s>", "x", "y"])
    assert len(used) == 2 * before  # by the model, and never again
    scores = grid_of(view, "Target · Attention to the source: scores").values
    np.testing.assert_allclose(scores[:, :3], seen["decoder.attention.scores"][0, :, :3])
    assert (scores[:, 3] == -np.inf).all()
    holds(view, "Target · Attention to the source: weights", seen["decoder.attention.weights"][0])


# --- convolutions ---


@full
@pytest.mark.parametrize("at", [0, 2, 4])
@pytest.mark.parametrize("flags", [{}, {"bias": False, "residual": False, "dilation": 1, "kernel": 2}, {"norm": "none"},
                                   {"layers": 1, "norm": "rms", "activation": "tanh"}], ids=str)  # fmt: skip
@pytest.mark.parametrize("whole", [False, True], ids=["causal", "whole"])
def test_a_convolution_over_a_text(flags: Flags, at: int, whole: bool) -> None:
    model = reader("cnn", **flags) if whole else language_model("cnn", **flags)
    layer = flags.get("layers", 2) - 1
    view, seen = walk(model, (IDS,), NAMES, layer=layer, position=at, shown=1000), seen_of(model, IDS)
    name, where = f"Convolution {layer}", f"encoder.convolutions.{layer}"
    y = seen[f"{where}.output"][0]
    holds(view, f"{name}: output", y)
    adds = grid_of(view, f"{name}: what each place adds")
    np.testing.assert_allclose(adds.values.sum(0), y[at], atol=1e-6)
    window, x = grid_of(view, f"{name}: the window at {NAMES[at].strip()}"), seen[f"{where}.input"][0].numpy()
    for place, (token, row) in enumerate(zip(window.rows, window.values, strict=True)):
        expected = np.zeros_like(row) if token == "(beyond)" else x[NAMES.index(token)]
        np.testing.assert_allclose(row, expected, atol=1e-6)
        slide = model.encoder.convolutions[layer].slide
        part = slide.weight[:, :, place].detach().numpy() @ row
        np.testing.assert_allclose(adds.values[place], part, atol=1e-6)
    holds(view, f"{name}: non-linearity", model.encoder.activation(seen[f"{where}.output"])[0])
    assert (f"{name}: residual" in titles_of(view)) == (flags.get("residual") is not False)
    if flags.get("residual") is not False:
        holds(view, f"{name}: residual", seen[f"encoder.around.{layer}.output"][0])
    if flags.get("norm") != "none":
        holds(view, f"{name}: the norm before it", seen[f"{where}.input"][0])
        holds(view, "The last norm", seen["encoder.output"][0])
    check_sentences(view, 5)


@full
@pytest.mark.parametrize("layers", [1, 3])
def test_a_window(layers: int) -> None:
    model = language_model("window", layers=layers)
    view, seen = walk(model, (IDS,), NAMES, position=1, shown=1000), seen_of(model, IDS)
    holds(view, "Output", seen["encoder.output"][0])
    holds(view, "Window: output", model.encoder.read(seen["encoder.input"])[0].detach())
    assert sum(title.endswith(": sum") for title in titles_of(view)) == layers - 1
    assert list(grid_of(view, "Window: the window at the").rows) == ["(beyond)", "<s>", " the"]
    check_sentences(view, 5 + 2 * (layers - 1))


# --- images ---

IMAGE = numbers(1, 2, 7, 9, seed=3)


@full
@pytest.mark.parametrize("cell", [None, 0, 25, 62])
@pytest.mark.parametrize("kernel", [3, 2])
def test_a_convolution_over_an_image(cell: int | None, kernel: int) -> None:
    model = reader("cnn", shape=Shape(image=(2, 7, 9)), layers=2, kernel=kernel)
    view = walk(model, (IMAGE,), [], position=cell, outputs=["a", "b", "c"])
    first = model.embed.cut.convolutions[0]
    row, column = divmod(31 if cell is None else cell, 9)
    more = (kernel - 1) % 2
    padded = F.pad(IMAGE, (0, more, 0, more))[0].permute(1, 2, 0)
    out = convolve_written_out(padded, first.weight.permute(2, 3, 1, 0), first.bias, padding=(kernel - 1) // 2).detach()
    around = grid_of(view, "Convolution 0: filter 0 around that cell")
    here = around.values[list(around.rows).index(str(row)), list(around.columns).index(str(column))]
    assert here == pytest.approx(float(out[row, column, 0]))
    name, _, how = view.panels[4].note.rpartition("\n")[2].partition(" = ")
    assert name == f"y({row}, {column})₀"
    assert how.endswith(f" = {how.rpartition(' = ')[2]}")
    pool = next(panel for panel in view.panels if panel.title.startswith("Pooling"))
    pooled = max_pool_written_out(out.relu())
    v, u = min(row // 2, 2), min(column // 2, 3)
    assert pool.values.max() == pytest.approx(float(pooled[v, u, 0]))  # type: ignore[attr-defined]
    assert f"p({v}, {u})₀" in pool.note
    with pytest.raises(Misuse, match=r"--position 63 .* counted from 0 to 62"):
        walk(model, (IMAGE,), [], position=63)
    check_sentences(view, 4)


@torch.no_grad()
@pytest.mark.parametrize(("stride", "padding", "kernel"), [(1, 0, 2), (1, 2, 3), (2, 1, 3), (3, 0, 3), (2, 3, 4)])
def test_the_printed_formula_names_the_pixels_that_are_read(stride: int, padding: int, kernel: int) -> None:
    """The indices in `Σ_ij W_ij x_(…)`, evaluated for each cell, give the numbers that the convolution computes."""
    x = numbers(1, 1, 7, 9, seed=3).float()
    torch.manual_seed(0)
    convolution = nn.Conv2d(1, 1, kernel, stride=stride, padding=padding)
    out, weight = convolution(x).detach()[0, 0], convolution.weight.detach()[0, 0]
    for cell in range(0, out.numel(), 3):
        panels, (v, u) = cell_panels(convolution, x, cell, "Convolution")
        formula = re.search(r"x_\((.*), (.*)\) \+ b", panels[-1].formula)  # type: ignore[attr-defined]
        assert formula is not None
        rows, columns = (re.sub(r"(\d)([vu])", r"\1*\2", one.replace("−", "-")) for one in formula.groups())
        total = float(convolution.bias.detach())  # type: ignore[union-attr]
        for i, j in itertools.product(range(kernel), repeat=2):
            row, column = eval(rows, {"v": v, "i": i}), eval(columns, {"u": u, "j": j})
            inside = 0 <= row < 7 and 0 <= column < 9
            total += float(weight[i, j] * x[0, 0, row, column]) if inside else 0.0
        assert total == pytest.approx(float(out[v, u]), abs=1e-5)
        assert panels[0].rows[0] == str(v * stride - padding)  # type: ignore[attr-defined]


@full
def test_a_patch_of_an_image() -> None:
    model = reader("transformer", shape=Shape(image=(2, 7, 9)), patch=4)
    names = [f"patch {number}" for number in range(6)]
    view, seen = walk(model, (IMAGE,), names, position=4, shown=1000), seen_of(model, IMAGE)
    around = grid_of(view, "Patch: filter 0 around that cell")
    np.testing.assert_allclose(around.values.ravel(), seen["embed.vectors"][0, :, 0], atol=1e-6)
    assert "y(1, 1)₀" in around.note
    pixels = grid_of(view, "Patch: the pixels at row 1, column 1, channel 1").values
    np.testing.assert_allclose(pixels, F.pad(IMAGE, (0, 3, 0, 1))[0, 1, 4:8, 4:8])
    holds(view, "Vectors", seen["embed.vectors"][0])
    check_sentences(view, 10)


def test_many_patches_and_columns_are_told_as_such() -> None:
    many = reader("transformer", shape=Shape(image=(2, 7, 9)), patch=2)
    with pytest.raises(Misuse, match="at most 16 tokens, patches or columns, and there are 20"):
        walk(many, (IMAGE,), [f"patch {number}" for number in range(20)])
    wide = reader("transformer", shape=Shape(image=(2, 7, 9)), patch=4)
    wide.embed = ColumnTokens(numbers=17, categories=(), width=14)
    with pytest.raises(Misuse, match="at most 16 tokens, patches or columns, and there are 17"):
        walk(wide, (numbers(1, 17),), [f"column {number}" for number in range(17)])


# --- pools and heads ---


@full
@pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "flatten"])
@pytest.mark.parametrize("masked", [False, True])
def test_pools(pool: str, masked: bool) -> None:
    model = reader("average", pool=pool, head_layers=2, head_hidden=6)
    assert isinstance(model, Predictor)
    mask = torch.tensor([[True, True, True, False, False]]) if masked else None
    inputs = (IDS,) if mask is None else (IDS, mask)
    view = walk(model, inputs, NAMES, outputs=["a", "b", "c"], shown=1000)
    seen = seen_of(model, *inputs)
    holds(view, "Pool: one vector for all", seen["pool.output"])
    holds(view, "Head: scores", seen["logits"])
    hidden = model.head.hidden[0](seen["pool.output"]).detach()
    first, second = [panel for panel in view.panels if panel.title == "Head: relu"]
    np.testing.assert_allclose(first.values, hidden.relu(), atol=1e-6)  # type: ignore[attr-defined]
    np.testing.assert_allclose(second.values, model.head.hidden[1](hidden.relu()).relu().detach(), atol=1e-6)  # type: ignore[attr-defined]
    if pool == "attention":
        weights = grid_of(view, "Pool: weights")
        np.testing.assert_allclose(weights.values[0], seen["pool.weights"][0, : len(weights.columns)], atol=1e-6)
        assert list(weights.rows) == ["w"]
        assert list(weights.columns) == NAMES[: 3 if masked else 5]
    check_sentences(view, 6 if pool in ("mean", "max", "sum", "attention") else 5)


@full
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "sigmoid"])
def test_the_non_linearity_of_a_head(activation: str) -> None:
    model = reader("average", head_layers=1, head_hidden=6, head_activation=activation, head_bias=False)
    view, seen = walk(model, (IDS,), NAMES, outputs=["a", "b", "c"], shown=1000), seen_of(model, IDS)
    hidden = model.head.hidden[0](seen["pool.output"]).detach().numpy()
    holds(view, f"Head: {activation}", ACTIVATIONS_WRITTEN_OUT[activation](hidden))
    holds(view, "Head: scores", seen["logits"])
    check_sentences(view, 5)


def test_one_score_is_a_probability_or_a_number() -> None:
    model = reader("average", outputs=1)
    score = model(IDS)[0, 0].item()
    table = walk(model, (IDS,), NAMES, outputs=["bad", "good"]).panels[-1]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["good", "bad"]
    scores = grid_of(walk(model, (IDS,), NAMES, outputs=["bad", "good"]), "Head: scores")
    assert scores.columns == ["good"]
    assert "y(good) = " in scores.note
    np.testing.assert_allclose([row[2] for row in table.rows], [sigmoid(np.array(score)), 1 - sigmoid(np.array(score))])
    view = walk(model, (IDS,), NAMES)
    holds(view, "The answer", [[score]])


# --- the bag of words ---

BAG_IDS = torch.tensor([[3, 5, 3, 7, 3]])
BAG_NAMES = ["a", "b", "a", "c", "a"]


@full
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"weighting": "counts"},
        {"ngrams": 2, "buckets": 101},
        {"head_layers": 2, "head_hidden": 6},
        {"head_bias": False},
        {"head_layers": 1, "head_activation": "sigmoid", "head_bias": False},
    ],
    ids=str,
)
def test_the_bag_of_words(flags: Flags) -> None:
    model = reader("bag", **flags)
    assert isinstance(model, BagPredictor)
    model.bag.learn_frequencies([(tokens(9, 6, vocab=VOCAB, seed=8), None), (BAG_IDS, None)])
    view = walk(model, (BAG_IDS,), BAG_NAMES, outputs=["x", "y", "z"], shown=1000)
    table = view.panels[0]
    assert isinstance(table, Table)
    rows = {str(row[0]): row for row in table.rows}
    names = ["a", "b", "c", *(["a b", "b a", "a c", "c a"] if "ngrams" in flags else [])]
    assert list(rows) == names
    counts = np.array([3, *[1] * (len(names) - 1)])
    assert [row[1] for row in table.rows] == counts.tolist()
    x = np.array([row[-1] for row in table.rows])
    if "weighting" in flags:
        np.testing.assert_allclose(x, counts)
    else:
        idf = model.bag.idf[[3, 5, 7]].numpy()
        np.testing.assert_allclose([rows[name][2] for name in "abc"], idf, atol=1e-6)
        raw = counts * np.array([row[2] for row in table.rows])
        np.testing.assert_allclose(x, raw / np.sqrt((raw**2).sum()), atol=1e-6)
    features = model.bag(BAG_IDS, None).detach()
    holds(view, "Their sum", features)
    adds = grid_of(view, "What each word adds")
    np.testing.assert_allclose(adds.values.sum(0), features[0], atol=1e-6)
    np.testing.assert_allclose(adds.values[1], x[1] * model.bag.table.weight[5].detach(), atol=1e-6)
    last = view.panels[-1]
    assert isinstance(last, Table)
    np.testing.assert_allclose(
        sorted(row[2] for row in last.rows), np.sort(softmax(model(BAG_IDS, None).detach().numpy())[0]), atol=1e-6
    )
    check_sentences(view, 3 if "weighting" in flags or flags == {"head_bias": False} else 4)


# --- one's own ---


class Doubled(Encoder):
    """A person's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.width, self.causal = 14, True

    def forward(self, x: Tensor, mask: Tensor | None = None, *, memory: Any = None) -> Tensor:
        return 2 * x

    def init_state(self, batch: int, max_tokens: int, memory: Any = None) -> Any: ...

    def extend(self, x: Tensor, state: Any, mask: Tensor | None = None) -> Tensor:
        return 2 * x


def test_of_ones_own_encoder_what_goes_in_and_comes_out() -> None:
    model = language_model("average")
    model.encoder = Doubled()
    view, seen = walk(model, (IDS,), NAMES, shown=1000), seen_of(model, IDS)
    holds(view, "Vectors", seen["embed.vectors"][0])
    holds(view, "What the encoder gives", 2 * seen["embed.vectors"][0])
    assert any(isinstance(panel, Words) and "Doubled" in panel.text for panel in view.panels)
