"""What each module adds to a diagram of its model. `describe` is a generic function of the module: a brick of one's own
may register its own words, and without them it is a box with its name.
"""

from functools import singledispatch

from torch import nn

from glassformer.bricks.attention import Attention, MemoryAttention
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.convolution import Convolution, ConvolutionStack, Patches
from glassformer.bricks.embedding import OneHot, WordDropout, WordVectors
from glassformer.bricks.feed_forward import ACTIVATIONS, Bias, FeedForward, MultilayerPerceptron
from glassformer.bricks.norm import BatchNorm, LayerNorm, NoNorm, Residual, RMSNorm
from glassformer.bricks.own import OwnNorm, OwnPool, OwnPositions
from glassformer.bricks.pooling import FUNCTIONS, AttentionPool, Pool, UnitLength
from glassformer.bricks.positions import AddedPositions, NoPositions
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.tap import Tap
from glassformer.data.wording import counted
from glassformer.encoders.blocks import OwnAttention
from glassformer.inspection.diagram_plan import Plan
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.modules import Transform
from glassformer.rendering.panels import Sketch

SILENT = (nn.Dropout, nn.Identity, WordDropout, Tap, NoNorm, NoPositions)
"""Modules that change nothing that is looked at."""
KINDS = {
    "embed": "embedding", "posit": "positions", "atten": "attention", "norm": "norm", "lstm": "recurrent",
    "gru": "recurrent", "rnn": "recurrent", "conv": "convolution", "pool": "pool", "linear": "feed-forward",
    "feed": "feed-forward", "mlp": "feed-forward",
}  # fmt: skip
"""What a module is whose name has these letters in it."""
POOLS = {
    "": "a learned query looks at every token",
    "mean": "the average of all tokens",
    "sum": "the sum of all tokens",
    "max": "the largest of each number",
    "last": "the vector at the last token",
    "first": "the vector at the first token",
    "ends": "forwards the last token, backwards the first",
    "flatten": "all vectors end to end",
}
DOTS = 8
"""Tokens in a sketch."""


LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
"""Modules that are the parts in them."""


@singledispatch
def describe(module: nn.Module, plan: Plan, path: str) -> None:
    """Any other module: a box with the name of its class, and the first line that it says of itself."""
    if isinstance(module, SILENT):
        return
    name = type(module).__name__
    kind = next((kind for letters, kind in KINDS.items() if letters in name.lower()), "other")
    widths = (getattr(module, fact, None) for fact in ("width", "out_features", "embedding_dim", "hidden_size"))
    width = next((width for width in widths if isinstance(width, int)), None)
    own = "" if type(module).__module__.startswith("torch.") else (type(module).__doc__ or "").split("\n")[0]
    plan.add(path, name, kind, module, own, width=width, guessed=True)


def describe_children(module: nn.Module, plan: Plan, path: str) -> None:
    """Each part by itself, in the order in which they were made; then weights that lie in none of them."""
    for name, child in module.named_children():
        visit = describe_children if isinstance(child, LISTS) else describe
        visit(child, plan, f"{path}.{name}" if path else name)
    if isinstance(module, LISTS):
        return
    if rest := plan.unclaimed(module):
        recorded = f"{path}.output" if path else "logits"
        title = f"{type(module).__name__}: its own weights"
        plan.add(f"{path or 'model'}.own", title, "other", weights=rest, recorded=recorded, guessed=True)


# --- sketches: the tokens above, what is made of them beneath ---


def looks(sees: list[tuple[int, int]], strong: int) -> Sketch:
    """Lines from each token to the outputs that see it; those of one output stand out."""
    faint_first = sorted(sees, key=lambda pair: pair[1] == strong)
    return Sketch(columns=DOTS, rows=2, lines=[(s, 0, t, 1, t == strong) for s, t in faint_first])


