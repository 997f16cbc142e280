"""What recurrent layers go through, token by token: the written-out steps beside torch's fused ones."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.recurrent import (
    Hidden,
    Recurrent,
    elman_step,
    gru_gates,
    gru_step,
    lstm_gates,
    lstm_step,
)


class Trace(NamedTuple):
    """One layer, one way, after every token; at padding all of it is 0."""

    states: Float[Tensor, "B T d"]
    cells: Float[Tensor, "B T c"] | None
    """Of an LSTM."""
    gates: Mapping[str, Float[Tensor, "B T c"]]
    """By their letters: i, f, g, o of an LSTM, r, z, n of a GRU; an RNN has none."""

    def by_letter(self, letter: str) -> Tensor:
        """The states (h), the cells (c) or a gate."""
        if letter == "c":
            assert self.cells is not None
            return self.cells
        return self.states if letter == "h" else self.gates[letter]


Step = Callable[[Tensor, Hidden], tuple[Hidden, Mapping[str, Tensor]]]


def trace(
    layers: Recurrent, x: Float[Tensor, "B T i"], hidden: Hidden, mask: Bool[Tensor, "B T"] | None = None
) -> list[list[Trace]]:
    """By layer and way: as `layers` computes them in use, where no dropout stands between its layers."""
    cell = layers.cell
    ways = 2 if cell.bidirectional else 1
    out: list[list[Trace]] = []
    for layer in range(cell.num_layers):
        both = []
        for way in range(ways):
            before = tuple(part[layer * ways + way] for part in hidden)
            both.append(_one_way(step_of(cell, layer, way), x, before, mask, backwards=way == 1))
        out.append(both)
        x = torch.cat([one.states for one in both], -1)
    return out


def _one_way(
    step: Step, x: Float[Tensor, "B T i"], hidden: Hidden, mask: Bool[Tensor, "B T"] | None, *, backwards: bool
) -> Trace:
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


def step_of(cell: nn.RNNBase, layer: int, way: int) -> Step:
    """One step of a layer with torch's weights for it."""
    ending = f"l{layer}{'_reverse' if way else ''}"
    w_x, w_h = getattr(cell, f"weight_ih_{ending}"), getattr(cell, f"weight_hh_{ending}")
    b_x, b_h = (getattr(cell, f"bias_{kind}_{ending}", None) for kind in ("ih", "hh"))
    bias = None if b_x is None or b_h is None else b_x + b_h
    projection = getattr(cell, f"weight_hr_{ending}", None)
    how = getattr(cell, "nonlinearity", "tanh")

    def elman(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        return (elman_step(x, hidden[0], w_x=w_x, w_h=w_h, bias=bias, nonlinearity=how),), {}

    def gru(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        gates = gru_gates(x, hidden[0], w_x=w_x, w_h=w_h, b_x=b_x, b_h=b_h)
        return (gru_step(gates, hidden[0]),), gates._asdict()

    def lstm(x: Tensor, hidden: Hidden) -> tuple[Hidden, Mapping[str, Tensor]]:
        gates = lstm_gates(x, hidden[0], w_x=w_x, w_h=w_h, bias=bias)
        return lstm_step(gates, hidden[1], projection), gates._asdict()

    if isinstance(cell, nn.LSTM):
        return lstm
    return gru if isinstance(cell, nn.GRU) else elman
