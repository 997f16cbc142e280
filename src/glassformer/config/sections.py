"""The four sections of a configuration: data, tokenizer, model, training. Each setting's help stands beside it."""

import math
from dataclasses import dataclass
from typing import Literal

from glassformer.config.data_section import DataSettings as DataSettings
from glassformer.config.encoders import DECODERS, RECURRENT
from glassformer.config.errors import SettingError, refuse_unknown
from glassformer.config.plugins import own_part
from glassformer.config.presets import SIZES, STYLES
from glassformer.config.setting import TINY, check, setting

SCALINGS = ("linear", "llama3")


@dataclass(frozen=True)
class Scaling:
    """How rotary positions are slowed down for texts longer than those a model was first trained on."""

    kind: str
    factor: float
    """How many times slower."""
    low: float = 1.0
    """`llama3`: a wave that comes round so often within the first context, or less, is slowed in full."""
    high: float = 4.0
    """`llama3`: one that comes round so often, or more, not at all."""
    context: int = 8192
    """`llama3`: tokens of the first context."""

    @classmethod
    def read(cls, text: str) -> "Scaling":
        """`linear:4`, or `llama3:8:1:4:8192` (factor, low, high, first context)."""
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
TOKENIZER_KINDS = ("char", "word", "bpe")
POOLS = ("last", "first", "mean", "max", "sum", "attention", "flatten")
SINGLE_BIAS: Literal["single"] = "single"
ATTENTIONS = ("additive", "query-key", "bilinear", "scaled", "dot", "none")
"""How a recurrent decoder attends to the source."""
LAYERWISE = "layerwise"


@dataclass(frozen=True)
class TokenizerSettings:
    kind: str = setting("bpe", choices=TOKENIZER_KINDS)
    """set what a token is"""
    vocab_size: int | None = setting(None, least=5)
    """limit the vocabulary to N tokens; unset: all characters, 20000 words, 4096 for bpe"""
    lowercase: bool = setting(False)
    """convert the text to lower case first (char and word)"""
    min_count: int = setting(1, least=1)
    """ignore characters, words or merges that occur less often than this"""
    sample_mb: int = setting(256, least=1)
    """learn the tokens from at most this many megabytes of text, spread over the corpus"""
    file: str | None = setting(None)
    """use this tokenizer.json instead of training a tokenizer"""
    shared: bool = setting(True)
    """use one tokenizer for both languages of a translation; false: one per language"""

    def __post_init__(self) -> None:
        check("tokenizer", self)
        if self.kind == "bpe" and self.vocab_size is not None and self.vocab_size < 260:
            size = f"tokenizer.vocab_size is {self.vocab_size}"
            raise SettingError(f"{size}, but bpe starts from 256 bytes and needs at least 260")
        if self.kind == "bpe" and self.lowercase:
            raise SettingError("tokenizer.lowercase is for char and word: bpe gives every text back exactly")


