"""Recurrent layers: torch's fast ones; the lectures' steps stand in `recurrent_steps.py`."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.bricks import Inputs, Mask, Vectors
from glassformer.bricks.recurrent_steps import ChangeLetter, Hidden, Trace, trace
from glassformer.bricks.tap import Brick, Changes, Recorded

# torch says so once, and takes a slower road: nothing a person could do about it.
warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Zeros(nn.Module):
    """A first state that is not learned: no weights, but saved by the names that learned ones have."""

    def __init__(self, states: Sequence[Tensor]) -> None:
        super().__init__()
        for place, state in enumerate(states):
            self.register_buffer(str(place), state)

    def __iter__(self) -> Iterator[Tensor]:
        return self.buffers()


class Recurrent(Brick, nn.Module):
    """Stacked recurrent layers, one or both ways, with a learned first state.

    `bias`: True is torch's two, b_ih beside W_ih and b_hh beside W_hh; "single" is b_ih alone.
    `cells`: an LSTM whose cell is wider than its output h, which is then projected to `width`.
    Both ways, each way gives half the width.
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
        """h0 (and c0): learned, or zeros."""

    def _drop_second_bias(self) -> None:
        """Replace b_hh, which torch's kernels require, by zeros that are neither learned nor saved."""
        for name, bias in list(self.cell.named_parameters()):
            if name.startswith("bias_hh"):
                delattr(self.cell, name)
                self.cell.register_buffer(name, None, persistent=False)
                setattr(self.cell, name, torch.zeros_like(bias, requires_grad=False))  # torch's list of weights too

    def init_state(self, batch: int) -> Hidden:
        return tuple(state.unsqueeze(1).expand(-1, batch, -1).contiguous() for state in self.first)

    def forward(self, x: Inputs, hidden: Hidden, mask: Mask = None) -> tuple[Vectors, Hidden]:
        """The states after every token, and the state to go on from.

        Padding stands at the end of a row: it is not read, and its states are 0.
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
        if mask is not None:  # a row of nothing but padding stays where it was
            after = tuple(
                torch.where((lengths > 0)[None, :, None], new, old) for new, old in zip(after, hidden, strict=True)
            )
        return out, after

    def init_weights(self) -> None:
        """Recurrent matrices start orthogonal, the bias of an LSTM's forget gate at 1, all else as torch starts it."""
        for name, weight in self.cell.named_parameters():
            if name.startswith("weight_hh"):
                for gate in weight.chunk(weight.shape[0] // self.cell.hidden_size):
                    nn.init.orthogonal_(gate)
            elif name.startswith("bias_ih") and isinstance(self.cell, nn.LSTM):
                nn.init.ones_(weight.chunk(4)[1])
                nn.init.zeros_(getattr(self.cell, name.replace("_ih", "_hh")).chunk(4)[1])

    def state_names(self) -> list[list[dict[str, str]]]:
        """What is recorded, by layer and way: the state h, an LSTM's cell c and the gates, each by its letter."""
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
        """By the written-out steps; what these do not change stays as torch computes it."""
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
    """What the last layer gives, and the states to go on from."""
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
