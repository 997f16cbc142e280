"""The multilayer perceptron: linear maps with a non-linearity between them."""

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.activation import ACTIVATIONS
from glassformer.bricks.tap import HiddenUnits


class MultilayerPerceptron(nn.Module):
    """`layers` hidden layers h = g(Wx + b), then a linear map to the output; without hidden layers only that."""

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
        """`bias`: of the last map; hidden layers always have one."""
        super().__init__()
        widths = [width, *[hidden] * layers]
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in itertools.pairwise(widths))
        self.activation = ACTIVATIONS[activation]
        self.output = nn.Linear(widths[-1], out, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B out"]:
        for layer in self.hidden:
            x = self.dropout(self.activation(layer(x)))
        return self.output(x)

    def hidden_units(self) -> Iterator[HiddenUnits]:
        for number, layer in enumerate(self.hidden):
            yield HiddenUnits(f"hidden.{number}", layer)


class Bias(nn.Module):
    """x + b: the rest of a linear map whose product was made elsewhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        return x + self.bias
