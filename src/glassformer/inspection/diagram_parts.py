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
    plan.add(path, name, kind, module=module, width=width, detail=own, recorded=f"{path}.output", guessed=True)


def describe_children(module: nn.Module, plan: Plan, path: str) -> None:
    """Each part by itself, in the order in which they were made; then weights that lie in none of them."""
    for name, child in module.named_children():
        below = f"{path}.{name}" if path else name
        if isinstance(child, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            describe_children(child, plan, below)
        elif not isinstance(child, SILENT):
            describe(child, plan, below)
    if isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential):
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
def _(module: WordVectors, plan: Plan, path: str) -> None:
    rows, inner = module.table.weight.shape
    detail = f"a row of {inner} for each of {rows:,} tokens" + (f", led to {module.width}" if module.fit else "")
    detail += ", times √d" if module.scale != 1.0 else ""
    axes = (plan.axes[0], ("d", module.width))
    plan.add(path, "Word vectors", "embedding", module=module, axes=axes, detail=detail, recorded=f"{path}.vectors")


@describe.register
def _(module: OneHot, plan: Plan, path: str) -> None:
    axes = (plan.axes[0], ("V", module.width))
    detail = "a 1 at the token's place"
    plan.add(path, "One-hot", "embedding", module=module, axes=axes, detail=detail, recorded=f"{path}.vectors")


@describe.register
def _(module: ImageTokens, plan: Plan, path: str) -> None:
    cut, axes = module.cut, (("T", module.tokens), ("d", module.width))
    rows, columns = cut.grid
    if isinstance(cut, Patches):
        side = cut.map.kernel_size[0]
        title, kind, detail = "Patches", "embedding", f"{rows}×{columns} squares of {side}×{side}, each led to a vector"
    else:
        assert isinstance(cut, ConvolutionStack)
        layers = [layer for layer in cut.convolutions if isinstance(layer, nn.Conv2d)]
        channels = " → ".join(str(layer.out_channels) for layer in layers)
        side = layers[0].kernel_size[0]
        title, kind = "Convolutions", "convolution"
        detail = f"{side}×{side}, {channels} channels, ReLU, max pooling: {rows}×{columns}"
    plan.add(path, title, kind, module=cut, axes=axes, weights=module.named_parameters(), detail=detail,
             recorded=f"{path}.vectors")  # fmt: skip


@describe.register
def _(module: ColumnTokens, plan: Plan, path: str) -> None:
    axes = (("T", module.tokens), ("d", module.width))
    detail = f"a vector for each of {module.tokens} columns"
    plan.add(path, "Column vectors", "embedding", module=module, axes=axes, detail=detail, recorded=f"{path}.vectors")


@describe.register(FlatColumns)
@describe.register(FlatPixels)
def _(module: FlatColumns | FlatPixels, plan: Plan, path: str) -> None:
    pixels = isinstance(module, FlatPixels)
    detail = "row by row" if pixels else "numbers as they are, categories one-hot"
    plan.add(path, "Pixels in a row" if pixels else "Columns in a row", "embedding", module=module,
             axes=(("T", 1), ("d", module.width)), detail=detail, recorded=f"{path}.vectors")  # fmt: skip


@describe.register
def _(module: MixedTokens, plan: Plan, path: str) -> None:
    there = {"columns": module.columns, "patches": module.image, "words": module.words}
    detail = ", then ".join(name for name, part in there.items() if part is not None)
    plan.add(path, "Mixed tokens", "embedding", module=module, axes=(("T", module.tokens), ("d", module.width)),
             detail=detail, recorded=f"{path}.vectors")  # fmt: skip


@describe.register
def _(module: BagOfWords, plan: Plan, path: str) -> None:
    rows, out = module.table.weight.shape
    weighting = "TF-IDF" if module.weighting == "tfidf" else "counts"
    runs = f", runs of up to {module.ngrams}" if module.ngrams > 1 else ""
    plan.add(path, "Bag of words", "embedding", module=module, axes=(("d", out),), recorded=f"{path}.output",
             detail=f"{weighting}{runs}: the sum of {rows:,} rows' share", sketch=gathered([*range(DOTS)]))  # fmt: skip


