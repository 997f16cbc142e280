"""Steps of encoders: the blocks of a Transformer, convolutions over a text or an image, recurrent layers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, MemoryAttention
from glassformer.bricks.convolution import Convolution, ConvolutionStack, Patches
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import NoNorm, Residual
from glassformer.bricks.own import OwnNorm
from glassformer.bricks.positions import OneHotPositions
from glassformer.bricks.recurrent import Hidden, Recurrent
from glassformer.config.arrays import Array
from glassformer.encoders.blocks import OwnAttention
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.numbers.steps import (
    Activations,
    Source,
    Step,
    Term,
    Vector,
    Vectors,
    activate,
    activation_name,
    added,
    affine,
    array,
    check_index,
    combine,
    grid,
    joined,
    linear,
    norm_term,
    number,
    products,
    score_panels,
    term,
    worked,
)
from glassformer.rendering.panels import Panel
from glassformer.text.display import bare

PARTS = {"attend": "Attention", "cross_attention": "Attention to the source", "feed": "Feed-forward"}
"""Parts of a block in order, with their titles; the residual around a part is named `around_PART`."""
SYMBOLS = {
    "query-key": {"queries": "W^Q", "keys": "W^K", "values": "W^V"},
    "shared": {"queries": "U", "keys": "U", "values": "U"},
    "bilinear": {"queries": "W"},
    "plain": {},
}
"""Matrices that compute queries, keys and values, by kind of scores; without a matrix they are the input vectors."""

PRIMES = ("", "′", "″")
"""Marks of queries and keys after the linear map, after a norm or a rotation, and after both."""

BEYOND = "(beyond)"
"""Name of a window position outside the text."""


def transformer_panels(encoder: TransformerEncoder, acts: Activations) -> Iterator[Panel]:
    """Yield the panels of the chosen block.

    The first block also shows the positions and the norm before it, the last block also the final norm.
    """
    block, inside = encoder.own_blocks()[acts.layer], acts.under(f"blocks.{acts.layer}")
    check_index("head", acts.head, block.attend.heads)
    if acts.layer == 0:
        x, normed = (acts[f"{name}.output"] for name in ("positions", "embed_norm"))
        yield from acts.panels(*position_steps(encoder.positions, acts.under("positions")))
        yield from acts.panels(*norm_steps("The norm before the first layer", encoder.embed_norm, x, normed, acts.at))
    yield acts.panel(Step(f"Into layer {acts.layer}", inside["input"], "x"))
    for name, title in PARTS.items():
        part, around = getattr(block, name), getattr(block, f"around_{name}")
        if part is None:
            continue
        own, outer = inside.under(name, title), inside.under(f"around_{name}", title)
        before = before_steps(around, outer)
        yield from outer.panels(*before)
        among_tokens = name == "attend"
        rotary = acts.under("rotary") if among_tokens and encoder.rotary is not None else None
        source = None if among_tokens else _source(encoder, acts)
        panels, gives = part_panels(part, own, "n" if before else "x", source, rotary)
        yield from panels
        yield from outer.panels(*after_steps(around, outer, own["output"], gives))
    if acts.layer == len(encoder.blocks) - 1:
        x, normed = inside["output"], acts["norm.output"]
        yield from acts.panels(*norm_steps("The last norm", encoder.norm, x, normed, acts.at))


@singledispatch
def part_panels(
    part: nn.Module, acts: Activations, letter: str, source: Source | None, rotary: Activations | None
) -> tuple[Iterable[Panel], str]:
    """Return the panels of a part of a block and the letter of its output; `letter` is that of its input."""
    raise NotImplementedError(type(part).__name__)


@part_panels.register
def feed_forward_part_panels(
    part: FeedForward, acts: Activations, letter: str, source: Source | None, rotary: Activations | None
) -> tuple[Iterable[Panel], str]:
    return acts.panels(*feed_forward_steps(part, acts, letter)), "a" if part.output is None else "f"


@part_panels.register
def attention_part_panels(
    part: Attention, acts: Activations, letter: str, source: Source | None, rotary: Activations | None
) -> tuple[Iterable[Panel], str]:
    return attention_panels(part, acts, letter, source, rotary), "c" if part.output is None else "o"


@part_panels.register
def own_part_panels(
    part: OwnAttention, acts: Activations, letter: str, source: Source | None, rotary: Activations | None
) -> tuple[Iterable[Panel], str]:
    return [acts.panel(Step(str(part.part), acts["output"], "o"))], "o"


def _source(encoder: TransformerEncoder, acts: Activations) -> Source | None:
    """Return the source with the memory that the chosen block attends to; None if there is no source."""
    memory = encoder.memory_of(None if acts.source is None else acts.source.memory, acts.layer)
    return None if acts.source is None or memory is None else acts.source._replace(memory=memory)


def position_steps(positions: nn.Module, acts: Activations) -> list[Step]:
    """Return the steps of the positions; none if the model adds no position vectors."""
    if f"{acts.path}.vectors" not in acts.seen:
        return []
    places, total = array(acts.tensor("vectors")), acts["output"]
    both = combine(
        "{word} + {place}", word=acts.first("word vector", total - places), place=acts.first("place", places)
    )
    of_places = "a vector for each place t"
    if isinstance(positions, OneHotPositions):
        of_places = "W_2 one-hot of t"
        both = Term("W [word vector; one-hot of t] = W_1 word vector + W_2 one-hot", both.numbers)
    return [Step("Places", places, of_places), Step("Words and places", total, "x", both)]


def feed_forward_steps(feed: FeedForward, acts: Activations, letter: str) -> Iterator[Step]:
    """Yield the hidden layer after its activation function, and the output if there is an output map."""
    x, active = acts["input"][acts.at], acts["active"]
    hidden = activate(activation_name(feed.activation), linear(f"W₁ {letter}", feed.input, x, bias_letter="b₁"))
    if feed.gate is not None:
        gate = linear(f"W₃ {letter}", feed.gate, x, bias_letter="b₃")
        hidden = combine("{hidden} ⊙ ({gate})", hidden=hidden, gate=gate)
    yield Step("hidden layer", active, "a", hidden)
    if feed.output is not None:
        yield Step("output", acts["output"], "f", linear("W₂ a", feed.output, active[acts.at]))


def before_steps(around: Residual, acts: Activations) -> list[Step]:
    """Return the step of the norm before a part (pre-norm), or no step for post-norm."""
    return norm_steps("the norm before it", around.norm, acts["input"], acts["normed"], acts.at) if around.pre else []


def after_steps(around: Residual, acts: Activations, out: Vectors, letter: str) -> list[Step]:
    """Return the step of the residual, and for post-norm that of the norm; `letter` denotes the part's output."""
    x, after, steps = acts["input"], acts["output"], []
    total = x + out if around.residual else out
    if around.residual:
        both = combine("{x} + {out}", x=acts.first("x", x), out=acts.first(letter, out)).where("x what came in")
        steps.append(Step("residual", after if around.pre else total, "y", both))
    return steps if around.pre else steps + norm_steps("the norm after it", around.norm, total, after, acts.at, "y")


