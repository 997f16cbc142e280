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
    """what a token is"""
    vocab_size: int | None = setting(None, least=5)
    """tokens at most; unset: every char, 20000 words, 4096 for bpe"""
    lowercase: bool = setting(False)
    """fold the text to lower case first (char and word)"""
    min_count: int = setting(1, least=1)
    """leave out characters, words or merges seen less often"""
    sample_mb: int = setting(256, least=1)
    """learn the tokens from this much text at most, spread over the corpus"""
    file: str | None = setting(None)
    """take this tokenizer.json instead of training one"""
    shared: bool = setting(True)
    """one tokenizer for both sides of a translation; false: one each"""

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
    """the sequence model"""
    size: str | None = setting(None, choices=tuple(SIZES))
    """layers, heads and width by name; unset: tiny, for labels smaller"""
    style: str | None = setting(None, choices=tuple(STYLES))
    """parts of the Transformer by name; unset: what trains best"""
    layers: int = setting(4, least=1)
    """blocks of a Transformer, stacked layers of the others"""
    heads: int = setting(4, least=1)
    """attention heads"""
    width: int = setting(128, least=1)
    """numbers per token between the layers"""
    head_width: int = setting(None, least=1)
    """numbers per head; unset: width / heads"""
    kv_heads: int = setting(None, least=1)
    """key and value heads, shared by groups of heads; unset: heads"""
    hidden: int = setting(None, least=1)
    """width inside the feed-forward part; unset: 4 × width, 8/3 × for swiglu"""
    context: int = setting(128, least=1)
    """tokens the model reads at once; a longer labelled text is cut there"""
    embed: str = setting("vectors", choices=("vectors", "onehot"))
    """how tokens come in"""
    embed_width: int | None = setting(None, least=1)
    """numbers per word vector; unset: width, else a map leads to it"""
    vectors: str | None = setting(None)
    """a file of pretrained word vectors to start from (GloVe or word2vec text)"""
    vectors_frozen: bool = setting(False)
    """word vectors are not trained: they stay as they start"""
    word_dropout: float = setting(0.2, least=0.0, most=0.95)
    """part of the words dropped in training"""
    tied: bool = setting(None)
    """the head shares the word vectors' weights; unset: yes, but for one-hot"""
    dropout: float = setting(0.0, least=0.0, most=0.95)
    """part of the numbers dropped in training"""
    activation: str = setting("swiglu", choices=ACTIVATIONS)
    """non-linearity of the feed-forward part"""
    feed_layers: int = setting(2, least=1, most=2)
    """layers of the feed-forward part"""
    feed_forward: bool = setting(True)
    """blocks have a feed-forward part"""
    positions: str = setting("rotary", choices=POSITIONS)
    """how order comes in"""
    rotary_base: float = setting(10_000.0, least=1.0)
    """slowest wavelength of rotary positions, over 2π"""
    rotary_scaling: str | None = setting(None)
    """rotary positions slowed for longer texts: linear:FACTOR, or llama3:FACTOR:LOW:HIGH:CONTEXT"""
    norm: str = setting("rms", choices=NORMS)
    """normalisation"""
    norm_order: str = setting("pre", choices=("pre", "post"))
    """normalise before each part, or after the sum"""
    norm_eps: float | None = setting(None, least=0.0, most=1.0)
    """added to the variance; unset: 1e-5, for rms 1e-6"""
    embed_norm: bool = setting(False)
    """also normalise what the first block reads, as BERT does"""
    residual: bool = setting(True)
    """add each part's input to its output"""
    bias: bool | Literal["single"] = setting(False, choices=("true", "false", SINGLE_BIAS))
    """add biases to linear maps and norms; single: one bias per recurrent layer, not one for each of two
    matrices"""
    attention_bias: bool = setting(None)
    """the maps of attention have biases; unset: like bias"""
    feed_bias: bool = setting(None)
    """those of the feed-forward part; unset: like bias"""
    scores: str = setting("query-key", choices=SCORES)
    """how attention scores are made"""
    scale: bool = setting(True)
    """divide attention scores by √(head width)"""
    causal_mask: bool = setting(True)
    """hide the future in a language model (causal attention); false lets it read the answer"""
    output_projection: bool = setting(True)
    """attention ends with W^O"""
    qk_norm: bool = setting(None)
    """normalise queries and keys of each head; unset: with scores query-key alone"""
    embed_scale: bool = setting(False)
    """multiply word vectors by √width, as in 2017"""
    initialisation: str = setting("zero", choices=("zero", "gpt2", "xavier"))
    """how weights start"""
    bidirectional: bool = setting(False)
    """read in both directions (never in a language model)"""
    initial: bool = setting(True)
    """learn the first state h0; false starts from zeros"""
    nonlinearity: str = setting("tanh", choices=("tanh", "relu"))
    """of the Elman network"""
    cells: int | None = setting(None, least=1)
    """LSTM: width of the cell when larger than that of its output"""
    window: int = setting(16, least=1)
    """tokens the window model reads"""
    kernel: int = setting(4, least=1)
    """tokens a convolution reads; of an image the side of its square"""
    stride: int = setting(1, least=1)
    """images: pixels that a convolution moves at once"""
    padding: int | None = setting(None, least=0)
    """images: zeros around what a convolution reads; unset: as many as keep the size at stride 1"""
    dilation: int = setting(2, least=1)
    """how much further each convolution layer reaches than the last"""
    weighting: str = setting("tfidf", choices=("tfidf", "counts"))
    """what a word counts in the bag"""
    ngrams: int = setting(1, least=1, most=8)
    """the bag also counts runs of up to so many tokens"""
    words: int = setting(0, least=0, most=5)
    """a bag of characters also counts words, and runs of up to so many of them"""
    buckets: int = setting(2**18, least=1)
    """places that the bag's runs are hashed to"""
    pool: str = setting("max", choices=POOLS)
    """how the vectors of a text become one"""
    head_layers: int = setting(0, least=0, most=2)
    """hidden layers of the head's MLP; 0: linear"""
    head_hidden: int = setting(None, least=1)
    """width of those; unset: 128, of tanh as many as width"""
    head_activation: str = setting("relu", choices=("relu", "tanh", "gelu", "sigmoid"))
    """non-linearity of the head's hidden layers; tanh is BERT's"""
    head_bias: bool | None = setting(None)
    """add biases to the head and its hidden layers; unset: yes for labels, no for tokens"""
    head_transform: bool = setting(False)
    """a masked model's head: one more map, non-linearity and norm before it"""
    causal: bool = setting(False)
    """labels: each token sees only those before it, as in a language model"""
    unit: bool = setting(False)
    """bring the vector of a text to length 1"""
    vocab: int | None = setting(None, least=1)
    """rows of the word vectors; unset: as many as there are tokens"""
    from_run: str | None = setting(None)
    """start from the body and the tokens of this run (--from RUN)"""
    decoder_from: str | None = setting(None)
    """translation: start the decoder from this language model's run"""
    decoder: str | None = setting(None, choices=DECODERS)
    """what writes the translation; unset: like the encoder, where that can"""
    decoder_layers: int = setting(None, least=1)
    """of the decoder; unset: layers"""
    attention: str = setting("additive", choices=(*ATTENTIONS, LAYERWISE))
    """how a recurrent decoder scores the source; none: it reads only the summary of the source; layerwise: block ℓ
    of a Transformer decoder attends to encoder layer ℓ instead of the last"""
    input_feeding: bool = setting(False)
    """a recurrent decoder also reads what it last found in the source"""
    shared: bool | None = setting(None)
    """both sides of a translation share their word vectors; unset: if their tokens"""
    patch: int = setting(4, least=1)
    """side of the squares that a Transformer cuts an image into"""

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
    """updates to make; unset, with no epochs and minutes: 2000, for labels 2 to 10 epochs"""
    epochs: float | None = setting(None, least=1e-9)
    """times to go through the data"""
    minutes: float | None = setting(None, least=1e-9)
    """minutes for the whole command, from reading to the report"""
    batch_size: int = setting(16, least=1)
    """sequences per update, over all processes"""
    batch_tokens: int | None = setting(None, least=2)
    """translation: source and target tokens per update, padding too, over all processes"""
    targets: str = setting("every", choices=("every", "last"))
    """language models: train on and evaluate the next token after every token of a window, or only after its
    last"""
    mask_rate: float = setting(0.15, least=0.01, most=0.9)
    """masked models: part of the tokens to guess (of these 80 % masked, 10 % swapped)"""
    whole_words: bool = setting(False)
    """masked models: all tokens of a word are guessed together, or none"""
    last_blocks: int | None = setting(None, least=0)
    """with --from: train the head and so many last blocks; 0: the head alone, on features computed once"""
    layer_decay: float = setting(1.0, least=TINY, most=1.0)
    """with --from: the rate of each block is this part of that of the block above it"""
    accumulation_steps: int = setting(1, least=1)
    """gradient accumulation: pieces each batch is computed in; less memory, the same update"""
    parallel: str = setting("auto", choices=("auto", "ddp", "fsdp"))
    """several processes: each holds the whole model (ddp), or a shard of it (fsdp); auto: ddp while it fits"""
    recompute: bool = setting(False)
    """Transformers: compute each block again in the backward pass (activation checkpointing): less memory"""
    optimizer: str = setting("muon", choices=("muon", "adamw", "momentum", "sgd"))
    """update rule"""
    lr: float | None = setting(None, least=0.0)
    """learning rate; unset: the optimiser's usual one"""
    momentum: float = setting(0.9, least=0.0, most=0.99999)
    """of `momentum`; Muon has its own, 0.95"""
    beta1: float = setting(0.9, least=0.0, most=0.99999)
    """Adam's average of gradients"""
    beta2: float = setting(0.99, least=0.0, most=0.99999)
    """Adam's average of squared gradients"""
    weight_decay: float = setting(0.1, least=0.0)
    """decoupled decay of matrices (not of vectors, norms and embeddings)"""
    l2: float = setting(0.0, least=0.0)
    """adds l2 · ‖w‖² of the same matrices to the loss"""
    loss: str | None = setting(None, choices=("softmax", "logistic", "squared"))
    """unset: logistic for two classes, softmax for more, squared for numbers"""
    class_weights: str | None = setting(None)
    """balanced, or a weight by class: spam=5,ham=1; unset: all weigh alike"""
    label_smoothing: float = setting(0.0, least=0.0, most=0.99)
    """probability shared among all tokens or classes"""
    grad_clip: float | None = setting(1.0, least=1e-9)
    """gradient clipping: largest norm of the gradient; none: no clipping"""
    schedule: str = setting("cosine", choices=("cosine", "inverse-sqrt", "constant"))
    """of the learning rate"""
    schedule_steps: int | None = setting(None, least=1)
    """updates that the rate's way is laid out for; unset: as many as the run makes"""
    warmup: int = setting(100, least=0)
    """updates over which the rate rises (at most a tenth of the run)"""
    lr_floor: float = setting(0.1, least=0.0, most=1.0)
    """where cosine ends, as a part of the rate"""
    seed: int = setting(0, least=0, most=2**62)
    """of the first weights, the order of the data and dropout"""
    device: str = setting("auto")
    """auto, cpu, cuda, cuda:1, mps"""
    precision: str = setting("auto", choices=("auto", "fp32", "bf16", "fp16"))
    """auto: bf16 on a GPU that has it"""
    compile: str = setting("auto", choices=("auto", "on", "tuned", "off"))
    """torch.compile; auto: on CUDA, when it pays"""
    threads: int | None = setting(None, least=1)
    """CPU threads; unset: torch's choice; kept on resuming"""
    average: int | None = setting(None, least=2)
    """use the average of the weights over about so many of the last updates; unset: the weights as they are"""
    validate_every: int | None = setting(None, least=1)
    """updates between validations; unset: ten validations per run, more with --minutes"""
    validation_tokens: int = setting(200_000, least=1)
    """tokens of each validation on the way (the last is whole)"""
    choose_by: str = setting("accuracy", choices=("accuracy", "macro_f1", "average_precision", "loss"))
    """classifiers: the validation metric by which the best weights, trials and models are chosen; average_precision
    (two classes only): that of the rarer class"""
    keep: str = setting("best", choices=("best", "last"))
    """which weights the run ends with: validation's best, or the last"""
    patience: int | None = setting(None, least=1)
    """stop after this many validations without improvement; unset: with --minutes, once it converged or overfits"""
    checkpoint_every: int | None = setting(None, least=1)
    """updates between checkpoints, beside those at validations"""
    checkpoints: int = setting(2, least=1)
    """newest checkpoints kept to go on from"""
    keep_checkpoints: bool = setting(False)
    """also keep the weights of some two dozen updates (0, 1, 2, 4, 8, …), to watch the model learn"""
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