@dataclass(frozen=True)
class ModelSettings:
    encoder: str = setting("transformer")
    """choose the sequence model"""
    size: str | None = setting(None, choices=tuple(SIZES))
    """set layers, heads and width by name; unset: tiny, or smaller for labels"""
    style: str | None = setting(None, choices=tuple(STYLES))
    """set the parts of the Transformer by name; unset: the parts that train best"""
    layers: int = setting(4, least=1)
    """stack this many blocks of a Transformer, or layers of another model"""
    heads: int = setting(4, least=1)
    """use this many attention heads"""
    width: int = setting(128, least=1)
    """set the width of the token vectors between the layers"""
    head_width: int = setting(None, least=1)
    """set the width of each head; unset: width / heads"""
    kv_heads: int = setting(None, least=1)
    """use this many key and value heads, each shared by a group of query heads; unset: heads"""
    hidden: int = setting(None, least=1)
    """set the inner width of the feed-forward part; unset: 4 × width, or 8/3 × width for swiglu"""
    context: int = setting(128, least=1)
    """read at most N tokens at once; longer labelled texts are cut"""
    embed: str = setting("vectors", choices=("vectors", "onehot"))
    """represent tokens as learned vectors or as one-hot vectors"""
    embed_width: int | None = setting(None, least=1)
    """set the width of the word vectors; a linear map follows if it differs from width; unset: width"""
    vectors: str | None = setting(None)
    """initialise the word vectors from this file (GloVe or word2vec text format)"""
    vectors_frozen: bool = setting(False)
    """keep the initial word vectors fixed during training"""
    word_dropout: float = setting(0.2, least=0.0, most=0.95)
    """drop this fraction of the words during training"""
    tied: bool = setting(None)
    """share the weights of the head and the word vectors; unset: yes, except for one-hot vectors"""
    dropout: float = setting(0.0, least=0.0, most=0.95)
    """set the dropout rate"""
    activation: str = setting("swiglu", choices=ACTIVATIONS)
    """choose the non-linearity of the feed-forward part"""
    feed_layers: int = setting(2, least=1, most=2)
    """use this many layers in the feed-forward part"""
    feed_forward: bool = setting(True)
    """include a feed-forward part in each block"""
    positions: str = setting("rotary", choices=POSITIONS)
    """choose the position encoding"""
    rotary_base: float = setting(10_000.0, least=1.0)
    """set the slowest wavelength of rotary positions, divided by 2π"""
    rotary_scaling: str | None = setting(None)
    """slow rotary positions down for longer texts: linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT"""
    norm: str = setting("rms", choices=NORMS)
    """choose the normalisation"""
    norm_order: str = setting("pre", choices=("pre", "post"))
    """normalise before each part (pre) or after the residual sum (post)"""
    norm_eps: float | None = setting(None, least=0.0, most=1.0)
    """add this to the variance when normalising; unset: 1e-5, for rms 1e-6"""
    embed_norm: bool = setting(False)
    """also normalise the input of the first block, as BERT does"""
    residual: bool = setting(True)
    """use residual connections: add the input of each part to its output"""
    bias: bool | Literal["single"] = setting(False, choices=("true", "false", SINGLE_BIAS))
    """add biases to linear maps and norms; single: one bias per recurrent layer instead of one for each of its
    two matrices"""
    attention_bias: bool = setting(None)
    """add biases to the linear maps of attention; unset: like bias"""
    feed_bias: bool = setting(None)
    """add biases to the feed-forward part; unset: like bias"""
    scores: str = setting("query-key", choices=SCORES)
    """choose the attention score function"""
    scale: bool = setting(True)
    """divide attention scores by √(head width)"""
    causal_mask: bool = setting(True)
    """hide later tokens from a language model (causal attention); false lets it read the answer"""
    output_projection: bool = setting(True)
    """end attention with the output projection W^O"""
    qk_norm: bool = setting(None)
    """normalise the queries and keys of each head; unset: only with scores query-key"""
    embed_scale: bool = setting(False)
    """multiply word vectors by √width, as the Transformer of 2017 does"""
    initialisation: str = setting("zero", choices=("zero", "gpt2", "xavier"))
    """choose how weights are initialised"""
    bidirectional: bool = setting(False)
    """read in both directions (never in a language model)"""
    initial: bool = setting(True)
    """learn the initial state h0; false: start from zeros"""
    nonlinearity: str = setting("tanh", choices=("tanh", "relu"))
    """choose the non-linearity of the Elman network"""
    cells: int | None = setting(None, least=1)
    """set the width of an LSTM's cell if it is larger than the width of its output"""
    window: int = setting(16, least=1)
    """read this many tokens in the window model"""
    kernel: int = setting(4, least=1)
    """set the kernel size of a convolution: tokens, or the side of a square of pixels"""
    stride: int = setting(1, least=1)
    """move the convolution over an image by this many pixels"""
    padding: int | None = setting(None, least=0)
    """pad images with this many zeros on each side; unset: enough to keep the size at stride 1"""
    dilation: int = setting(2, least=1)
    """multiply the dilation of the convolution by this from layer to layer"""
    weighting: str = setting("tfidf", choices=("tfidf", "counts"))
    """weight the words of the bag by TF-IDF, or count them"""
    ngrams: int = setting(1, least=1, most=8)
    """count n-grams of up to N tokens in the bag"""
    words: int = setting(0, least=0, most=5)
    """count word n-grams of up to N words too, in a bag of characters"""
    buckets: int = setting(2**18, least=1)
    """hash the n-grams of the bag to this many columns"""
    pool: str = setting("max", choices=POOLS)
    """choose how the vectors of a text are pooled into one"""
    head_layers: int = setting(0, least=0, most=2)
    """use this many hidden layers in the head; 0: a linear head"""
    head_hidden: int = setting(None, least=1)
    """set the width of the head's hidden layers; unset: 128, or width for tanh"""
    head_activation: str = setting("relu", choices=("relu", "tanh", "gelu", "sigmoid"))
    """choose the non-linearity of the head's hidden layers; BERT uses tanh"""
    head_bias: bool | None = setting(None)
    """add biases to the head and its hidden layers; unset: yes for labels, no for tokens"""
    head_transform: bool = setting(False)
    """put a linear map, a non-linearity and a norm before the head of a masked model"""
    causal: bool = setting(False)
    """labels: let each token see only earlier tokens, as in a language model"""
    unit: bool = setting(False)
    """scale the vector of a text to length 1"""
    vocab: int | None = setting(None, least=1)
    """set the number of rows of the word vectors; unset: the size of the vocabulary"""
    from_run: str | None = setting(None)
    """fine-tune: start from the body and the tokenizer of this run"""
    decoder_from: str | None = setting(None)
    """translation: initialise the decoder from this language model"""
    decoder: str | None = setting(None, choices=DECODERS)
    """choose the decoder of a translator; unset: like the encoder, if possible"""
    decoder_layers: int = setting(None, least=1)
    """stack this many layers in the decoder; unset: layers"""
    attention: str = setting("additive", choices=(*ATTENTIONS, LAYERWISE))
    """choose how a recurrent decoder attends to the source; none: it reads only the last state of the encoder;
    layerwise: block ℓ of a Transformer decoder attends to encoder layer ℓ instead of the last layer"""
    input_feeding: bool = setting(False)
    """feed the last attention output back into a recurrent decoder"""
    shared: bool | None = setting(None)
    """share word vectors between source and target; unset: if they share a tokenizer"""
    patch: int = setting(4, least=1)
    """cut images into square patches with this side, for a Transformer"""

    def __post_init__(self) -> None:
        check("model", self)
        transformer, given = "transformer" in (self.encoder, self.decoder), dict(vars(self))
        if transformer and given["head_width"] is None and self.width % self.heads and self.scores != "bilinear":
            remedy = "change one of them, or set model.head_width"
            raise SettingError(f"model.heads {self.heads} does not divide model.width {self.width}: {remedy}")
        gated = transformer and self.activation == "swiglu"
        unset = {
            "decoder_layers": self.layers,
            "tied": self.embed == "vectors",
            "head_hidden": self.width if self.head_activation == "tanh" else 128,
            "head_width": self.width if self.scores == "bilinear" else self.width // self.heads,
            "kv_heads": self.heads,
            "qk_norm": self.scores == "query-key",
            "attention_bias": bool(self.bias),
            "feed_bias": bool(self.bias),
            "hidden": math.ceil(self.width * 8 / 3 / 8) * 8 if gated else 4 * self.width,
        }
        for name, value in unset.items():
            if given[name] is None:
                object.__setattr__(self, name, value)
        if self.rotary_scaling is not None:
            Scaling.read(self.rotary_scaling)
        if self.tied and self.embed == "onehot":
            raise SettingError("model.tied true needs model.embed vectors: one-hot vectors have no weights to share")
        if transformer:
            self._check_transformer()
        if self.activation == "swiglu" and self.encoder in ("window", "cnn"):
            raise SettingError(f"model.activation swiglu is gated, and {self.encoder} has no gate; relu or gelu?")
        parts = [name for name in (self.encoder, self.decoder) if name not in (None, *RECURRENT)]
        if self.bias == SINGLE_BIAS and parts:
            raise SettingError(f"model.bias single is for {', '.join(RECURRENT)}, not {parts[0]}; use true or false")
        if self.attention == LAYERWISE and self.decoder is not None:
            self._check_layerwise()
        if self.cells is not None and self.cells <= self.width:
            raise SettingError(f"model.cells {self.cells} must be larger than model.width {self.width}")

    def _check_layerwise(self) -> None:
        others = [name for name in (self.encoder, self.decoder) if name != "transformer"]
        if others:
            raise SettingError(f"model.attention layerwise needs a Transformer encoder and decoder, not {others[0]}")
        if self.layers != self.decoder_layers:
            layers = f"model.decoder_layers {self.decoder_layers} must equal model.layers {self.layers}"
            raise SettingError(f"model.attention layerwise pairs block ℓ with encoder layer ℓ: {layers}")

    def _check_transformer(self) -> None:
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


