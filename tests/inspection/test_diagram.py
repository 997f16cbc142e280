"""The diagram of every model: its bricks hold all weights once, its arrows the shapes that really pass."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.model_section import ModelSettings
from glassformer.config.resolve import resolve
from glassformer.inspection.capture import capture
from glassformer.inspection.diagram_parts import Plan, describe
from glassformer.inspection.views.diagram import diagram_of, plan_of, small
from glassformer.models.build import (
    build_language_model,
    build_masked_model,
    build_predictor,
    build_seq2seq,
    build_vectors,
)
from glassformer.models.inputs import Shape
from glassformer.rendering.panels import Brick, Diagram

T, S, V = 7, 5, 31
Case = tuple[nn.Module, tuple[Any, ...]]


def settings(task: str, encoder: str, **more: Any) -> ModelSettings:
    given = {key.replace("__", "."): value for key, value in more.items()}
    return resolve({}, {"task": task, "model.encoder": encoder, **given}).model


def tokens(length: int, vocab: int = V) -> Tensor:
    return torch.arange(length)[None] % vocab


def writer(encoder: str, **more: Any) -> Case:
    more = {"model__width": 16, "model__context": 13, **more}
    return build_language_model(settings("language-model", encoder, **more), vocab=V), (tokens(T),)


def masked(**more: Any) -> Case:
    given = settings("masked-language-model", "transformer", model__width=16, model__layers=2, model__heads=2, **more)
    return build_masked_model(given, vocab=V), (tokens(T),)


def reader(encoder: str, **more: Any) -> Case:
    model = build_predictor(settings("classification", encoder, **more), outputs=3, vocab=V)
    return model, (tokens(T), torch.ones(1, T, dtype=torch.bool))


def image(encoder: str, **more: Any) -> Case:
    given = settings("classification", encoder, data__kind="image", **more)
    return build_predictor(given, outputs=3, shape=Shape(image=(1, 12, 8))), (torch.rand(1, 1, 12, 8),)


def table(encoder: str, kind: str = "table", **more: Any) -> Case:
    given = settings("classification", encoder, data__kind=kind, **more)
    row = (torch.rand(1, 3), torch.ones(1, 2, dtype=torch.long))
    shape = Shape(numbers=3, categories=(4, 5), vocab=V if kind == "mixed" else 0)
    text = (tokens(T), torch.ones(1, T, dtype=torch.bool)) if kind == "mixed" else ()
    return build_predictor(given, outputs=2, shape=shape), (*text, *row)


def translator(encoder: str, **more: Any) -> Case:
    given = settings("translation", encoder, **{"model__width": 16, **more})
    model = build_seq2seq(given, source_vocab=V, target_vocab=V)
    return model, (tokens(S), torch.ones(1, S, dtype=torch.bool), tokens(T), None)


def vectors() -> Case:
    given = settings("vectors", "transformer", model__width=16, model__layers=1, model__heads=2)
    return build_vectors(given, vocab=V), (tokens(T), torch.ones(1, T, dtype=torch.bool))


BLOCKS = {"model__layers": 3, "model__heads": 2}
CASES: dict[str, Callable[[], Case]] = {
    "transformer": lambda: writer("transformer", **BLOCKS),
    "classic": lambda: writer("transformer", **BLOCKS, model__style="classic"),
    "gpt2": lambda: writer("transformer", **BLOCKS, model__style="gpt2"),
    "no residual": lambda: writer("transformer", **BLOCKS, model__residual=False),
    "no feed-forward": lambda: writer("transformer", **BLOCKS, model__feed_forward=False),
    "plain scores": lambda: writer("transformer", **BLOCKS, model__scores="plain", model__output_projection=False),
    "bert": lambda: masked(model__style="bert", model__head_transform=True),
    "window": lambda: writer("window", model__layers=2),
    "cnn": lambda: writer("cnn", model__layers=2, model__dilation=2),
    "same convolutions": lambda: writer("cnn", model__layers=3, model__dilation=1),
    "rnn": lambda: writer("rnn", model__layers=2),
    "gru": lambda: writer("gru"),
    "projected lstm": lambda: writer("lstm", model__layers=2, model__cells=24),
    "one-hot": lambda: writer("lstm", model__embed="onehot", model__tied=False),
    "bag": lambda: reader("bag"),
    "bag and mlp": lambda: reader("bag", model__head_layers=2, model__ngrams=2, model__buckets=64),
    "average": lambda: reader("average", model__width=16, model__embed_width=8),
    "bilstm": lambda: reader("lstm", model__bidirectional=True, model__layers=2, model__width=16),
    "classifier": lambda: reader("transformer", **BLOCKS, model__width=16, model__pool="attention"),
    "cnn classifier": lambda: reader("cnn", model__width=16),
    "vectors": vectors,
    "patches": lambda: image("transformer", **BLOCKS, model__width=16, model__patch=4),
    "cnn of images": lambda: image("cnn", model__width=16),
    "pixels": lambda: image("linear"),
    "linear": lambda: table("linear"),
    "mlp": lambda: table("mlp", model__head_layers=2),
    "columns": lambda: table("transformer", **BLOCKS, model__width=16),
    "mixed": lambda: table("transformer", "mixed", **BLOCKS, model__width=16),
    "translator": lambda: translator("transformer", **BLOCKS, model__decoder_layers=2),
    "layerwise": lambda: translator("transformer", **BLOCKS, model__attention="layerwise"),
    "lstm translator": lambda: translator("lstm", model__layers=2, model__decoder_layers=2),
    "input feeding": lambda: translator("lstm", model__input_feeding=True),
    "bottleneck": lambda: translator("gru", model__attention="none"),
}


def made(name: str) -> Case:
    model, inputs = CASES[name]()
    for weight in model.parameters():
        weight.data.normal_(std=0.3)
    return model.eval(), inputs


def by_name(diagram: Diagram) -> dict[str, Brick]:
    return {brick.name: brick for brick in diagram.bricks}


def arrows(diagram: Diagram, *roles: str) -> list[tuple[str, str]]:
    return [(arrow.start, arrow.end) for arrow in diagram.arrows if arrow.role in roles]


@pytest.mark.parametrize("name", CASES)
def test_every_weight_belongs_to_one_brick(name: str) -> None:
    model, _ = made(name)
    plan, diagram = plan_of(model), diagram_of(model)
    assert len(by_name(diagram)) == len(diagram.bricks)
    assert sum(brick.parameters for brick in diagram.bricks) == sum(weight.numel() for weight in model.parameters())
    shown = {id(weight) for part in plan.parts.values() for weight in part.weights.values()}
    assert shown == {id(weight) for weight in model.parameters()}
    assert all(brick.code.lstrip().startswith(("def forward", "@")) for brick in diagram.bricks if brick.kind != "data")


NOT_CAPTURED = ("Scores", "Hidden layer", "First state", "Attention", "Transform")
"""Bricks whose output has no name of its own: their numbers come from a hook on the module."""


@pytest.mark.sample(5)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", CASES)
def test_shapes_are_those_that_pass(name: str) -> None:
    model, inputs = made(name)
    with capture(model) as seen, torch.no_grad():
        model(*inputs)
    parts, diagram, checked = plan_of(model).parts, diagram_of(model, inputs), 0
    letters = diagram_of(model)
    for arrow, bare in zip(diagram.arrows, letters.arrows, strict=True):
        part = parts[arrow.start]
        names = part.recorded
        if arrow.role == "tied" or part.module is None or part.brick.kind == "add" or part.brick.title in NOT_CAPTURED:
            continue
        sizes = [*seen[names[0]].shape[1:-1], sum(seen[one].shape[-1] for one in names)]
        assert arrow.shape.split(" = ")[1] == "×".join(map(str, sizes)), arrow
        assert arrow.shape.split(" = ")[0] == bare.shape.split(" = ")[0]
        assert dict(by_name(diagram)[arrow.start].numbers)["shape"] == "×".join(map(str, sizes))
        checked += 1
    assert checked
    scores = next(arrow.shape for arrow in diagram.arrows if arrow.end == "answer")
    with torch.no_grad():
        assert scores.split(" = ")[1] == "×".join(map(str, model(*inputs).shape[1:]))


@pytest.mark.parametrize("name", CASES)
def test_one_way_leads_from_each_input_to_the_answer(name: str) -> None:
    diagram = diagram_of(made(name)[0])
    names = [brick.name for brick in diagram.bricks]
    flow = arrows(diagram, "flow")
    lanes = [[brick.name for brick in diagram.bricks if brick.lane == lane] for lane in range(len(diagram.lanes))]
    assert flow == [pair for lane in lanes for pair in itertools.pairwise(lane)]
    assert {end for pair in arrows(diagram, "residual", "memory", "state", "skip") for end in pair} <= set(names)


@pytest.mark.parametrize(("name", "around"), [
    ("transformer", 6), ("classic", 6), ("no residual", 0), ("no feed-forward", 3), ("cnn", 2), ("window", 0),
    ("rnn", 0), ("bilstm", 0), ("translator", 3 * 2 + 2 * 3), ("bottleneck", 0),
])  # fmt: skip
def test_residual_arrows_only_where_there_are_residuals(name: str, around: int) -> None:
    model, _ = made(name)
    diagram = diagram_of(model)
    residual = arrows(diagram, "residual")
    assert len(residual) == around
    assert sum(brick.kind == "add" for brick in diagram.bricks) == around
    names = [brick.name for brick in diagram.bricks]
    for start, end in residual:  # around one part and, before or after it, its norm
        inside = [by_name(diagram)[name].kind for name in names[names.index(start) + 1 : names.index(end)]]
        assert inside[-1] in ("attention", "feed-forward", "convolution")
        assert inside[:-1] == ([] if name == "classic" else ["norm"])


def test_norms_stand_where_they_are() -> None:
    def kinds(name: str) -> list[str]:
        return [brick.kind for brick in diagram_of(made(name)[0]).bricks if brick.group == "encoder.blocks.1"]

    assert kinds("transformer") == ["norm", "attention", "add", "norm", "feed-forward", "add"]
    assert kinds("classic") == ["attention", "add", "norm", "feed-forward", "add", "norm"]
    assert kinds("no residual") == ["norm", "attention", "norm", "feed-forward"]


def test_blocks_that_are_alike_are_drawn_once() -> None:
    def like(name: str) -> list[str]:
        return [group.like for group in diagram_of(made(name)[0]).groups]

    assert like("transformer") == ["", "encoder.blocks.0", "encoder.blocks.0"]
    assert like("translator") == ["", "encoder.blocks.0", "encoder.blocks.0", "", "decoder.blocks.0"]
    assert like("cnn") == ["", ""]  # each has another dilation


def test_tied_weights_are_counted_once_and_shown() -> None:
    model, _ = writer("transformer", **BLOCKS, model__tied=True)
    diagram = diagram_of(model)
    assert arrows(diagram, "tied") == [("embed", "head")]
    assert by_name(diagram)["embed"].parameters == V * 16
    assert by_name(diagram)["head"].parameters == 0
    untied = diagram_of(writer("transformer", **BLOCKS, model__tied=False)[0])
    assert not arrows(untied, "tied")
    assert by_name(untied)["head"].parameters == V * 16
    shared = diagram_of(translator("transformer", **BLOCKS, model__shared=True, model__tied=True)[0])
    assert arrows(shared, "tied") == [("embed_source", "embed_target"), ("embed_target", "head")]


def test_what_a_decoder_is_told_of_the_source() -> None:
    both = diagram_of(made("translator")[0])
    assert arrows(both, "memory") == [("encoder.norm", f"decoder.blocks.{n}.cross_attention") for n in range(2)]
    assert arrows(diagram_of(made("layerwise")[0]), "memory") == [
        (f"encoder.blocks.{n}.around_feed", f"decoder.blocks.{n}.cross_attention") for n in range(3)
    ]
    lstm = diagram_of(made("lstm translator")[0])
    assert arrows(lstm, "memory") == [("encoder.layers.1", "decoder.attention")]
    assert arrows(lstm, "state") == [("decoder.bridges", "decoder.layers.0")]
    bottleneck = diagram_of(made("bottleneck")[0])
    assert not arrows(bottleneck, "memory")
    assert arrows(bottleneck, "state") == [("decoder.bridges", "decoder.layers.0")]
    assert arrows(diagram_of(made("input feeding")[0]), "feedback") == [("decoder.join", "decoder.layers.0")]
    assert [brick.lane for brick in both.bricks] == sorted(brick.lane for brick in both.bricks)


def test_without_a_text_a_brick_shows_its_weights() -> None:
    model, _ = made("gpt2")
    diagram = diagram_of(model)
    assert {arrow.shape for arrow in diagram.arrows} == {"T", "T×d = T×16", f"T×V = T×{V}", ""}
    weight = model.get_parameter("encoder.blocks.0.attend.query.weight").detach().numpy()
    said = dict(by_name(diagram)["encoder.blocks.0.attend"].numbers)["query.weight"]
    assert said == f"16×16, mean {weight.mean():.3g}, spread {weight.std():.3g}".replace("-", "−")
    assert all(brick.heat is None for brick in diagram.bricks)


def test_with_a_text_a_brick_shows_what_it_gave() -> None:
    model, inputs = made("transformer")
    with capture(model) as seen, torch.no_grad():
        model(*inputs)
    brick = by_name(diagram_of(model, inputs, list("abcdefg")))["encoder.blocks.2.feed"]
    values = seen["encoder.blocks.2.feed.output"][0].numpy()
    largest = values.flat[np.abs(values).argmax()]
    facts = {"mean": values.mean(), "spread": values.std(), "largest": largest}
    assert dict(brick.numbers) == {
        "shape": f"{T}×16", **{name: f"{value:.3g}".replace("-", "−") for name, value in facts.items()}
    }  # fmt: skip
    assert brick.heat is not None
    assert np.allclose((np.asarray(brick.heat, float) - 128) / 127, values / abs(largest), atol=0.5 / 127 + 1e-6)
    assert by_name(diagram_of(model, inputs, list("abcdefg")))["tokens"].detail == "a b c d e f g"


def test_large_outputs_become_small_and_keep_what_is_largest() -> None:
    values = np.random.default_rng(0).normal(size=(131, 997))
    values[130, 996], values[17, 5] = -50.0, 25.0
    cells = small(values)
    assert cells.shape == (64, 64)
    assert cells[-1, -1] == 1  # 128 − 127
    assert cells[7, 0] == 128 + round(127 / 2)
    assert small(np.zeros((2, 3))).tolist() == [[128] * 3] * 2


def test_receptive_fields() -> None:
    diagram = diagram_of(made("cnn")[0])
    first, second = (by_name(diagram)[f"encoder.convolutions.{layer}"] for layer in range(2))
    kernel = made("cnn")[0].encoder.convolutions[0].slide.kernel_size[0]  # type: ignore[union-attr, index]
    assert first.detail.endswith(f"sees {kernel} tokens")
    assert second.detail.endswith(f"sees {kernel + 2 * (kernel - 1)} tokens")


class Doubling(nn.Module):
    """Twice as much.

    Nothing else.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = 2 * self.map(x)
        return out


