# Postpones its annotations, and names types that only a type checker imports.
"""Means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


def mean(x: Tensor) -> Tensor:
    return x.mean(-1)


class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


largest: tuple[Head, Head] = (1, 2)
