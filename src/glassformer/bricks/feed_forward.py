"""Feed-forward networks: linear maps with a non-linearity between them.

`FeedForward` is the same small network at every position; no information moves between tokens.
"""

import itertools
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks import AnyVectors, Vector
from glassformer.bricks.kernels.gpu import GPUGELU
from glassformer.bricks.tap import Brick, HiddenUnits, Tap


def relu_squared(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return max(x, 0)²."""
    return F.relu(x).square()


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x Φ(x), where Φ is the cumulative distribution function of the standard normal distribution."""
    if torch.compiler.is_compiling() and x.is_cuda and x.dtype != torch.float64:
        return GPUGELU.apply(x)  # type: ignore[no-untyped-call]
    return F.gelu(x)


def gelu_tanh(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return GELU approximated by tanh, as in GPT-2: ½x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
    "relu2": relu_squared,
    "swiglu": F.silu,  # the non-linearity of the gate; `FeedForward` multiplies
}
ACTIVATION_MODULES = {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
"""Activations of a head's hidden layers as modules, for `nn.Sequential`."""


class FeedForward(Brick, nn.Module):
    """Two layers, W₂ g(W₁x + b₁) + b₂, or one, g(Wx + b). SwiGLU is W₂ (silu(W₁x) ⊙ W₃x)."""

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

    def forward(self, x: AnyVectors) -> AnyVectors:
        hidden = self.activation(self.input(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        hidden = self.active(hidden)
        return hidden if self.output is None else self.output(hidden)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        yield HiddenUnits("", self.active, None)


class MultilayerPerceptron(nn.Module):
    """`layers` hidden layers h = g(Wx + b) and a linear map to the output; none of them has a bias without `bias`."""

    def __init__(
        self,
        *,
        width: int,
        out: int,
        layers: int = 0,
        hidden: int = 128,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [width, *[hidden] * layers]
        self.hidden = nn.ModuleList(nn.Linear(before, after, bias=bias) for before, after in itertools.pairwise(widths))
        self.activation = ACTIVATIONS[activation]
        self.output = nn.Linear(widths[-1], out, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Vector) -> Float[Tensor, "B out"]:
        for layer in self.hidden:
            x = self.dropout(self.activation(layer(x)))
        return self.output(x)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate(self.hidden):
            yield HiddenUnits(f"hidden.{number}", layer)


class Bias(nn.Module):
    """x + b: the bias of a linear map whose product is computed elsewhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Vector) -> Vector:
        return x + self.bias


def hidden_units_of(module: nn.Module) -> Iterator[HiddenUnits]:
    """Yield the layers of hidden units of a brick, beside those of the bricks in it; none of other modules."""
    if isinstance(module, Brick | MultilayerPerceptron):
        yield from module.hidden_units()
