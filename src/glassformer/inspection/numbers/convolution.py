"""Convolutions and pooling, step by step: over a text at one token, over an image at one cell."""

from collections.abc import Mapping

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.convolution import Convolution
from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.bricks.norm import NoNorm
from glassformer.bricks.residual import Residual
from glassformer.config.arrays import Array
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.inspection.numbers.block import activation_name, applied, before_panels, linear_panel, norm_panel
from glassformer.inspection.numbers.writing import (
    Sheet,
    Vectors,
    array,
    chosen,
    grid,
    joined,
    number,
    products,
    worked,
)
from glassformer.rendering.panels import Panel
from glassformer.text.display import bare

BEYOND = "(beyond)"
"""A place of the window where no token stands."""


def slide_panels(convolution: Convolution, x: Vectors, out: Vectors, sheet: Sheet, where: str) -> list[Panel]:
    """The window around one token, what each of its places adds, and the outputs at all tokens."""
    slide = convolution.slide
    weight, gap = array(slide.weight), int(slide.dilation[0])
    places = [sheet.at + i * gap - convolution.before for i in range(weight.shape[2])]
    inside = [0 <= place < len(x) for place in places]
    names = [sheet.rows[place] if real else BEYOND for place, real in zip(places, inside, strict=True)]
    window = np.stack([x[place] if real else np.zeros(x.shape[1]) for place, real in zip(places, inside, strict=True)])
    parts = np.stack([weight[:, :, i] @ window[i] for i in range(len(window))])
    rows = [f"W_{i} {bare(name)}" for i, name in enumerate(names)]
    terms, total = parts, [number(part) for part in parts[:, 0]]
    formula = f"y_t = Σ_i W_i x_({_place(gap)} − {convolution.before})"
    if slide.bias is not None:
        bias = array(slide.bias)
        terms, rows, total = np.concatenate([parts, bias[None]]), [*rows, "b"], [*total, number(bias[0])]
        formula += " + b"
    last = max(i for i, real in enumerate(inside) if real)
    each = worked(f"(W_{last} x)₀", products(weight[0, :, last], window[last]), float(parts[last, 0]))
    sentence = worked(sheet.cell("y"), joined(*total), float(out[sheet.at, 0]))
    shown, adds = sheet.shown, "W_i x" if slide.bias is None else "W_i x, and b"
    beyond = "x around t; beyond the text zeros"
    return [
        grid(f"{where}: the window at {sheet.token}", window, names, formula=beyond, shown=shown),
        grid(f"{where}: what each place adds", terms, rows, formula=adds, worked=each, shown=shown),
        sheet.vectors(f"{where}: output", out, formula, sentence),
    ]


def _place(gap: int) -> str:
    return "t + i" if gap == 1 else f"t + {gap}i"


def active_panel(title: str, function: object, x: Vectors, out: Vectors, sheet: Sheet) -> Panel:
    """A non-linearity on every number."""
    name = activation_name(function)
    sentence = worked(sheet.cell("a"), applied(name, number(x[sheet.at, 0])), float(out[sheet.at, 0]))
    return sheet.vectors(title, out, f"a = {applied(name, 'y')}", sentence)


def cnn_panels(encoder: CnnEncoder, seen: Mapping[str, Tensor], path: str, *, layer: int, sheet: Sheet) -> list[Panel]:
    """Norm, convolution, non-linearity and residual of the chosen layer; after the last one, the last norm."""
    around, convolution = encoder.around[layer], encoder.convolutions[layer]
    assert isinstance(around, Residual)
    assert isinstance(convolution, Convolution)
    where, name = f"{path}.around.{layer}", f"Convolution {layer}"
    x, after = (array(seen[f"{where}.{part}"][0]) for part in ("input", "output"))
    read, out = (array(seen[f"{path}.convolutions.{layer}.{part}"][0]) for part in ("input", "output"))
    active = array(encoder.activation(seen[f"{path}.convolutions.{layer}.output"])[0])
    panels: list[Panel] = [sheet.vectors(f"Into layer {layer}", x, "x")]
    panels += before_panels(around, seen, where, name, sheet)
    panels += slide_panels(convolution, read, out, sheet, name)
    panels.append(active_panel(f"{name}: non-linearity", encoder.activation, out, active, sheet))
    if around.residual:
        how = joined(number(x[sheet.at, 0]), number(active[sheet.at, 0]))
        sentence = worked(sheet.cell("z"), how, float(after[sheet.at, 0]))
        panels.append(sheet.vectors(f"{name}: residual", after, "z = x + a", sentence))
    if layer == len(encoder.around) - 1 and not isinstance(encoder.norm, NoNorm):
        panels.append(norm_panel("The last norm", encoder.norm, after, array(seen[f"{path}.norm.output"][0]), sheet))
    return panels


