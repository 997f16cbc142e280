"""Recurrent layers as the lectures write them: one step of each, and what they go through token by token."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Inputs, Mask, Vector, Vectors


def elman_step(
    x: Float[Tensor, "B i"],
    h: Vector,
    *,
    w_x: Float[Tensor, "d i"],
    w_h: Float[Tensor, "d d"],
    bias: Float[Tensor, "d"] | None = None,
    nonlinearity: str = "tanh",
) -> Vector:
    """h_t = tanh(W_h h_(t−1) + W_x x_t + b)."""
    total = h @ w_h.T + x @ w_x.T
    if bias is not None:
        total = total + bias
    return torch.tanh(total) if nonlinearity == "tanh" else torch.relu(total)


class Gates(NamedTuple):
    """What an LSTM decides in one step: let in (i), keep (f), candidate (g), let out (o)."""

    i: Tensor
    f: Tensor
    g: Tensor
    o: Tensor


def lstm_gates(
    x: Float[Tensor, "B i"],
    h: Float[Tensor, "B p"],
    *,
    w_x: Float[Tensor, "g i"],
    w_h: Float[Tensor, "g p"],
    bias: Float[Tensor, "g"] | None = None,
) -> Gates:
    """i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), each with its own W, U, b."""
    total = x @ w_x.T + h @ w_h.T
    if bias is not None:
        total = total + bias
    i, f, g, o = total.chunk(4, -1)
    return Gates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))


def lstm_step(
    gates: Gates, c: Vector, projection: Float[Tensor, "p d"] | None = None
) -> tuple[Float[Tensor, "B p"], Vector]:
    """c_t = f ⊙ c_(t−1) + i ⊙ g,  h_t = o ⊙ tanh(c_t), or W_hr of that."""
    c = gates.f * c + gates.i * gates.g
    return lstm_output(gates.o, c, projection), c


def lstm_output(o: Vector, c: Vector, projection: Float[Tensor, "p d"] | None = None) -> Float[Tensor, "B p"]:
    """h_t = o ⊙ tanh(c_t), or W_hr of that."""
    h = o * torch.tanh(c)
    return h if projection is None else h @ projection.T


class GruGates(NamedTuple):
    """What a GRU decides in one step: reset (r), keep (z), candidate (n)."""

    r: Tensor
    z: Tensor
    n: Tensor


def gru_gates(
    x: Float[Tensor, "B i"],
    h: Vector,
    *,
    w_x: Float[Tensor, "g i"],
    w_h: Float[Tensor, "g d"],
    b_x: Float[Tensor, "g"] | None = None,
    b_h: Float[Tensor, "g"] | None = None,
) -> GruGates:
    """r, z = σ(W x + U h + b),  n = tanh(W x + b + r ⊙ (U h + b'))."""
    from_x = x @ w_x.T if b_x is None else x @ w_x.T + b_x
    from_h = h @ w_h.T if b_h is None else h @ w_h.T + b_h
    r_x, z_x, n_x = from_x.chunk(3, -1)
    r_h, z_h, n_h = from_h.chunk(3, -1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return GruGates(r, z, torch.tanh(n_x + r * n_h))


def gru_step(gates: GruGates, h: Vector) -> Vector:
    """h_t = (1 − z) ⊙ n + z ⊙ h_(t−1)."""
    return (1 - gates.z) * gates.n + gates.z * h


Hidden = tuple[Tensor, ...]
"""The state between two steps: (h,), or (h, c) of an LSTM; each L×B×d."""


# --- token by token ---


class Trace(NamedTuple):
    """One layer, one way, after every token; at padding all of it is 0."""

    states: Vectors
    cells: Float[Tensor, "B T c"] | None
    """The cells of an LSTM."""
    gates: Mapping[str, Float[Tensor, "B T c"]]
    """The gates by their letters: i, f, g, o of an LSTM, r, z, n of a GRU; an RNN has none."""

    def by_letter(self, letter: str) -> Tensor:
        """The states (h), the cells (c) or a gate."""
        if letter == "c":
            assert self.cells is not None
            return self.cells
        return self.states if letter == "h" else self.gates[letter]


Step = Callable[[Tensor, Hidden], tuple[Hidden, Mapping[str, Tensor]]]
ChangeLetter = Callable[[str, Tensor], Tensor]
"""What becomes of the state (h), the cell (c) or a gate of one step."""


def unchanged(letter: str, value: Tensor) -> Tensor:
    return value


def step_by_step(step: Step, x: Inputs, hidden: Hidden, mask: Mask, *, backwards: bool) -> Trace:
    """One layer, one way, along the tokens."""
    times = range(x.shape[1])
    moments: dict[int, tuple[Hidden, Mapping[str, Tensor]]] = {}
    for t in reversed(times) if backwards else times:
        after, gates = step(x[:, t], hidden)
        if mask is not None:  # padding is not read
            real = mask[:, t, None]
            after = tuple(torch.where(real, new, old) for new, old in zip(after, hidden, strict=True))
        hidden = after
        moments[t] = hidden, gates

    def joined(parts: list[Tensor]) -> Tensor:
        whole = torch.stack(parts, 1)
        return whole if mask is None else whole * mask.unsqueeze(-1)

    return Trace(
        joined([moments[t][0][0] for t in times]),
        joined([moments[t][0][1] for t in times]) if len(hidden) == 2 else None,
        {name: joined([moments[t][1][name] for t in times]) for name in moments[0][1]},
    )


def trace(
    cell: nn.RNNBase,
    x: Inputs,
    hidden: Hidden,
    mask: Mask = None,
    along: Callable[..., Trace] = step_by_step,
    change: Callable[[int, int], ChangeLetter] = lambda layer, way: unchanged,
) -> list[list[Trace]]:
    """The traces by layer and way, as torch's cell computes them in use, where no dropout stands between its layers.

    `along`: how a layer goes along the tokens. `change`: of a layer and way, what is changed in each step.
    """
    ways = 2 if cell.bidirectional else 1
    out: list[list[Trace]] = []
    for layer in range(cell.num_layers):
        both = []
        for way in range(ways):
            before = tuple(part[layer * ways + way] for part in hidden)
            both.append(along(step_of(cell, layer, way, change(layer, way)), x, before, mask, backwards=way == 1))
        out.append(both)
        x = torch.cat([way.states for way in both], -1)
    return out


def step_of(cell: nn.RNNBase, layer: int, way: int, change: ChangeLetter = unchanged) -> Step:
    """One step of a layer with torch's weights for it."""
    ending = f"l{layer}{'_reverse' if way else ''}"
    w_x, w_h = getattr(cell, f"weight_ih_{ending}"), getattr(cell, f"weight_hh_{ending}")
    b_x, b_h = (getattr(cell, f"bias_{kind}_{ending}", None) for kind in ("ih", "hh"))
    bias = None if b_x is None or b_h is None else b_x + b_h
    projection = getattr(cell, f"weight_hr_{ending}", None)
    how = getattr(cell, "nonlinearity", "tanh")

    def elman(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        return (change("h", elman_step(x, hidden[0], w_x=w_x, w_h=w_h, bias=bias, nonlinearity=how)),), {}

    def gru(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        gates = gru_gates(x, hidden[0], w_x=w_x, w_h=w_h, b_x=b_x, b_h=b_h)
        gates = GruGates(*map(change, GruGates._fields, gates))
        return (change("h", gru_step(gates, hidden[0])),), gates._asdict()

    def lstm(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        gates = lstm_gates(x, hidden[0], w_x=w_x, w_h=w_h, bias=bias)
        gates = Gates(*map(change, Gates._fields, gates))
        h, made = lstm_step(gates, hidden[1], projection)
        c = change("c", made)
        if c is not made:
            h = lstm_output(gates.o, c, projection)
        return (change("h", h), c), gates._asdict()

    if isinstance(cell, nn.LSTM):
        return lstm
    return gru if isinstance(cell, nn.GRU) else elman