def norm_steps(title: str, norm: nn.Module, x: Vectors, normed: Vectors, at: int, letter: str = "x") -> list[Step]:
    """Return the step of a norm, or no step if there is no norm."""
    return steps_of_norm(norm, title, x[at], normed, letter)


@singledispatch
def steps_of_norm(norm: nn.Module, title: str, x: Vector, normed: Vectors, letter: str) -> list[Step]:
    """Return the step of a norm, worked out for the vector `x`."""
    return [Step(title, normed, "n", norm_term(norm, x, letter))]


@steps_of_norm.register
def steps_of_no_norm(norm: NoNorm, title: str, x: Vector, normed: Vectors, letter: str) -> list[Step]:
    return []


@steps_of_norm.register
def steps_of_own_norm(norm: OwnNorm, title: str, x: Vector, normed: Vectors, letter: str) -> list[Step]:
    return [Step(f"{title}: {norm.part}", normed, "n")]


# --- attention ---


def attention_panels(
    attention: Attention,
    acts: Activations,
    letter: str,
    source: Source | None = None,
    rotary: Activations | None = None,
) -> Iterator[Panel]:
    """Yield the panels of attention: the chosen head from queries to its output, then all heads.

    `letter` denotes the input vectors. `source` is the text to attend to in cross-attention; None in self-attention.
    `rotary` has the angles of rotary positions; None without them. Keys and values are worked out for the token that
    has the largest weight.
    """
    head = acts.head
    pair = head * attention.kv_heads // attention.heads
    queries, scores, weights, mixed = (acts[name][head] for name in ("queries", "scores", "weights", "mixed"))
    keys, values = (acts[name][pair] for name in ("keys", "values"))
    at, best = acts.at, int(np.argmax(weights[acts.at]))
    looking = replace(acts, title=f"{acts.title}, head {head}")
    looked_at = looking.beside(acts.tokens if source is None else source.tokens, best)
    primes = PRIMES[(attention.query_norm is not None) + (rotary is not None)]
    score = Term(f"q{primes} · k{primes}", f"({products(queries[at], keys[best])})")
    if attention.scale != 1.0:
        score = Term(f"{score.letters} / √d_k", f"{score.numbers} / √{queries.shape[1]}")
    real = scores[at] > -np.inf
    found = Term("Σ α v, over the tokens looked at", products(weights[at][real], values[real, 0]))
    joined = array(acts.tensor("mixed")[0].transpose(0, 1).flatten(1))
    yield from looking.panels(*_side(attention, looking, "queries", letter, None, rotary))
    yield from looked_at.panels(*_side(attention, looked_at, "keys", letter, source, rotary))
    yield from looked_at.panels(*_side(attention, looked_at, "values", letter, source))
    yield from score_panels(looking, looked_at, scores, weights, score)
    yield looking.panel(Step("what the head found", mixed, "c", found))
    yield acts.panel(Step("all heads side by side", joined, "c = [c of head 0; head 1; …]"))
    if attention.output is not None:
        yield acts.panel(Step("projected", acts["output"], "o", linear("W^O c", attention.output, joined[at])))


