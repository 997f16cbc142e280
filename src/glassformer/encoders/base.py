"""The common interface of all sequence encoders."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Int
from torch import Tensor, nn

from glassformer.bricks import Ids, Inputs, Mask, Rows, Vectors
from glassformer.bricks.attention import Memory
from glassformer.bricks.capabilities import Capability
from glassformer.bricks.positions import Positions
from glassformer.bricks.tap import Brick


class State(ABC):
    """State of a causal encoder after the tokens so far, for each row of a batch."""

    in_place = False
    """Whether its tensors keep their addresses and change their values, so that a step can be recorded and replayed."""

    @abstractmethod
    def select(self, rows: Rows) -> "State":
        """Return the state of these rows, in this order; used to drop finished rows.

        If rows share a source, the rows of a source must stay together and complete.
        """

    @abstractmethod
    def expand_beams(self, times: int) -> "State":
        """Return the state with each row repeated for beams. Rows share the tensors of their source."""

    def reorder(self, rows: Rows) -> "State":
        """Return the state with rows permuted or repeated among the rows of the same source."""
        chosen = self.select(rows)
        if not self.in_place:
            return chosen
        self.put(torch.arange(len(rows), device=rows.device), chosen)
        return self

    def put(self, rows: Int[Tensor, "n"], other: "State") -> None:
        """Replace these n rows by the rows of another state, so that a text joins a running batch."""
        raise NotImplementedError(f"{type(self).__name__} cannot take in rows of another state")

    def fix(self, extent: int) -> bool:
        """Switch to row lengths counted on the device and to in-place updates; return whether the state supports it.

        `extent` is the maximum number of tokens per row until the next call.
        """
        return False

    def renew(self, old: Tensor, new: Tensor) -> Tensor:
        """Return the tensor that replaces `old`: `old` itself with new values for in-place updates."""
        return old.copy_(new) if self.in_place else new


class TensorState(State):
    """A state of tensors with the batch on the same axis; without tensors, outputs do not depend on other tokens."""

    def __init__(self, parts: Sequence[Tensor], axis: int = 0) -> None:
        self.parts, self.axis = tuple(parts), axis

    def select(self, rows: Rows) -> "TensorState":
        return TensorState([part.index_select(self.axis, rows) for part in self.parts], self.axis)

    def expand_beams(self, times: int) -> "TensorState":
        return TensorState([part.repeat_interleave(times, self.axis) for part in self.parts], self.axis)

    def put(self, rows: Int[Tensor, "n"], other: State) -> None:
        assert isinstance(other, TensorState)
        for part, new in zip(self.parts, other.parts, strict=True):
            part.index_copy_(self.axis, rows, new)

    def fix(self, extent: int) -> bool:
        self.in_place = True
        return True

    def advance(self, parts: Sequence[Tensor]) -> None:
        """Store the tensors after further tokens."""
        self.parts = tuple(map(self.renew, self.parts, parts))


class Encoder(Brick, nn.Module, ABC):
    """A map from T vectors of width d to T vectors of width d.

    Subclasses define `width`, `causal`, `forward`, `init_state` and `extend`. With `causal`, no output depends on a
    later input, and `extend` in pieces of any length equals `forward` on the whole.

    Everything else has a default:

    - `init_weights`: initialisation of the weights;
    - `summary_pool`: pooling that summarises the outputs for a decoder that starts from them;
    - `record` and `opaque`: what `capture` records. By default it records input, output and the outputs of all parts. A
      `Tap` gives a tensor a name, relative to that of the encoder (`encoder.output`);
    - `layer_outputs` and `state_names`: names of the layers' outputs and states, for views; `has_states`: whether there
      is a view of the states;
    - `final_norm`: the map from the last layer's output to the output;
    - `position_encoding` and `hidden_units`: for the doctor.

    A part with attention declares `HasAttention`, an encoder that can save memory in training `Recomputes`.
    """

    width: int
    causal: bool
    output_parts: int = 1
    """Number of vectors of this width that its output concatenates at each token."""
    limit: int | None = None
    """Maximum number of tokens; None if the state does not grow."""
    opaque: bool = False
    has_states: bool = True
    """Whether the states after each token have a view of their own."""
    summary_pool: str = "mean"
    """Pooling that summarises the outputs."""

    @abstractmethod
    def forward(
        self, x: Inputs, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        """Encode whole sequences; tokens with different `segments` do not see each other."""

    @abstractmethod
    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> State:
        """Return the state before the first token, with capacity for `max_tokens`."""

    @abstractmethod
    def extend(self, x: Inputs, state: State, mask: Mask = None) -> Vectors:
        """Encode T ≥ 1 further tokens and update the state: a whole prompt at once, then single tokens.

        With a mask, rows may have fewer than T new tokens, followed by padding.
        """

    def refuse_extras(self, memory: Memory | None, segments: Ids | None = None) -> None:
        """Raise `ValueError` for a memory or for segments, which this encoder does not support."""
        if memory is not None:
            raise ValueError(f"{type(self).__name__} cannot attend to a memory")
        if segments is not None:
            raise ValueError(f"{type(self).__name__} cannot read texts apart that stand in one window")

    def init_weights(self, how: str) -> None:
        """Initialise the weights; `how` is `model.initialisation`, or "xavier" for models without that setting.

        By default the weights keep torch's initialisation.
        """

    def layer_outputs(self) -> list[tuple[str, ...]]:
        """Return the names of the first layer's input and of each layer's outputs, one tuple per layer."""
        return [("input",), ("output",)]

    def state_names(self) -> dict[str, dict[str, str]]:
        """Return the names of the states after each token, by layer and letter: h, c, a gate; x is the output."""
        _, *layers = self.layer_outputs()
        if layers == [("output",)]:
            return {"output": {"x": "output"}}
        return {f"layer {number}": {"x": name} for number, (name, *_) in enumerate(layers)}

    def final_norm(self, x: Vectors, mask: Mask = None) -> Vectors:
        """Return the output for the output of the last layer."""
        return x

    def position_encoding(self) -> Positions | None:
        """Return the position encoding; None if there is none."""
        return None


class Recomputes(Capability, Protocol):
    """An encoder that can compute its layers again in the backward pass instead of storing their activations."""

    recompute: bool


class StackedBlock(Capability, Protocol):
    """A module of which an encoder stacks several; sharded training gathers the weights of one at a time."""


class PlainEncoder(Encoder):
    """An encoder of one sequence without memory, whose state is a tuple of tensors."""

    state_axis = 0
    """Batch axis of the state's tensors."""

    @abstractmethod
    def encode(self, x: Inputs, mask: Mask) -> Vectors:
        """Return the outputs of a whole sequence."""

    @abstractmethod
    def first_state(self, batch: int) -> Sequence[Tensor]:
        """Return the state before the first token."""

    @abstractmethod
    def advance(self, x: Inputs, state: Sequence[Tensor], mask: Mask) -> tuple[Vectors, Sequence[Tensor]]:
        """Return the outputs of more tokens and the state after them."""

    def forward(
        self, x: Inputs, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        self.refuse_extras(memory, segments)
        return self.encode(x, mask)

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> TensorState:
        self.refuse_extras(memory)
        if not self.causal:
            raise ValueError(f"{type(self).__name__} was built to read the future: it cannot go piece by piece")
        return TensorState(self.first_state(batch), self.state_axis)

    def extend(self, x: Inputs, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, TensorState)
        out, parts = self.advance(x, state.parts, mask)
        state.advance(parts)
        return out


def init_map(layer: nn.Linear, how: str) -> None:
    """Initialise a linear map; see `models.weights` for `how`."""
    if how == "xavier":
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=0.02 if how == "gpt2" else layer.in_features**-0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def init_vectors(table: Tensor, how: str) -> None:
    """Initialise a table of vectors."""
    nn.init.normal_(table, std=table.shape[1] ** -0.5 if how == "xavier" else 0.02)


def sources_of(rows: Rows, share: int) -> Int[Tensor, "N"]:
    """Return the sources of these rows; every `share` consecutive rows have the same source."""
    if len(rows) % share:
        raise ValueError(f"{len(rows)} rows, but each source has {share}: they must stay together")
    return rows[::share] // share