@dataclass(frozen=True)
class TrainingSettings:
    steps: int | None = setting(None, least=1)
    """train for N updates; unset, without epochs and minutes: 2000, or 2 to 10 epochs for labels"""
    epochs: float | None = setting(None, least=1e-9)
    """train for N passes over the data"""
    minutes: float | None = setting(None, least=1e-9)
    """finish the whole command, from reading to the report, within this many minutes"""
    batch_size: int = setting(16, least=1)
    """use this many sequences per update, over all processes"""
    batch_tokens: int | None = setting(None, least=2)
    """translation: use this many source and target tokens per update, padding included, over all processes"""
    targets: str = setting("every", choices=("every", "last"))
    """language models: predict the next token after every token of a window, or only after the last one"""
    mask_rate: float = setting(0.15, least=0.01, most=0.9)
    """masked models: predict this fraction of the tokens (80 % of them masked, 10 % replaced)"""
    whole_words: bool = setting(False)
    """masked models: mask whole words"""
    last_blocks: int | None = setting(None, least=0)
    """with --from: train the head and the last N blocks; 0: only the head, on features computed once"""
    layer_decay: float = setting(1.0, least=TINY, most=1.0)
    """with --from: multiply the learning rate by this from each block to the block below"""
    accumulation_steps: int = setting(1, least=1)
    """accumulate gradients over N parts of each batch: less memory, the same update"""
    parallel: str = setting("auto", choices=("auto", "ddp", "fsdp"))
    """with several processes: replicate the model (ddp) or shard it (fsdp); auto: ddp if it fits"""
    recompute: bool = setting(False)
    """Transformers: recompute each block in the backward pass (activation checkpointing) to save memory"""
    optimizer: str = setting("muon", choices=("muon", "adamw", "momentum", "sgd"))
    """update rule"""
    lr: float | None = setting(None, least=0.0)
    """set the learning rate; unset: the default of the optimiser"""
    momentum: float = setting(0.9, least=0.0, most=0.99999)
    """set the momentum of `momentum`; Muon always uses 0.95"""
    beta1: float = setting(0.9, least=0.0, most=0.99999)
    """set Adam's decay rate of the gradient average"""
    beta2: float = setting(0.99, least=0.0, most=0.99999)
    """set Adam's decay rate of the squared-gradient average"""
    weight_decay: float = setting(0.1, least=0.0)
    """set the decoupled weight decay of matrices (not of vectors, norms and embeddings)"""
    l2: float = setting(0.0, least=0.0)
    """add l2 · ‖w‖² of the same matrices to the loss"""
    loss: str | None = setting(None, choices=("softmax", "logistic", "squared"))
    """choose the loss; unset: logistic for two classes, softmax for more, squared for numbers"""
    class_weights: str | None = setting(None)
    """weight classes in the loss: balanced, or a weight per class, such as spam=5,ham=1; unset: equal weights"""
    label_smoothing: float = setting(0.0, least=0.0, most=0.99)
    """set the label smoothing: probability shared among all tokens or classes"""
    grad_clip: float | None = setting(1.0, least=1e-9)
    """clip gradients to this norm; none: no clipping"""
    schedule: str = setting("cosine", choices=("cosine", "inverse-sqrt", "constant"))
    """choose the learning-rate schedule"""
    schedule_steps: int | None = setting(None, least=1)
    """plan the learning-rate schedule for N updates; unset: the length of the run"""
    warmup: int = setting(100, least=0)
    """increase the learning rate over the first N updates (at most a tenth of the run)"""
    lr_floor: float = setting(0.1, least=0.0, most=1.0)
    """end the cosine schedule at this fraction of the learning rate"""
    seed: int = setting(0, least=0, most=2**62)
    """seed the initial weights, the order of the data and dropout"""
    device: str = setting("auto")
    """run on this device: auto, cpu, cuda, cuda:1, mps"""
    precision: str = setting("auto", choices=("auto", "fp32", "bf16", "fp16"))
    """choose the precision of training; auto: bf16 on a GPU that supports it"""
    compile: str = setting("auto", choices=("auto", "on", "tuned", "off"))
    """use torch.compile; auto: on CUDA, if the run is long enough"""
    threads: int | None = setting(None, least=1)
    """CPU threads; unset: torch's choice; kept on resuming"""
    average: int | None = setting(None, least=2)
    """use the average of the weights over about the last N updates; unset: no averaging"""
    validate_every: int | None = setting(None, least=1)
    """validate every N updates; unset: ten times per run, more often with --minutes"""
    validation_tokens: int = setting(200_000, least=1)
    """validate on at most N tokens during training (the last validation uses the whole set)"""
    choose_by: str = setting("accuracy", choices=("accuracy", "macro_f1", "average_precision", "loss"))
    """classifiers: choose the best weights, trials and models by this validation metric; average_precision (two
    classes only) is that of the rarer class"""
    keep: str = setting("best", choices=("best", "last"))
    """keep the weights with the best validation score, or the last weights"""
    patience: int | None = setting(None, least=1)
    """stop after N validations without improvement; unset: with --minutes, when training has converged or
    overfits"""
    checkpoint_every: int | None = setting(None, least=1)
    """write a checkpoint every N updates, in addition to those at validations"""
    checkpoints: int = setting(2, least=1)
    """keep the N newest checkpoints for resuming"""
    keep_checkpoints: bool = setting(False)
    """also keep the weights of about two dozen updates (0, 1, 2, 4, 8, …), to watch the model learn"""
    samples: bool = setting(True)
    """print a sample at each validation"""

    def __post_init__(self) -> None:
        check("training", self)
        budgets = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(budgets) > 1:
            raise SettingError(f"training.{budgets[0]} and training.{budgets[1]}: give one of them")
        if not budgets:
            object.__setattr__(self, "steps", 2000)
        if self.lr is None:
            object.__setattr__(self, "lr", {"muon": 3e-3, "adamw": 1e-3, "momentum": 0.1, "sgd": 0.5}[self.optimizer])
        if self.keep == "last" and self.patience is not None:
            raise SettingError("training.patience waits for a better validation, and training.keep last for none")
        if self.batch_tokens is None and self.batch_size % self.accumulation_steps:
            pieces = f"training.accumulation_steps {self.accumulation_steps}"
            raise SettingError(f"{pieces} does not divide training.batch_size {self.batch_size}")