def _side(
    attention: Attention,
    acts: Activations,
    what: str,
    letter: str,
    source: Source | None,
    rotary: Activations | None = None,
) -> Iterator[Step]:
    """Yield the steps to the queries, keys or values of one head: the linear map, the norm and the rotation, if any."""
    at, name, head, note = acts.at, what[0], acts.head, ""
    shared = attention.query if attention.scores == "shared" else None
    layer = {"queries": attention.query, "keys": attention.key, "values": attention.value}[what] or shared
    norm = {"queries": attention.query_norm, "keys": attention.key_norm}.get(what)
    if what != "queries" and attention.heads > attention.kv_heads:
        group = attention.heads // attention.kv_heads
        head //= group
        note = f"Heads {head * group} to {head * group + group - 1} share them."
    read, letter = (acts.tensor("input"), letter) if source is None else (source.memory.states, "m")
    x, width = array(read[0]), attention.head_width
    mapped = (read if layer is None else layer(read)).view(len(x), -1, width)[:, head]
    values = array(mapped)
    if layer is None:
        yield Step(what, values, f"{name} = {letter}, this head's part", note=note)
    else:
        product = f"{SYMBOLS[attention.scores][what]} {letter}"
        yield Step(what, values, name, linear(product, layer, x[at], row=head * width), note)
    if norm is not None:
        by_norm = norm_term(norm, values[at], name)
        name, values = f"{name}′", array(norm(mapped))
        yield Step(f"{what}, normed", values, name, by_norm)
    if rotary is not None:
        half, new = width // 2, f"{name}′".replace("′′", "″")
        cos, sin = (number(array(rotary.tensor(wave))[at, 0]) for wave in ("cos", "sin"))
        turned = Term(
            f"{name}_i · cos tθ_i − {name}_(i+{half}) · sin tθ_i, at position t",
            f"{number(values[at, 0])}·{cos} − {number(values[at, half])}·{sin}",
        )
        pair = f"{new}_(i+{half}) = {name}_(i+{half}) · cos tθ_i + {name}_i · sin tθ_i"
        note = f"Numbers i and i+{half} are a pair: {pair}."
        yield Step(f"{what}, turned by their position", acts[what][head], f"{new}_i", turned, note)


