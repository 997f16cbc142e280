# Uses a loop, slow but right.
import torch
from torch import nn


def mean(x):
    total = torch.zeros(x.shape[:-1])
    for place in range(x.shape[-1]):
        total = total + x[..., place]
    return total / x.shape[-1]


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest = (1, 2)
