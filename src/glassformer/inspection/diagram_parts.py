"""Boxes that each kind of module adds to the diagram of its model.

`describe` is a generic function of the module. Users can register a function for their own bricks; a brick without one
is a box with the name of its class.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, NamedTuple

from torch import Tensor, nn

from glassformer.bricks.attention import Attention, MemoryAttention
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.capabilities import capability
from glassformer.bricks.convolution import Convolution, ConvolutionStack, Patches
from glassformer.bricks.embedding import OneHot, WordDropout, WordVectors
from glassformer.bricks.feed_forward import ACTIVATIONS, Bias, FeedForward, MultilayerPerceptron
from glassformer.bricks.norm import BatchNorm, LayerNorm, NoNorm, Residual, RMSNorm
from glassformer.bricks.own import OwnNorm, OwnPool, OwnPositions
from glassformer.bricks.pooling import AttentionPool, Pool, UnitLength
from glassformer.bricks.positions import AddedPositions, NoPositions
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.tap import Tap
from glassformer.data.wording import counted
from glassformer.encoders.blocks import OwnAttention
from glassformer.inspection.views.registry import wording
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.modules import Transform
from glassformer.rendering.panels import Arrow, Brick, Group

Axes = tuple[tuple[str, int | None], ...]
"""Letter and length of each axis; a length of None is the number of tokens in the text."""


@dataclass
class Part:
    """A brick with its weights and the names under which `capture` records its output."""

    brick: Brick
    axes: Axes
    module: nn.Module | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Its parameters by name, including weights that are tied to an earlier brick."""
    recorded: tuple[str, ...] = ()
    """Names of its outputs, which are shown side by side. If none is recorded, the output of the module is shown."""
    guessed: bool = False
    """Whether its shape is known only after a forward pass."""


class Plan:
    """The parts, arrows and groups of a diagram, in the order in which the modules of a model add them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parts: dict[str, Part] = {}
        self.arrows: list[Arrow] = []
        self.groups: dict[str, Group] = {}
        self.lanes: list[str] = []
        self.last = ""
        """Name of the brick that the next one follows; empty at the start of a lane."""
        self._group = ""
        self._owners: dict[Tensor, str] = {}
        """The first brick that has each weight."""
        self._holders: dict[Tensor, str] = {}
        """The latest brick that has each weight."""

    @property
    def axes(self) -> Axes:
        """The axes of the last brick's output, which is the input of the next one."""
        return self.parts[self.last].axes

    @property
    def width(self) -> int:
        return self.axes[-1][1] or 1

    def start_lane(self, name: str, title: str, axes: Axes, detail: str = "", lane: str = "") -> None:
        """Start a new lane with a box for its input."""
        self.lanes.append(lane)
        self.last = ""
        self.add(name, title, "data", axes=axes, detail=detail)

    def add(
        self,
        name: str,
        title: str,
        kind: str,
        module: nn.Module | None = None,
        detail: str = "",
        *,
        width: int | None = None,
        axes: Axes | None = None,
        weights: Iterable[tuple[str, Tensor]] | None = None,
        recorded: str | Sequence[str] = "",
        hidden: int = 0,
        guessed: bool = False,
    ) -> None:
        """Add a brick below the last one.

        Its output has the axes of the last brick unless `width` or `axes` is given. `recorded` lists the names under
        which `capture` records its output, by default `NAME.output`.
        """
        if axes is None:
            before = self.axes
            counted = len(before) == 1 and before[0][1] is None  # There is only the axis of the tokens so far.
            letter = "d" if counted else before[-1][0]
            axes = before if width is None else (*(before if counted else before[:-1]), (letter, width))
        if weights is None:
            weights = () if module is None else module.named_parameters()
        own = dict(weights)
        brick = Brick(
            name=name,
            title=title,
            kind=kind,
            width=axes[-1][1] or 1 if axes else 1,
            hidden=hidden,
            parameters=sum(one.numel() for one in own.values() if self._owners.setdefault(one, name) == name),
            detail=detail,
            lane=len(self.lanes) - 1,
            group=self._group,
            code=code_of(module),
        )
        names = (recorded or f"{name}.output",) if isinstance(recorded, str) else tuple(recorded)
        self.parts[name] = Part(brick, axes, module, own, names, guessed)
        if self.last:
            self.arrow(self.last, name)
        for other in dict.fromkeys(self._holders[weight] for weight in own.values() if weight in self._holders):
            self.arrow(other, name, "tied")
        self._holders.update(dict.fromkeys(own.values(), name))
        self.last = name

    def add_vectors(
        self, name: str, title: str, module: nn.Module, detail: str, *, kind: str = "embedding", **facts: Any
    ) -> None:
        """Add a brick that maps the input to vectors."""
        self.add(name, title, kind, module, detail, recorded=f"{name}.vectors", **facts)

    def arrow(self, start: str, end: str, role: str = "flow") -> None:
        self.arrows.append(Arrow(start=start, end=end, role=role))

    def start_group(self, name: str, title: str) -> None:
        self._group = name
        self.groups[name] = Group(name=name, title=title)

    def end_group(self) -> None:
        """End the group; if its bricks look like those of the previous group, both are drawn once."""
        name, self._group = self._group, ""
        before = next((other for other in reversed(self.groups) if other != name), "")
        if before and self._looks(before) == self._looks(name):
            self.groups[name] = replace(self.groups[name], like=self.groups[before].like or before)

    def _looks(self, group: str) -> list[Brick]:
        inside = [part.brick for part in self.parts.values() if part.brick.group == group]
        return [replace(brick, name="", group="") for brick in inside]

    def unclaimed(self, module: nn.Module) -> list[tuple[str, Tensor]]:
        """Return the weights of a module that belong to no brick yet, by name."""
        return [(name, weight) for name, weight in module.named_parameters() if weight not in self._owners]


