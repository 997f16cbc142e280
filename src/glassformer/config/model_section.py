"""The section of a configuration on the model: one dataclass per encoder, made of mixins that encoders share.

The encoder's name selects the class. The keys of the section stay flat (`model.layers`, `model.decoder_layers`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from glassformer.config.errors import SettingError, refuse_unknown
from glassformer.config.plugins import own_part
from glassformer.config.presets import SIZES, STYLES
from glassformer.config.setting import OpenSettings, open_setting, setting, setting_fields, value_text

RECURRENT = ("lstm", "gru", "rnn")
DECODERS = ("transformer", *RECURRENT)
"""The encoders that can also decode a translation, since they can attend to a second text."""
ENCODER_KEYS = ("bidirectional", "initial")
"""Settings without effect on a decoder: it reads in one direction and starts from its source."""
SCALINGS = ("linear", "llama3")


@dataclass(frozen=True)
class Scaling:
    """Scaling of rotary positions for texts longer than those of the first training run."""

    kind: str
    factor: float
    """Factor by which rotations are slowed down."""
    low: float = 1.0
    """`llama3`: rotations with at most this many periods in the first context are slowed by the whole factor."""
    high: float = 4.0
    """`llama3`: rotations with at least this many periods in the first context are not slowed."""
    context: int = 8192
    """`llama3`: number of tokens in the first context."""

    @classmethod
    def read(cls, text: str) -> "Scaling":
        """Read `linear:4`, or `llama3:8:1:4:8192` (factor, low, high, first context)."""
        kind, *numbers = text.split(":")
        refuse_unknown("model.rotary_scaling", kind, SCALINGS)
        try:
            if kind == "linear":
                (factor,) = map(float, numbers)
                scaling = cls(kind, factor)
            else:
                factor, low, high, context = map(float, numbers)
                scaling = cls(kind, factor, low, high, int(context))
            fits = scaling.factor >= 1 and 0 < scaling.low < scaling.high and scaling.context > 0
        except (ValueError, OverflowError):
            fits = False
        if not fits:
            wanted = "linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT"
            raise SettingError(f"model.rotary_scaling wants {wanted}, not '{text}'")
        return scaling

    def __str__(self) -> str:
        numbers = [self.factor] if self.kind == "linear" else [self.factor, self.low, self.high, self.context]
        return ":".join([self.kind, *(str(number).removesuffix(".0") for number in numbers)])


ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu", "swiglu", "relu2", "tanh", "sigmoid")
POSITIONS = ("rotary", "learned", "sine", "sine-halves", "onehot", "none")
NORMS = ("rms", "layer", "batch", "none")
SCORES = ("query-key", "bilinear", "shared", "plain")
POOLS = ("last", "first", "mean", "max", "sum", "attention", "flatten")
SINGLE_BIAS: Literal["single"] = "single"
ATTENTIONS = ("additive", "query-key", "bilinear", "scaled", "dot", "none")
"""Kinds of attention of a recurrent decoder to its source."""
LAYERWISE = "layerwise"


class Fallbacks:
    """Values that code for any model reads from a model without the setting."""

    size: str | None = None
    style: str | None = None
    layers: int = 1
    decoder_layers: int = 1
    width: int = 128
    context: int = 128
    dropout: float = 0.0
    word_dropout: float = 0.0
    vectors: str | None = None
    vectors_frozen: bool = False
    vocab: int | None = None
    embed_scale: bool = False
    initialisation: str = "xavier"
    bidirectional: bool = False
    causal: bool = False
    causal_mask: bool = True
    patch: int = 4
    embed: str = "vectors"
    embed_width: int | None = None
    activation: str = "swiglu"
    norm: str = "rms"
    norm_eps: float | None = None
    bias: bool | Literal["single"] = False
    pool: str = "max"
    head_layers: int = 0
    head_hidden: int = 128
    head_activation: str = "relu"
    head_bias: bool | None = None
    from_run: str | None = None
    decoder_from: str | None = None
    decoder: str | None = None


class ModelSettings(OpenSettings, Fallbacks):
    """Settings of a model; the encoder's name selects the class."""

    section: ClassVar[str] = "model"
    encoder: str = setting(default="transformer")
    """choose the sequence model"""

    def __post_init__(self) -> None:
        super().__post_init__()
        named = ENCODER_SETTINGS.get(self.encoder)
        if named is not None and type(self) in ENCODER_SETTINGS.values() and named is not type(self):
            kind = type(self).__name__
            raise SettingError(
                f"gf.{kind} has no other encoder: use gf.{named.__name__} instead of encoder={self.encoder!r}"
            )

    def __str__(self) -> str:
        """Return the spelling on the command line, `lstm:layers=2`."""
        settings = {key.removeprefix("model."): value_text(value) for key, value in self.given().items()}
        return ":".join([settings.pop("encoder"), *(f"{name}={value}" for name, value in settings.items())])

    def with_values(self, **values: Any) -> Self:
        """Return these settings with new values for those of the names that they have."""
        return replace(self, **{name: value for name, value in values.items() if name in setting_fields(type(self))})