def window_panels(
    encoder: WindowEncoder, x: Float[Tensor, "1 T d"], out: Float[Tensor, "1 T d"], sheet: Sheet
) -> list[Panel]:
    """The window's tokens side by side through the layers of an MLP; all of them are shown."""
    y = encoder.read(x)
    hidden = encoder.activation(y)
    panels = slide_panels(encoder.read, array(x[0]), array(y[0]), sheet, "Window")
    panels.append(active_panel("Hidden layer 0", encoder.activation, array(y[0]), array(hidden[0]), sheet))
    for number_, layer in enumerate(encoder.deeper, 1):
        assert isinstance(layer, nn.Linear)
        y = layer(hidden)
        name = f"Hidden layer {number_}"
        panels.append(linear_panel(f"{name}: sum", layer, array(hidden[0]), array(y[0]), sheet, ("y", "W", "a")))
        hidden = encoder.activation(y)
        panels.append(active_panel(name, encoder.activation, array(y[0]), array(hidden[0]), sheet))
    letters = ("o", "W", "a")
    return [*panels, linear_panel("Output", encoder.output, array(hidden[0]), array(out[0]), sheet, letters)]


def image_panels(cut: Patches | ConvolutionStack, pixels: Float[Tensor, "1 C H W"], cell: int | None) -> list[Panel]:
    """One output of the first convolution: the pixels under it, its weights, their product; and pooling after it."""
    if isinstance(cut, Patches):
        below, right = cut.missing
        return cell_panels(cut.map, F.pad(pixels, (0, right, 0, below)), cell, "Patch")[0]
    convolution = cut.convolutions[0]
    assert isinstance(convolution, nn.Conv2d)
    padded = F.pad(pixels, (0, cut.more, 0, cut.more)) if cut.more else pixels
    panels, (row, column) = cell_panels(convolution, padded, cell, "Convolution 0")
    active = array(F.relu(convolution(padded))[0, 0])
    if cut.pooled[0]:
        high, wide = (size // 2 for size in active.shape)
        panels.append(pool_panel(active, min(row // 2, high - 1), min(column // 2, wide - 1)))
    return panels


def cell_panels(
    convolution: nn.Conv2d, x: Float[Tensor, "1 C H W"], cell: int | None, where: str
) -> tuple[list[Panel], tuple[int, int]]:
    """At one cell of the output, row by row; None: in the middle. Gives where it lies, too."""
    out = array(convolution(x)[0, 0])
    high, wide = out.shape
    row, column = high // 2, wide // 2
    if cell is not None:
        row, column = divmod(chosen("position", cell, high * wide), wide)
    kernel, stride = convolution.kernel_size, convolution.stride
    edge = convolution.padding
    assert not isinstance(edge, str)
    padded = array(F.pad(x, (edge[1], edge[1], edge[0], edge[0]))[0])
    top, left = row * stride[0], column * stride[1]
    under = padded[:, top : top + kernel[0], left : left + kernel[1]]
    weight = array(convolution.weight[0])
    bias = None if convolution.bias is None else float(convolution.bias[0])
    how = products(weight.ravel(), under.ravel())
    sentence = worked(
        f"y({row}, {column})₀", how if bias is None else joined(how, number(bias)), float(out[row, column])
    )
    formula = (
        "y_vu = Σ_ij W_ij x_(v + i, u + j)"
        if stride[0] == 1
        else f"y_vu = Σ_ij W_ij x_({stride[0]}v + i, {stride[0]}u + j)"
    )
    formula += "" if bias is None else " + b"
    panels: list[Panel] = []
    for channel in range(len(under)):
        of = f", channel {channel}" if len(under) > 1 else ""
        panels.append(_square(f"{where}: the pixels at row {row}, column {column}{of}", under[channel], "x"))
        panels.append(_square(f"{where}: the weights of filter 0{of}", weight[channel], "W"))
    around = slice(max(0, row - 2), row + 3), slice(max(0, column - 2), column + 3)
    names = [str(one) for one in range(*around[0].indices(high))], [str(one) for one in range(*around[1].indices(wide))]
    panels.append(
        grid(f"{where}: filter 0 around that cell", out[around], names[0], formula=formula, worked=sentence,
             columns=names[1], shown=5)
    )  # fmt: skip
    return panels, (row, column)


def pool_panel(x: Float[Array, "H W"], row: int, column: int) -> Panel:
    """The largest of four."""
    four = x[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
    how = f"max({', '.join(number(one) for one in four.ravel())})"
    sentence = worked(f"p({row}, {column})₀", how, float(four.max()))
    names = [f"{2 * row + i}" for i in range(2)], [f"{2 * column + j}" for j in range(2)]
    formula = "p_vu = max of relu(y) in a square of 2 × 2"
    return grid("Pooling 0: filter 0 after relu", four, names[0], columns=names[1], formula=formula, worked=sentence)


def _square(title: str, values: Float[Array, "K K"], formula: str) -> Panel:
    high, wide = values.shape
    names = list(map(str, range(high))), list(map(str, range(wide)))
    return grid(title, values, names[0], columns=names[1], formula=formula, shown=max(wide, 1))
