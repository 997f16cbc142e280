"""A Transformer's block, step by step: attention, feed-forward, and around each of them residual and norm."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn

from glassformer.bricks.activation import ACTIVATIONS
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import BatchNorm, LayerNorm, NoNorm, RMSNorm
from glassformer.bricks.positions import OneHotPositions
from glassformer.bricks.residual import Residual
from glassformer.encoders.transformer import Block, TransformerEncoder
from glassformer.inspection.numbers.attention import head_panels, one_head
from glassformer.inspection.numbers.writing import Sheet, Vectors, array, joined, linear, number, worked
from glassformer.rendering.panels import Panel


def transformer_panels(
    encoder: TransformerEncoder,
    seen: Mapping[str, Tensor],
    path: str,
    *,
    layer: int,
    head: int,
    sheet: Sheet,
    memory: Tensor | None = None,
    source: Sheet | None = None,
) -> list[Panel]:
    """Positions and their norm before the first block, the chosen block, and the last norm after the last one."""
    where = f"{path}.blocks.{layer}"
    panels: list[Panel] = []
    if layer == 0:
        onehot = isinstance(encoder.positions, OneHotPositions)
        panels += position_panels(seen, f"{path}.positions", sheet, onehot=onehot)
        if not isinstance(encoder.embed_norm, NoNorm):
            x, normed = (array(seen[f"{path}.{name}.output"][0]) for name in ("positions", "embed_norm"))
            panels.append(norm_panel("The norm before the first layer", encoder.embed_norm, x, normed, sheet))
    rotary = None if encoder.rotary is None else f"{path}.rotary"
    block = encoder.own_blocks()[layer]
    panels.append(sheet.vectors(f"Into layer {layer}", array(seen[f"{where}.input"][0]), "x"))
    panels += block_panels(block, seen, where, head=head, sheet=sheet, memory=memory, source=source, rotary=rotary)
    if layer == len(encoder.blocks) - 1 and not isinstance(encoder.norm, NoNorm):
        x, normed = (array(seen[f"{path}.{name}"][0]) for name in (f"blocks.{layer}.output", "norm.output"))
        panels.append(norm_panel("The last norm", encoder.norm, x, normed, sheet))
    return panels


def position_panels(seen: Mapping[str, Tensor], path: str, sheet: Sheet, *, onehot: bool = False) -> list[Panel]:
    """What is added to each token's vector for the place where it stands."""
    if f"{path}.vectors" not in seen:
        return []
    places, total = array(seen[f"{path}.vectors"]), array(seen[f"{path}.output"][0])
    word, place, both = (part[sheet.at, 0] for part in (total - places, places, total))
    formula = (
        "x = W [word vector; one-hot of t] = W_1 word vector + W_2 one-hot" if onehot else "x = word vector + place"
    )
    sentence = worked(sheet.cell("x"), joined(number(word), number(place)), both)
    return [
        sheet.vectors("Places", places, "W_2 one-hot of t" if onehot else "a vector for each place t"),
        sheet.vectors("Words and places", total, formula, sentence),
    ]


def block_panels(
    block: Block,
    seen: Mapping[str, Tensor],
    path: str,
    *,
    head: int,
    sheet: Sheet,
    memory: Tensor | None = None,
    source: Sheet | None = None,
    rotary: str | None = None,
) -> list[Panel]:
    panels = before_panels(block.around_attend, seen, f"{path}.around_attend", "Attention", sheet)
    found = one_head(block.attend, seen, f"{path}.attend", head, letter=_read(block.around_attend), rotary=rotary)
    panels += head_panels(found, sheet, sheet, f"Attention, head {head}")
    panels += joined_panels(block.attend.output, seen, f"{path}.attend", "Attention", sheet)
    panels += after_panels(
        block.around_attend, seen, path, "attend", "Attention", sheet, "c" if block.attend.output is None else "o"
    )
    if block.recall is not None and block.around_recall is not None and memory is not None and source is not None:
        name = "Attention to the source"
        panels += before_panels(block.around_recall, seen, f"{path}.around_recall", name, sheet)
        found = one_head(block.recall, seen, f"{path}.recall", head, letter=_read(block.around_recall), memory=memory)
        panels += head_panels(found, sheet, source, f"{name}, head {head}")
        panels += joined_panels(block.recall.output, seen, f"{path}.recall", name, sheet)
        panels += after_panels(
            block.around_recall, seen, path, "recall", name, sheet, "c" if block.recall.output is None else "o"
        )
    if block.feed is not None and block.around_feed is not None:
        panels += before_panels(block.around_feed, seen, f"{path}.around_feed", "Feed-forward", sheet)
        x, active, out = (array(seen[f"{path}.feed.{name}"][0]) for name in ("input", "active", "output"))
        panels += feed_panels(block.feed, x, active, out, sheet, _read(block.around_feed))
        panels += after_panels(
            block.around_feed, seen, path, "feed", "Feed-forward", sheet, "a" if block.feed.output is None else "f"
        )
    return panels


def _read(around: Residual) -> str:
    """What a part reads: x, or the norm n of it."""
    return "n" if around.pre and not isinstance(around.norm, NoNorm) else "x"


def joined_panels(
    output: nn.Linear | None, seen: Mapping[str, Tensor], path: str, name: str, sheet: Sheet
) -> list[Panel]:
    """The heads side by side, and W^O of that."""
    mixed, out = seen[f"{path}.mixed"][0], array(seen[f"{path}.output"][0])
    side_by_side = array(mixed.transpose(0, 1).flatten(1))
    panels: list[Panel] = [
        sheet.vectors(f"{name}: all heads side by side", side_by_side, "c = [c of head 0; head 1; …]")
    ]
    if output is not None:
        panels.append(linear_panel(f"{name}: projected", output, side_by_side, out, sheet, ("o", "W^O", "c")))
    return panels


