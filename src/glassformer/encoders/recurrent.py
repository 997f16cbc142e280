"""RNN, LSTM and GRU as encoders, and as decoders that start from a memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks import Ids, Inputs, Mask, Rows, Vectors
from glassformer.bricks.attention import Memory, MemoryAttention
from glassformer.bricks.recurrent import Hidden, Recurrent
from glassformer.encoders.base import Encoder, PlainEncoder, State, init_map, sources_of


class RecurrentStack(Encoder):
    """Common base of recurrent encoders and decoders."""

    opaque = True
    layers: Recurrent

    def init_weights(self, how: str) -> None:
        self.layers.init_weights()

    def layer_outputs(self) -> list[tuple[str, ...]]:
        names = [tuple(f"layers.{way['h']}" for way in ways) for ways in self.layers.state_names()]
        return [("input",), *names[:-1], ("layers.output",)]

    def state_names(self) -> dict[str, dict[str, str]]:
        """Return the names of states, cells and gates by layer and direction."""
        return {
            f"layer {layer}{', backwards' if way else ''}": {letter: f"layers.{name}" for letter, name in names.items()}
            for layer, ways in enumerate(self.layers.state_names())
            for way, names in enumerate(ways)
        }


class RecurrentEncoder(RecurrentStack, PlainEncoder):
    """Stacked recurrent layers. Their state is the whole past."""

    state_axis = 1

    def __init__(self, *, layers: Recurrent, width: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.layers = layers
        self.dropout = nn.Dropout(dropout)
        self.summary_pool = "ends" if layers.cell.bidirectional else "last"

    def encode(self, x: Inputs, mask: Mask) -> Vectors:
        return self.advance(x, self.first_state(x.shape[0]), mask)[0]

    def first_state(self, batch: int) -> Sequence[Tensor]:
        return self.layers.init_state(batch)

    def advance(self, x: Inputs, state: Sequence[Tensor], mask: Mask) -> tuple[Vectors, Sequence[Tensor]]:
        out, hidden = self.layers(x, tuple(state), mask)
        return self.dropout(out), hidden


@dataclass(eq=False)
class RecurrentDecoderState(State):
    """State of the layers, the last output, and the memory with its keys once per source of `share` rows."""

    hidden: Hidden
    last: Float[Tensor, "B 1 d"]
    memory: Memory
    keys: Tensor | None
    share: int = 1

    def advance(self, hidden: Hidden, last: Float[Tensor, "B 1 d"], new: Bool[Tensor, "B"] | None = None) -> None:
        """Store the state after one more token; rows without a new token keep theirs."""
        if new is not None:
            parts = zip(hidden, self.hidden, strict=True)
            hidden = tuple(torch.where(new[None, :, None], after, before) for after, before in parts)
            last = torch.where(new[:, None, None], last, self.last)
        self.hidden = tuple(map(self.renew, self.hidden, hidden))
        self.last = self.renew(self.last, last)

    def fix(self, extent: int) -> bool:
        self.in_place = True
        return True

    def select(self, rows: Rows) -> "RecurrentDecoderState":
        sources = sources_of(rows, self.share)
        states, mask = self.memory
        memory = Memory(states.index_select(0, sources), None if mask is None else mask.index_select(0, sources))
        keys = None if self.keys is None else self.keys.index_select(0, sources)
        return self._with_past_of(rows, memory=memory, keys=keys)

    def expand_beams(self, times: int) -> "RecurrentDecoderState":
        rows = torch.arange(len(self.last), device=self.last.device).repeat_interleave(times)
        return self._with_past_of(rows, share=self.share * times)

    def reorder(self, rows: Rows) -> "RecurrentDecoderState":
        chosen = self._with_past_of(rows)
        if not self.in_place:
            return chosen
        self.advance(chosen.hidden, chosen.last)
        return self

    def _with_past_of(self, rows: Rows, **changes: Any) -> "RecurrentDecoderState":
        hidden = tuple(part.index_select(1, rows) for part in self.hidden)
        return replace(self, hidden=hidden, last=self.last.index_select(0, rows), **changes)


class RecurrentDecoder(RecurrentStack):
    """Stacked recurrent layers with the initial states tanh(W s + b), where s summarises the memory.

    Without attention, s is all that they know of the source (the bottleneck). With attention, each state h attends to
    the memory with context c, and the output is tanh(W [h; c]). With `input_feeding`, the last output is concatenated
    to each input, so that a step knows the previous attention; tokens are then processed one by one.
    """

    def __init__(
        self,
        *,
        layers: Recurrent,
        width: int,
        memory_width: int,
        summary: nn.Module,
        attention: MemoryAttention | None,
        input_feeding: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.causal = True
        self.layers = layers
        self.summary = summary
        self.bridges = nn.ModuleList(nn.Linear(memory_width, first.numel(), bias=bias) for first in layers.first)
        """Maps to the initial h of every layer (and to the initial c)."""
        self.attention = attention
        self.join = None if attention is None else nn.Linear(width + memory_width, width, bias=bias)
        self.input_feeding = input_feeding
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Inputs, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        self.refuse_extras(None, segments)
        # padding is at the end of a row, where no real output depends on it
        return self.extend(x, self.init_state(x.shape[0], x.shape[1], memory))

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> RecurrentDecoderState:
        if memory is None:
            raise ValueError("this decoder was built to start from a memory, and none was given")
        hidden = self.first(memory)
        keys = None if self.attention is None else self.attention.project_keys(memory.states)
        return RecurrentDecoderState(hidden, hidden[0].new_zeros(batch, 1, self.width), memory, keys)

    def first(self, memory: Memory) -> Hidden:
        """Return the states before the first token."""
        summary = self.summary(memory.states, memory.mask)
        return tuple(
            torch.tanh(bridge(summary)).to(first.dtype).view(-1, *first.shape).transpose(0, 1).contiguous()
            for bridge, first in zip(self.bridges, self.layers.first, strict=True)
        )

    def extend(self, x: Inputs, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, RecurrentDecoderState)
        if not self.input_feeding:
            h, hidden = self.layers(x, state.hidden, mask)
            state.advance(hidden, state.last)
            return self._attend(h, state)
        outs = []
        for t in range(x.shape[1]):
            h, hidden = self.layers(torch.cat([x[:, t : t + 1], state.last], -1), state.hidden)
            outs.append(self._attend(h, state))
            state.advance(hidden, outs[-1], None if mask is None else mask[:, t])
        return torch.cat(outs, 1)

    def init_weights(self, how: str) -> None:
        """Initialise the maps from the memory with Xavier, whatever the setting of the other weights."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init_map(module, "xavier")
        super().init_weights(how)

    def _attend(self, h: Vectors, state: RecurrentDecoderState) -> Vectors:
        """Return the output for each state: the state, joined with its context if there is attention."""
        if self.attention is None or self.join is None:
            return self.dropout(h)
        by_source = h.reshape(h.shape[0] // state.share, -1, self.width)  # the rows of a source as one row
        context = self.attention(by_source, *state.memory, state.keys).view(*h.shape[:2], -1)
        return self.dropout(torch.tanh(self.join(torch.cat([h, context], -1))))
