"""Recurrent layers: torch's fast ones, and the single steps of the lectures, which views and exports use."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.bricks import Inputs, Mask, Vector, Vectors
from glassformer.bricks.tap import Brick, Changes, Recorded

StepInput = Float[Tensor, "B i"]
StepState = Float[Tensor, "B p"]
InputMap = Float[Tensor, "g i"]
StateMap = Float[Tensor, "g p"]
"""Matrices of all gates of a step, stacked; an Elman step has one."""
StepBias = Float[Tensor, "g"] | None


def elman_step(
    x: StepInput, h: StepState, *, w_x: InputMap, w_h: StateMap, bias: StepBias = None, nonlinearity: str = "tanh"
) -> StepState:
    """Return h_t = tanh(W_h h_(t−1) + W_x x_t + b)."""
    total = h @ w_h.T + x @ w_x.T
    if bias is not None:
        total = total + bias
    return torch.tanh(total) if nonlinearity == "tanh" else torch.relu(total)


class Gates(NamedTuple):
    """LSTM gates of one step: input (i), forget (f), candidate (g), output (o)."""

    i: Tensor
    f: Tensor
    g: Tensor
    o: Tensor


def lstm_gates(x: StepInput, h: StepState, *, w_x: InputMap, w_h: StateMap, bias: StepBias = None) -> Gates:
    """Return i, f, o = σ(W x + U h + b) and g = tanh(W x + U h + b), each with its own W, U, b."""
    total = x @ w_x.T + h @ w_h.T
    if bias is not None:
        total = total + bias
    i, f, g, o = total.chunk(4, -1)
    return Gates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))


def lstm_step(gates: Gates, c: Vector, projection: Float[Tensor, "p d"] | None = None) -> tuple[StepState, Vector]:
    """Return h_t = o ⊙ tanh(c_t), projected by W_hr if given, and c_t = f ⊙ c_(t−1) + i ⊙ g."""
    c = gates.f * c + gates.i * gates.g
    return lstm_output(gates.o, c, projection), c


def lstm_output(o: Vector, c: Vector, projection: Float[Tensor, "p d"] | None = None) -> StepState:
    """Return h_t = o ⊙ tanh(c_t), projected by W_hr if given."""
    h = o * torch.tanh(c)
    return h if projection is None else h @ projection.T


class GruGates(NamedTuple):
    """GRU gates of one step: reset (r), update (z), candidate (n)."""

    r: Tensor
    z: Tensor
    n: Tensor


def gru_gates(
    x: StepInput, h: StepState, *, w_x: InputMap, w_h: StateMap, b_x: StepBias = None, b_h: StepBias = None
) -> GruGates:
    """Return r, z = σ(W x + U h + b) and n = tanh(W x + b + r ⊙ (U h + b'))."""
    from_x = x @ w_x.T if b_x is None else x @ w_x.T + b_x
    from_h = h @ w_h.T if b_h is None else h @ w_h.T + b_h
    r_x, z_x, n_x = from_x.chunk(3, -1)
    r_h, z_h, n_h = from_h.chunk(3, -1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return GruGates(r, z, torch.tanh(n_x + r * n_h))


def gru_step(gates: GruGates, h: Vector) -> Vector:
    """Return h_t = (1 − z) ⊙ n + z ⊙ h_(t−1)."""
    return (1 - gates.z) * gates.n + gates.z * h


Hidden = tuple[Tensor, ...]
"""State between two steps: (h,), or (h, c) of an LSTM, each L×B×d."""


# --- token by token ---


class Trace(NamedTuple):
    """States and gates of one layer and direction after every token; 0 at padding."""

    states: Vectors
    cells: Float[Tensor, "B T c"] | None
    """Cell states of an LSTM, otherwise None."""
    gates: Mapping[str, Float[Tensor, "B T c"]]
    """Gates by letter: i, f, g, o of an LSTM, r, z, n of a GRU; empty for an RNN."""

    def by_letter(self, letter: str) -> Tensor:
        """Return the states (h), the cells (c) or a gate."""
        if letter == "c":
            assert self.cells is not None
            return self.cells
        return self.states if letter == "h" else self.gates[letter]


Step = Callable[[Tensor, Hidden], tuple[Hidden, Mapping[str, Tensor]]]
ChangeLetter = Callable[[str, Tensor], Tensor]
"""Function from the letter and value of a state, cell or gate of one step to its new value."""


def unchanged(letter: str, value: Tensor) -> Tensor:
    return value


def step_by_step(step: Step, x: Inputs, hidden: Hidden, mask: Mask, *, backwards: bool) -> Trace:
    """Run one layer in one direction over the tokens."""
    times = range(x.shape[1])
    moments: dict[int, tuple[Hidden, Mapping[str, Tensor]]] = {}
    for t in reversed(times) if backwards else times:
        after, gates = step(x[:, t], hidden)
        if mask is not None:  # padding does not change the state
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
    """Return the traces by layer and direction, without the dropout between layers.

    `along` runs a layer over the tokens. `change` returns the changes to each step of a layer and direction.
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
    """Return the step function of a layer and direction, with torch's weights."""
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


# torch warns once and uses a slower implementation; the user cannot change that.
warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Zeros(nn.Module):
    """A fixed initial state of zeros, saved under the same names as a learned one."""

    def __init__(self, states: Sequence[Tensor]) -> None:
        super().__init__()
        for place, state in enumerate(states):
            self.register_buffer(str(place), state)

    def __iter__(self) -> Iterator[Tensor]:
        return self.buffers()


class Recurrent(Brick, nn.Module):
    """Stacked recurrent layers in one or both directions, with a learned initial state.

    - `bias`: True is torch's two (b_ih and b_hh), "single" is b_ih alone.
    - `cells`: width of an LSTM's cell that is wider than its output h, which is then projected to `width`.
    - `bidirectional`: each direction yields half the width.
    """

    def __init__(
        self,
        *,
        kind: str,
        input_width: int,
        width: int,
        layers: int = 1,
        dropout: float = 0.0,
        bias: bool | Literal["single"] = True,
        bidirectional: bool = False,
        initial: bool = True,
        nonlinearity: str = "tanh",
        cells: int | None = None,
    ) -> None:
        super().__init__()
        ways = 2 if bidirectional else 1
        out = width // ways
        extra: dict[str, object] = {"nonlinearity": nonlinearity} if kind == "rnn" else {}
        if cells is not None:
            extra["proj_size"] = out
        self.cell = CELLS[kind](
            input_width,
            cells or out,
            num_layers=layers,
            bias=bool(bias),
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
            **extra,
        )
        if bias == "single":
            self._drop_second_bias()
        widths = [out, cells or out] if kind == "lstm" else [out]
        first = [torch.zeros(layers * ways, size) for size in widths]
        self.first = nn.ParameterList(first) if initial else Zeros(first)
        """Initial h (and c): learned, or zeros."""

    def _drop_second_bias(self) -> None:
        """Replace b_hh, which torch's kernels require, by zeros that are neither learned nor saved."""
        for name, bias in list(self.cell.named_parameters()):
            if name.startswith("bias_hh"):
                delattr(self.cell, name)
                self.cell.register_buffer(name, None, persistent=False)
                # `setattr` also updates torch's list of weights.
                setattr(self.cell, name, torch.zeros_like(bias, requires_grad=False))

    def init_state(self, batch: int) -> Hidden:
        return tuple(state.unsqueeze(1).expand(-1, batch, -1).contiguous() for state in self.first)

    def forward(self, x: Inputs, hidden: Hidden, mask: Mask = None) -> tuple[Vectors, Hidden]:
        """Return the states after every token and the final state.

        Padding is at the end of a row. It is skipped, and its states are 0.
        """
        state = hidden if len(hidden) == 2 else hidden[0]
        if mask is None:
            out, state = self.cell(x, state)
        else:
            lengths = mask.sum(1)
            packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
            out, state = self.cell(packed, state)
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
            out = out * mask.unsqueeze(-1)
        after: Hidden = state if isinstance(state, tuple) else (state,)
        if mask is not None:  # a row without real tokens keeps its state
            after = tuple(
                torch.where((lengths > 0)[None, :, None], new, old) for new, old in zip(after, hidden, strict=True)
            )
        return out, after

    def init_weights(self) -> None:
        """Initialise recurrent matrices orthogonally and the forget bias of an LSTM as 1; keep the rest."""
        for name, weight in self.cell.named_parameters():
            if name.startswith("weight_hh"):
                for gate in weight.chunk(weight.shape[0] // self.cell.hidden_size):
                    nn.init.orthogonal_(gate)
            elif name.startswith("bias_ih") and isinstance(self.cell, nn.LSTM):
                nn.init.ones_(weight.chunk(4)[1])
                nn.init.zeros_(getattr(self.cell, name.replace("_ih", "_hh")).chunk(4)[1])

    def state_names(self) -> list[list[dict[str, str]]]:
        """Return the recorded names by layer, direction and letter: state h, cell c and gates."""
        states = {"h": "states"} | ({"c": "cells"} if isinstance(self.cell, nn.LSTM) else {})
        gates = {letter: f"gates.{letter}" for letter in {nn.LSTM: "ifgo", nn.GRU: "rzn"}.get(type(self.cell), "")}
        ways = ("", ".back") if self.cell.bidirectional else ("",)
        return [
            [{letter: f"{layer}{way}.{name}" for letter, name in (states | gates).items()} for way in ways]
            for layer in range(self.cell.num_layers)
        ]

    def record(self, args: tuple[Any, ...], output: Any) -> Recorded:
        x, hidden, mask = args if len(args) == 3 else (*args, None)
        traces: list[list[Trace]] = []

        def traced(layer: int, way: int, letter: str) -> Tensor:
            if not traces:
                traces.extend(trace(self.cell, x, hidden, mask))
            return traces[layer][way].by_letter(letter)

        for layer, ways in enumerate(self.state_names()):
            for way, names in enumerate(ways):
                for letter, name in names.items():
                    yield name, partial(traced, layer, way, letter)
        yield "output", lambda: output[0]

    def changed(self, args: tuple[Any, ...], output: tuple[Tensor, Hidden], change: Changes) -> tuple[Tensor, Hidden]:
        """Apply changes with the written-out steps; outputs that they do not affect stay as torch computed them."""
        (out, after), names = output, self.state_names()
        if any(change.wants(name) for ways in names for way in ways for name in way.values()):
            x, hidden, mask = args if len(args) == 3 else (*args, None)
            steps: Counter[str] = Counter()

            def in_step(layer: int, way: int) -> ChangeLetter:
                def one(letter: str, value: Tensor) -> Tensor:
                    name = names[layer][way][letter]
                    steps[name] += 1
                    at = x.shape[1] - steps[name] if way else steps[name] - 1
                    return change(name, value.unsqueeze(1), at).squeeze(1) if change.wants(name) else value

                return one

            plain = _ends(trace(self.cell, x, hidden, mask), hidden, mask)
            other = _ends(trace(self.cell, x, hidden, mask, change=in_step), hidden, mask)
            out, *rest = (
                torch.where(new == old, part, new.to(part.dtype))
                for part, old, new in zip((out, *after), plain, other, strict=True)
            )
            after = tuple(rest)
        return change("output", out), after


def _ends(traces: list[list[Trace]], hidden: Hidden, mask: Mask) -> list[Tensor]:
    """Return the output of the last layer and the final states."""
    both = [(way, traced) for ways in traces for way, traced in enumerate(ways)]
    after = []
    for letter, before in zip("hc", hidden, strict=False):
        parts = []
        for start, (way, traced) in zip(before, both, strict=True):
            whole = traced.by_letter(letter)
            last = whole[:, 0 if way else -1]
            if mask is not None:
                lengths = mask.sum(1)
                rows = torch.arange(len(whole), device=whole.device)
                last = last if way else whole[rows, (lengths - 1).clamp(min=0)]
                last = torch.where((lengths > 0).unsqueeze(1), last, start)
            parts.append(last)
        after.append(torch.stack(parts))
    return [torch.cat([traced.states for traced in traces[-1]], -1), *after]
