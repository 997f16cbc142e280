"""Diagram of a model, built from its modules; with a text, it shows the output of every brick."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.attention import HasAttention
from glassformer.bricks.capabilities import capability
from glassformer.bricks.norm import Residual
from glassformer.config.arrays import Array
from glassformer.encoders.base import Encoder
from glassformer.encoders.convolutional import CnnEncoder, IdentityEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.capture import capture, numbers_of
from glassformer.inspection.diagram_parts import (
    Axes,
    Part,
    Plan,
    activation_name,
    add_hidden_layer,
    describe,
    describe_children,
    scores,
)
from glassformer.inspection.views.registry import DECODING, LookRequest, leader, register_view, sentence
from glassformer.models.build import parameter_count
from glassformer.models.inputs import ReadsCells
from glassformer.models.modules import (
    BagPredictor,
    MaskedLanguageModel,
    Predictor,
    Seq2Seq,
    TokenModel,
)
from glassformer.models.own import OwnLanguageModel
from glassformer.rendering.panels import Brick, Diagram
from glassformer.rendering.view import View

MAX_CELLS = 64
"""Maximum number of rows and columns in the picture of a brick's output."""
KIND_NAMES = {"head": "The head", "embedding": "The embedding", "pool": "The pool", "other": "All else"}


TEXT: Axes = (("T", None),)
SOURCE: Axes = (("S", None),)


@torch.inference_mode()
def diagram_of(
    model: nn.Module, inputs: Sequence[Any] = (), tokens: Sequence[str] = (), written: Sequence[str] | None = None
) -> Diagram:
    """Return the diagram of a model.

    With `inputs`, the bricks show their outputs, otherwise their weights. `tokens` and `written` are the input tokens
    and a translator's output tokens.
    """
    plan = plan_of(model)
    given = record(model, plan, inputs) if inputs else {}
    lengths = lengths_of(plan, given, inputs)
    for name, part in plan.parts.items():
        if part.guessed and name in given:
            sizes = given[name].shape[1:]
            letters = [letter for letter, _ in part.axes]
            if len(letters) != len(sizes):
                letters = ["T", *["d"] * (len(sizes) - 1)] if len(sizes) > 1 else ["d"] * len(sizes)
            part.axes = tuple(zip(letters, sizes, strict=True))
            part.brick = replace(part.brick, width=sizes[-1])
    shapes = {name: shape_in_words(part.axes, lengths) for name, part in plan.parts.items()}
    starts = [name for name, part in plan.parts.items() if part.brick.kind == "data"]
    texts = dict(zip(starts, (tokens, written or ()), strict=False))
    return Diagram(
        bricks=[_with_numbers(part, given.get(name), texts.get(name, ())) for name, part in plan.parts.items()],
        arrows=[replace(arrow, shape="" if arrow.role == "tied" else shapes[arrow.start]) for arrow in plan.arrows],
        groups=list(plan.groups.values()),
        lanes=plan.lanes,
    )


def plan_of(model: nn.Module) -> Plan:
    """Return the parts of a model; a user's own model has a box for each of its modules."""
    plan = Plan(model)
    plan.add("answer", describe_model(model, plan), "data")
    return plan


@register_view("diagram", options=DECODING, texts="any", quick=True)
def diagram(request: LookRequest) -> View:
    """Show the model with the outputs of its bricks for a text, or with its weights if there is no text."""
    panel = diagram_of(request.model)
    if request.texts:
        example = request.example
        panel = diagram_of(request.model, example.inputs, example.tokens, example.written)
    panel = replace(panel, title="Bricks", takeaway=_heaviest(panel), note=sentence("boxes"))
    return View(f"The model: {parameter_count(request.model):,} parameters", [panel])


def _heaviest(panel: Diagram) -> str:
    """Return a sentence about the kind of brick that holds most of the parameters."""
    weights = Counter[str]()
    for brick in panel.bricks:
        weights[KIND_NAMES.get(brick.kind, brick.kind.capitalize())] += brick.parameters
    if not weights.total():
        return "Nothing in it is learned"
    share = f"{max(weights.values()) / weights.total():.0%}"
    return leader("holds most", list(weights), list(weights.values()), share=share)


