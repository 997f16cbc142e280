"""One step of a recurrent layer, Elman's, an LSTM's, a GRU's; and a recurrent decoder, which looks at the source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.attention import MemoryAttention
from glassformer.bricks.recurrent import Hidden, Recurrent
from glassformer.config.arrays import Array
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.inspection.numbers.steps import (
    Activations,
    Source,
    Step,
    Term,
    Vector,
    activate,
    added,
    affine,
    array,
    combine,
    linear,
    number,
    products,
    score_panels,
    term,
)
from glassformer.rendering.panels import Panel


class Gate(NamedTuple):
    """f(W x + U h + b), its rows of the matrices in the order of the table."""

    symbol: str
    title: str
    function: str


class CellStep(NamedTuple):
    """Vectors by name, and the formula of the last of them; names stand in braces."""

    title: str
    rows: tuple[str, ...]
    symbol: str
    formula: str


class Cell(NamedTuple):
    """What a kind of cell computes at a token."""

    gates: tuple[Gate, ...]
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

CELLS = {
    "tanh": Cell((Gate("h_t", "the new state", "tanh"),)),
    "relu": Cell((Gate("h_t", "the new state", "relu"),)),
    "lstm": Cell(
        LSTM_GATES,
        (LSTM_CELL, CellStep("the new state", ("o", "tanh c", "h"), "h_t", "{o} ⊙ {tanh c}")),
    ),
    "lstm, projected": Cell(
        LSTM_GATES,
        (
            LSTM_CELL,
            CellStep("what it lets out", ("o", "tanh c", "u"), "u", "{o} ⊙ {tanh c}"),
            CellStep("the new state", ("h",), "h_t", "{W_hr u}"),
        ),
    ),
}


def gru_cell(from_x: str, from_h: str) -> Cell:
    """Return a GRU's steps; the candidate adds `from_x` ("W x + b" or "W x") to the reset part of `from_h`."""
    formula = f"tanh({{{from_x}}} + {{r}} ⊙ ({{{from_h}}}))"
    return Cell(GRU_GATES, (CellStep("n, candidate", (from_x, from_h, "r", "n"), "n", formula), GRU_STATE))


def cell_of(cell: nn.RNNBase, from_x: str, from_h: str) -> Cell:
    if isinstance(cell, nn.LSTM):
        return CELLS["lstm, projected" if cell.proj_size else "lstm"]
    return gru_cell(from_x, from_h) if isinstance(cell, nn.GRU) else CELLS[str(cell.nonlinearity)]


def cell_steps(
    cell: nn.RNNBase, weights: Mapping[str, Array], acts: Activations, x: Vector, first: Sequence[Vector], *, back: bool
) -> Iterator[Step]:
    """x and the last h; the gates; what is kept; the new h. `first`: h (and c) before the first token."""
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
    """The step at the chosen token, each way; `x`: what the first layer reads, `first`: what it starts from."""
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
    """Where it starts, a step, a look at the source, and the two joined."""
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
    """A recurrent decoder's query, keys, scores, weights, context, and both joined."""
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
