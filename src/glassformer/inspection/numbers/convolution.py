"""Convolutions and pooling, step by step: over a text at one token, over an image at one cell."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.convolution import Convolution, ConvolutionStack, Patches
from glassformer.bricks.norm import Residual
from glassformer.config.arrays import Array
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.inspection.numbers.steps import (
    Activations,
    Step,
    Term,
    Vectors,
    activate,
    activation_name,
    affine,
    array,
    check_index,
    combine,
    grid,
    joined,
    linear,
    number,
    products,
    term,
    worked,
)
from glassformer.inspection.numbers.transformer import before_steps, norm_steps
from glassformer.rendering.panels import Panel
from glassformer.text.display import bare

BEYOND = "(beyond)"
"""A place of the window where no token stands."""


def slide_panels(convolution: Convolution, x: Vectors, out: Vectors, acts: Activations) -> Iterator[Panel]:
    """The window around one token, what each of its places adds, and the outputs at all tokens."""
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


def activation_step(title: str, function: object, x: Vectors, out: Vectors, acts: Activations) -> Step:
    """A non-linearity on every number."""
    return Step(title, out, "a", activate(activation_name(function), acts.first("y", x)))


def cnn_panels(encoder: CnnEncoder, acts: Activations) -> Iterator[Panel]:
    """Norm, convolution, non-linearity and residual of the chosen layer; after the last one, the last norm."""
    around, convolution = encoder.around[acts.layer], encoder.convolutions[acts.layer]
    assert isinstance(around, Residual)
    assert isinstance(convolution, Convolution)
    outer = acts.under(f"around.{acts.layer}", f"Convolution {acts.layer}")
    inner = acts.under(f"convolutions.{acts.layer}", outer.title)
    x, out, after = outer["input"], inner["output"], outer["output"]
    active = array(encoder.activation(inner.tensor("output"))[0])
    yield acts.panel(Step(f"Into layer {acts.layer}", x, "x"))
    yield from outer.panels(*before_steps(around, outer))
    yield from slide_panels(convolution, inner["input"], out, inner)
    yield inner.panel(activation_step("non-linearity", encoder.activation, out, active, inner))
    if around.residual:
        both = combine("{x} + {a}", x=acts.first("x", x), a=acts.first("a", active))
        yield outer.panel(Step("residual", after, "z", both))
    if acts.layer == len(encoder.around) - 1:
        yield from acts.panels(*norm_steps("The last norm", encoder.norm, after, acts["norm.output"], acts.at))


def window_panels(encoder: WindowEncoder, acts: Activations) -> Iterator[Panel]:
    """The window's tokens side by side through the layers of an MLP; all of them are shown."""
    y = encoder.read(acts.tensor("input"))
    yield from slide_panels(encoder.read, acts["input"], array(y[0]), replace(acts, title="Window"))
    hidden = encoder.activation(y)
    yield acts.panel(activation_step("Hidden layer 0", encoder.activation, array(y[0]), array(hidden[0]), acts))
    for place, deeper in enumerate(encoder.deeper, 1):
        assert isinstance(deeper, nn.Linear)
        y, total = deeper(hidden), linear("W a", deeper, array(hidden[0, acts.at]))
        yield acts.panel(Step(f"Hidden layer {place}: sum", array(y[0]), "y", total))
        hidden = encoder.activation(y)
        title = f"Hidden layer {place}"
        yield acts.panel(activation_step(title, encoder.activation, array(y[0]), array(hidden[0]), acts))
    yield acts.panel(Step("Output", acts["output"], "o", linear("W a", encoder.output, array(hidden[0, acts.at]))))


# --- images ---


def image_panels(cut: Patches | ConvolutionStack, pixels: Float[Tensor, "1 C H W"], cell: int | None) -> list[Panel]:
    """One output of the first convolution: the pixels under it, its weights, their product; and pooling after it."""
    if isinstance(cut, Patches):
        below, right = cut.missing
        return cell_panels(cut.map, F.pad(pixels, (0, right, 0, below)), cell, "Patch")[0]
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
    """The panels of one cell of the output, counted row by row (None: the one in the middle), and where it lies."""
    out = array(convolution(x)[0, 0])
    high, wide = out.shape
    row, column = high // 2, wide // 2
    if cell is not None:
        row, column = divmod(check_index("position", cell, high * wide), wide)
    kernel, stride, edge = convolution.kernel_size, convolution.stride, convolution.padding
    assert not isinstance(edge, str)
    padded = array(F.pad(x, (edge[1], edge[1], edge[0], edge[0]))[0])
    top, left = row * stride[0], column * stride[1]
    corner = (top - edge[0], left - edge[1])  # coordinates in the image, without padding
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
    """The largest of four."""
    top, left = 2 * row, 2 * column
    four = x[top : top + 2, left : left + 2]
    how = f"max({', '.join(number(value) for value in four.ravel())})"
    sentence = worked(f"p({row}, {column})₀", how, float(four.max()))
    formula = "p_vu = max of relu(y) in a square of 2 × 2"
    return _square("Pooling 0: filter 0 after relu", four, formula, sentence, (top, left))


def _square(
    title: str, values: Float[Array, "H W"], formula: str, sentence: str = "", corner: tuple[int, int] = (0, 0)
) -> Panel:
    """Draw a matrix whose first row and column have the numbers of `corner`."""
    rows, columns = ([str(first + i) for i in range(size)] for first, size in zip(corner, values.shape, strict=True))
    return grid(title, values, rows, formula=formula, worked=sentence, columns=columns, shown=len(columns))
