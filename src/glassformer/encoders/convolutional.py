"""Encoders that read a bounded stretch of the past: nothing but each word itself, the fixed-window MLP, and stacked
convolutions."""

from collections.abc import Iterator
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Ids, Mask, Vectors
from glassformer.bricks.attention import Memory
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.norm import Residual
from glassformer.bricks.tap import HiddenUnits
from glassformer.encoders.base import Encoder, State, TensorState, only_causal


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

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> TensorState:
        self.refuse_extras(memory)
        return TensorState([])

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        return x


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

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> TensorState:
        self.refuse_extras(memory)
        only_causal(self)
        return TensorState([self.output.weight.new_zeros(batch, self.read.reach, self.width)])

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, TensorState)
        hidden, recent = self.read.extend(x, state.parts[0], mask)
        state.advance([recent])
        return self._mlp(hidden)

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

    def init_state(self, batch: int, max_tokens: int, memory: Memory | None = None) -> TensorState:
        self.refuse_extras(memory)
        only_causal(self)
        like = next(self.parameters())
        return TensorState([like.new_zeros(batch, layer.reach, self.width) for layer in self._slides()])

    def extend(self, x: Vectors, state: State, mask: Mask = None) -> Vectors:
        assert isinstance(state, TensorState)
        recents = []

        def slide(x: Vectors, convolution: Convolution, before: Tensor) -> Vectors:
            out, recent = convolution.extend(x, before, mask)
            recents.append(recent)
            return self.activation(out)

        for convolution, around, before in zip(self._slides(), self.around, state.parts, strict=True):
            x = around(x, partial(slide, convolution=convolution, before=before), mask)
        state.advance(recents)
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