class ContextSettings(ModelSettings):
    """Settings of models that read tokens, registered models included."""

    context: int = open_setting(default=128, least=1)
    """read at most N tokens at once; longer labelled texts are cut"""


class WordSettings(ContextSettings):
    """Settings of models that read words."""

    word_dropout: float = open_setting(default=0.2, least=0.0, most=0.95)
    """drop this fraction of the words during training"""


class HeadSettings(ModelSettings):
    """Settings of models with a multilayer perceptron as head."""

    dropout: float = open_setting(default=0.0, least=0.0, most=0.95)
    """set the dropout rate"""
    head_layers: int = open_setting(default=0, least=0, most=2)
    """use this many hidden layers in the head; 0: a linear head"""
    head_hidden: int = open_setting(default=None, least=1)
    """set the width of the head's hidden layers; unset: 128, or width for tanh"""
    head_activation: str = open_setting(default="relu", choices=("relu", "tanh", "gelu", "sigmoid"))
    """choose the non-linearity of the head's hidden layers; BERT uses tanh"""
    head_bias: bool | None = open_setting(default=None)
    """add biases to the head and its hidden layers; unset: yes for labels, no for tokens"""

    def derived(self) -> dict[str, Any]:
        hidden = self.width if self.head_activation == "tanh" else 128
        return {**super().derived(), "head_hidden": hidden}


