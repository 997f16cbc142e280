"""Encoders that read a bounded stretch of the past: nothing but each word itself, the fixed-window MLP, and stacked
convolutions."""

from collections.abc import Iterator

from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks import Ids, Mask, Rows, Vectors
from glassformer.bricks.attention import Memory
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.norm import Residual
from glassformer.bricks.tap import HiddenUnits
from glassformer.encoders.base import Encoder, State, only_causal


class NoState(State):
    """No token's output needs another token."""

    in_place = True

    def select(self, rows: Rows) -> "NoState":
        return self

    def expand_beams(self, times: int) -> "NoState":
        return self

    def put(self, rows: Int[Tensor, "n"], other: State) -> None:
        pass

    def fix(self, extent: int) -> bool:
        return True


class IdentityEncoder(Encoder):
    """Every vector as it came. Pooled, this is the average of the word vectors."""

    opaque = True
    has_states = False

    def __init__(self, *, width: int, causal: bool) -> None:
        super().__init__()
        self.width = width
        self.causal = causal

    def forward(
        self, x: Vectors, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        self.refuse_extras(memory, segments)
        return x

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> NoState:
        self.refuse_extras(memory)
        return NoState()

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        return x


class RecentInputs(State):
    """For each layer, the last inputs that its next outputs will still read."""

    def __init__(self, recent: list[Float[Tensor, "B _ d"]]) -> None:
        self.recent = recent

    def select(self, rows: Rows) -> "RecentInputs":
        return RecentInputs([part.index_select(0, rows) for part in self.recent])

    def expand_beams(self, times: int) -> "RecentInputs":
        return RecentInputs([part.repeat_interleave(times, 0) for part in self.recent])

    def put(self, rows: Int[Tensor, "n"], other: State) -> None:
        assert isinstance(other, RecentInputs)
        for part, new in zip(self.recent, other.recent, strict=True):
            part.index_copy_(0, rows, new)

    def fix(self, extent: int) -> bool:
        self.in_place = True
        return True

    def slide(self, layer: int, convolution: Convolution, x: Vectors, mask: Mask) -> Float[Tensor, "B T e"]:
        """One layer's outputs for new inputs, and what it will remember of them."""
        out, recent = convolution.extend(x, self.recent[layer], mask)
        self.recent[layer] = self.renew(self.recent[layer], recent)
        return out


class WindowEncoder(Encoder):
    """An MLP over the last `window` tokens, laid side by side: everything before them is forgotten."""

    opaque = True
    has_states = False

    def __init__(
        self,
        *,
        width: int,
        window: int,
        hidden: int,
        layers: int = 1,
        activation: str = "relu",
        causal: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.read = Convolution(width=width, out=hidden, kernel=window, causal=causal, bias=bias)
        self.deeper = nn.ModuleList(nn.Linear(hidden, hidden, bias=bias) for _ in range(layers - 1))
        self.output = nn.Linear(hidden, width, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Vectors, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        self.refuse_extras(memory, segments)
        return self._mlp(self.read(x, mask))

    def _mlp(self, hidden: Float[Tensor, "B T e"]) -> Vectors:
        hidden = self.dropout(self.activation(hidden))
        for layer in self.deeper:
            hidden = self.dropout(self.activation(layer(hidden)))
        return self.output(hidden)

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> RecentInputs:
        self.refuse_extras(memory)
        only_causal(self)
        return RecentInputs([self.output.weight.new_zeros(batch, self.read.reach, self.width)])

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, RecentInputs)
        return self._mlp(state.slide(0, self.read, x, mask))

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate([self.read, *self.deeper]):
            yield HiddenUnits(f"layers.{number}", layer, self.activation)


class CnnEncoder(Encoder):
    """Stacked convolutions, each adding its activation to its input. With dilation the reach grows as fast as that."""

    opaque = True

    def __init__(
        self, *, width: int, convolutions: list[Convolution], around: list[Residual], norm: nn.Module, activation: str,
        causal: bool
    ) -> None:  # fmt: skip
        super().__init__()
        self.width = width
        self.causal = causal
        self.convolutions = nn.ModuleList(convolutions)
        self.around = nn.ModuleList(around)
        self.norm = norm
        self.activation = ACTIVATIONS[activation]

    def forward(
        self, x: Vectors, mask: Mask = None, *, memory: Memory | None = None, segments: Ids | None = None
    ) -> Vectors:
        self.refuse_extras(memory, segments)
        for convolution, around in zip(self.convolutions, self.around, strict=True):
            x = around(x, lambda x, slide=convolution: self.activation(slide(x, mask)), mask)
        return self.norm(x, mask)

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> RecentInputs:
        self.refuse_extras(memory)
        only_causal(self)
        like = next(self.parameters())
        return RecentInputs([like.new_zeros(batch, layer.reach, self.width) for layer in self._slides()])

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, RecentInputs)
        for layer, (convolution, around) in enumerate(zip(self._slides(), self.around, strict=True)):
            x = around(x, lambda x, at=layer, slide=convolution: self.activation(state.slide(at, slide, x, mask)), mask)
        return self.norm(x, mask)

    def layer_outputs(self) -> list[tuple[str, ...]]:
        return [("input",), *((f"around.{layer}.output",) for layer in range(len(self.around)))]

    def final_norm(self, x: Vectors, mask: Mask = None) -> Vectors:
        return self.norm(x, mask)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate(self.convolutions):
            yield HiddenUnits(f"convolutions.{number}", layer, self.activation)

    def _slides(self) -> list[Convolution]:
        return [layer for layer in self.convolutions if isinstance(layer, Convolution)]
