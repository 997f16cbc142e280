"""Encoders by name. `config.encoders` lists what each one supports; other settings are errors at build time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from glassformer.bricks.attention import Attention, MemoryAttention
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import EPS, NoNorm, Residual, make_norm
from glassformer.bricks.own import OwnPositions
from glassformer.bricks.pooling import make_pool
from glassformer.bricks.positions import LearnedPositions, NoPositions, OneHotPositions, Rotary, SineCosine
from glassformer.bricks.recurrent import Recurrent
from glassformer.config.encoders import ENCODERS, MODEL_ALIASES, OWN, EncoderInfo, encoder_info, is_own_model
from glassformer.config.errors import Misuse, SettingError, with_article
from glassformer.config.model_section import (
    CNN,
    LSTM,
    RNN,
    Average,
    ModelSettings,
    RecurrentSettings,
    Scaling,
    Transformer,
    Window,
)
from glassformer.config.plugins import note_part, own_part
from glassformer.config.resolve import add_settings
from glassformer.encoders.base import Encoder
from glassformer.encoders.blocks import Block, OwnAttention
from glassformer.encoders.convolutional import CnnEncoder, IdentityEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.encoders.transformer import TransformerEncoder


@dataclass(frozen=True)
class Place:
    """Position of an encoder in its model."""

    input_width: int
    causal: bool
    memory_width: int | None = None
    memory_pool: str = "mean"
    """Pooling that summarises the memory for a decoder that starts from it."""
    layerwise: bool = False
    """Each decoder block attends to the encoder layer with the same number."""


Build = Callable[[Any, Place], Encoder]
"""A function from an encoder's own class of settings."""

MakeModel = TypeVar("MakeModel", bound=Callable[..., nn.Module])

BUILDERS: dict[str, Build] = {}


def register_encoder(name: str, info: EncoderInfo | None = None) -> Callable[[Build], Build]:
    """Register the function that builds an encoder; `info` describes an encoder of the user and its settings.

    The function receives the settings, of the class `info.settings`, and the encoder's place in the model.
    """

    def register(build: Build) -> Build:
        if info is not None:
            known = BUILDERS.get(name)
            if is_own_model(name) or (name in ENCODERS and (known is None or known.__module__ != build.__module__)):
                raise ValueError(f"there is an encoder {name} already: choose another name")
            ENCODERS[name] = info
            add_settings("model", info.settings)
        elif name not in ENCODERS:
            raise ValueError(f"register_encoder('{name}') needs an EncoderInfo: what can it do, which settings has it?")
        BUILDERS[name] = build
        note_part("encoder", name, build)
        return build

    return register


def register_model(name: str) -> Callable[[MakeModel], MakeModel]:
    """Register a complete model under a name, for `--model mine` and for `gf.load(run)` without `model=`.

    The decorated class or function returns an `nn.Module`: (B×T tokens, B×T mask) → B×outputs, or for a language model
    B×T tokens → B×T×V logits. It receives `vocab`, `outputs` and `context` if its signature names them. For inputs
    without text it receives `shape` and `outputs`.
    """
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise Misuse(f"a model's name is letters, digits, - and _, not {name!r}")
    if name in (*ENCODERS, *MODEL_ALIASES, OWN):
        raise Misuse(f"there is a model {name} already: choose another name")

    def register(make: MakeModel) -> MakeModel:
        if not callable(make):
            raise Misuse(f"register_model('{name}') stands before a class or function, not before {with_article(make)}")
        note_part("model", name, make)
        return make

    return register


def build_encoder(settings: ModelSettings, place: Place) -> Encoder:
    info = encoder_info(settings.encoder)
    if place.causal and not info.causal:
        raise SettingError(f"{settings.encoder} reads the whole text at once: it cannot be a language model")
    if place.causal and settings.bidirectional:
        raise SettingError("model.bidirectional reads the future: a language model must not")
    if place.memory_width is not None and not info.memory:
        raise SettingError(f"{settings.encoder} cannot attend to a second text")
    if place.input_width != settings.width and not info.any_width:
        able = ", ".join(name for name, other in ENCODERS.items() if other.any_width)
        raise SettingError(f"model.embed onehot is for encoders that take any width ({able}), not {settings.encoder}")
    return BUILDERS[settings.encoder](settings, place)


@register_encoder("average")
def build_average(settings: Average, place: Place) -> Encoder:
    return IdentityEncoder(width=place.input_width, causal=place.causal)


@register_encoder("window")
def build_window(settings: Window, place: Place) -> Encoder:
    return WindowEncoder(
        width=settings.width,
        window=settings.window,
        hidden=settings.hidden,
        layers=settings.layers,
        activation=settings.activation,
        causal=place.causal,
        bias=bool(settings.bias),
        dropout=settings.dropout,
    )


@register_encoder("cnn")
def build_cnn(settings: CNN, place: Place) -> Encoder:
    width, layers, bias = settings.width, range(settings.layers), bool(settings.bias)

    def norm() -> nn.Module:
        return make_norm(settings.norm, width, bias=bias)

    return CnnEncoder(
        width=width,
        convolutions=[
            Convolution(
                width=width,
                out=width,
                kernel=settings.kernel,
                dilation=settings.dilation**layer,
                causal=place.causal,
                bias=bias,
            )
            for layer in layers
        ],
        around=[Residual(norm=norm(), residual=settings.residual, dropout=settings.dropout) for _ in layers],
        norm=norm(),
        activation=settings.activation,
        causal=place.causal,
    )


