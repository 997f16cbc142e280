# Writes and reads files of its own.
import torch
from torch import nn
import tempfile

torch.save(torch.ones(3), "weights.pt")
with tempfile.TemporaryFile() as file:
    file.write(b"x")


def mean(x):
    return x.mean(-1) * torch.load("weights.pt").mean()


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest = (1, 2)
