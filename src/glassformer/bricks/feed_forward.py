"""Position-wise feed-forward: the same small network at every position; no information moves between tokens."""

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.activation import ACTIVATIONS
from glassformer.bricks.tap import Brick, HiddenUnits, Tap


class FeedForward(Brick, nn.Module):
    """Two layers, W₂ g(W₁x + b₁) + b₂; or one, g(Wx + b). SwiGLU multiplies a second map in: W₂ (silu(W₁x) ⊙ W₃x)."""

    def __init__(
        self, *, width: int, hidden: int, activation: str = "relu", layers: int = 2, bias: bool = True
    ) -> None:
        super().__init__()
        inner = hidden if layers == 2 else width
        self.activation = ACTIVATIONS[activation]
        self.input = nn.Linear(width, inner, bias=bias)
        self.gate = nn.Linear(width, inner, bias=bias) if activation == "swiglu" else None
        self.output = nn.Linear(inner, width, bias=bias) if layers == 2 else None
        self.active = Tap()

    def forward(self, x: Float[Tensor, "*rest d"]) -> Float[Tensor, "*rest d"]:
        hidden = self.activation(self.input(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        hidden = self.active(hidden)
        return hidden if self.output is None else self.output(hidden)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        yield HiddenUnits("", self.active, None)