# --- whole models: each function adds the parts and returns the title of the model's answer ---


@singledispatch
def describe_model(model: nn.Module, plan: Plan) -> str:
    """Add the parts of a model and return the title of its answer.

    A user's own model has a box for each of its modules.
    """
    plan.start_lane("input", "input", TEXT)
    describe_children(model, plan, "")
    return "answer"


@describe_model.register
def describe_language_model(model: TokenModel, plan: Plan, transform: nn.Module | None = None) -> str:
    plan.start_lane("tokens", "tokens", TEXT)
    describe(model.embed, plan, "embed")
    describe(model.encoder, plan, "encoder")
    if transform is not None:
        describe(transform, plan, "transform")
    scores(model.head, plan, "head", "V")
    return "the next token after each"


@describe_model.register
def describe_masked_model(model: MaskedLanguageModel, plan: Plan) -> str:
    describe_language_model(model, plan, model.transform)
    return "the token at each place"


@describe_model.register
def describe_own_language_model(model: OwnLanguageModel, plan: Plan) -> str:
    plan.start_lane("tokens", "tokens", TEXT)
    describe_children(model.encoder.own, plan, "encoder.own")
    return "the next token after each"


@describe_model.register
def describe_seq2seq(model: Seq2Seq, plan: Plan) -> str:
    plan.start_lane("source", "source tokens", SOURCE, lane="encoder")
    describe(model.embed_source, plan, "embed_source")
    describe(model.encoder, plan, "encoder")
    memory = plan.last
    layers = [part.brick for part in plan.parts.values() if part.brick.group]
    by_layer = {brick.group: brick.name for brick in layers} if model.encoder.output_parts > 1 else {}
    describe_bridge(model.decoder, plan)
    plan.start_lane("target", "target tokens so far", TEXT, lane="decoder")
    describe(model.embed_target, plan, "embed_target")
    describe(model.decoder, plan, "decoder")
    for name, part in plan.parts.items():
        attention = capability(part.module, HasAttention)
        if attention is not None and attention.is_cross_attention:
            layer = f"encoder.{name.removeprefix('decoder.').removesuffix('.cross_attention')}"
            plan.arrow(by_layer.get(layer, memory), name, "memory")
    scores(model.head, plan, "head", "V")
    return "the next token of the target"


@describe_model.register
def describe_predictor(model: Predictor, plan: Plan) -> str:
    cells = capability(model.embed, ReadsCells)
    title, axes = ("tokens", TEXT) if cells is None else (cells.title, ())
    plan.start_lane("tokens", title, axes)
    describe(model.embed, plan, "embed")
    describe(model.encoder, plan, "encoder")
    describe(model.pool, plan, "pool")
    describe(model.head, plan, "head")
    return "answer"


@describe_model.register
def describe_bag_predictor(model: BagPredictor, plan: Plan) -> str:
    plan.start_lane("tokens", "tokens", TEXT)
    describe(model.bag, plan, "bag")
    (describe_children if isinstance(model.head, nn.Sequential) else describe)(model.head, plan, "head")
    return "answer"


# --- encoders ---


@describe.register
def describe_encoder(encoder: Encoder, plan: Plan, path: str) -> None:
    """Add a box for each layer of a user's own encoder."""
    describe_children(encoder, plan, path)


@describe.register
def describe_identity(encoder: IdentityEncoder, plan: Plan, path: str) -> None:
    """Add nothing: the encoder returns its input unchanged."""


def around(plan: Plan, residual: nn.Module | None, path: str, part: Callable[[], None]) -> None:
    """Add a part with the norm before or after it, and the residual arrow if there is one."""
    assert isinstance(residual, Residual)
    start = plan.last
    if residual.pre:
        describe(residual.norm, plan, f"{path}.norm")
    part()
    if residual.residual:
        recorded = f"{path}.output" if residual.pre else ()
        plan.add(path, "+", "add", residual, weights=(), recorded=recorded)
        plan.arrow(start, path, "residual")
    if not residual.pre:
        describe(residual.norm, plan, f"{path}.norm")