# --- the parts of blocks ---


@describe.register
def _(module: AddedPositions, plan: Plan, path: str) -> None:
    known = f"{module.limit:,} learned" if module.limit else "sine and cosine waves"
    detail = f"{known}, {'appended' if module.kind == 'onehot' else 'added'}"
    plan.add(path, "Positions", "positions", module=module, recorded=f"{path}.output", detail=detail)


@describe.register(LayerNorm)
@describe.register(RMSNorm)
@describe.register(BatchNorm)
def _(module: nn.Module, plan: Plan, path: str) -> None:
    title = {LayerNorm: "Layer norm", RMSNorm: "RMS norm"}.get(type(module), "Batch norm")
    above = path.rpartition(".")[0]
    around = isinstance(plan.model.get_submodule(above), Residual)
    plan.add(path, title, "norm", module=module, recorded=f"{above}.normed" if around else f"{path}.output")


@describe.register
def _(module: Attention, plan: Plan, path: str) -> None:
    cross = module.is_cross_attention
    title = "Cross-attention" if cross else "Causal self-attention" if module.causal else "Self-attention"
    heads = f"{module.heads} heads of {module.head_width}" if module.heads > 1 else f"1 head of {module.head_width}"
    if module.scores != "query-key":
        heads += f", {module.scores} scores"
    elif module.kv_heads != module.heads:
        heads += f", {module.kv_heads} for keys and values"
    inner = module.heads * module.head_width
    plan.add(path, title, "attention", module=module, recorded=f"{path}.output", hidden=inner, detail=heads,
             width=None if module.output is not None else inner, sketch=all_to_all(module.causal))  # fmt: skip


@describe.register
def _(module: OwnAttention, plan: Plan, path: str) -> None:
    plan.add(path, "Your attention", "attention", module=module, recorded=f"{path}.output", detail=str(module.part),
             sketch=all_to_all(module.causal))  # fmt: skip


@describe.register
def _(module: OwnNorm, plan: Plan, path: str) -> None:
    above = path.rpartition(".")[0]
    around = isinstance(plan.model.get_submodule(above), Residual)
    recorded = f"{above}.normed" if around else f"{path}.output"
    plan.add(path, "Your norm", "norm", module=module, recorded=recorded, detail=str(module.part))


@describe.register
def _(module: OwnPositions, plan: Plan, path: str) -> None:
    detail = str(module.part)
    plan.add(path, "Your positions", "positions", module=module, recorded=f"{path}.output", detail=detail)


@describe.register
def _(module: OwnPool, plan: Plan, path: str) -> None:
    plan.add(path, "Your pooling", "pool", module=module, axes=(("d", plan.width),), recorded=f"{path}.output",
             detail=str(module.part), sketch=gathered([*range(DOTS)]))  # fmt: skip


@describe.register
def _(module: FeedForward, plan: Plan, path: str) -> None:
    width, inner = plan.width, module.input.out_features
    words = "SwiGLU" if module.gate is not None else activation_name(module.activation)
    steps = f"{width} → {inner} → {width}" if module.output is not None else f"{width} → {inner}"
    detail, recorded = f"{steps}, {words}", f"{path}.output"
    plan.add(path, "Feed-forward", "feed-forward", module=module, recorded=recorded, hidden=inner, detail=detail)


def activation_name(activation: object) -> str:
    written = {"relu": "ReLU", "gelu": "GELU", "gelu-tanh": "GELU", "silu": "SiLU", "relu2": "ReLU²"}
    name = next((name for name, function in ACTIVATIONS.items() if function is activation), "")
    return written.get(name, name)


@describe.register
def _(module: Convolution, plan: Plan, path: str) -> None:
    slide = module.slide
    kernel, dilation = slide.kernel_size[0], slide.dilation[0]
    detail = f"kernel {kernel}" + (f", dilation {dilation}" if dilation > 1 else "")
    plan.add(path, "Convolution", "convolution", module=module, width=slide.out_channels, recorded=f"{path}.output",
             detail=detail, sketch=windows(kernel, dilation, module.before))  # fmt: skip


