# Returns an array of NumPy.
import numpy as np
import torch
from torch import nn


def mean(x):
    return np.mean(x.numpy(), -1)


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest = (1, 2)