def slide_panels(convolution: Convolution, x: Vectors, out: Vectors, acts: Activations) -> Iterator[Panel]:
    """Yield the window around the chosen token, the contribution of each position, and the outputs at all tokens."""
    slide, before = convolution.slide, convolution.before
    weight, gap = array(slide.weight), int(slide.dilation[0])
    places = [acts.at + i * gap - before for i in range(weight.shape[2])]
    real = [0 <= place < len(x) for place in places]
    names = [acts.tokens[place] if there else BEYOND for place, there in zip(places, real, strict=True)]
    window = np.stack([x[place] if there else np.zeros(x.shape[1]) for place, there in zip(places, real, strict=True)])
    parts = np.stack([weight[:, :, i] @ window[i] for i in range(len(window))])
    rows, formula = [f"W_{i} {bare(name)}" for i, name in enumerate(names)], "W_i x"
    last = max(i for i, there in enumerate(real) if there)
    each = worked(f"(W_{last} x)₀", products(weight[0, :, last], window[last]), float(parts[last, 0]))
    place = "t + i" if gap == 1 else f"t + {gap}i"
    total = Term(f"Σ_i W_i x_({place} − {before})", joined([number(part) for part in parts[:, 0]]))
    if slide.bias is not None:
        bias = array(slide.bias)
        parts, rows, formula = np.concatenate([parts, bias[None]]), [*rows, "b"], "W_i x, and b"
        total = combine("{total} + {b}", total=total, b=term("b", bias[0]))
    yield acts.beside(names).panel(Step(f"the window at {acts.token}", window, "x around t; beyond the text zeros"))
    yield grid(f"{acts.title}: what each place adds", parts, rows, formula=formula, worked=each, shown=acts.shown)
    yield acts.panel(Step("output", out, "y_t", total))


def activation_panel(title: str, function: Callable[[Tensor], Tensor], x: Vectors, acts: Activations) -> Panel:
    """Return the panel of an activation function that is applied to every number."""
    out = array(function(torch.from_numpy(x)))
    return acts.panel(Step(title, out, "a", activate(activation_name(function), acts.first("y", x))))


def cnn_panels(encoder: CnnEncoder, acts: Activations) -> Iterator[Panel]:
    """Yield the panels of the chosen layer: norm, convolution, activation function and residual.

    The last layer also shows the final norm.
    """
    around, convolution = encoder.around[acts.layer], encoder.convolutions[acts.layer]
    assert isinstance(around, Residual)
    assert isinstance(convolution, Convolution)
    outer = acts.under(f"around.{acts.layer}", f"Convolution {acts.layer}")
    inner = acts.under(f"convolutions.{acts.layer}", outer.title)
    x, after = outer["input"], outer["output"]
    yield acts.panel(Step(f"Into layer {acts.layer}", x, "x"))
    yield from outer.panels(*before_steps(around, outer))
    yield from slide_panels(convolution, inner["input"], inner["output"], inner)
    yield activation_panel("non-linearity", encoder.activation, inner["output"], inner)
    if around.residual:
        active = encoder.activation(inner.tensor("output"))[0]
        both = combine("{x} + {a}", x=acts.first("x", x), a=acts.first("a", array(active)))
        yield outer.panel(Step("residual", after, "z", both))
    if acts.layer == len(encoder.around) - 1:
        yield from acts.panels(*norm_steps("The last norm", encoder.norm, after, acts["norm.output"], acts.at))


def window_panels(encoder: WindowEncoder, acts: Activations) -> Iterator[Panel]:
    """Yield the panels of a window encoder: the concatenated window, then all layers of its MLP."""
    y = encoder.read(acts.tensor("input"))
    yield from slide_panels(encoder.read, acts["input"], array(y[0]), replace(acts, title="Window"))
    yield activation_panel("Hidden layer 0", encoder.activation, array(y[0]), acts)
    for place, deeper in enumerate(encoder.deeper, 1):
        assert isinstance(deeper, nn.Linear)
        hidden = encoder.activation(y)
        y, total = deeper(hidden), linear("W a", deeper, array(hidden[0, acts.at]))
        yield acts.panel(Step(f"Hidden layer {place}: sum", array(y[0]), "y", total))
        yield activation_panel(f"Hidden layer {place}", encoder.activation, array(y[0]), acts)
    last = array(encoder.activation(y)[0, acts.at])
    yield acts.panel(Step("Output", acts["output"], "o", linear("W a", encoder.output, last)))


