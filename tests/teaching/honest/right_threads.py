# Starts a few threads.
import torch
from torch import nn
from concurrent.futures import ThreadPoolExecutor


def mean(x):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda y: y.mean(-1), [x, x]))[0]


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest = (1, 2)
