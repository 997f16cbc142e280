"""Encoders with a bounded context: the identity, a fixed-window MLP, and stacked convolutions."""

from collections.abc import Iterator, Sequence
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import Mask, Vectors
from glassformer.bricks.convolution import Convolution
from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.norm import Residual
from glassformer.bricks.tap import HiddenUnits
from glassformer.encoders.base import PlainEncoder


class IdentityEncoder(PlainEncoder):
    """The identity. With mean pooling, this is the average of the word vectors."""

    opaque = True
    has_states = False

    def __init__(self, *, width: int, causal: bool) -> None:
        super().__init__()
        self.width = width
        self.causal = causal

    def encode(self, x: Vectors, mask: Mask) -> Vectors:
        return x

    def first_state(self, batch: int) -> Sequence[Tensor]:
        return ()

    def advance(self, x: Vectors, state: Sequence[Tensor], mask: Mask) -> tuple[Vectors, Sequence[Tensor]]:
        return x, state


class WindowEncoder(PlainEncoder):
    """An MLP on the concatenation of the last `window` tokens."""

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

    def encode(self, x: Vectors, mask: Mask) -> Vectors:
        return self._mlp(self.read(x, mask))

    def _mlp(self, hidden: Float[Tensor, "B T e"]) -> Vectors:
        hidden = self.dropout(self.activation(hidden))
        for layer in self.deeper:
            hidden = self.dropout(self.activation(layer(hidden)))
        return self.output(hidden)

    def first_state(self, batch: int) -> Sequence[Tensor]:
        return [self.output.weight.new_zeros(batch, self.read.reach, self.width)]

    def advance(self, x: Vectors, state: Sequence[Tensor], mask: Mask) -> tuple[Vectors, Sequence[Tensor]]:
        hidden, recent = self.read.extend(x, state[0], mask)
        return self._mlp(hidden), [recent]

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate([self.read, *self.deeper]):
            yield HiddenUnits(f"layers.{number}", layer, self.activation)


class CnnEncoder(PlainEncoder):
    """Stacked convolutions with residual connections. With dilation, the receptive field grows exponentially."""

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

    def encode(self, x: Vectors, mask: Mask) -> Vectors:
        for convolution, around in zip(self.convolutions, self.around, strict=True):
            x = around(x, lambda x, slide=convolution: self.activation(slide(x, mask)), mask)
        return self.norm(x, mask)

    def first_state(self, batch: int) -> Sequence[Tensor]:
        like = next(self.parameters())
        return [like.new_zeros(batch, layer.reach, self.width) for layer in self._slides()]

    def advance(self, x: Vectors, state: Sequence[Tensor], mask: Mask) -> tuple[Vectors, Sequence[Tensor]]:
        recents: list[Tensor] = []

        def slide(x: Vectors, convolution: Convolution, before: Tensor) -> Vectors:
            out, recent = convolution.extend(x, before, mask)
            recents.append(recent)
            return self.activation(out)

        for convolution, around, before in zip(self._slides(), self.around, state, strict=True):
            x = around(x, partial(slide, convolution=convolution, before=before), mask)
        return self.norm(x, mask), recents

    def layer_outputs(self) -> list[tuple[str, ...]]:
        return [("input",), *((f"around.{layer}.output",) for layer in range(len(self.around)))]

    def final_norm(self, x: Vectors, mask: Mask = None) -> Vectors:
        return self.norm(x, mask)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate(self.convolutions):
            yield HiddenUnits(f"convolutions.{number}", layer, self.activation)

    def _slides(self) -> list[Convolution]:
        return [layer for layer in self.convolutions if isinstance(layer, Convolution)]