@describe.register
def _(module: Recurrent, plan: Plan, path: str) -> None:
    """A brick for each layer; its first state is its own."""
    cell = module.cell
    name, both_ways = type(cell).__name__, cell.bidirectional
    ways, names = 2 if both_ways else 1, module.state_names()
    width = (cell.proj_size or cell.hidden_size) * ways
    for layer in range(cell.num_layers):
        marks = (f"_l{layer}", f"_l{layer}_reverse")
        weights = [(key, weight) for key, weight in cell.named_parameters() if key.endswith(marks)]
        last = layer == cell.num_layers - 1
        recorded = [f"{path}.output"] if last else [f"{path}.{way['h']}" for way in names[layer]]
        first = list(module.first.named_parameters()) if layer == 0 else []
        title = f"{name} both ways" if both_ways else name
        detail = f"{width // ways} each way" if both_ways else f"state of {width}"
        detail += f", cell of {cell.hidden_size}" if cell.proj_size else ""
        detail = f"layer {layer}: {detail}" if cell.num_layers > 1 else detail
        plan.add(f"{path}.{layer}", title, "recurrent", module=module, width=width, recorded=recorded, detail=detail,
                 weights=[*weights, *((f"first.{key}", weight) for key, weight in first)],
                 sketch=chain(both_ways))  # fmt: skip


@describe.register
def _(module: MemoryAttention, plan: Plan, path: str) -> None:
    plan.add(path, "Attention", "attention", module=module, detail=f"{module.kind} scores, along the source",
             sketch=all_to_all(causal=False))  # fmt: skip


# --- the end ---


@describe.register(Pool)
@describe.register(AttentionPool)
def _(module: Pool | AttentionPool, plan: Plan, path: str) -> None:
    every, width = [*range(DOTS)], plan.width
    kind = next((name for name, function in FUNCTIONS.items() if function is getattr(module, "function", None)), "")
    title = f"Pool: {kind or 'attention'}"
    counts = {"last": every[-1:], "first": every[:1], "ends": [every[0], every[-1]]}.get(kind, every)
    tokens = plan.axes[0][1]
    axes = (("d", width),) if kind != "flatten" else (("T·d", width * tokens if tokens else None),)
    detail = POOLS.get(kind, "") if tokens != 1 else "of one vector: as it is"
    plan.add(path, title, "pool", module=module, axes=axes, recorded=f"{path}.output", detail=detail,
             sketch=gathered(counts) if tokens != 1 else None)  # fmt: skip


@describe.register
def _(module: MultilayerPerceptron, plan: Plan, path: str) -> None:
    words = activation_name(module.activation)
    for number, layer in enumerate(module.hidden):
        assert isinstance(layer, nn.Linear)
        plan.add(f"{path}.hidden.{number}", "Hidden layer", "feed-forward", module=layer, width=layer.out_features,
                 detail=f"{layer.in_features} → {layer.out_features}, {words}")  # fmt: skip
    scores(module.output, plan, f"{path}.output")


def scores(layer: nn.Linear, plan: Plan, path: str, letter: str = "out") -> None:
    """The map to what is answered."""
    axes = (*plan.axes[:-1], (letter, layer.out_features))
    detail = f"{layer.in_features} → {layer.out_features:,}"
    plan.add(path, "Scores", "head", module=layer, axes=axes, detail=detail)


@describe.register
def _(module: Bias, plan: Plan, path: str) -> None:
    plan.add(path, "Bias", "head", module=module, detail="added")


@describe.register
def _(module: UnitLength, plan: Plan, path: str) -> None:
    plan.add(path, "Length 1", "norm", module=module, detail="x / ‖x‖")


@describe.register
def _(module: Transform, plan: Plan, path: str) -> None:
    detail = f"linear map, {activation_name(module.activation)}, norm"
    plan.add(path, "Transform", "feed-forward", module=module, detail=detail)
