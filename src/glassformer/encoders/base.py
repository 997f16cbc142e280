"""The one signature of every sequence encoder."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from glassformer.bricks import Ids, Inputs, Mask, Rows, Vectors
from glassformer.bricks.attention import Memory
from glassformer.bricks.positions import Positions
from glassformer.bricks.tap import Brick


class State(ABC):
    """What a causal encoder remembers of the tokens so far, for each row of a batch."""

    in_place = False
    """Its tensors stay where they are and get other numbers: a step can then be recorded once and replayed."""

    @abstractmethod
    def select(self, rows: Rows) -> "State":
        """The state of these rows of the batch, in this order: to leave finished rows behind.

        Where rows share a source, those of one source must stay together, and as many as they were.
        """

    @abstractmethod
    def expand_beams(self, times: int) -> "State":
        """Each row so many times, one after the other: for beams. What belongs to the source is shared, not copied."""

    def reorder(self, rows: Rows) -> "State":
        """Rows change places among those that share a source; one may come more than once."""
        chosen = self.select(rows)
        if not self.in_place:
            return chosen
        self.put(torch.arange(len(rows), device=rows.device), chosen)
        return self

    def put(self, rows: Int[Tensor, "n"], other: "State") -> None:
        """The n rows of another state take these rows' places: so a text joins others that are being written."""
        raise NotImplementedError(f"{type(self).__name__} cannot take in rows of another state")

    def fix(self, extent: int) -> bool:
        """From now on every row has its own length, which the device alone counts, and all is changed in place.

        `extent`: the most tokens that a row will hold before this is called again. Gives whether the state can do it.
        """
        return False

    def renew(self, old: Tensor, new: Tensor) -> Tensor:
        """What stands in the place of `old` from now on: itself with other numbers, where all is changed in place."""
        return old.copy_(new) if self.in_place else new


class TensorState(State):
    """A state of plain tensors, each with the batch on one axis. Without tensors: no output needs another token."""

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
        """Take the tensors as they are after more tokens."""
        self.parts = tuple(map(self.renew, self.parts, parts))


class Encoder(Brick, nn.Module, ABC):
    """T vectors of width d in, T vectors of width d out.

    One must have `width` and `causal`, `forward`, `init_state` and `extend`. `causal`: no output depends on a later
    input; then `init_state` and `extend` compute the same outputs piece by piece: `extend` in any pieces equals
    `forward` on the whole.

    The rest is what an encoder says of itself, so that nobody needs to know which one it is; all of it has defaults:

    - how its weights start: `init_weights`;
    - what sums up its outputs for a decoder that starts from them: `summary_pool`;
    - what `capture` records: its input and output and its parts' outputs, unless it is `opaque`; `record` for more, and
      a `Tap` wherever a tensor passes that should have a name. Names follow its own: `encoder.output`;
    - by those names, its layers for the lens and other views (`layer_outputs`), and what it holds after each token for
      the view of states (`state_names`); `has_states`: whether it has that view;
    - what stands between its last layer and its output: `final_norm`;
    - what tells it the order of its inputs (`position_encoding`), and for the doctor its hidden units
      (`hidden_units`).

    A part with attention is seen where it has what `AttentionHeads` names.
    """

    width: int
    causal: bool
    output_parts: int = 1
    """Number of vectors of this width that its output concatenates at each token."""
    limit: int | None = None
    """How many tokens it was made to hold at once; None: any number, for its state does not grow."""
    opaque: bool = False
    has_states: bool = True
    """Whether what it holds after each token is a view of its own."""
    summary_pool: str = "mean"
    """The pooling that sums up what it gives."""

    @abstractmethod
    def forward(
        self, x: Inputs, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        """`segments`: which of several texts, one after the other, each token belongs to; none knows of another."""

    @abstractmethod
    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> State:
        """The state before the first token, with room for this many."""

    @abstractmethod
    def extend(self, x: Inputs, state: State, mask: Mask = None) -> Vectors:
        """T ≥ 1 more tokens: a whole prompt in one pass, then one at a time. Changes the state.

        With a mask, rows may have fewer than T new tokens: theirs come first, and padding follows.
        """

    def refuse_extras(self, memory: Memory | None, segments: Ids | None = None) -> None:
        """Raise `ValueError` for a memory, or for several texts in one window, which this encoder cannot read."""
        if memory is not None:
            raise ValueError(f"{type(self).__name__} cannot attend to a memory")
        if segments is not None:
            raise ValueError(f"{type(self).__name__} cannot read texts apart that stand in one window")

    def init_weights(self, how: str) -> None:
        """Give the weights their first values; `how`: model.initialisation, or xavier where there is no choice.

        By default they stay as torch starts them.
        """

    def layer_outputs(self) -> list[tuple[str, ...]]:
        """The names of what the first layer reads, and of what each layer gives; several stand side by side."""
        return [("input",), ("output",)]

    def state_names(self) -> dict[str, dict[str, str]]:
        """By layer, the names of what it holds after each token, each by a letter: h, c, a gate; x: what it gives."""
        _, *layers = self.layer_outputs()
        if layers == [("output",)]:
            return {"output": {"x": "output"}}
        return {f"layer {number}": {"x": name} for number, (name, *_) in enumerate(layers)}

    def final_norm(self, x: Vectors, mask: Mask = None) -> Vectors:
        """The output, of what the last layer gives."""
        return x

    def position_encoding(self) -> Positions | None:
        """What tells it where each input stands."""
        return None


class PlainEncoder(Encoder):
    """An encoder of one sequence without memory, whose state is a tuple of tensors."""

    state_axis = 0
    """The axis of the batch in the tensors of the state."""

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
    """First weights of a linear map; `how`: as `models.weights` says."""
    if how == "xavier":
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=0.02 if how == "gpt2" else layer.in_features**-0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def init_vectors(table: Tensor, how: str) -> None:
    """First weights of a table of vectors."""
    nn.init.normal_(table, std=table.shape[1] ** -0.5 if how == "xavier" else 0.02)


def sources_of(rows: Rows, share: int) -> Int[Tensor, "N"]:
    """Return the sources of these rows; every `share` consecutive rows have the same source."""
    if len(rows) % share:
        raise ValueError(f"{len(rows)} rows, but each source has {share}: they must stay together")
    return rows[::share] // share
