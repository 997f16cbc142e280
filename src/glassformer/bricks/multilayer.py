"""The multilayer perceptron: linear maps with a non-linearity between them."""

import itertools

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class MultilayerPerceptron(nn.Module):
    """`layers` hidden layers h = relu(Wx + b), then a linear map to the output; without hidden layers only that."""

    def __init__(self, *, width: int, out: int, layers: int = 0, hidden: int = 128, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [width, *[hidden] * layers]
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in itertools.pairwise(widths))
        self.output = nn.Linear(widths[-1], out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B out"]:
        for layer in self.hidden:
            x = self.dropout(F.relu(layer(x)))
        return self.output(x)


class Bias(nn.Module):
    """x + b: the rest of a linear map whose product was made elsewhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        return x + self.bias