class SequenceSettings(HeadSettings, WordSettings):
    """Settings that all encoders of sequences share: width, embedding, pooling, and the decoder of a translator."""

    size: str | None = open_setting(default=None, choices=tuple(SIZES))
    """set layers, heads and width by name; unset: tiny, or smaller for labels"""
    width: int = open_setting(default=128, least=1)
    """set the width of the token vectors between the layers"""
    embed: str = open_setting(default="vectors", choices=("vectors", "onehot"))
    """represent tokens as learned vectors or as one-hot vectors"""
    embed_width: int | None = open_setting(default=None, least=1)
    """set the width of the word vectors; a linear map follows if it differs from width; unset: width"""
    vectors: str | None = open_setting(default=None)
    """initialise the word vectors from this file (GloVe or word2vec text format)"""
    vectors_frozen: bool = open_setting(default=False)
    """keep the initial word vectors fixed during training"""
    tied: bool = open_setting(default=None)
    """share the weights of the head and the word vectors; unset: yes, except for one-hot vectors"""
    vocab: int | None = open_setting(default=None, least=1)
    """set the number of rows of the word vectors; unset: the size of the vocabulary"""
    pool: str = open_setting(default="max", choices=POOLS)
    """choose how the vectors of a text are pooled into one"""
    causal: bool = open_setting(default=False)
    """labels: let each token see only earlier tokens, as in a language model"""
    unit: bool = open_setting(default=False)
    """scale the vector of a text to length 1"""
    decoder: str | None = open_setting(default=None, choices=DECODERS)
    """choose the decoder of a translator; unset: like the encoder, if possible"""
    decoder_layers: int = open_setting(default=None, least=1)
    """stack this many layers in the decoder; unset: layers"""
    attention: str = open_setting(default="additive", choices=(*ATTENTIONS, LAYERWISE))
    """choose how a recurrent decoder attends to the source; none: it reads only the last state of the encoder;
    layerwise: block ℓ of a Transformer decoder attends to encoder layer ℓ instead of the last layer"""
    input_feeding: bool = open_setting(default=False)
    """feed the last attention output back into a recurrent decoder"""
    shared: bool | None = open_setting(default=None)
    """share word vectors between source and target; unset: if they share a tokenizer"""
    decoder_from: str | None = open_setting(default=None)
    """translation: initialise the decoder from this language model"""
    from_run: str | None = open_setting(default=None)
    """fine-tune: start from the body and the tokenizer of this run"""
    head_transform: bool = open_setting(default=False)
    """put a linear map, a non-linearity and a norm before the head of a masked model"""
    decoder_settings: "LayerSettings | None" = None
    """The settings of a decoder that is of another kind than the encoder."""

    def given(self) -> dict[str, Any]:
        given = super().given()
        of_decoder = {} if self.decoder_settings is None else self.decoder_settings.given()
        for name, value in of_decoder.items():
            key = {"model.encoder": "model.decoder", "model.layers": "model.decoder_layers"}.get(name, name)
            if given.setdefault(key, value) != value:
                raise SettingError(f"{key} is {given[key]} in the encoder, but {value} in the decoder: they share it")
        return given

    def derived(self) -> dict[str, Any]:
        return {**super().derived(), "tied": self.embed == "vectors", "decoder_layers": self.layers}

    def check(self) -> None:
        super().check()
        if self.tied and self.embed == "onehot":
            raise SettingError("model.tied true needs model.embed vectors: one-hot vectors have no weights to share")
        if self.attention == LAYERWISE and self.decoder is not None:
            others = [name for name in (self.encoder, self.decoder) if name != "transformer"]
            if others:
                needed = "a Transformer encoder and decoder"
                raise SettingError(f"model.attention layerwise needs {needed}, not {others[0]}")
            if self.layers != self.decoder_layers:
                layers = f"model.decoder_layers {self.decoder_layers} must equal model.layers {self.layers}"
                raise SettingError(f"model.attention layerwise pairs block ℓ with encoder layer ℓ: {layers}")

    def for_decoder(self) -> "SequenceSettings":
        """Return the settings with which a translator's decoder is built."""
        settings = self.decoder_settings or self
        return settings.with_values(layers=self.decoder_layers, bidirectional=False)


class LayerSettings(SequenceSettings):
    """Settings of encoders with several layers."""

    layers: int = open_setting(default=4, least=1)
    """stack this many blocks of a Transformer, or layers of another model"""
    bias: bool | Literal["single"] = open_setting(default=False, choices=("true", "false", SINGLE_BIAS))
    """add biases to linear maps and norms; single: one bias per recurrent layer instead of one for each of its
    two matrices"""

    def check(self) -> None:
        super().check()
        if self.bias == SINGLE_BIAS and not isinstance(self, RecurrentSettings):
            recurrent = ", ".join(RECURRENT)
            raise SettingError(f"model.bias single is for {recurrent}, not {self.encoder}; use true or false")


class ActivationSettings(LayerSettings):
    """Settings of layers with a non-linearity of choice."""

    activation: str = open_setting(default="swiglu", choices=ACTIVATIONS)
    """choose the non-linearity of the feed-forward part"""


class FeedForwardSettings(ActivationSettings):
    """Settings of a feed-forward part."""

    hidden: int = open_setting(default=None, least=1)
    """set the inner width of the feed-forward part; unset: 4 × width, or 8/3 × width for swiglu"""

    def derived(self) -> dict[str, Any]:
        gated = self.activation == "swiglu"
        hidden = math.ceil(self.width * 8 / 3 / 8) * 8 if gated else 4 * self.width
        return {**super().derived(), "hidden": hidden}


class ResidualSettings(ModelSettings):
    """Settings of layers with a norm and residual connections."""

    norm: str = open_setting(default="rms", choices=NORMS)
    """choose the normalisation"""
    residual: bool = open_setting(default=True)
    """use residual connections: add the input of each part to its output"""