def code_of(module: nn.Module | None) -> str:
    """Return the source code of a module's `forward`, or an empty text if there is none."""
    if module is None:
        return ""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(type(module).forward)))
    except (OSError, TypeError):  # A class that was defined interactively has no source file.
        return ""


# --- boxes of modules ---

HIDDEN_MODULES = (nn.Dropout, nn.Identity, WordDropout, Tap, NoNorm, NoPositions)
"""Modules without a box: they do not change the result in evaluation mode."""
KINDS: Mapping[str, str] = wording("kinds")
"""Kind of an unknown module, by letters that its class name contains."""


LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
"""Modules that only hold other modules."""


@singledispatch
def describe(module: nn.Module, plan: Plan, path: str) -> None:
    """Add the boxes of a module to a plan.

    A module of an unknown class is a box with the name of the class and the first line of its docstring.
    """
    if isinstance(module, HIDDEN_MODULES):
        return
    name = type(module).__name__
    kind = next((kind for letters, kind in KINDS.items() if letters in name.lower()), "other")
    widths = (getattr(module, fact, None) for fact in ("width", "out_features", "embedding_dim", "hidden_size"))
    width = next((width for width in widths if isinstance(width, int)), None)
    own = "" if type(module).__module__.startswith("torch.") else (type(module).__doc__ or "").split("\n")[0]
    plan.add(path, name, kind, module, own, width=width, guessed=True)


def describe_children(module: nn.Module, plan: Plan, path: str) -> None:
    """Add each submodule in order of definition, then a box for the parameters of the module itself."""
    for name, child in module.named_children():
        visit = describe_children if isinstance(child, LISTS) else describe
        visit(child, plan, f"{path}.{name}" if path else name)
    if isinstance(module, LISTS):
        return
    if rest := plan.unclaimed(module):
        recorded = f"{path}.output" if path else "logits"
        title = f"{type(module).__name__}: its own weights"
        plan.add(f"{path or 'model'}.own", title, "other", weights=rest, recorded=recorded, guessed=True)


# --- embeddings ---


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
    title, kind, detail = describe_cut(cut)
    plan.add_vectors(path, title, cut, detail, kind=kind, axes=axes, weights=weights)


@singledispatch
def describe_cut(cut: nn.Module) -> tuple[str, str, str]:
    """Return the title, the kind and the details of a module that cuts an image into tokens."""
    raise NotImplementedError(type(cut).__name__)


@describe_cut.register
def describe_patches(cut: Patches) -> tuple[str, str, str]:
    (rows, columns), side = cut.grid, cut.side
    return "Patches", "embedding", f"{rows}×{columns} squares of {side}×{side}, each led to a vector"


@describe_cut.register
def describe_convolutions(cut: ConvolutionStack) -> tuple[str, str, str]:
    layers, (rows, columns) = [layer for layer in cut.convolutions if isinstance(layer, nn.Conv2d)], cut.grid
    channels, side = " → ".join(str(layer.out_channels) for layer in layers), layers[0].kernel_size[0]
    return "Convolutions", "convolution", f"{side}×{side}, {channels} channels, ReLU, max pooling: {rows}×{columns}"


class InputBox(NamedTuple):
    """Title and details of the box of an embedding that reads columns or images."""

    title: str
    detail: Callable[[Any], str]


def _mixed_parts(module: MixedTokens) -> str:
    parts = {"columns": module.columns, "patches": module.image, "words": module.words}
    return ", then ".join(name for name, part in parts.items() if part is not None)