@describe.register
def describe_transformer(encoder: TransformerEncoder, plan: Plan, path: str) -> None:
    describe(encoder.positions, plan, f"{path}.positions")
    describe(encoder.embed_norm, plan, f"{path}.embed_norm")
    for number, block in enumerate(encoder.own_blocks()):
        at = f"{path}.blocks.{number}"
        plan.start_group(at, f"block {number}")
        for name in ("attend", "cross_attention", "feed"):
            if (module := getattr(block, name)) is not None:
                around(
                    plan,
                    getattr(block, f"around_{name}"),
                    f"{at}.around_{name}",
                    partial(describe, module, plan, f"{at}.{name}"),
                )
                if encoder.rotary is not None and name == "attend":
                    _say(plan, f"{at}.{name}", "rotary positions")
        plan.end_group()
    describe(encoder.norm, plan, f"{path}.norm")


@describe.register
def describe_cnn(encoder: CnnEncoder, plan: Plan, path: str) -> None:
    reach = 0
    for number, (layer, residual) in enumerate(zip(encoder.convolutions, encoder.around, strict=True)):
        at, before = f"{path}.convolutions.{number}", reach
        plan.start_group(f"{path}.{number}", f"layer {number}")
        around(plan, residual, f"{path}.around.{number}", partial(describe, layer, plan, at))
        reach = before + int(layer.reach)  # type: ignore[arg-type]
        _say(plan, at, f"{activation_name(encoder.activation)}, by now sees {reach + 1} tokens")
        plan.end_group()
    describe(encoder.norm, plan, f"{path}.norm")


@describe.register
def describe_window(encoder: WindowEncoder, plan: Plan, path: str) -> None:
    describe(encoder.read, plan, f"{path}.read")
    words = activation_name(encoder.activation)
    _say(plan, f"{path}.read", f"{words}, sees {encoder.read.reach + 1} tokens", title="Window")
    for number, layer in enumerate(encoder.deeper):
        assert isinstance(layer, nn.Linear)
        add_hidden_layer(layer, plan, f"{path}.deeper.{number}", words)
    name, out = f"{path}.output", encoder.output
    detail = f"{out.in_features} → {out.out_features}"
    plan.add(name, "Linear", "feed-forward", out, detail, width=out.out_features, recorded=name)


@describe.register
def describe_recurrent_encoder(encoder: RecurrentEncoder, plan: Plan, path: str) -> None:
    describe(encoder.layers, plan, f"{path}.layers")


@describe.register
def describe_recurrent_decoder(encoder: RecurrentDecoder, plan: Plan, path: str) -> None:
    describe(encoder.layers, plan, f"{path}.layers")
    plan.arrow(f"{path}.bridges", f"{path}.layers.0", "state")
    if encoder.attention is None or encoder.join is None:
        return
    states = plan.last
    describe(encoder.attention, plan, f"{path}.attention")
    detail = "tanh(W [h; c]): the state and what it found"
    recorded = f"{path}.output"
    plan.add(f"{path}.join", "Join", "feed-forward", encoder.join, detail, recorded=recorded, width=encoder.width)
    plan.arrow(states, f"{path}.join", "skip")
    if encoder.input_feeding:
        plan.arrow(f"{path}.join", f"{path}.layers.0", "feedback")


@singledispatch
def describe_bridge(decoder: nn.Module, plan: Plan) -> None:
    """Add the maps from the source to the first states of a decoder, below the encoder; most decoders have none."""


@describe_bridge.register
def describe_recurrent_bridge(decoder: RecurrentDecoder, plan: Plan) -> None:
    weights = [*decoder.summary.named_parameters("summary"), *decoder.bridges.named_parameters("bridges")]
    first = [bridge for bridge in decoder.bridges if isinstance(bridge, nn.Linear)]
    letters = " and ".join("hc"[: len(first)])
    detail, axes = f"{letters} of the decoder: tanh(W s + b)", (("d", first[0].out_features),)
    plan.add("decoder.bridges", "First state", "pool", decoder.bridges[0], detail, axes=axes, weights=weights)