class RecurrentSettings(LayerSettings):
    """Settings of recurrent encoders and decoders."""

    bidirectional: bool = open_setting(default=False)
    """read in both directions (never in a language model)"""
    initial: bool = open_setting(default=True)
    """learn the initial state h0; false: start from zeros"""


class Linear(ModelSettings):
    """A linear map of a table's columns or an image's pixels."""

    encoder: str = setting(default="linear")


class MLP(HeadSettings):
    """A multilayer perceptron on a table's columns or an image's pixels."""

    encoder: str = setting(default="mlp")


class Bag(HeadSettings, WordSettings):
    """A bag of words: counts or TF-IDF, and a linear map or MLP."""

    encoder: str = setting(default="bag")
    weighting: str = open_setting(default="tfidf", choices=("tfidf", "counts"))
    """weight the words of the bag by TF-IDF, or count them"""
    ngrams: int = open_setting(default=1, least=1, most=8)
    """count n-grams of up to N tokens in the bag"""
    words: int = open_setting(default=0, least=0, most=5)
    """count word n-grams of up to N words too, in a bag of characters"""
    buckets: int = open_setting(default=2**18, least=1)
    """hash the n-grams of the bag to this many columns"""


class Average(SequenceSettings):
    """The average of the word vectors, and an MLP."""

    encoder: str = setting(default="average")


class Window(FeedForwardSettings):
    """An MLP over the last few tokens."""

    encoder: str = setting(default="window")
    window: int = open_setting(default=16, least=1)
    """read this many tokens in the window model"""

    def check(self) -> None:
        super().check()
        refuse_gate(self)


class CNN(ResidualSettings, ActivationSettings):
    """Stacked convolutions over tokens or pixels."""

    encoder: str = setting(default="cnn")
    kernel: int = open_setting(default=4, least=1)
    """set the kernel size of a convolution: tokens, or the side of a square of pixels"""
    stride: int = open_setting(default=1, least=1)
    """move the convolution over an image by this many pixels"""
    padding: int | None = open_setting(default=None, least=0)
    """pad images with this many zeros on each side; unset: enough to keep the size at stride 1"""
    dilation: int = open_setting(default=2, least=1)
    """multiply the dilation of the convolution by this from layer to layer"""

    def check(self) -> None:
        super().check()
        refuse_gate(self)


class RNN(RecurrentSettings):
    """Elman's recurrent network."""

    encoder: str = setting(default="rnn")
    nonlinearity: str = open_setting(default="tanh", choices=("tanh", "relu"))
    """choose the non-linearity of the Elman network"""


class LSTM(RecurrentSettings):
    """Long short-term memory."""

    encoder: str = setting(default="lstm")
    cells: int | None = open_setting(default=None, least=1)
    """set the width of an LSTM's cell if it is larger than the width of its output"""

    def check(self) -> None:
        super().check()
        if self.cells is not None and self.cells <= self.width:
            raise SettingError(f"model.cells {self.cells} must be larger than model.width {self.width}")


class GRU(RecurrentSettings):
    """Gated recurrent units."""

    encoder: str = setting(default="gru")


