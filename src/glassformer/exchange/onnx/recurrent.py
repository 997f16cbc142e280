"""Recurrent layers as a graph can hold them: the lectures' steps, one after the other, in a loop over the tokens."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.bricks.recurrent import Recurrent
from glassformer.bricks.recurrent_steps import Hidden, Step, step_of
from glassformer.encoders.recurrent import RecurrentDecoder

Parts = tuple[Tensor, ...]


def scan_tokens(
    step: Callable[[Parts, Parts], tuple[Parts, Tensor]], first: Parts, inputs: Parts, *, backwards: bool = False
) -> Float[Tensor, "B T d"]:
    """`step` from state and inputs of a token to the next state and an output, for all tokens; inputs are B×T×…."""
    from torch._higher_order_ops.scan import scan  # a loop of the graph, of any number of steps

    def apart(state: Any, now: Any) -> Any:
        after, out = step(tuple(state), tuple(now))
        return after, out.clone()  # what goes on and what comes out may not be one tensor

    begin = tuple(part.clone(memory_format=torch.contiguous_format) for part in first)  # laid out as what follows is
    along = tuple(part.transpose(0, 1) for part in inputs)
    outputs: Tensor = scan(apart, begin, along, reverse=backwards)[1]
    return outputs.transpose(0, 1)


class ScannedRecurrent(Recurrent):
    """The layers with the same weights; padding is passed over step by step instead of being taken out first."""

    def forward(
        self, x: Float[Tensor, "B T i"], hidden: Hidden, mask: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T d"], Hidden]:
        ways = 2 if self.cell.bidirectional else 1
        for layer in range(self.cell.num_layers):
            both = []
            for way in range(ways):
                first = tuple(part[layer * ways + way] for part in hidden)
                both.append(_one_way(step_of(self.cell, layer, way), x, first, mask, backwards=way == 1))
            x = torch.cat(both, -1)
        return x, hidden  # nothing that is exported goes on from where a text ends

    def start(self, batch: int) -> Hidden:
        return tuple(state.unsqueeze(1).expand(-1, batch, -1).contiguous() for state in self.first)


def _one_way(step: Step, x: Tensor, first: Hidden, mask: Tensor | None, *, backwards: bool) -> Tensor:
    def step_token(state: Parts, now: Parts) -> tuple[Parts, Tensor]:
        after, _ = step(now[0], state)
        if mask is not None:  # padding is not read
            after = tuple(torch.where(now[1], new, old) for new, old in zip(after, state, strict=True))
        return after, after[0]

    if mask is None:
        return scan_tokens(step_token, first, (x,), backwards=backwards)
    real = mask.unsqueeze(-1)
    return scan_tokens(step_token, first, (x, real), backwards=backwards) * real


class ScannedDecoder(RecurrentDecoder):
    """The decoder with the same weights; with input feeding, looking at the memory stands inside the loop."""

    def forward(
        self,
        x: Float[Tensor, "B T i"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        assert memory is not None
        states, real = memory
        assert real is not None
        hidden = self.first(memory)
        keys = states if self.attention is None else self.attention.project_keys(states)
        if not self.input_feeding:
            return self._join(self.layers(x, hidden)[0], states, real, keys)
        cell, kinds = self.layers.cell, len(hidden)
        steps = [step_of(cell, layer, 0) for layer in range(cell.num_layers)]

        def step_token(before: Parts, now: Parts) -> tuple[Parts, Tensor]:
            # the memory goes round with the state: seen from outside, a loop takes its size for a fixed one
            *hidden, fed, states, real, keys = before
            h = torch.cat([now[0], fed], -1)
            after: list[Tensor] = []
            for layer, step in enumerate(steps):
                new, _ = step(h, tuple(hidden[layer * kinds : (layer + 1) * kinds]))
                h = new[0]
                after += new
            out = self._join(h.unsqueeze(1), states, real, keys).squeeze(1)
            return (*after, out, states.clone(), real.clone(), keys.clone()), out

        first = [part[layer] for layer in range(cell.num_layers) for part in hidden]
        return scan_tokens(step_token, (*first, torch.zeros_like(first[0]), states, real, keys), (x,))

    def _join(self, h: Tensor, states: Tensor, real: Tensor, keys: Tensor) -> Float[Tensor, "B T d"]:
        """The output after each state, joined with what it finds in the memory."""
        if self.attention is None or self.join is None:
            return h
        return torch.tanh(self.join(torch.cat([h, self.attention(h, states, real, keys)], -1)))