INPUT_BOXES: dict[type[nn.Module], InputBox] = {
    ColumnTokens: InputBox("Column vectors", lambda module: f"a vector for each of {module.tokens} columns"),
    FlatColumns: InputBox("Columns in a row", lambda module: "numbers as they are, categories one-hot"),
    FlatPixels: InputBox("Pixels in a row", lambda module: "row by row"),
    MixedTokens: InputBox("Mixed tokens", _mixed_parts),
}


@describe.register(ColumnTokens)
@describe.register(FlatColumns)
@describe.register(FlatPixels)
@describe.register(MixedTokens)
def describe_inputs(module: ColumnTokens | FlatColumns | FlatPixels | MixedTokens, plan: Plan, path: str) -> None:
    box, axes = INPUT_BOXES[type(module)], (("T", module.tokens), ("d", module.width))
    plan.add_vectors(path, box.title, module, box.detail(module), axes=axes)


@describe.register
def describe_bag(module: BagOfWords, plan: Plan, path: str) -> None:
    rows, out = module.table.weight.shape
    weighting = "TF-IDF" if module.weighting == "tfidf" else "counts"
    runs = f", n-grams of up to {module.ngrams}" if module.ngrams > 1 else ""
    detail = f"{weighting}{runs}: the sum of {rows:,} rows' share"
    plan.add(path, "Bag of words", "embedding", module, detail, axes=(("d", out),))


# --- the parts of blocks ---


class Box(NamedTuple):
    """Title, kind and details of the box of a module that keeps the shape of its input."""

    title: str
    kind: str
    detail: Callable[[Any], str] = lambda module: ""


def _positions(module: AddedPositions) -> str:
    known = f"{module.limit:,} learned" if module.limit else "sine and cosine waves"
    return f"{known}, {'appended' if module.kind == 'onehot' else 'added'}"


def _own_name(module: OwnAttention | OwnNorm | OwnPositions) -> str:
    return str(module.part)


BOXES: dict[type[nn.Module], Box] = {
    AddedPositions: Box("Positions", "positions", _positions),
    LayerNorm: Box("Layer norm", "norm"),
    RMSNorm: Box("RMS norm", "norm"),
    BatchNorm: Box("Batch norm", "norm"),
    UnitLength: Box("Length 1", "norm", lambda module: "x / ‖x‖"),
    MemoryAttention: Box("Attention", "attention", lambda module: f"{module.kind} scores, along the source"),
    Bias: Box("Bias", "head", lambda module: "added"),
    Transform: Box(
        "Transform", "feed-forward", lambda module: f"linear map, {activation_name(module.activation)}, norm"
    ),
    OwnAttention: Box("Your attention", "attention", _own_name),
    OwnNorm: Box("Your norm", "norm", _own_name),
    OwnPositions: Box("Your positions", "positions", _own_name),
}


def describe_box(module: nn.Module, plan: Plan, path: str) -> None:
    box = next(BOXES[kind] for kind in type(module).__mro__ if kind in BOXES)
    above = path.rpartition(".")[0]
    # `capture` records the output of a norm inside a residual under the name of the residual.
    normed = capability(plan.model.get_submodule(above), Residual) is not None
    recorded = f"{above}.normed" if normed else f"{path}.output"
    plan.add(path, box.title, box.kind, module, box.detail(module), recorded=recorded)


for _kind in BOXES:
    describe.register(_kind)(describe_box)


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
    plan.add(path, title, "attention", module, detail, hidden=inner, width=width)


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
    kernel, dilation = module.slide.kernel_size[0], module.slide.dilation[0]
    detail = f"kernel {kernel}" + (f", dilation {dilation}" if dilation > 1 else "")
    plan.add(path, "Convolution", "convolution", module, detail, width=module.slide.out_channels)


@describe.register
def describe_recurrent(module: Recurrent, plan: Plan, path: str) -> None:
    """Add a brick for each layer; a learned initial state belongs to the first one."""
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
        )


# --- pools and heads ---


@describe.register(Pool)
@describe.register(AttentionPool)
def describe_pool(module: Pool | AttentionPool, plan: Plan, path: str) -> None:
    width, tokens, kind = plan.width, plan.axes[0][1], module.kind
    detail = wording("pools")[kind] if tokens != 1 else "of one vector: as it is"
    axes: Axes = (("d", width),) if kind != "flatten" else (("T·d", width * tokens if tokens else None),)
    plan.add(path, f"Pool: {kind}", "pool", module, detail, axes=axes)


@describe.register
def describe_own_pool(module: OwnPool, plan: Plan, path: str) -> None:
    plan.add(path, "Your pooling", "pool", module, str(module.part), axes=(("d", plan.width),))


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
    """Add the linear map to the scores."""
    axes = (*plan.axes[:-1], (letter, layer.out_features))
    plan.add(path, "Scores", "head", layer, f"{layer.in_features} → {layer.out_features:,}", axes=axes)