class Transformer(ResidualSettings, FeedForwardSettings):
    """Attention and feed-forward blocks."""

    encoder: str = setting(default="transformer")
    style: str | None = open_setting(default=None, choices=tuple(STYLES))
    """set the parts of the Transformer by name; unset: the parts that train best"""
    heads: int = open_setting(default=4, least=1)
    """use this many attention heads"""
    head_width: int = open_setting(default=None, least=1)
    """set the width of each head; unset: width / heads"""
    kv_heads: int = open_setting(default=None, least=1)
    """use this many key and value heads, each shared by a group of query heads; unset: heads"""
    feed_layers: int = open_setting(default=2, least=1, most=2)
    """use this many layers in the feed-forward part"""
    feed_forward: bool = open_setting(default=True)
    """include a feed-forward part in each block"""
    positions: str = open_setting(default="rotary", choices=POSITIONS)
    """choose the position encoding"""
    rotary_base: float = open_setting(default=10_000.0, least=1.0)
    """set the slowest wavelength of rotary positions, divided by 2π"""
    rotary_scaling: str | None = open_setting(default=None)
    """slow rotary positions down for longer texts: linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT"""
    norm_order: str = open_setting(default="pre", choices=("pre", "post"))
    """normalise before each part (pre) or after the residual sum (post)"""
    norm_eps: float | None = open_setting(default=None, least=0.0, most=1.0)
    """add this to the variance when normalising; unset: 1e-5, for rms 1e-6"""
    embed_norm: bool = open_setting(default=False)
    """also normalise the input of the first block, as BERT does"""
    attention_bias: bool = open_setting(default=None)
    """add biases to the linear maps of attention; unset: like bias"""
    feed_bias: bool = open_setting(default=None)
    """add biases to the feed-forward part; unset: like bias"""
    scores: str = open_setting(default="query-key", choices=SCORES)
    """choose the attention score function"""
    scale: bool = open_setting(default=True)
    """divide attention scores by √(head width)"""
    causal_mask: bool = open_setting(default=True)
    """hide later tokens from a language model (causal attention); false lets it read the answer"""
    output_projection: bool = open_setting(default=True)
    """end attention with the output projection W^O"""
    qk_norm: bool = open_setting(default=None)
    """normalise the queries and keys of each head; unset: only with scores query-key"""
    embed_scale: bool = open_setting(default=False)
    """multiply word vectors by √width, as the Transformer of 2017 does"""
    initialisation: str = open_setting(default="zero", choices=("zero", "gpt2", "xavier"))
    """choose how weights are initialised"""
    patch: int = open_setting(default=4, least=1)
    """cut images into square patches with this side, for a Transformer"""

    def derived(self) -> dict[str, Any]:
        head_width, rest = (self.width, 0) if self.scores == "bilinear" else divmod(self.width, self.heads)
        return {
            **super().derived(),
            "head_width": None if rest else head_width,
            "kv_heads": self.heads,
            "qk_norm": self.scores == "query-key",
            "attention_bias": bool(self.bias),
            "feed_bias": bool(self.bias),
        }

    def check(self) -> None:
        super().check()
        if not self.head_width:
            remedy = "change one of them, or set model.head_width"
            raise SettingError(f"model.heads {self.heads} does not divide model.width {self.width}: {remedy}")
        if self.rotary_scaling is not None:
            Scaling.read(self.rotary_scaling)
        if self.heads % self.kv_heads:
            raise SettingError(f"model.kv_heads {self.kv_heads} does not divide model.heads {self.heads}")
        if self.scores != "query-key" and self.kv_heads != self.heads:
            raise SettingError(f"model.kv_heads goes with model.scores query-key, not {self.scores}")
        heads = f"model.heads {self.heads} × model.head_width {self.head_width} must be model.width {self.width}"
        splits = self.heads * self.head_width == self.width
        if self.scores in ("plain", "shared") and not splits:
            raise SettingError(f"model.scores {self.scores} splits the width among the heads: {heads}")
        if self.scores == "bilinear" and self.head_width != self.width:
            raise SettingError("model.scores bilinear compares whole vectors: leave model.head_width unset")
        if not self.output_projection and not splits:
            raise SettingError(f"without model.output_projection, {heads}")
        own = own_part("attention", self.scores)
        if own is not None and self.positions == "rotary" and not own.takes("rotation"):
            raise SettingError(f"{own} takes no rotary positions: choose others, or add a parameter `rotation`")
        if self.positions == "rotary" and self.head_width % 2:
            raise SettingError(f"rotary positions need an even model.head_width, not {self.head_width}")


def refuse_gate(settings: ActivationSettings) -> None:
    """Refuse a gated activation for an encoder whose layers have no gate."""
    if settings.activation == "swiglu":
        raise SettingError(f"model.activation swiglu is gated, and {settings.encoder} has no gate; relu or gelu?")


ENCODER_SETTINGS: dict[str, type[ModelSettings]] = {
    kind.encoder: kind for kind in (Linear, MLP, Bag, Average, Window, CNN, RNN, LSTM, GRU, Transformer)
}