def linear_panel(
    title: str, layer: nn.Linear, x: Vectors, out: Vectors, sheet: Sheet, letters: tuple[str, str, str]
) -> Panel:
    """y = Wx + b; `letters`: what y, W and x are called."""
    y, w, name = letters
    bias = None if layer.bias is None else float(layer.bias[0])
    how = linear(array(layer.weight[0]), x[sheet.at], bias)
    formula = f"{y} = {w} {name}" + ("" if bias is None else " + b")
    return sheet.vectors(title, out, formula, worked(sheet.cell(y), how, float(out[sheet.at, 0])))


def feed_panels(
    feed: FeedForward, x: Vectors, active: Vectors, out: Vectors, sheet: Sheet, letter: str = "x"
) -> list[Panel]:
    """The hidden layer after its non-linearity, and the output."""
    name = activation_name(feed.activation)
    bias = feed.input.bias is not None
    inner = linear(array(feed.input.weight[0]), x[sheet.at], float(feed.input.bias[0]) if bias else None)
    inside = f"W₁ {letter}" + (" + b₁" if bias else "")
    formula, how = f"a = {applied(name, inside)}", applied(name, inner)
    if feed.gate is not None:
        gate = linear(array(feed.gate.weight[0]), x[sheet.at], float(feed.gate.bias[0]) if bias else None)
        formula, how = f"{formula} ⊙ (W₃ {letter}{' + b₃' if bias else ''})", f"{how} · ({gate})"
    sentence = worked(sheet.cell("a"), how, float(active[sheet.at, 0]))
    panels: list[Panel] = [sheet.vectors("Feed-forward: hidden layer", active, formula, sentence)]
    if feed.output is not None:
        panels.append(linear_panel("Feed-forward: output", feed.output, active, out, sheet, ("f", "W₂", "a")))
    return panels


def activation_name(function: object) -> str:
    return next(name for name, known in ACTIVATIONS.items() if known is function)


def applied(name: str, inside: str) -> str:
    """A non-linearity as it is written."""
    if name == "relu2":
        return f"relu({inside})²"
    written = {"swiglu": "silu", "sigmoid": "σ"}.get(name, name)
    return f"{written}({inside})"


def before_panels(around: Residual, seen: Mapping[str, Tensor], path: str, name: str, sheet: Sheet) -> list[Panel]:
    """Pre-norm: the norm of what comes in."""
    if not around.pre or isinstance(around.norm, NoNorm):
        return []
    x, normed = (array(seen[f"{path}.{part}"][0]) for part in ("input", "normed"))
    return [norm_panel(f"{name}: the norm before it", around.norm, x, normed, sheet)]


def after_panels(
    around: Residual, seen: Mapping[str, Tensor], path: str, part: str, name: str, sheet: Sheet, gives: str
) -> list[Panel]:
    """The residual; post-norm: the norm of that. `gives`: what the part's output is called."""
    x, out = array(seen[f"{path}.around_{part}.input"][0]), array(seen[f"{path}.{part}.output"][0])
    total = x + out if around.residual else out
    after = array(seen[f"{path}.around_{part}.output"][0])
    panels: list[Panel] = []
    if around.residual:
        how = joined(number(x[sheet.at, 0]), number(out[sheet.at, 0]))
        sentence = worked(sheet.cell("y"), how, float(total[sheet.at, 0]))
        shown = after if around.pre else total
        panels.append(sheet.vectors(f"{name}: residual", shown, f"y = x + {gives}, x what came in", sentence))
    if not around.pre and not isinstance(around.norm, NoNorm):
        panels.append(norm_panel(f"{name}: the norm after it", around.norm, total, after, sheet, "y"))
    return panels


def norm_panel(title: str, norm: nn.Module, x: Vectors, normed: Vectors, sheet: Sheet, letter: str = "x") -> Panel:
    row = x[sheet.at]
    first = number(row[0])
    if isinstance(norm, RMSNorm):
        formula = f"n = {letter} / √(mean {letter}² + ε) · γ"
        root = f"√({number(np.square(row).mean())} + {number(norm.eps or 0.0)})"
        how = f"{first} / {root} · {number(float(norm.weight[0]))}"
    elif isinstance(norm, LayerNorm):
        formula = f"n = ({letter} − μ) / √(σ² + ε) · γ" + ("" if norm.bias is None else " + β")
        how = _centred(first, row.mean(), row.var(), norm.eps, float(norm.weight[0]))
        how = how if norm.bias is None else joined(how, number(float(norm.bias[0])))
    else:
        assert isinstance(norm, BatchNorm)
        inner = norm.norm
        assert inner.running_mean is not None
        assert inner.running_var is not None
        formula = f"n = ({letter} − μ) / √(σ² + ε) · γ + β, μ and σ² of each number: averages of training"
        how = _centred(
            first, float(inner.running_mean[0]), float(inner.running_var[0]), inner.eps, float(inner.weight[0])
        )
        how = joined(how, number(float(inner.bias[0])))
    return sheet.vectors(title, normed, formula, worked(sheet.cell("n"), how, float(normed[sheet.at, 0])))


def _centred(first: str, mean: float, variance: float, eps: float, gain: float) -> str:
    return f"({joined(first, number(-mean))}) / √({number(variance)} + {number(eps)}) · {number(gain)}"