def all_to_all(causal: bool) -> Sketch:
    pairs = [(s, t) for t in range(DOTS) for s in range(DOTS) if s <= t or not causal]
    return looks(pairs, DOTS - 2 if causal else DOTS // 2)


def windows(kernel: int, dilation: int, before: int) -> Sketch:
    """What a convolution sees; of one that reaches far, as much as there is room for."""
    pairs = [(t + i * dilation - before, t) for t in range(DOTS) for i in range(kernel)]
    strong = DOTS - 1 if before == (kernel - 1) * dilation else DOTS // 2
    return looks([(s, t) for s, t in pairs if 0 <= s < DOTS], strong)


def chain(both_ways: bool) -> Sketch:
    """States over time: each is made of a token and the state beside it; both ways, the tokens lie in the middle."""
    steps = range(DOTS)
    middle, forth = (1, 0) if both_ways else (0, 1)
    lines = [(t, middle, t, forth, False) for t in steps] + [(t, forth, t + 1, forth, True) for t in steps[:-1]]
    if both_ways:
        lines += [(t, 1, t, 2, False) for t in steps] + [(t + 1, 2, t, 2, True) for t in steps[:-1]]
    return Sketch(columns=DOTS, rows=3 if both_ways else 2, lines=lines)


def gathered(counts: list[int]) -> Sketch:
    """One vector of all tokens; those that count stand out."""
    lines = [(t, 0, (DOTS - 1) / 2, 1, t in counts) for t in sorted(range(DOTS), key=lambda t: t in counts)]
    return Sketch(columns=DOTS, rows=2, lines=lines)


# --- what goes in ---


@describe.register
def describe_word_vectors(module: WordVectors, plan: Plan, path: str) -> None:
    rows, inner = module.table.weight.shape
    detail = f"a row of {inner} for each of {rows:,} tokens" + (f", led to {module.width}" if module.fit else "")
    detail += ", times √d" if module.scale != 1.0 else ""
    plan.add_vectors(path, "Word vectors", module, detail, axes=(plan.axes[0], ("d", module.width)))


@describe.register
def describe_one_hot(module: OneHot, plan: Plan, path: str) -> None:
    plan.add_vectors(path, "One-hot", module, "a 1 at the token's place", axes=(plan.axes[0], ("V", module.width)))


@describe.register
def describe_image(module: ImageTokens, plan: Plan, path: str) -> None:
    cut, axes, weights = module.cut, (("T", module.tokens), ("d", module.width)), module.named_parameters()
    rows, columns = cut.grid
    if isinstance(cut, Patches):
        side = cut.map.kernel_size[0]
        detail = f"{rows}×{columns} squares of {side}×{side}, each led to a vector"
        plan.add_vectors(path, "Patches", cut, detail, axes=axes, weights=weights)
        return
    assert isinstance(cut, ConvolutionStack)
    layers = [layer for layer in cut.convolutions if isinstance(layer, nn.Conv2d)]
    channels, side = " → ".join(str(layer.out_channels) for layer in layers), layers[0].kernel_size[0]
    detail = f"{side}×{side}, {channels} channels, ReLU, max pooling: {rows}×{columns}"
    plan.add_vectors(path, "Convolutions", cut, detail, kind="convolution", axes=axes, weights=weights)


@describe.register
def describe_columns(module: ColumnTokens, plan: Plan, path: str) -> None:
    detail = f"a vector for each of {module.tokens} columns"
    plan.add_vectors(path, "Column vectors", module, detail, axes=(("T", module.tokens), ("d", module.width)))


@describe.register(FlatColumns)
@describe.register(FlatPixels)
def describe_flat(module: FlatColumns | FlatPixels, plan: Plan, path: str) -> None:
    title, detail = "Columns in a row", "numbers as they are, categories one-hot"
    if isinstance(module, FlatPixels):
        title, detail = "Pixels in a row", "row by row"
    plan.add_vectors(path, title, module, detail, axes=(("T", 1), ("d", module.width)))


@describe.register
def describe_mixed(module: MixedTokens, plan: Plan, path: str) -> None:
    parts = {"columns": module.columns, "patches": module.image, "words": module.words}
    detail = ", then ".join(name for name, part in parts.items() if part is not None)
    plan.add_vectors(path, "Mixed tokens", module, detail, axes=(("T", module.tokens), ("d", module.width)))


@describe.register
def describe_bag(module: BagOfWords, plan: Plan, path: str) -> None:
    rows, out = module.table.weight.shape
    weighting = "TF-IDF" if module.weighting == "tfidf" else "counts"
    runs = f", runs of up to {module.ngrams}" if module.ngrams > 1 else ""
    detail = f"{weighting}{runs}: the sum of {rows:,} rows' share"
    plan.add(path, "Bag of words", "embedding", module, detail, axes=(("d", out),), sketch=gathered([*range(DOTS)]))


# --- the parts of blocks ---


@describe.register
def describe_positions(module: AddedPositions, plan: Plan, path: str) -> None:
    known = f"{module.limit:,} learned" if module.limit else "sine and cosine waves"
    plan.add(path, "Positions", "positions", module, f"{known}, {'appended' if module.kind == 'onehot' else 'added'}")


@describe.register(LayerNorm)
@describe.register(RMSNorm)
@describe.register(BatchNorm)
def describe_norm(module: nn.Module, plan: Plan, path: str) -> None:
    title = {LayerNorm: "Layer norm", RMSNorm: "RMS norm"}.get(type(module), "Batch norm")
    plan.add(path, title, "norm", module, recorded=_normed(plan, path))


def _normed(plan: Plan, path: str) -> str:
    """The name by which the output of a norm is captured: inside a residual, that of the residual."""
    above = path.rpartition(".")[0]
    return f"{above}.normed" if isinstance(plan.model.get_submodule(above), Residual) else f"{path}.output"


@describe.register
def describe_attention(module: Attention, plan: Plan, path: str) -> None:
    title = "Causal self-attention" if module.causal else "Self-attention"
    title = "Cross-attention" if module.is_cross_attention else title
    detail = f"{counted(module.heads, 'head')} of {module.head_width}"
    if module.scores != "query-key":
        detail += f", {module.scores} scores"
    elif module.kv_heads != module.heads:
        detail += f", {module.kv_heads} for keys and values"
    inner = module.heads * module.head_width
    width = None if module.output is not None else inner
    plan.add(path, title, "attention", module, detail, hidden=inner, width=width, sketch=all_to_all(module.causal))


@describe.register
def describe_own_attention(module: OwnAttention, plan: Plan, path: str) -> None:
    plan.add(path, "Your attention", "attention", module, str(module.part), sketch=all_to_all(module.causal))


@describe.register
def describe_own_norm(module: OwnNorm, plan: Plan, path: str) -> None:
    plan.add(path, "Your norm", "norm", module, str(module.part), recorded=_normed(plan, path))


@describe.register
def describe_own_positions(module: OwnPositions, plan: Plan, path: str) -> None:
    plan.add(path, "Your positions", "positions", module, str(module.part))


@describe.register
def describe_own_pool(module: OwnPool, plan: Plan, path: str) -> None:
    axes, sketch = (("d", plan.width),), gathered([*range(DOTS)])
    plan.add(path, "Your pooling", "pool", module, str(module.part), axes=axes, sketch=sketch)


@describe.register
def describe_feed_forward(module: FeedForward, plan: Plan, path: str) -> None:
    inner = module.input.out_features
    widths = [plan.width, inner, plan.width] if module.output is not None else [plan.width, inner]
    activation = "SwiGLU" if module.gate is not None else activation_name(module.activation)
    detail = f"{' → '.join(map(str, widths))}, {activation}"
    plan.add(path, "Feed-forward", "feed-forward", module, detail, hidden=inner)


def activation_name(activation: object) -> str:
    written = {"relu": "ReLU", "gelu": "GELU", "gelu-tanh": "GELU", "silu": "SiLU", "relu2": "ReLU²"}
    name = next((name for name, function in ACTIVATIONS.items() if function is activation), "")
    return written.get(name, name)


@describe.register
def describe_convolution(module: Convolution, plan: Plan, path: str) -> None:
    slide = module.slide
    kernel, dilation = slide.kernel_size[0], slide.dilation[0]
    detail = f"kernel {kernel}" + (f", dilation {dilation}" if dilation > 1 else "")
    sketch = windows(kernel, dilation, module.before)
    plan.add(path, "Convolution", "convolution", module, detail, width=slide.out_channels, sketch=sketch)


@describe.register
def describe_recurrent(module: Recurrent, plan: Plan, path: str) -> None:
    """A brick for each layer; its first state is its own."""
    cell, names = module.cell, module.state_names()
    ways = 2 if cell.bidirectional else 1
    state = cell.proj_size or cell.hidden_size
    title = type(cell).__name__ + (" both ways" if cell.bidirectional else "")
    detail = f"{state} each way" if cell.bidirectional else f"state of {state}"
    detail += f", cell of {cell.hidden_size}" if cell.proj_size else ""
    first = [(f"first.{key}", weight) for key, weight in module.first.named_parameters()]
    for layer in range(cell.num_layers):
        endings = (f"_l{layer}", f"_l{layer}_reverse")
        weights = [(key, weight) for key, weight in cell.named_parameters() if key.endswith(endings)]
        is_last = layer == cell.num_layers - 1
        plan.add(
            f"{path}.{layer}",
            title,
            "recurrent",
            module,
            f"layer {layer}: {detail}" if cell.num_layers > 1 else detail,
            width=state * ways,
            weights=weights if layer else [*weights, *first],
            recorded=f"{path}.output" if is_last else [f"{path}.{way['h']}" for way in names[layer]],
            sketch=chain(cell.bidirectional),
        )


@describe.register
def describe_memory_attention(module: MemoryAttention, plan: Plan, path: str) -> None:
    detail = f"{module.kind} scores, along the source"
    plan.add(path, "Attention", "attention", module, detail, sketch=all_to_all(causal=False))


# --- the end ---


@describe.register(Pool)
@describe.register(AttentionPool)
def describe_pool(module: Pool | AttentionPool, plan: Plan, path: str) -> None:
    every, width, tokens = [*range(DOTS)], plan.width, plan.axes[0][1]
    kind = next((name for name, function in FUNCTIONS.items() if function is getattr(module, "function", None)), "")
    axes = (("d", width),) if kind != "flatten" else (("T·d", width * tokens if tokens else None),)
    counts = {"last": every[-1:], "first": every[:1], "ends": [every[0], every[-1]]}.get(kind, every)
    detail, sketch = (POOLS.get(kind, ""), gathered(counts)) if tokens != 1 else ("of one vector: as it is", None)
    plan.add(path, f"Pool: {kind or 'attention'}", "pool", module, detail, axes=axes, sketch=sketch)


@describe.register
def describe_perceptron(module: MultilayerPerceptron, plan: Plan, path: str) -> None:
    for number, layer in enumerate(module.hidden):
        assert isinstance(layer, nn.Linear)
        add_hidden_layer(layer, plan, f"{path}.hidden.{number}", activation_name(module.activation))
    scores(module.output, plan, f"{path}.output")


def add_hidden_layer(layer: nn.Linear, plan: Plan, path: str, activation: str) -> None:
    detail = f"{layer.in_features} → {layer.out_features}, {activation}"
    plan.add(path, "Hidden layer", "feed-forward", layer, detail, width=layer.out_features)


def scores(layer: nn.Linear, plan: Plan, path: str, letter: str = "out") -> None:
    """The map to what is answered."""
    axes = (*plan.axes[:-1], (letter, layer.out_features))
    plan.add(path, "Scores", "head", layer, f"{layer.in_features} → {layer.out_features:,}", axes=axes)


@describe.register
def describe_bias(module: Bias, plan: Plan, path: str) -> None:
    plan.add(path, "Bias", "head", module, "added")


@describe.register
def describe_unit_length(module: UnitLength, plan: Plan, path: str) -> None:
    plan.add(path, "Length 1", "norm", module, "x / ‖x‖")


@describe.register
def describe_transform(module: Transform, plan: Plan, path: str) -> None:
    plan.add(path, "Transform", "feed-forward", module, f"linear map, {activation_name(module.activation)}, norm")