class Own(gf.Encoder):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.causal = width, True
        self.layers = nn.ModuleList(Doubling(width) for _ in range(2))
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, mask: Any = None, *, memory: Any = None, segments: Any = None) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x * self.gain

    def init_state(self, batch: int, max_tokens: int, memory: Any = None) -> gf.State:
        raise NotImplementedError

    extend = init_state  # type: ignore[assignment]


def test_an_encoder_of_ones_own_is_a_box_for_each_layer() -> None:
    model, inputs = writer("gru")
    model.encoder = Own(16)
    diagram = diagram_of(model, inputs)
    inside = [brick for brick in diagram.bricks if brick.name.startswith("encoder")]
    assert [(brick.name, brick.title, brick.detail) for brick in inside] == [
        ("encoder.layers.0", "Doubling", "Twice as much."),
        ("encoder.layers.1", "Doubling", "Twice as much."),
        ("encoder.own", "Own: its own weights", ""),
    ]
    assert [brick.parameters for brick in inside] == [16 * 16 + 16] * 2 + [16]
    assert dict(inside[1].numbers)["shape"] == f"{T}×16"
    assert "2 * self.map(x)" in inside[0].code


def test_a_brick_of_ones_own_may_speak_for_itself() -> None:
    class Louder(Doubling):
        pass

    @describe.register
    def describe_louder(module: Louder, plan: Plan, path: str) -> None:
        plan.add(path, "Louder", "attention", module=module, detail="×2")

    model, _ = writer("gru")
    model.encoder = Own(16)
    model.encoder.layers[0] = Louder(16)
    louder = by_name(diagram_of(model))["encoder.layers.0"]
    assert (louder.title, louder.kind, louder.detail) == ("Louder", "attention", "×2")


def test_any_module_is_a_box_for_each_part() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.rnn = nn.Embedding(V, 5), nn.GRU(5, 11, batch_first=True)
            self.head = nn.Linear(11, 3)

        def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
            out: Tensor = self.head(self.rnn(self.embed(tokens))[0][:, -1])
            return out

    model = Model()
    diagram = diagram_of(model, (tokens(T),))
    assert [brick.kind for brick in diagram.bricks] == ["data", "embedding", "recurrent", "feed-forward", "data"]
    assert sum(brick.parameters for brick in diagram.bricks) == sum(weight.numel() for weight in model.parameters())
    shapes = {arrow.start: arrow.shape for arrow in diagram.arrows}
    assert shapes["embed"] == f"T×d = {T}×5"
    assert shapes["head"] == "d = 3"