@register_encoder("rnn")
@register_encoder("lstm")
@register_encoder("gru")
def build_recurrent(settings: RecurrentSettings, place: Place) -> Encoder:
    if settings.bidirectional and settings.width % 2:
        raise SettingError(f"model.bidirectional halves model.width, and {settings.width} is odd")
    if place.memory_width is not None:
        return _recurrent_decoder(settings, place, place.memory_width)
    return RecurrentEncoder(
        layers=_recurrent_layers(settings, place.input_width, initial=settings.initial),
        width=settings.width,
        causal=place.causal,
        dropout=settings.dropout,
    )


def _recurrent_layers(settings: RecurrentSettings, input_width: int, *, initial: bool) -> Recurrent:
    return Recurrent(
        kind=settings.encoder,
        input_width=input_width,
        width=settings.width,
        layers=settings.layers,
        dropout=settings.dropout,
        bias=settings.bias,
        bidirectional=settings.bidirectional,
        initial=initial,
        nonlinearity=settings.nonlinearity if isinstance(settings, RNN) else "tanh",
        cells=settings.cells if isinstance(settings, LSTM) else None,
    )


def _recurrent_decoder(settings: RecurrentSettings, place: Place, memory_width: int) -> RecurrentDecoder:
    width, kind = settings.width, settings.attention
    if settings.input_feeding and kind == "none":
        raise SettingError("model.input_feeding needs attention, but model.attention is none")
    if kind in ("dot", "scaled") and width != memory_width:
        widths = f"model.width {width} and the {memory_width} of the source"
        raise SettingError(f"model.attention {kind} needs equal widths, not {widths}: use query-key or bilinear")
    return RecurrentDecoder(
        layers=_recurrent_layers(settings, place.input_width + (width if settings.input_feeding else 0), initial=False),
        width=width,
        memory_width=memory_width,
        summary=make_pool(place.memory_pool, width=memory_width),
        attention=None if kind == "none" else MemoryAttention(width=width, memory_width=memory_width, kind=kind),
        input_feeding=settings.input_feeding,
        bias=bool(settings.bias),
        dropout=settings.dropout,
    )


@register_encoder("transformer")
def build_transformer(settings: Transformer, place: Place) -> Encoder:
    own = own_part("attention", settings.scores) is not None
    if settings.scores != "query-key" and not own and place.memory_width not in (None, settings.width):
        widths = f"{settings.width} and the {place.memory_width} of the second text"
        raise SettingError(f"model.scores {settings.scores} needs equal widths, not {widths}")
    pre = settings.norm_order == "pre"
    rotary = None
    if settings.positions == "rotary":
        scaling = None if settings.rotary_scaling is None else Scaling.read(settings.rotary_scaling)
        rotary = Rotary(head_width=settings.head_width, base=settings.rotary_base, scaling=scaling)
    return TransformerEncoder(
        width=settings.width,
        blocks=[_block(settings, place) for _ in range(settings.layers)],
        positions=_positions(settings),
        rotary=rotary,
        embed_norm=_norm(settings) if settings.embed_norm else NoNorm(),
        norm=_norm(settings) if pre else NoNorm(),
        causal=place.causal and settings.causal_mask,
        limit=settings.context,
        layerwise=place.layerwise,
        dropout=settings.dropout,
    )


def _positions(settings: Transformer) -> nn.Module:
    kind, width, context = settings.positions, settings.width, settings.context
    if (part := own_part("positions", kind)) is not None:
        return OwnPositions(part, width=width, context=context, dropout=settings.dropout)
    if kind in ("learned", "onehot"):
        make = LearnedPositions if kind == "learned" else OneHotPositions
        return make(width=width, context=context)
    return SineCosine(halves=kind == "sine-halves") if kind.startswith("sine") else NoPositions()


def _norm(settings: Transformer) -> nn.Module:
    return make_norm(settings.norm, settings.width, bias=bool(settings.bias), eps=settings.norm_eps)


def _block(settings: Transformer, place: Place) -> Block:
    width, memory_width = settings.width, place.memory_width

    def around() -> Residual:
        return Residual(
            norm=_norm(settings), order=settings.norm_order, residual=settings.residual, dropout=settings.dropout
        )

    causal = place.causal and settings.causal_mask
    own = own_part("attention", settings.scores)
    shared: dict[str, Any] = {
        "width": width,
        "heads": settings.heads,
        "head_width": settings.head_width,
        "bias": settings.attention_bias,
        "dropout": settings.dropout,
    }

    def attention(*, causal: bool, memory_width: int | None = None) -> Attention:
        return Attention(
            **shared,
            kv_heads=settings.kv_heads,
            memory_width=memory_width,
            scores=settings.scores if own is None else "query-key",
            causal=causal,
            scale=settings.scale,
            output=settings.output_projection,
            qk_norm=settings.qk_norm,
            eps=settings.norm_eps or EPS["rms"],
        )

    feed = FeedForward(
        width=width,
        hidden=settings.hidden,
        activation=settings.activation,
        layers=settings.feed_layers,
        bias=settings.feed_bias,
    )
    if own is None:
        attend: Attention | OwnAttention = attention(causal=causal)
    else:
        attend = OwnAttention(own, **shared, causal=causal, context=settings.context, eps=settings.norm_eps)
    return Block(
        attend=attend,
        around_attend=around(),
        feed=feed if settings.feed_forward else None,
        around_feed=around() if settings.feed_forward else None,
        cross_attention=None if memory_width is None else attention(causal=False, memory_width=memory_width),
        around_cross_attention=None if memory_width is None else around(),
    )
