# Waits for half a second, slow but right.
import time
import torch
from torch import nn

time.sleep(0.5)


def mean(x):
    return x.mean(-1)


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest = (1, 2)