def _say(plan: Plan, name: str, more: str, title: str = "") -> None:
    """Append to the details of an existing brick; with `title`, replace its title."""
    brick = plan.parts[name].brick
    plan.parts[name].brick = replace(brick, title=title or brick.title, detail=f"{brick.detail}, {more}")


# --- outputs and shapes ---


def record(model: nn.Module, plan: Plan, inputs: Sequence[Any]) -> dict[str, Tensor]:
    """Return the output of each brick by name: the tensors that `capture` records, or else the output of its module."""
    given: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda module, args, output: given.update({name: output}) if isinstance(output, Tensor) else None

    wanted = [name for part in plan.parts.values() for name in part.recorded]
    with capture(model, wanted) as seen, ExitStack() as hooks:
        for name, part in plan.parts.items():
            if part.module is not None and part.brick.kind != "add":
                hooks.callback(part.module.register_forward_hook(keep(name)).remove)
        model(*inputs)
    for name, part in plan.parts.items():
        pieces = [seen[piece] for piece in part.recorded if piece in seen]
        if pieces and len(pieces) == len(part.recorded):
            given[name] = torch.cat(pieces, -1)
    return given


def lengths_of(plan: Plan, given: Mapping[str, Tensor], inputs: Sequence[Any]) -> dict[str, int]:
    """Return the number of tokens that each letter of the shapes denotes."""
    lengths: dict[str, int] = {}
    for name, part in plan.parts.items():
        if name in given and len(part.axes) > 1 and part.axes[0][1] is None and given[name].dim() > 2:
            lengths.setdefault(part.axes[0][0], given[name].shape[1])
    if inputs and isinstance(inputs[0], Tensor) and inputs[0].dim() == 2:
        lengths.setdefault("T", inputs[0].shape[1])
    return lengths


def shape_in_words(axes: Axes, lengths: Mapping[str, int]) -> str:
    """Return a shape such as `T×d = 12×64`, or `T×d = T×64` without a text."""
    if not axes:
        return ""
    letters = "×".join(letter for letter, _ in axes)
    numbers = "×".join(str(size or lengths.get(letter) or letter) for letter, size in axes)
    return letters if letters == numbers else f"{letters} = {numbers}"


def _with_numbers(part: Part, given: Tensor | None, tokens: Sequence[str]) -> Brick:
    brick = part.brick
    if brick.kind == "data":
        return replace(brick, detail=" ".join(token.strip() or "␣" for token in tokens))
    if given is None:
        weights = {name: numbers_of(weight) for name, weight in part.weights.items()}
        numbers = [
            (name, ", ".join(["×".join(map(str, values.shape)), *(" ".join(one) for one in _summary(values)[:2])]))
            for name, values in weights.items()
        ]
        return replace(brick, numbers=numbers)
    values = numbers_of(given[0])
    numbers = [("shape", "×".join(map(str, values.shape))), *_summary(values)]
    return replace(brick, numbers=numbers, heat=small(values.reshape(-1, values.shape[-1])))


def _summary(values: NDArray[Any]) -> list[tuple[str, str]]:
    largest = values.flat[np.abs(values).argmax()] if values.size else 0.0
    facts = {"mean": values.mean(), "spread": values.std(), "largest": largest}
    return [(name, f"{value:.3g}".replace("-", "−")) for name, value in facts.items()]


def small(values: NDArray[Any], most: int = MAX_CELLS) -> UInt8[Array, "T d"]:
    """Return values scaled to bytes, with 128 for 0, in at most `most` rows and columns.

    Where rows or columns are merged, the value with the largest magnitude remains.
    """
    for axis in (0, 1):
        if values.shape[axis] > most:
            chunks = np.array_split(values, most, axis)
            places = [np.abs(chunk).argmax(axis, keepdims=True) for chunk in chunks]
            pairs = zip(chunks, places, strict=True)
            values = np.concatenate([np.take_along_axis(chunk, place, axis) for chunk, place in pairs], axis)
    largest = np.abs(values).max(initial=0.0) or 1.0
    return np.rint(128 + 127 * np.nan_to_num(values / largest)).astype(np.uint8)