# --- images ---


@singledispatch
def convolutions_in(cut: nn.Module) -> ConvolutionStack | None:
    """Return the convolutional layers that cut an image into tokens; None for patches."""
    return None


@convolutions_in.register
def convolutions_in_stack(cut: ConvolutionStack) -> ConvolutionStack:
    return cut


@singledispatch
def image_panels(cut: nn.Module, pixels: Float[Tensor, "1 C H W"], cell: int | None) -> list[Panel]:
    """Return the panels of one output of the first convolution: its pixels, weights, products and any pooling.

    `cell` is the output's index in row-major order; None for the one in the middle.
    """
    raise NotImplementedError(type(cut).__name__)


@image_panels.register
def patch_panels(cut: Patches, pixels: Float[Tensor, "1 C H W"], cell: int | None) -> list[Panel]:
    below, right = cut.missing
    return cell_panels(cut.map, F.pad(pixels, (0, right, 0, below)), cell, "Patch")[0]


@image_panels.register
def convolution_panels(cut: ConvolutionStack, pixels: Float[Tensor, "1 C H W"], cell: int | None) -> list[Panel]:
    convolution = cut.convolutions[0]
    assert isinstance(convolution, nn.Conv2d)
    padded = F.pad(pixels, (0, cut.more, 0, cut.more))
    panels, (row, column) = cell_panels(convolution, padded, cell, "Convolution 0")
    active = array(F.relu(convolution(padded))[0, 0])
    if cut.pooled[0]:
        high, wide = (size // 2 for size in active.shape)
        panels.append(pool_panel(active, min(row // 2, high - 1), min(column // 2, wide - 1)))
    return panels


def cell_panels(
    convolution: nn.Conv2d, x: Float[Tensor, "1 C H W"], cell: int | None, where: str
) -> tuple[list[Panel], tuple[int, int]]:
    """Return the panels of one cell of the output, and its row and column.

    `cell` is the index in row-major order; None for the cell in the middle.
    """
    out = array(convolution(x)[0, 0])
    high, wide = out.shape
    row, column = high // 2, wide // 2
    if cell is not None:
        row, column = divmod(check_index("position", cell, high * wide), wide)
    kernel, stride, edge = convolution.kernel_size, convolution.stride, convolution.padding
    assert not isinstance(edge, str)
    padded = array(F.pad(x, (edge[1], edge[1], edge[0], edge[0]))[0])
    top, left = row * stride[0], column * stride[1]
    corner = (top - edge[0], left - edge[1])  # Coordinates in the image, without padding.
    under = padded[:, top : top + kernel[0], left : left + kernel[1]]
    weight = array(convolution.weight[0])
    pixels = "x, and zeros outside the image" if any(edge) else "x"
    panels: list[Panel] = []
    for channel in range(len(under)):
        of = f", channel {channel}" if len(under) > 1 else ""
        panels += [
            _square(f"{where}: the pixels at row {row}, column {column}{of}", under[channel], pixels, corner=corner),
            _square(f"{where}: the weights of filter 0{of}", weight[channel], "W"),
        ]
    inputs = ", ".join(_input_index(*each) for each in zip("vu", "ij", stride, edge, strict=True))
    bias = None if convolution.bias is None else float(convolution.bias[0])
    y = affine(f"Σ_ij W_ij x_({inputs})", weight.ravel(), under.ravel(), bias)
    sentence = worked(f"y({row}, {column})₀", y.numbers, float(out[row, column]))
    above, before = max(0, row - 2), max(0, column - 2)
    around = out[above : row + 3, before : column + 3]
    title, formula = f"{where}: filter 0 around that cell", f"y_vu = {y.letters}"
    return [*panels, _square(title, around, formula, sentence, (above, before))], (row, column)


def _input_index(cell: str, place: str, stride: int, padding: int) -> str:
    """Return the row or column of the image under one weight: `2v + i − 1`."""
    index = f"{cell} + {place}" if stride == 1 else f"{stride}{cell} + {place}"
    return f"{index} − {padding}" if padding else index


def pool_panel(x: Float[Array, "H W"], row: int, column: int) -> Panel:
    """Return the panel of max pooling at one cell of the pooled output."""
    top, left = 2 * row, 2 * column
    four = x[top : top + 2, left : left + 2]
    how = f"max({', '.join(number(value) for value in four.ravel())})"
    sentence = worked(f"p({row}, {column})₀", how, float(four.max()))
    formula = "p_vu = max of relu(y) in a square of 2 × 2"
    return _square("Pooling 0: filter 0 after relu", four, formula, sentence, (top, left))


def _square(
    title: str, values: Float[Array, "H W"], formula: str, sentence: str = "", corner: tuple[int, int] = (0, 0)
) -> Panel:
    """Return a grid of a matrix; `corner` holds the numbers of its first row and column."""
    rows, columns = ([str(first + i) for i in range(size)] for first, size in zip(corner, values.shape, strict=True))
    return grid(title, values, rows, formula=formula, worked=sentence, columns=columns, shown=len(columns))


class Gate(NamedTuple):
    """A gate `f(W x + U h + b)` of a recurrent cell."""

    symbol: str
    title: str
    function: str


class CellStep(NamedTuple):
    """A later step of a cell: vectors by name, and the formula of the last one with names in braces."""

    title: str
    rows: tuple[str, ...]
    symbol: str
    formula: str


class Cell(NamedTuple):
    """The computation of a recurrent cell at one token."""

    gates: tuple[Gate, ...]
    """Gates in the order of their rows in the weight matrices."""
    steps: tuple[CellStep, ...] = ()


LSTM_GATES = (
    Gate("i", "i, let in", "σ"),
    Gate("f", "f, keep", "σ"),
    Gate("g", "g, candidate", "tanh"),
    Gate("o", "o, let out", "σ"),
)
LSTM_CELL = CellStep("the cell", ("f", "c before", "i", "g", "c"), "c_t", "{f} ⊙ {c before} + {i} ⊙ {g}")
GRU_GATES = (Gate("r", "r, what counts of the past", "σ"), Gate("z", "z, keep", "σ"))
GRU_STATE = CellStep("the new state", ("z", "n", "h before", "h"), "h_t", "(1 − {z}) ⊙ {n} + {z} ⊙ {h before}")


def cell_of(cell: nn.RNNBase, from_x: str, from_h: str) -> Cell:
    """Return the gates and steps of a cell.

    `from_x` and `from_h` name the two sums of a GRU's candidate, such as `W x + b` and `U h + b′`.
    """
    if isinstance(cell, nn.GRU):
        candidate = f"tanh({{{from_x}}} + {{r}} ⊙ ({{{from_h}}}))"
        return Cell(GRU_GATES, (CellStep("n, candidate", (from_x, from_h, "r", "n"), "n", candidate), GRU_STATE))
    if not isinstance(cell, nn.LSTM):
        return Cell((Gate("h_t", "the new state", str(cell.nonlinearity)),))
    if not cell.proj_size:
        return Cell(LSTM_GATES, (LSTM_CELL, CellStep("the new state", ("o", "tanh c", "h"), "h_t", "{o} ⊙ {tanh c}")))
    out = CellStep("what it lets out", ("o", "tanh c", "u"), "u", "{o} ⊙ {tanh c}")
    return Cell(LSTM_GATES, (LSTM_CELL, out, CellStep("the new state", ("h",), "h_t", "{W_hr u}")))


def cell_steps(
    cell: nn.RNNBase, weights: Mapping[str, Array], acts: Activations, x: Vector, first: Sequence[Vector], *, back: bool
) -> Iterator[Step]:
    """Yield the steps of a cell at the chosen token: its input, the previous state, the gates and the new state.

    `first` holds h (and c of an LSTM) before the first token. `back` marks the backward direction.
    """
    at, t = acts.at, "(t+1)" if back else "(t−1)"
    last = at + 1 if back else at - 1

    def before(name: str, start: Vector) -> Vector:
        states = acts[name]
        return states[last] if 0 <= last < len(states) else start

    h = before("states", first[0])
    yield Step("what it reads", {"x": x}, f"x, the vector of {acts.token}")
    yield Step("what it remembers", {"h before": h}, f"h_{t}, the state at the token read before")
    letters = {nn.LSTM: "ifgo", nn.GRU: "rzn"}.get(type(cell), "")
    values = {letter: acts[f"gates.{letter}"][at] for letter in letters}
    values |= {"h before": h, "h": acts["states"][at]}
    terms = {name: term(name, vector[0]) for name, vector in values.items()} | {"h before": term(f"h_{t}", h[0])}
    if isinstance(cell, nn.LSTM):
        c, new = before("cells", first[1]), acts["cells"][at]
        values |= {"c before": c, "c": new, "tanh c": np.tanh(new), "u": values["o"] * np.tanh(new)}
        terms |= {"c before": term(f"c_{t}", c[0]), "tanh c": Term("tanh c_t", f"tanh({number(new[0])})")}
    if "weight_hr" in weights:
        terms["W_hr u"] = Term("W_hr u", products(weights["weight_hr"][0], values["u"]))
    zeros = np.zeros(len(weights["weight_ih"]))
    parts = (weights["weight_ih"], weights["weight_hh"], weights.get("bias_ih", zeros), weights.get("bias_hh", zeros))
    maps = list(zip(*(np.split(part, max(1, len(letters))) for part in parts), strict=True))
    from_x = "W x + b" if "bias_ih" in weights else "W x"
    from_h = "U h + b′" if "bias_hh" in weights else "U h"
    table = cell_of(cell, from_x, from_h)
    for gate, (w, u, b_x, b_h) in zip(table.gates, maps, strict=False):
        letter, bias = gate.symbol[0], b_x + b_h
        index = f"_{letter}" if letters else ""
        rows = {"W x": w @ x, "U h": u @ h, **({"b": bias} if cell.bias else {})}
        rows |= {"sum": w @ x + u @ h + bias, letter: values[letter]}
        past = affine(f"U{index} h_{t}", u[0], h, bias[0] if cell.bias else None, f"b{index}")
        total = combine("{x} + {past}", x=Term(f"W{index} x", products(w[0], x)), past=past)
        yield Step(gate.title, rows, gate.symbol, activate(gate.function, total))
    if isinstance(cell, nn.GRU):
        w, u, b_x, b_h = maps[2]
        values |= {from_x: w @ x + b_x, from_h: u @ h + b_h}
        terms |= {
            from_x: affine("W_n x", w[0], x, b_x[0] if "bias_ih" in weights else None, "b_n"),
            from_h: affine(f"U_n h_{t}", u[0], h, b_h[0] if "bias_hh" in weights else None, "b′_n"),
        }
    for row in table.steps:
        yield Step(row.title, {name: values[name] for name in row.rows}, row.symbol, combine(row.formula, **terms))


def layer_panels(layers: Recurrent, acts: Activations, x: Float[Tensor, "T i"], first: Hidden) -> Iterator[Panel]:
    """Yield the steps of the chosen layer at the chosen token, for each direction.

    `x` is the input of the first layer; `first` holds the initial states of all layers.
    """
    cell, layer = layers.cell, acts.layer
    ways = {"": ", forwards", ".back": ", backwards"} if cell.bidirectional else {"": ""}
    for below in range(layer):
        x = torch.cat([acts.tensor(f"layers.{below}{way}.states")[0] for way in ways], -1)
    for place, (way, direction) in enumerate(ways.items(), layer * len(ways)):
        here = acts.under(f"layers.{layer}{way}", f"Layer {layer}{direction}")
        ending = f"_l{layer}_reverse" if way else f"_l{layer}"
        weights = {
            name.removesuffix(ending): array(weight)
            for name, weight in cell.named_parameters()
            if name.endswith(ending)
        }
        start = [array(state[place, 0]) for state in first]
        yield from here.panels(*cell_steps(cell, weights, here, array(x[acts.at]), start, back=bool(way)))


def recurrent_panels(encoder: RecurrentEncoder, acts: Activations) -> Iterator[Panel]:
    return layer_panels(encoder.layers, acts, acts.tensor("input")[0], encoder.layers.init_state(1))


def decoder_panels(decoder: RecurrentDecoder, acts: Activations) -> Iterator[Panel]:
    """Yield the panels of a recurrent decoder: initial state, one step, and attention to the source if it has any."""
    assert acts.source is not None
    memory = acts.source.memory
    x, out = acts.tensor("input")[0], acts.tensor("output")[0]
    first, summary = decoder.first(memory), array(decoder.summary(*memory))
    bridge, start = decoder.bridges[0], array(first[0][:, 0])
    assert isinstance(bridge, nn.Linear)
    yield acts.panel(Step("The source in one vector", {"s": summary[0]}, "s, a summary of the source"))
    by_layer = acts.beside([f"layer {place}" for place in range(len(start))])
    yield by_layer.panel(Step("The first state", start, "h", activate("tanh", linear("W s", bridge, summary[0]))))
    if decoder.input_feeding:
        x = torch.cat([x, torch.cat([torch.zeros_like(out[:1]), out[:-1]])], -1)
        fed = "Each input is [word vector; the last output]."
        yield acts.panel(Step("What the first layer reads", array(x), "[x; o_(t−1)]", note=fed))
    yield from layer_panels(decoder.layers, acts, x, first)
    if decoder.attention is not None and decoder.join is not None:
        yield from memory_attention_panels(decoder.attention, decoder.join, acts, acts.source)


def memory_attention_panels(
    attention: MemoryAttention, join: nn.Linear, acts: Activations, source: Source
) -> Iterator[Panel]:
    """Yield the panels of a recurrent decoder's attention.

    They show the query, keys, scores, weights and context, and the output computed from state and context.
    """
    memory, mask = source.memory
    states, scores = acts.tensor("layers.output"), acts.tensor("attention.scores")
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
    context = array((acts.tensor("attention.weights") @ memory)[0])
    q, m, y, p = array(states[0]), array(memory[0]), array(scores[0]), acts["attention.weights"]
    at, best = acts.at, int(np.argmax(p[acts.at]))
    looking = replace(acts, title="Attention to the source")
    looked_at = looking.beside(source.tokens, best)
    yield looking.panel(Step("queries", q, "q = h, the state"))
    yield looked_at.panel(Step("memory", m, "m, what the encoder made of the source"))
    score = Term("q · m", f"({products(q[at], m[best])})")
    if attention.kind == "scaled":
        score = Term("q · m / √d", f"{score.numbers} / √{q.shape[1]}")
    if attention.bilinear is not None:
        mapped = array(attention.bilinear(states)[0])
        yield looking.panel(Step("queries mapped", mapped, "q′", linear("W q", attention.bilinear, q[at])))
        score = Term("q′ · m", f"({products(mapped[at], m[best])})")
    if attention.of_query is not None and attention.of_memory is not None:
        a, k = array(attention.of_query(states)[0]), array(attention.of_memory(memory)[0])
        yield looking.panel(Step("queries mapped", a, "a", linear("W q", attention.of_query, q[at])))
        yield looked_at.panel(Step("keys", k, "k", linear("U m", attention.of_memory, m[best])))
        score = Term("a · k / √d, a = W q, k = U m", f"({products(a[at], k[best])}) / √{k.shape[1]}")
    if attention.total is not None:
        v = array(attention.total.weight[0])
        sums = zip(v.tolist(), a[at].tolist(), k[best].tolist(), strict=True)
        terms = [f"{number(weight)}·tanh({added([number(query), number(key)])})" for weight, query, key in sums]
        score = Term("v · tanh(a + k), a = W q + b, k = U m", added(terms))
    both = np.concatenate([q[at], context[at]])
    yield from score_panels(looking, looked_at, y, p, score)
    yield looking.panel(Step("what was found", context, "c", Term("Σ α m, over the source", products(p[at], m[:, 0]))))
    joined = activate("tanh", linear("W [h; c]", join, both))
    yield acts.panel(Step("State and source joined", acts["output"], "o", joined))
