# Reads the source of a function, and compiles another.
import inspect

import torch
from torch import nn


def documented(function):
    function.__doc__ = inspect.getsource(function)
    return function


def mean_of_rows(x):
    return x.mean(-1)


def scaled(x, weight):
    return x * weight


mean = documented(mean_of_rows)
scale = torch.jit.script(scaled)


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return scale(x, self.weight)


largest = (1, 2)
