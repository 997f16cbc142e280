"""A recurrent decoder, step by step: where it starts, a step, its look at the source, and the two joined."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.memory_attention import MemoryAttention
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.inspection.numbers.block import linear_panel
from glassformer.inspection.numbers.recurrent import layer_panels
from glassformer.inspection.numbers.writing import (
    Sheet,
    added,
    array,
    between,
    grid,
    joined,
    linear,
    number,
    products,
    softmax_worked,
    worked,
)
from glassformer.rendering.panels import Panel


def decoder_panels(
    decoder: RecurrentDecoder,
    seen: Mapping[str, Tensor],
    path: str,
    *,
    layer: int,
    sheet: Sheet,
    memory: Memory,
    source: Sheet,
) -> list[Panel]:
    """Where it starts, a step, a look at the source, and the two joined."""
    read, out = seen[f"{path}.input"][0], seen[f"{path}.output"][0]
    first = decoder.start(1, len(read), memory).hidden
    if decoder.input_feeding:
        last = torch.cat([torch.zeros_like(out[:1]), out[:-1]])
        read = torch.cat([read, last], -1)
    summary = array(decoder.summary(memory.states, memory.mask))
    bridge = decoder.bridges[0]
    assert isinstance(bridge, nn.Linear)
    how = linear(array(bridge.weight[0]), summary[0], None if bridge.bias is None else float(bridge.bias[0]))
    start = array(first[0][:, 0])
    panels: list[Panel] = [
        grid("The source in one vector", summary, ["s"], formula="s, a summary of the source", shown=sheet.shown),
        grid(
            "The first state",
            start,
            [f"layer {number}" for number in range(len(start))],
            formula="h = tanh(W s + b)" if bridge.bias is not None else "h = tanh(W s)",
            worked=worked("h(layer 0)₀", f"tanh({how})", float(start[0, 0])),
            shown=sheet.shown,
        ),
    ]
    if decoder.input_feeding:
        fed = "Each input is [word vector; the last output]."
        panels.append(sheet.vectors("What the first layer reads", array(read), "[x; o_(t−1)]", note=fed))
    panels += layer_panels(decoder.layers, seen, f"{path}.layers", layer=layer, sheet=sheet, given=read, first=first)
    if decoder.attention is not None and decoder.join is not None:
        panels += look_panels(decoder.attention, decoder.join, seen, path, memory, sheet, source)
    return panels


def look_panels(
    attention: MemoryAttention,
    join: nn.Linear,
    seen: Mapping[str, Tensor],
    path: str,
    memory: Memory,
    sheet: Sheet,
    source: Sheet,
) -> list[Panel]:
    """Query, keys, scores, weights, context, and both joined."""
    states, scores, weights = (
        seen[f"{path}.{name}"] for name in ("layers.output", "attention.scores", "attention.weights")
    )
    if memory.mask is not None:
        scores = scores.masked_fill(~memory.mask.unsqueeze(1), -torch.inf)
    y, p, q, m = (array(tensor[0]) for tensor in (scores, weights, states, memory.states))
    context = array((weights @ memory.states)[0])
    at, best = sheet.at, int(np.argmax(p[sheet.at]))
    beside = Sheet(source.rows, best, source.shown)
    pair = f"({sheet.token} → {beside.token})"
    name = "Attention to the source"
    panels: list[Panel] = [sheet.vectors(f"{name}: queries", q, "q = h, the state")]
    panels.append(beside.vectors(f"{name}: memory", m, "m, what the encoder made of the source"))
    formula = {"dot": "score = q · m", "scaled": "score = q · m / √d", "bilinear": "score = q′ · m"}.get(attention.kind)
    compared = q
    if attention.bilinear is not None:
        compared = array(attention.bilinear(states)[0])
        panels.append(linear_panel(f"{name}: queries mapped", attention.bilinear, q, compared, sheet, ("q′", "W", "q")))
    if attention.of_query is not None and attention.of_memory is not None and attention.total is not None:
        mapped, k = array(attention.of_query(states)[0]), array(attention.of_memory(memory.states)[0])
        v = array(attention.total.weight[0])
        panels += [
            linear_panel(f"{name}: queries mapped", attention.of_query, q, mapped, sheet, ("a", "W", "q")),
            linear_panel(f"{name}: keys", attention.of_memory, m, k, beside, ("k", "U", "m")),
        ]
        formula = "score = v · tanh(a + k), a = W q + b, k = U m"
        terms = zip(v.tolist(), mapped[at].tolist(), k[best].tolist(), strict=True)
        how = added([f"{number(one)}·tanh({joined(number(a), number(b))})" for one, a, b in terms])
    else:
        how = f"({products(compared[at], m[best])})"
        how = f"{how} / √{q.shape[1]}" if attention.kind == "scaled" else how
    found = products(p[at], m[:, 0])
    both = np.concatenate([q, context], 1)
    bias = None if join.bias is None else float(join.bias[0])
    tanh = f"tanh({linear(array(join.weight[0]), both[at], bias)})"
    given = array(seen[f"{path}.output"][0])
    return [
        *panels,
        between(f"{name}: scores", y, sheet.rows, source.rows, formula=formula or "",
                worked=worked(f"score{pair}", how, float(y[at, best])), signed=True),
        between(f"{name}: weights", p, sheet.rows, source.rows, formula="p = e^score / Σ e^score, over the row",
                worked=softmax_worked(f"p{pair}", y[at], best, float(p[at, best]))),
        sheet.vectors(f"{name}: what was found", context, "c = Σ p m, over the source",
                      worked(sheet.cell("c"), found, float(context[at, 0]))),
        sheet.vectors("State and source joined", given, "o = tanh(W [h; c]" + (" + b)" if bias is not None else ")"),
                      worked(sheet.cell("o"), tanh, float(given[at, 0]))),
    ]  # fmt: skip
