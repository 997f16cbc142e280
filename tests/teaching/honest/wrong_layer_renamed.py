# Names the weight otherwise.
import torch
from torch import nn


def mean(x):
    return x.mean(-1)


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.scale


largest = (1, 2)
